"""Watch, for one delegation, the files outside its worktree while the agent and the checks run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from understudy.engine.checks.interpreter import find_interpreter
from understudy.engine.checks.outside_files import OutsideFiles, Places, environment_of, programs_of
from understudy.engine.worktrees.delegation_worktree import DelegationWorktree
from understudy.model import events
from understudy.model.errors import UnderstudyError
from understudy.model.spec import Spec
from understudy.process.environment import base_environment

_MOST_PATHS = 10


class OutsideWatch:
    """Compares the files between ``start`` and each ``compare``; the methods block, and raise nothing."""

    def __init__(self, spec: Spec, worktree: DelegationWorktree, emit: Callable[[events.Event], None]) -> None:
        """Look at nothing yet."""
        self._spec = spec
        self._worktree = worktree
        self._emit = emit
        self._files: OutsideFiles | None = None
        self.changed = False
        """Whether a comparison found a change that the user's editor did not make."""

    def start(self) -> None:
        """Look at the files, unless they are watched already."""
        if self._files is not None:
            return
        try:
            self._files = OutsideFiles(self._places())
        except (OSError, UnderstudyError) as error:
            self._note(f"Changes outside the worktree are not noticed: {error}")
            return
        self._tell()

    def compare(self, who: str, doing: str) -> None:
        """Report what changed since the last look, while ``who`` was ``doing``."""
        if self._files is None:
            return
        try:
            found = self._files.changed()
        except OSError as error:
            self._note(f"Changes outside the worktree could not be compared: {error}")
            return
        self._tell()
        if not found:
            return
        self.changed = True
        if found.checkout:
            self._note(
                f"Files of your checkout changed while {doing}: {_named(found.checkout)}. You or {who} changed them; "
                "no editor reported to Understudy that it saved them. To see what a file was: "
                + self._worktree.show_command(found.checkout[0])
            )
        if found.other:
            self._note(
                f"Files outside the worktree changed while {doing}: {_named(found.other)}. You or {who} changed them."
            )

    def _tell(self) -> None:
        """Report places that are not compared, each once."""
        if self._files is not None:
            for text in self._files.notes:
                self._note(text)
            self._files.notes.clear()

    def _places(self) -> Places:
        spec, workspace = self._spec, Path(self._spec.workspace)
        found = find_interpreter(workspace, spec.interpreter, tree=self._worktree.tree_path)
        search = base_environment({}).get("PATH", "")
        return Places(
            checkout=self._worktree.checkout,
            tracked=self._worktree.base_files(),
            object_format=self._worktree.object_format,
            trees=(*self._worktree.linked(), *environment_of(found.path if found is not None else None)),
            programs=tuple(programs_of((check.argv for check in spec.checks), search)),
        )

    def _note(self, text: str) -> None:
        self._emit(events.Note(level="warning", text=text.encode("utf-8", "backslashreplace").decode()))


def _named(paths: list[str]) -> str:
    more = len(paths) - _MOST_PATHS
    return ", ".join(paths[:_MOST_PATHS]) + (f" and {more} more" if more > 0 else "")
