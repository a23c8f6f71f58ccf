"""Repeat the calls that tests made, in a plain program and in a test: code that knows where it is gives another result.

The calls are those that ``understudy_calls`` recorded. A difference counts if it shows twice, and if the code of the
base does not have it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.judge.injected import understudy_lines
from understudy.judge.mutant_runners.check_mutants import limited
from understudy.judge.mutant_runners.mutant_runs import together
from understudy.judge.outcomes.probe import write_copies
from understudy.judge.runs.check_run import CheckContext, environment_of, run_once, working_folder
from understudy.judge.runs.judged_tree import file_replaced
from understudy.judge.runs.runner_registry import PreparedCheck
from understudy.process.program_spec import Role
from understudy.process.programs.children import run as run_process

_MODULE = "understudy_calls"
_RECORDER = ("understudy_lines", _MODULE, "child_lines.sitecustomize")
_SURROUNDINGS = re.compile("pytest", re.IGNORECASE)
"""Is in the environment of a test, in the names of modules and in paths."""
_MOST_SHOWN = 8
_MOST_CHARACTERS = 120
_MOST_BYTES = 16 * 1024 * 1024
_OUTPUT_BYTES = 64 * 1024
_LOAD = """import importlib.util

spec = importlib.util.spec_from_file_location({name!r}, {path!r})
repeated = importlib.util.module_from_spec(spec)
spec.loader.exec_module(repeated)


def call(function, positional, by_name):
    return function(*positional, **by_name)


"""
_PROGRAM = "repeated.{command}({calls!r}, {out!r}, call)\n"
_TEST = """import unittest


class TestCalls(unittest.TestCase):
    def test_calls(self):
        repeated.repeat({calls!r}, {out!r}, call)
"""


_PARTS = 3
"""Parts of a line about a repeated call."""


@dataclass(frozen=True)
class Call:
    """A call with what it gave, as texts."""

    function: str
    given: str
    result: str


async def record_calls(
    plan: PreparedCheck, context: CheckContext, test_files: Sequence[str], *, seconds: float
) -> Path | None:
    """Run a check once and record what its Python programs call; return the file of the one with most calls.

    ``context`` has a copy of the result, ``test_files`` are those whose functions are left out.
    """
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=context.scratch))
    await asyncio.to_thread(write_copies, folder, _RECORDER)
    tests = [str((context.tree / file).resolve()) for file in test_files]
    job = {"files": [], "calls": {"root": str(context.tree.resolve()), "tests": tests}}
    out = folder / "out"
    await asyncio.to_thread(out.mkdir)
    await asyncio.to_thread((out / "job.json").write_text, json.dumps(job), encoding="utf-8")
    paths = [str(folder / "child_lines"), str(folder), (plan.check.env or {}).get("PYTHONPATH", "")]
    variables = {understudy_lines.JOB: str(out / "job.json"), understudy_lines.TEST: "all"}
    recorded = limited(plan, seconds, PYTHONPATH=os.pathsep.join(filter(None, paths)), **variables)
    await run_once(recorded, context, bare=True)
    files = await asyncio.to_thread(lambda: list(out.glob("*.calls")))
    return max(files, key=lambda file: file.stat().st_size, default=None)


async def differing_calls(
    plan: PreparedCheck, context: CheckContext, calls: Path, base: Mapping[str, bytes | None], *, seconds: float
) -> list[str]:
    """Return the calls with another result in a test than in a plain program, and both results, as texts.

    ``calls`` is a recorded file. ``base`` has the base's content of each changed file, None for one that the base does
    not have. Nothing is returned of what does not end within ``seconds``.
    """
    if not await asyncio.to_thread(calls.is_file):
        return []
    repeated = RepeatedCalls(plan, context, calls, seconds=seconds)
    differing = await repeated.differences()
    if differing:
        again = await repeated.differences()
        differing = {at: pair for at, pair in differing.items() if again.get(at) == pair}
    if differing:
        with code_of_base(context.tree, base):
            before = await repeated.differences()
        differing = {at: pair for at, pair in differing.items() if at not in before}
    return [_text(*pair) for pair in list(differing.values())[:_MOST_SHOWN]]


@contextlib.contextmanager
def code_of_base(tree: Path, base: Mapping[str, bytes | None]) -> Iterator[None]:
    """Replace files of a tree by their content in the base, for a while; those that it does not have are empty."""
    with contextlib.ExitStack() as replaced:
        for path, content in base.items():
            if (tree / path).is_file():
                replaced.enter_context(file_replaced(tree, path, content or b""))
        yield


class RepeatedCalls:
    """The programs that repeat the calls."""

    def __init__(self, plan: PreparedCheck, context: CheckContext, calls: Path, *, seconds: float) -> None:
        """Run nothing yet; ``calls`` is a recorded file."""
        self._plan = plan
        self._context = context
        self._calls = calls
        self._seconds = seconds

    async def differences(self) -> dict[int, tuple[Call, Call]]:
        """Return by its number each call that gives another result in a test: what it gives elsewhere, and there."""
        elsewhere, in_test = [
            [Call(*map(str, line)) for line in lines if len(line) == _PARTS]
            for lines in await together([self._run(in_test=False), self._run(in_test=True)])
        ]
        return {
            at: pair
            for at, pair in enumerate(zip(elsewhere, in_test, strict=False))
            # A result that contains the environment, or the loaded modules, is not a decision.
            if pair[0].result != pair[1].result and not _SURROUNDINGS.search(pair[1].result)
        }

    async def with_similar(self) -> list[list[Any]]:
        """Make the calls and similar ones in a plain program; return the lines of ``understudy_calls.vary``."""
        return await self._run(in_test=False, command="vary")

    async def _run(self, *, in_test: bool, command: str = "repeat") -> list[list[Any]]:
        context, facts = self._context, self._context.facts
        assert facts is not None  # noqa: S101 - Python code was recorded
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=context.scratch))
        out = folder / "out.jsonl"
        if in_test:
            arguments = await asyncio.to_thread(self._written_test, folder, out, has_pytest=facts.has_pytest)
        else:
            arguments = await asyncio.to_thread(self._written_program, folder, out, command)
        environment = environment_of(self._plan.check, context)
        environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
        environment["PYTHONHASHSEED"] = "0"
        if in_test:
            environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        cwd = working_folder(self._plan.check, context.tree)
        program = context.program([facts.executable, *arguments], cwd, environment, Role.MUTANT)
        await run_process(program, timeout_seconds=self._seconds, output_limit=_OUTPUT_BYTES)
        return await asyncio.to_thread(_read, out)

    def _written_program(self, folder: Path, out: Path, command: str) -> list[str]:
        """Write the plain program; return the arguments of the interpreter."""
        script = folder / "app.py"
        run = _PROGRAM.format(command=command, calls=str(self._calls), out=str(out))
        script.write_text(self._load(folder) + run, encoding="utf-8")
        return [str(script)]

    def _written_test(self, folder: Path, out: Path, *, has_pytest: bool) -> list[str]:
        """Write the test; return the arguments of the interpreter."""
        tests = folder / "tests"
        tests.mkdir()
        script = tests / "test_calls.py"
        script.write_text(self._load(folder) + _TEST.format(calls=str(self._calls), out=str(out)), encoding="utf-8")
        if not has_pytest:
            return ["-m", "unittest", "discover", "-s", str(tests)]
        (tests / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        options = ["-q", "-s", "-c", str(tests / "pytest.ini"), "--rootdir", str(tests)]
        off = [option for plugin in ("cacheprovider", "logging", "warnings") for option in ("-p", f"no:{plugin}")]
        return ["-m", "pytest", *options, *off, str(script)]

    def _load(self, folder: Path) -> str:
        (name,) = write_copies(folder / "calls", (_MODULE,)).values()
        return _LOAD.format(name=name, path=str(folder / "calls" / f"{name}.py"))


def _read(path: Path) -> list[list[Any]]:
    try:
        with path.open("rb") as stream:
            lines = stream.read(_MOST_BYTES).splitlines()
    except OSError:
        return []
    calls = []
    for line in lines:
        try:
            calls.append(list(json.loads(line)))
        except (ValueError, TypeError):
            break  # cut off
    return calls


def _text(elsewhere: Call, in_test: Call) -> str:
    results = f"{in_test.result[:_MOST_CHARACTERS]} in a test, {elsewhere.result[:_MOST_CHARACTERS]} elsewhere"
    return f"{in_test.function}({in_test.given[:_MOST_CHARACTERS]}) gives {results}"
