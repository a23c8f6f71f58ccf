"""Run ``go test`` on mutants through an overlay, which leaves the tree untouched."""

from __future__ import annotations

import asyncio
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from understudy.judge.mutant_runners.check_mutants import ChangedFile, CheckMutants, Lines, SeenRun, limited, seen_run
from understudy.judge.outcomes.observations import PASSED
from understudy.judge.runs.check_run import CheckContext, run_once, working_folder
from understudy.judge.runs.judged_tree import file_replaced
from understudy.judge.runs.runner_registry import PreparedCheck

_BLOCK = re.compile(r"^(.+):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)$")
"""One line of a profile: file, first line, last line, number of statements, how often they ran."""
_MODULE = re.compile(rb"^\s*module\s+(\"[^\"]+\"|`[^`]+`|\S+)", re.MULTILINE)
_MOST_PROFILE_BYTES = 64 * 1024 * 1024
_MOST_MODULE_BYTES = 1024 * 1024


class GoMutants(CheckMutants):
    """Packages that do not depend on the mutated file are not run again: Go has their results cached."""

    def __init__(self, plan: PreparedCheck, context: CheckContext, *, keep: bool = False) -> None:
        """Run ``plan`` in ``context``."""
        super().__init__(plan, context, keep=keep)
        self._folder: Path | None = None
        self._green = False

    async def recorded_run(self, files: Sequence[str], seconds: float) -> tuple[SeenRun, Lines]:
        """Run the tests, and run them again with a coverage profile."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        tree = self.context.tree
        profile = await self._temporary() / "profile"
        place = working_folder(self.plan.check, tree)
        options = [f"-coverprofile={profile}", f"-coverpkg={','.join(_packages(tree, place, files))}"]
        seen = seen_run(await run_once(self._with(options, seconds), self.context))
        # A test that fails anyway would keep the tests after it from running.
        self._green = seen.green
        lines = await asyncio.to_thread(_executed_lines, profile, tree, files)
        return await self._overlaid({}, max(0.1, deadline - loop.time()), stop=False), lines

    def forget_copy(self) -> None:
        """Forget the folder of the overlay."""
        self._folder = None

    async def mutated_run(self, changed: ChangedFile, seconds: float) -> SeenRun:
        """Run the tests with another content of one file."""
        if changed.path.endswith("_test.go"):  # the code may read it, and must not find that it is another one
            with file_replaced(self.context.tree, changed.path, changed.content):
                return await self._overlaid({}, seconds, stop=changed.stop)
        return await self._overlaid({changed.path: changed.content}, seconds, stop=changed.stop)

    async def _overlaid(self, contents: dict[str, bytes], seconds: float, *, stop: bool) -> SeenRun:
        folder = await self._temporary()
        replaced = {}
        for number, (path, content) in enumerate(contents.items()):
            file = folder / f"{number}.go"
            await asyncio.to_thread(file.write_bytes, content)
            replaced[str(self.context.tree.resolve() / path)] = str(file)
            replaced[str(self.context.tree / path)] = str(file)
        overlay = folder / "overlay.json"
        await asyncio.to_thread(overlay.write_text, json.dumps({"Replace": replaced}), encoding="utf-8")
        fast = ["-failfast"] if stop and self._green else []
        seen = seen_run(await run_once(self._with([f"-overlay={overlay}", *fast], seconds), self.context))
        if seen.timed_out:
            # A test that only began is reported as failed, which is true of a panic, but not of a run that is ended.
            return replace(seen, outcomes=dict.fromkeys(seen.passing, PASSED))
        return seen

    def _with(self, options: Sequence[str], seconds: float) -> PreparedCheck:
        """Return the check with options. Without vet, which would report some mutants as build errors."""
        argv = self.plan.check.argv
        events = [] if any(word in {"-json", "--json"} for word in argv) else ["-json"]
        return limited(self.plan, seconds, [*argv[:2], "-vet=off", *events, *options, *argv[2:]])

    async def _temporary(self) -> Path:
        """Return the folder of the overlay: always the same one, as it is an argument of the run."""
        if self._folder is None:
            self._folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self.context.scratch))
        return self._folder


def _packages(tree: Path, place: Path, files: Sequence[str]) -> list[str]:
    return sorted({f"./{os.path.relpath((tree / file).parent, place)}" for file in files})


def _executed_lines(profile: Path, tree: Path, files: Sequence[str]) -> dict[str, frozenset[int]]:
    """Return the executed lines of those files of which the profile has any.

    The profile has the statements of functions only. The other lines, such as those of package variables, run when a
    package is loaded.
    """
    blocks: dict[str, list[tuple[int, int, bool]]] = {}
    for name, first, last, ran in _blocks(profile):
        blocks.setdefault(name, []).append((first, last, ran))
    if not blocks:
        return {}
    lines = {}
    for file in files:
        of_file = blocks.get(_import_name(tree, file), [])
        executed = {line for first, last, ran in of_file if ran for line in range(first, last + 1)}
        inside = {line for first, last, _ in of_file for line in range(first, last + 1)}
        count = (tree / file).read_bytes().count(b"\n") + 1
        loaded = set(range(1, count + 1)) - inside if of_file else set()
        lines[file] = frozenset(executed | loaded)
    return lines


def _blocks(profile: Path) -> Iterator[tuple[str, int, int, bool]]:
    try:
        with profile.open("rb") as stream:
            text = stream.read(_MOST_PROFILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        if match := _BLOCK.match(line):
            yield match[1], int(match[2]), int(match[3]), match[4] != "0"


def _import_name(tree: Path, file: str) -> str:
    """Return the name of a file in a profile: its path below the nearest ``go.mod``, after the name of the module."""
    path = PurePosixPath(file)
    for folder in path.parents:
        try:
            with (tree / folder / "go.mod").open("rb") as stream:
                declared = _MODULE.search(stream.read(_MOST_MODULE_BYTES))
        except OSError:
            continue
        if declared is not None:
            return f"{declared[1].decode('utf-8', 'replace').strip(chr(34) + '`')}/{path.relative_to(folder)}"
    return file
