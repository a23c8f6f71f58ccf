"""Confirm kills in a fresh clone, in which the mutant is the commit.

A test that compares the code with a snapshot it wrote itself, with a file in a cache, or with ``git show HEAD`` fails
on mutants only because the unchanged code ran there before. In a fresh clone, with a new home and a new folder for
temporary files, by the plain command of the check, such a test passes on the mutant. Where the machine has mount
namespaces, the user's checkout and everything else of the judging is hidden there, and each run has its own folders for
what all programs may write to.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from understudy.git import command, repository
from understudy.journal import delegation_folder
from understudy.judge.injected.understudy_tree import CopiedTree
from understudy.judge.mutant_runners.check_mutants import limited
from understudy.judge.mutant_runners.mutant_runs import MutantResult
from understudy.judge.runs.check_run import CheckContext, CheckOutcome, run_once, temporary_folder
from understudy.judge.runs.judged_tree import file_replaced, read_file
from understudy.judge.runs.runner_registry import PreparedCheck
from understudy.model.errors import UnderstudyError
from understudy.mutants.controls import other_text
from understudy.process.programs.children import why_nothing_is_hidden

_MOST_TRIED = 3
_SLOWER = 3.0
_LEAST_SECONDS = 10.0
"""The limits of a run on a mutant, compared with one on the unchanged code."""
_TOOLS = {
    "CARGO_HOME": ".cargo",
    "RUSTUP_HOME": ".rustup",
    "GOPATH": "go",
    "npm_config_cache": ".npm",
    "GRADLE_USER_HOME": ".gradle",
    "PYENV_ROOT": ".pyenv",
    "PYTHONUSERBASE": ".local",
    "RBENV_ROOT": ".rbenv",
    "NVM_DIR": ".nvm",
    "VOLTA_HOME": ".volta",
    "ASDF_DATA_DIR": ".asdf",
}
"""Variable → the folder of the real home in which tools and what they downloaded are."""
_PARTS_OF_HOME = {"XDG_CACHE_HOME": ".cache", "XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share"}
OWN_FOLDERS = ("HOME", *_PARTS_OF_HOME, "TMPDIR")
"""Variables that name folders which no other run of tests may have used."""


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """What the plain command showed."""

    unconfirmed: tuple[MutantResult, ...] = ()
    """Kills on which the check passes, if these are most of those tried."""
    unchanged: CheckOutcome | None = None
    """How the check ends there on code that does the same, if it ran; if it fails, no kill can be confirmed."""
    looks_at_source: bool = False
    """It fails there when only the text of the code changes, and passes if that does not."""

    @property
    def unchanged_fails(self) -> bool:
        """Return whether the check does not even pass on the unchanged code."""
        return self.unchanged is not None and not self.unchanged.green


async def confirm(
    plan: PreparedCheck, copied: CheckContext, original: Path, kills: Sequence[MutantResult]
) -> Confirmation:
    """Try the unchanged code, then the first of some kills, and two more if the check passes on that one.

    The kills are in a random order. A test may fail on a mutant only without the tests that run before it. On a mutant,
    one with thousands of subtests may take many times as long as else, only to describe each failure: a check that
    takes much longer than on the unchanged code did not pass. ``copied`` is a copy of ``original`` that nothing else
    uses; ``plan`` has a time limit.
    """
    clone = _FreshClone(plan, copied, original)
    await asyncio.to_thread(clone.make)
    if not await why_nothing_is_hidden():
        await asyncio.to_thread(clone.hide_judging)
    chosen = kills[:_MOST_TRIED]
    # A test can tell mutants from others by how it is run, but not in a clone, where that is always the same.
    unchanged = await clone.unchanged(chosen[0].path)
    if not unchanged.green:
        original_text = await clone.unchanged(None)
        return Confirmation(unchanged=original_text, looks_at_source=original_text.green)
    clone.limit(max(_LEAST_SECONDS, _SLOWER * unchanged.seconds))
    unconfirmed: list[MutantResult] = []
    confirmed = 0
    for kill in chosen:
        passed = await clone.passes_with(kill)
        confirmed += not passed
        if passed:
            unconfirmed.append(kill)
        if confirmed > len(unconfirmed) or len(unconfirmed) > 1:
            break
    # What could be hidden at first may not have been later.
    unchanged = dataclasses.replace(unchanged, hidden=clone.hides)
    return Confirmation(unconfirmed=tuple(unconfirmed) if len(unconfirmed) > confirmed else (), unchanged=unchanged)


class _FreshClone:
    def __init__(self, plan: PreparedCheck, copied: CheckContext, original: Path) -> None:
        self._plan = plan
        self._copied = copied
        self._original = original
        self._hidden: tuple[Path, ...] = ()
        self._state: CopiedTree
        self._has_history = (copied.tree / ".git").is_dir()

    def hide_judging(self) -> None:
        """Hide the user's checkout, other copies of the result, and the files of Understudy from the runs."""
        copied = self._copied
        history = None
        with contextlib.suppress(UnderstudyError):
            history = repository.locate(copied.workspace).common_dir
        checkout = (copied.workspace, *([history] if history is not None else []))
        copies = copied.scratch.parents[1]
        self._hidden = (*checkout, self._original, copies, copied.temporary, delegation_folder.state_root())

    @property
    def hides(self) -> bool:
        """Return whether the judging is hidden from the runs."""
        return bool(self._hidden)

    def make(self) -> None:
        """Remove the history, and remember the state of the other files."""
        if self._has_history:
            shutil.rmtree(self._copied.tree / ".git", ignore_errors=True)
        self._state = CopiedTree(str(self._copied.tree), str(self._original))

    def limit(self, seconds: float) -> None:
        """Let no further run take longer."""
        self._plan = limited(self._plan, seconds)

    async def passes_with(self, kill: MutantResult) -> bool:
        """Return whether the check passes twice on a mutant: a flaky test may pass once."""
        tree = self._copied.tree
        source = await asyncio.to_thread(read_file, tree, kill.path)
        with file_replaced(tree, kill.path, kill.mutant.apply(source)):
            passed = (await self._run()).green and (await self._run()).green
        await asyncio.to_thread(self._state.reset)
        return passed

    async def unchanged(self, path: str | None) -> CheckOutcome:
        """Run the check on the result itself, with another text of one file that does the same."""
        tree = self._copied.tree
        with contextlib.ExitStack() as changed:
            if path is not None:
                source = await asyncio.to_thread(read_file, tree, path)
                sham = other_text(path, source, secrets.token_hex(4))
                changed.enter_context(file_replaced(tree, path, sham.apply(source)))
            outcome = await self._run()
        await asyncio.to_thread(self._state.reset)
        return outcome

    async def _run(self) -> CheckOutcome:
        """Run the check as ``_run_once``, and from now on without hiding anything if it cannot be started so."""
        outcome = await self._run_once()
        if not outcome.started and self._hidden:
            self._hidden = ()
            outcome = await self._run_once()
        return outcome

    async def _run_once(self) -> CheckOutcome:
        """Run the check with what it can write, and a history, that no other run has seen."""
        if self._has_history:
            await asyncio.to_thread(self._commit)
        async with temporary_folder(self._copied.scratch) as temporary, temporary_folder(self._copied.scratch) as home:
            # What a compiler keeps is of the code that it compiled last, and may have the time of this one.
            scratch = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self._copied.scratch))
            context = dataclasses.replace(self._copied, temporary=temporary, scratch=scratch, hidden=self._hidden)
            check = self._plan.check
            environment = empty_home(home) | (check.env or {})
            plan = dataclasses.replace(self._plan, check=msgspec.structs.replace(check, env=environment))
            return await run_once(plan, context, bare=True)

    def _commit(self) -> None:
        """Make a repository whose only commit is the tree as it is now."""
        tree = self._copied.tree
        git_dir = tree / ".git"
        shutil.rmtree(git_dir, ignore_errors=True)
        command.git_output("init", "--quiet", "--template=", git_dir=git_dir)
        command.git_output("add", "--all", git_dir=git_dir, work_tree=tree)
        command.git_output("commit", "--quiet", "--allow-empty", "-m", "Result", git_dir=git_dir, work_tree=tree)


def empty_home(home: Path) -> dict[str, str]:
    """Return the variables of an empty home, from which tool chains still find what they installed."""
    tools = {name: os.environ.get(name) or str(Path.home() / folder) for name, folder in _TOOLS.items()}
    return {
        "HOME": str(home),
        **{name: str(home / folder) for name, folder in _PARTS_OF_HOME.items()},
        **{name: folder for name, folder in tools.items() if Path(folder).is_dir()},
    }
