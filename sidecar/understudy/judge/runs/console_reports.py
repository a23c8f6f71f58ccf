"""Read the outcomes of tests from what runners print, whichever of them a command started.

The text is not trusted, and formats differ between versions: what is not recognised is left out.
"""

from __future__ import annotations

import re

from understudy.judge.outcomes.runner_reports import Counts
from understudy.judge.runs.runner_registry import RUNNERS
from understudy.judge.test_runners.shared.test_runner import WORDS, add_outcome

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_MOST_BYTES = 16 * 1024 * 1024
_PASSED = ("passed", "pass", "passing")
_FAILED = ("failed", "fail", "failing", "error", "errors", "cancelled")
_SKIPPED = ("skipped", "pending", "todo", "xfailed", "xpassed")
_IN_SUMMARIES = frozenset({*WORDS, "passing", "failing", "cancelled"})
"""Without one of these words, a line that looks like a summary is another one."""
_UNBUILT = re.compile("|".join(pattern for runner in RUNNERS for pattern in runner.unbuilt))
_TOTALS = tuple(dict.fromkeys(runner.totals for runner in RUNNERS))


def printed_outcomes(stdout: bytes, stderr: bytes) -> dict[str, str]:
    """Return test id → ``passed``, ``failed`` or ``skipped`` for runners that print a line for each test."""
    outcomes: dict[str, str] = {}
    for text in (_text(stdout), _text(stderr)):
        for runner in RUNNERS:
            for test, word in runner.printed(text):
                add_outcome(outcomes, test, word)
    return outcomes


def printed_counts(stdout: bytes, stderr: bytes) -> Counts | None:
    """Return the sum of all summaries of test runs in the output; None if there is none."""
    text = f"{_text(stdout)}\n{_text(stderr)}"
    numbers = [total for totals in _TOTALS for total in totals(text)]
    if not any(word in _IN_SUMMARIES for word, _ in numbers):
        return None
    passed, failed, skipped = (
        sum(number for word, number in numbers if word in words) for words in (_PASSED, _FAILED, _SKIPPED)
    )
    return Counts(passed=passed, failed=failed, skipped=skipped)


def build_failed(stdout: bytes, stderr: bytes) -> bool:
    """Return whether a failed run says that tests could not be compiled or loaded."""
    return bool(_UNBUILT.search(_text(stdout)) or _UNBUILT.search(_text(stderr)))


def _text(data: bytes) -> str:
    text = data[-_MOST_BYTES:].decode("utf-8", "replace").replace("\r\n", "\n")
    return _ANSI.sub("", text)
