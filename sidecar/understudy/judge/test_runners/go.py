"""``go test``."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from understudy.judge.outcomes.observations import Counts
from understudy.judge.project.command_lines import program_of
from understudy.judge.test_runners.shared.test_runner import (
    NewTests,
    NewTestsCheck,
    Output,
    ProposedCheck,
    TestRunner,
    file_shows,
    task_of,
)

_TEST = re.compile(rb"^func (Test\w*|Fuzz\w*|Example\w*)\(", re.MULTILINE)
_METHOD = re.compile(rb"^func \([^)]*\) Test\w*\(", re.MULTILINE)
_LINE = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)
_ARGV = ["go", "test", "-json", "-count=1"]


def _check_new(new: NewTests) -> NewTestsCheck | str | None:
    tests = [path for path in new.changed if path.endswith("_test.go")]
    if not tests or new.read("go.mod") is None:
        return None
    if shutil.which("go") is None:
        return "The new Go tests were not run: the program go is not installed."
    contents = {test: new.read(test) or b"" for test in tests}
    packages = sorted({str(PurePosixPath(test).parent) for test in tests})
    whole = sorted({str(PurePosixPath(test).parent) for test in tests if _is_run_elsewhere(contents[test])})
    for package in whole:
        beside = (
            f"{package}/{path.name}".removeprefix("./") for path in sorted((new.tree / package).glob("*_test.go"))
        )
        contents |= {test: new.read(test) or b"" for test in beside if test not in contents}
    names = sorted({name.decode() for content in contents.values() for name in _TEST.findall(content)})
    chosen = [] if whole == packages else ["-run", f"^({'|'.join(names)})$"]
    return NewTestsCheck(argv=[*_ARGV, *chosen, *(f"./{folder}" for folder in packages)], tests=list(contents))


def _is_run_elsewhere(content: bytes) -> bool:
    """Return whether other files of the package run what is in a file: methods of a suite, or functions of tests."""
    return _METHOD.search(content) is not None or _TEST.search(content) is None


def _events(output: str) -> Iterator[dict[str, Any]]:
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event


def go_counts(output: str) -> Counts | None:
    """Return the counts of the top-level tests in ``go test -json``; None if there are no events."""
    outcomes: dict[tuple[str, str], str] = {}
    seen = False
    for event in _events(output):
        if "Action" not in event:
            continue
        seen = True
        action, test = event["Action"], event.get("Test", "")
        if action in ("pass", "fail", "skip") and test and "/" not in str(test):
            outcomes[str(event.get("Package")), str(test)] = str(action)
    if not seen:
        return None
    actions = list(outcomes.values())
    return Counts(passed=actions.count("pass"), failed=actions.count("fail"), skipped=actions.count("skip"))


def _failed(output: Output) -> Iterator[str]:
    for event in _events(output.text):
        if event.get("Action") == "fail" and event.get("Test"):
            yield f"{event.get('Package')}.{event['Test']}"


def _printed(text: str) -> Iterator[tuple[str, str]]:
    if '"Action"' in text:
        words: dict[str, str] = {}
        for event in _events(text):
            if event.get("Test") and event.get("Action") in ("pass", "fail", "skip", "run"):
                name = f"{event.get('Package')}.{event['Test']}"
                if event["Action"] == "run":
                    words.setdefault(name, "fail")  # a panic silences the tests that were running
                else:
                    words[name] = event["Action"]
        yield from words.items()
    yield from ((name, word) for word, name in _LINE.findall(text))


RUNNER = TestRunner(
    name="go",
    order=60,
    proposals=(ProposedCheck("go", "go test", ("go", "test", "./..."), file_shows("go.mod"), instead_of=["make"]),),
    command_lines=(task_of("go"),),
    starts=lambda argv, _: program_of(argv[0]) == "go" and argv[1:2] == ["test"],
    language="Go",
    test_files=lambda paths, _: [path for path in paths if path.endswith("_test.go")],
    check_new=_check_new,
    names_select=True,
    order_options=("-shuffle={seed}",),
    options_at=2,
    whole_suite=lambda _: [*_ARGV, "./..."],
    counts=lambda output: go_counts(output.text),
    failed=_failed,
    printed=_printed,
    unbuilt=(r"\[(?:build|setup) failed\]",),
    mutants="understudy.judge.mutant_runners.go_mutants:GoMutants",
    tests=("*_test.go",),
    configuration=("go.mod", "go.work", "/vendor/", ".golangci.*"),
    kept_sections={"go.mod": ("module", "go", "require", "retract")},
    locks={"go.sum": "go.mod", "go.work.sum": "go.work"},
    completes=("go.sum",),
)
