"""What test runners in ``node_modules`` share: how a command starts one, how it runs new tests, and its JSON report."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from understudy.judge.outcomes.observations import ESCAPES, Counts, read_json
from understudy.judge.project.command_lines import Read, package_commands, program_of
from understudy.judge.test_runners.shared.test_runner import (
    REPORT_SLOT,
    TESTS_SLOT,
    NewTests,
    NewTestsCheck,
    Output,
    Project,
    ProposedCheck,
    ScriptCommand,
    TestRunner,
    add_outcome,
    program_named,
)

MANAGERS = frozenset({"npm", "pnpm", "yarn", "bun"})
STARTERS = frozenset({"npx", "pnpx", "bunx"})
_STARTER_OPTIONS = frozenset({"--no-install", "--no", "--yes", "-y", "--offline", "--prefer-offline", "--quiet", "-q"})
_TEST = re.compile(r"(?:\.(?:test|spec)\.[cm]?[jt]sx?$)|(?:(?:^|/)__tests__/.*\.[cm]?[jt]sx?$)")
_SUMMARY = re.compile(r"^\s*Tests:?\s+((?:\d+ \w+(?:, | \| )?)+)\s*(?:\(\d+\))?\s*$", re.MULTILINE)
_DEEPEST = 3
_MOST_BYTES = 1024 * 1024
_SEPARATOR = "--"
_STACK = re.compile(r"^\s+at ", re.MULTILINE)
_MOST_MESSAGE = 2000
_MOST_SHOWN = 5


def script_tests(paths: Sequence[str], _: Read) -> list[str]:
    """Return the JavaScript test files among paths."""
    return [path for path in paths if _TEST.search(path)]


def package_mentions(read: Read, runner: str) -> bool:
    """Return whether ``package.json`` names a test runner."""
    try:
        package = json.loads(read("package.json") or b"{}")
    except (ValueError, RecursionError):
        return False
    if not isinstance(package, dict):
        return False
    sections = [package.get(name) for name in ("devDependencies", "dependencies", "scripts", runner)]
    return runner in json.dumps(sections) or isinstance(package.get(runner), dict)


# -- the command -----------------------------------------------------------------------------------------------


def started_program(argv: Sequence[str], folder: Path, depth: int = _DEEPEST) -> list[str] | None:
    """Return the command that is started in the end, also by ``npm test`` and the like; None if that is not plain."""
    if not argv or depth == 0:
        return None
    name = program_of(argv[0])
    if name in STARTERS:
        first = next((at for at, word in enumerate(argv) if at and word not in _STARTER_OPTIONS), len(argv))
        return list(argv[first:]) if first < len(argv) and not argv[first].startswith("-") else list(argv)
    if name not in MANAGERS:
        return list(argv)
    words = list(argv[1:])
    if words[:1] in (["exec"], ["x"]):
        rest = words[1:]
        return rest[1:] if rest[:1] == [_SEPARATOR] else rest or None
    if words[:1] in (["run"], ["run-script"]):
        words = words[1:]
    script = "test" if words[:1] == ["t"] else next(iter(words), "")
    further = [word for word in words[1:] if word != _SEPARATOR]
    try:
        with (folder / "package.json").open("rb") as stream:
            commands = package_commands(stream.read(_MOST_BYTES), script)
    except OSError:
        return None
    return started_program([*commands[0], *further], folder, depth - 1) if len(commands) == 1 else None


# -- the report ------------------------------------------------------------------------------------------------


def jest_counts(report: Mapping[str, Any]) -> Counts | None:
    """Return the counts in a JSON report of jest or vitest; None if there is no report.

    A file that fails to load (``numFailedTestSuites`` without a failed test in it) counts as a failure.
    """
    if "numTotalTests" not in report:
        return None
    results = report.get("testResults")
    broken = [
        result
        for result in (results if isinstance(results, list) else [])
        if isinstance(result, dict) and result.get("status") == "failed" and not result.get("assertionResults")
    ]
    return Counts(
        passed=_number(report.get("numPassedTests")),
        failed=_number(report.get("numFailedTests")) + len(broken),
        skipped=_number(report.get("numPendingTests")) + _number(report.get("numTodoTests")),
    )


def reported_tests(report: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the file and the entry of each test in a JSON report."""
    files = report.get("testResults")
    for file in files if isinstance(files, list) else []:
        tests = file.get("assertionResults") if isinstance(file, dict) else None
        for test in tests if isinstance(tests, list) else []:
            if isinstance(test, dict):
                yield str(file.get("name", "")), test


def reported_outcomes(report: Mapping[str, Any], tree: Path | None = None) -> dict[str, str]:
    """Return the outcomes in a JSON report of jest or vitest, by file and full name.

    Files are relative to ``tree``; of files elsewhere, the last three parts of the path are kept.
    """
    outcomes: dict[str, str] = {}
    for file, test in reported_tests(report):
        add_outcome(outcomes, f"{_place(file, tree)}: {test.get('fullName')}", str(test.get("status")))
    return outcomes


def _place(name: str, tree: Path | None) -> str:
    for top in (tree, tree.resolve()) if tree is not None else ():
        if name.startswith(f"{top}/"):
            return name[len(str(top)) + 1 :]
    return "/".join(name.split("/")[-3:])


def failure_messages(report: Mapping[str, Any]) -> str:
    """Return a line for each test that failed: its name, and the message without the stack below it."""
    lines = []
    for _, test in reported_tests(report):
        messages = test.get("failureMessages")
        if test.get("status") == "failed" and isinstance(messages, list) and messages:
            message = _STACK.split(ESCAPES.sub("", str(messages[0])[:_MOST_MESSAGE]), maxsplit=1)[0]
            lines.append(f"{test.get('fullName') or test.get('title')}: {' '.join(message.split())}")
    more = [f"and {len(lines) - _MOST_SHOWN} more tests fail"] if len(lines) > _MOST_SHOWN else []
    return "\n".join([*lines[:_MOST_SHOWN], *more])


def _failed(output: Output) -> list[str]:
    tests = (test for _, test in reported_tests(read_json(output.report)) if test.get("status") == "failed")
    return [str(test.get("fullName") or test.get("title")) for test in tests]


def _totals(text: str) -> Iterator[tuple[str, int]]:
    for summary in _SUMMARY.findall(text):
        yield from ((word, int(number)) for number, word in re.findall(r"(\d+) (\w+)", summary))


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


# -- the declaration -------------------------------------------------------------------------------------------


def package_runner(
    proposed: ProposedCheck, *, report: Sequence[str], new: Sequence[str], once: Sequence[str] = (), **more: Any
) -> TestRunner:
    """Return a runner in ``node_modules`` that writes a report like that of jest; its name is that of its check.

    ``report`` are the arguments that make it write the report, ``new`` all that go before the files of new tests,
    ``once`` those that must come first, and ``more`` further fields of the declaration.
    """
    name, program = proposed.name, proposed.argv[0]

    def check_new(tests: NewTests) -> NewTestsCheck | None:
        files = script_tests(tests.changed, tests.read)
        folder = package_with(name, files, tests) if files else None
        path = None if folder is None else _program_above(tests.tree / folder, program, len(Path(folder).parts))
        if folder is None or path is None:
            return None
        return NewTestsCheck(argv=[path, *once, *new, TESTS_SLOT], tests=files, folder=folder)

    def script(argv: Sequence[str], folder: Path) -> ScriptCommand | None:
        started = started_program(argv, folder)
        if started is None or program_of(started[0]) != name:
            return None
        path = _program_above(folder, program, _DEEPEST)
        if path is None:
            return None
        arguments = started[1:] if started[1 : len(once) + 1] == list(once) else [*once, *started[1:]]
        arguments = [argument for argument in arguments if argument not in {"--watch", "-w", "--watchAll"}]
        if not any(REPORT_SLOT in argument for argument in arguments):
            arguments += report
        return ScriptCommand(kind=name, program=path, arguments=tuple(arguments))

    return TestRunner(
        name=name,
        proposals=(proposed,),
        command_lines=(program_named(name),),
        starts=lambda argv, folder: script(argv, folder) is not None,
        language="JavaScript",
        test_files=script_tests,
        check_new=check_new,
        counts=lambda output: jest_counts(read_json(output.report)),
        outcomes=lambda output, tree: reported_outcomes(read_json(output.report), tree),
        failed=_failed,
        why_failed=lambda output: failure_messages(read_json(output.report)),
        totals=_totals,
        mutants="understudy.judge.mutant_runners.script_mutants:ScriptMutants",
        script=script,
        **more,
    )


def package_with(name: str, files: Sequence[str], tests: NewTests) -> str | None:
    """Return the folder of the package whose ``package.json`` names a runner, for tests that are all in one package."""
    nearest = PurePosixPath(os.path.commonpath([PurePosixPath(file).parent for file in files]))
    for place in (nearest, *nearest.parents):
        folder = "" if place == PurePosixPath() else place.as_posix()
        # A result does not choose by a new package.json where its tests run.
        read = tests.read_base if folder else tests.read
        if package_mentions(_inside(folder, read), name):
            return folder
    return None


def _inside(folder: str, read: Read) -> Read:
    return lambda file: read(f"{folder}/{file}" if folder else file)


def _program_above(folder: Path, program: str, levels: int) -> str | None:
    """Return the path of a program in ``node_modules``, as Node.js finds packages: of the folder, or of those above."""
    for above in range(levels + 1):
        path = "../" * above + program
        if os.access(folder / path, os.X_OK):
            return path
    return None


def package_check(name: str, title: str, argument: str, instead_of: Sequence[str]) -> ProposedCheck:
    """Return the check of a runner that has a file of configuration, or is named in ``package.json``."""

    def shown_by(project: Project) -> str | None:
        return next(project.named(rf"{name}\.config\..*", ""), None) or (
            "package.json" if "package.json" in project.files and package_mentions(project.read, name) else None
        )

    argv = (f"node_modules/.bin/{name}", argument)
    return ProposedCheck(name, title, argv, shown_by, instead_of=instead_of, folder="node_modules")
