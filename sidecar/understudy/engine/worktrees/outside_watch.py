"""Watch, for one delegation, the files outside its worktree while the agent and the checks run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from understudy.engine.worktrees.delegation_worktree import DelegationWorktree
from understudy.engine.worktrees.outside_files import (
    Look,
    OutsideChange,
    OutsideFiles,
    Places,
    environment_of,
    look_at,
    programs_of,
)
from understudy.judge.project.interpreter import find_interpreter
from understudy.model.delegation import events
from understudy.model.delegation.spec import Spec
from understudy.model.errors import UnderstudyError
from understudy.model.text.name_list import name_list
from understudy.process.environment import base_environment


class OutsideWatch:
    """Compares the files between ``start`` and each ``compare``; the methods block, and raise nothing."""

    def __init__(self, spec: Spec, worktree: DelegationWorktree, emit: Callable[[events.Event], None]) -> None:
        """Look at nothing yet."""
        self._spec = spec
        self._worktree = worktree
        self._emit = emit
        self._files: OutsideFiles | None = None
        self._environment: list[Path] | None = None
        """The folders of the project's Python environment, once they were searched."""
        self._looked: dict[Path, Look] = {}
        self.changed = False
        """Whether a comparison found a change that the user's editor did not make."""

    def look_early(self) -> None:
        """Look at the project's environment, which may have tens of thousands of files, before there is a worktree.

        A problem is left to ``start``, which meets it again.
        """
        with suppress(OSError, UnderstudyError):
            self._environment = self._find_environment(None)
            looks = ((folder, look_at(folder)) for folder in self._environment)
            self._looked = {folder: look for folder, look in looks if look is not None}

    def start(self) -> None:
        """Look at the files, unless they are watched already."""
        if self._files is not None:
            return
        try:
            self._files = OutsideFiles(self._places(), self._looked)
            self._looked = {}
        except (OSError, UnderstudyError) as error:
            self._note(f"Changes outside the worktree are not noticed: {error}")
            return
        self._tell()

    def compare(self, who: str, doing: str, in_checkout: bool = False) -> None:
        """Report what changed since the last look, while ``who`` was ``doing``.

        ``in_checkout``: it worked in the checkout, whose changes are its result.
        """
        if self._files is None:
            return
        try:
            change = self._files.changed()
        except OSError as error:
            self._note(f"Changes outside the worktree could not be compared: {error}")
            return
        self._tell()
        if in_checkout:
            change = OutsideChange(other=change.other)
        if not change:
            return
        self.changed = True
        if change.checkout:
            self._note(
                f"Files of your checkout changed while {doing}: {name_list(change.checkout)}. You or {who} changed "
                "them; no editor reported to Understudy that it saved them. To see what a file was: "
                + self._worktree.show_command(change.checkout[0])
            )
        if change.other:
            self._note(
                f"Files outside the worktree changed while {doing}: {name_list(change.other)}. You or {who} changed "
                "them."
            )

    def _tell(self) -> None:
        """Report places that are not compared, each once."""
        if self._files is not None:
            for text in self._files.notes:
                self._note(text)
            self._files.notes.clear()

    def _places(self) -> Places:
        spec = self._spec
        if self._environment is None:
            self._environment = self._find_environment(self._worktree.tree_path)
        search = base_environment({}).get("PATH", "")
        return Places(
            checkout=self._worktree.checkout,
            tracked=self._worktree.base_files(),
            object_format=self._worktree.object_format,
            trees=(*self._worktree.linked(), *self._environment),
            programs=tuple(programs_of((check.argv for check in [*spec.checks, *spec.fallback_checks]), search)),
        )

    def _find_environment(self, tree: Path | None) -> list[Path]:
        interpreter = find_interpreter(Path(self._spec.workspace), self._spec.interpreter, tree=tree)
        return environment_of(interpreter.path if interpreter is not None else None)

    def _note(self, text: str) -> None:
        self._emit(events.Note(level="warning", text=text.encode("utf-8", "backslashreplace").decode()))
