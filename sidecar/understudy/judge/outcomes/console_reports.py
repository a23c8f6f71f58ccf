"""Read the outcomes of tests from what runners print or report without a probe.

The text is not trusted, and formats differ between versions: what is not recognised is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.judge.outcomes.runner_reports import Counts

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_MOST_BYTES = 16 * 1024 * 1024

_CARGO = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", re.MULTILINE)
_CARGO_TARGET = re.compile(r"^\s*(?:Running|Doc-tests) (.+?)(?: \(.*\))?$", re.MULTILINE)
_GO = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)
_TAP = re.compile(r"^( *)(not )?ok \d+(?: - (.*?))?(?: # (SKIP|TODO)\b.*)?$", re.MULTILINE | re.IGNORECASE)
_TAP_START = re.compile(r"^TAP version \d+|^# Subtest:|^1\.\.\d+", re.MULTILINE)
_NODE = re.compile(r"^( *)(✔|✖|﹣) (.+?)(?: \([\d.]+ms\))?(?: # (SKIP|TODO).*)?$", re.MULTILINE)
_UNITTEST = re.compile(r"^(\w+) \(([\w.]+)\)(?:\n.*)? \.\.\. (ok|FAIL|ERROR|skipped|expected failure)", re.MULTILINE)
_WORDS = {
    **dict.fromkeys(("ok", "PASS", "pass", "passed", "✔"), "passed"),
    **dict.fromkeys(("FAILED", "FAIL", "ERROR", "fail", "failed", "✖"), "failed"),
    **dict.fromkeys(("ignored", "SKIP", "skip", "skipped", "expected failure", "﹣"), "skipped"),
    **dict.fromkeys(("pending", "todo", "disabled"), "skipped"),
}

_SUMMARIES = (
    re.compile(r"^=*\s*((?:\d+ [a-z]+, )*\d+ [a-z]+) in [\d.:]+s?[^\n]*$", re.MULTILINE),
    re.compile(r"^\s*Tests:?\s+((?:\d+ \w+(?:, | \| )?)+)\s*(?:\(\d+\))?\s*$", re.MULTILINE),
)
"""The summaries of pytest, and of jest and vitest."""
_MOCHA = re.compile(r"^\s+(\d+) (passing|failing|pending)\b", re.MULTILINE)
_NODE_TOTAL = re.compile(r"^(?:\N{INFORMATION SOURCE}|#) (pass|fail|cancelled|skipped|todo) (\d+)$", re.MULTILINE)
_UNITTEST_TOTAL = re.compile(r"^Ran (\d+) tests? in [\d.]+s\n+(OK|FAILED|NO TESTS RAN)(?: \((.*)\))?", re.MULTILINE)
_CARGO_TOTAL = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", re.MULTILINE)


def printed_outcomes(stdout: bytes, stderr: bytes) -> dict[str, str]:
    """Return test id → ``passed``, ``failed`` or ``skipped`` for runners that print a line for each test."""
    found: dict[str, str] = {}
    for data in (stdout, stderr):
        text = _text(data)
        if '"Action"' in text:
            found.update(_go_events(text))
        for match in _GO.finditer(text):
            _add(found, match.group(2), match.group(1))
        if "test result:" in text:
            _cargo(text, found)
        if _TAP_START.search(text):
            for indent, wrong, name, directive in _TAP.findall(text):
                word = "SKIP" if directive else "FAIL" if wrong else "PASS"
                _add(found, f"{indent}{name}", word)
        elif _NODE_TOTAL.search(text):
            for indent, mark, name, directive in _NODE.findall(text.partition("failing tests:")[0]):
                _add(found, f"{indent}{name}", "SKIP" if directive else mark)
        if _UNITTEST_TOTAL.search(text):
            for name, place, word in _UNITTEST.findall(text):
                _add(found, place if place.endswith(f".{name}") else f"{place}.{name}", word)
    return found


def printed_counts(stdout: bytes, stderr: bytes) -> Counts | None:
    """Return the sum of all summaries of test runs in the output; None if there is none."""
    text = f"{_text(stdout)}\n{_text(stderr)}"
    totals: list[tuple[str, int]] = []
    seen = False
    for pattern in _SUMMARIES:
        for summary in pattern.findall(text):
            words = [(word, int(number)) for number, word in re.findall(r"(\d+) (\w+)", summary)]
            seen = seen or any(word in _WORDS for word, _ in words)
            totals += words
    for number, word in _MOCHA.findall(text):
        seen = True
        totals.append((word, int(number)))
    for word, number in _NODE_TOTAL.findall(text):
        seen = True
        totals.append((word, int(number)))
    for ran, _, details in _UNITTEST_TOTAL.findall(text):
        seen = True
        bad = {word: int(number) for word, number in re.findall(r"([a-z ]+?)=(\d+)", details)}
        failed = bad.get("failures", 0) + bad.get("errors", 0) + bad.get(" errors", 0)
        skipped = sum(number for word, number in bad.items() if "skipped" in word or "expected" in word)
        totals += [("failed", failed), ("skipped", skipped), ("passed", max(0, int(ran) - failed - skipped))]
    for passed, failed_, ignored in _CARGO_TOTAL.findall(text):
        seen = True
        totals += [("passed", int(passed)), ("failed", int(failed_)), ("skipped", int(ignored))]
    if not seen:
        return None

    def total(*words: str) -> int:
        return sum(number for word, number in totals if word in words)

    return Counts(
        passed=total("passed", "pass", "passing"),
        failed=total("failed", "fail", "failing", "error", "errors", "cancelled"),
        skipped=total("skipped", "pending", "todo", "xfailed", "xpassed"),
    )


_UNBUILT = re.compile(
    r"\[(?:build|setup) failed\]|error: could not compile|error\[E\d{4}\]|_FailedTest|\bSyntaxError\b|"
    r"Cannot find module|ERR_MODULE_NOT_FOUND|does not provide an export named|ModuleNotFoundError|ImportError|"
    r"Test suite failed to run|error TS\d+|undefined reference to|cannot find symbol|errors? during collection"
)


def build_failed(stdout: bytes, stderr: bytes) -> bool:
    """Return whether a failed run says that tests could not be compiled or loaded."""
    return bool(_UNBUILT.search(_text(stdout)) or _UNBUILT.search(_text(stderr)))


def reported_outcomes(report: Mapping[str, Any], tree: Path | None = None) -> dict[str, str]:
    """Return the outcomes in a JSON report of jest or vitest, by file and full name.

    Files are relative to ``tree``; of files elsewhere, the last three parts of the path are kept.
    """
    found: dict[str, str] = {}
    files = report.get("testResults")
    for file in files if isinstance(files, list) else []:
        tests = file.get("assertionResults") if isinstance(file, dict) else None
        for test in tests if isinstance(tests, list) else []:
            if isinstance(test, dict):
                place = _place(str(file.get("name", "")), tree)
                _add(found, f"{place}: {test.get('fullName')}", str(test.get("status")))
    return found


def _place(name: str, tree: Path | None) -> str:
    for top in (tree, tree.resolve()) if tree is not None else ():
        if name.startswith(f"{top}/"):
            return name[len(str(top)) + 1 :]
    return "/".join(name.split("/")[-3:])


def _go_events(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and event.get("Test") and event.get("Action") in {"pass", "fail", "skip", "run"}:
            name = f"{event.get('Package')}.{event['Test']}"
            if event["Action"] == "run":
                found.setdefault(name, "failed")  # a panic silences the tests that were running
            else:
                found[name] = _WORDS[event["Action"]]
    return found


def _cargo(text: str, found: dict[str, str]) -> None:
    targets = [(match.start(), match.group(1)) for match in _CARGO_TARGET.finditer(text)]
    for match in _CARGO.finditer(text):
        target = next((name for start, name in reversed(targets) if start < match.start()), "")
        _add(found, f"{target} {match.group(1)}".strip(), match.group(2))


def _add(found: dict[str, str], name: str, word: str) -> None:
    """Add an outcome; of two with the same name, the worse one counts."""
    outcome = _WORDS.get(word, "failed")
    order = ("passed", "skipped", "failed")
    before = found.get(name, "passed")
    found[name] = max(before, outcome, key=order.index)


def _text(data: bytes) -> str:
    text = data[-_MOST_BYTES:].decode("utf-8", "replace").replace("\r\n", "\n")
    return _ANSI.sub("", text)
