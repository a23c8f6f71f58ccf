"""Comparing the outcomes of tests, reading them from output, and keeping those of bases."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from understudy.judge.outcomes import observations
from understudy.judge.outcomes.observations import Observed, OutcomeCache, ProbeReport, fewer, losses, newly_red
from understudy.judge.runs.runner_registry import build_failed, printed_counts, printed_outcomes
from understudy.judge.test_runners.shared.node_packages import reported_outcomes


def seen(text: str = "", *, green: bool = True, **more: Any) -> Observed:
    """Return a run in which ``a+ b- c~`` means: a passed, b failed, c was skipped."""
    words = {"+": "passed", "-": "failed", "~": "skipped"}
    outcomes = {word[:-1]: words[word[-1]] for word in text.split()}
    counts = list(outcomes.values())
    if outcomes:
        more = {"passed": counts.count("passed"), "skipped": counts.count("skipped")} | more
    return Observed(green=green, outcomes=outcomes, **more)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (seen("a+ b+"), seen("a+ b+ c+"), {}),
        (seen("a+ b- c~", green=False), seen("a+ b- c-", green=False), {}),
        (seen("a+ b+ c+ d+"), seen("a- b~ d+", green=False), {"a": "failed", "b": "skipped", "c": "missing"}),
        (seen("t[1]+ t[2]+"), seen("t[one]+ t[two]+"), {}),
        (seen("t[1]+ t[2]+"), seen("t[one]+"), {"t[1]": "missing", "t[2]": "missing"}),
        (seen("t[1]+ t[2]+"), seen("t[1]- t[2]+", green=False), {"t[1]": "failed"}),
    ],
)
def test_losses_by_name(before: Observed, after: Observed, expected: dict[str, str]) -> None:
    assert losses(before, after).tests == expected
    assert bool(losses(before, after)) == bool(expected)


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        (seen(passed=5), seen(passed=5), 0),
        (seen(passed=5), seen(passed=3), 2),
        (seen(passed=5), seen(), 5),
        (seen(), seen(), 0),
        (seen(), seen(green=False), 1),
        (seen(green=False), seen(green=False), 0),
        (seen("a+"), seen("a+", green=False), 1),  # such as a limit on coverage
    ],
)
def test_losses_without_names(before: Observed, after: Observed, count: int) -> None:
    assert losses(before, after).count == count


def test_a_rename_is_not_fewer_tests() -> None:
    assert not fewer(seen("a+ b+"), seen("a+ c+"))
    assert fewer(seen("a+ b+"), seen("a+")).tests == {"b": "missing"}
    assert fewer(seen("a+ b+"), seen("a+ b~ c+")).tests == {"b": "skipped"}
    assert fewer(seen(passed=3), seen()).unnamed == 3
    assert not fewer(seen(passed=3), seen(passed=2))


def test_only_red_tests_are_newly_red() -> None:
    assert newly_red(seen("a+ b+ c-"), seen("b- c-", green=False)) == ["b"]
    assert newly_red(seen("a+ b+"), seen("b-", green=False, unbuilt=True)) == ["a", "b"]


GO = b"""{"Action":"run","Package":"x","Test":"TestA"}
{"Action":"pass","Package":"x","Test":"TestA"}
{"Action":"run","Package":"x","Test":"TestB"}
{"Action":"output","Package":"x","Test":"TestB","Output":"panic"}
{"Action":"fail","Package":"x"}
"""
CARGO = b"""     Running unittests src/lib.rs (target/debug/deps/calc-1)
test tests::adds ... ok
test tests::later ... ignored
test tests::bad ... FAILED
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured
"""
TAP = b"""TAP version 13
# Subtest: adds
ok 1 - adds
# Subtest: doubles
not ok 2 - doubles
# Subtest: later
ok 3 - later # SKIP
1..3
# tests 3
# pass 1
# fail 1
# cancelled 0
# skipped 1
# todo 0
"""
SPEC = "✔ adds (0.5ms)\n✖ doubles (0.2ms)\n﹣ later (0.1ms) # SKIP\n\N{INFORMATION SOURCE} tests 3\n\N{INFORMATION SOURCE} pass 1\n\N{INFORMATION SOURCE} fail 1\n\N{INFORMATION SOURCE} skipped 1\n\n✖ failing tests:\n\n✖ adds (1ms)\n".encode()
UNIT = b"""test_add (tests.test_calc.T.test_add) ... ok
test_bad (tests.test_calc.T)
A docstring. ... FAIL
test_later (tests.test_calc.T.test_later) ... skipped 'x'

----------------------------------------------------------------------
Ran 3 tests in 0.001s

FAILED (failures=1, skipped=1)
"""


@pytest.mark.parametrize(
    ("output", "outcomes"),
    [
        (GO, {"x.TestA": "passed", "x.TestB": "failed"}),
        (b"--- PASS: TestA (0.0s)\n    --- FAIL: TestA/x\n--- SKIP: TestB (0.0s)\nok x 0.1s\n", {"TestA": "passed", "TestB": "skipped"}),
        (CARGO, {"unittests src/lib.rs tests::adds": "passed", "unittests src/lib.rs tests::later": "skipped", "unittests src/lib.rs tests::bad": "failed"}),
        (TAP, {"adds": "passed", "doubles": "failed", "later": "skipped"}),
        (SPEC, {"adds": "passed", "doubles": "failed", "later": "skipped"}),
        (UNIT, {"tests.test_calc.T.test_add": "passed", "tests.test_calc.T.test_bad": "failed", "tests.test_calc.T.test_later": "skipped"}),
        (b"everything is ok 1\n", {}),
    ],
)  # fmt: skip
def test_outcomes_in_output(output: bytes, outcomes: dict[str, str]) -> None:
    assert printed_outcomes(output, b"") == outcomes
    assert printed_outcomes(b"", output.replace(b"\n", b"\r\n")) == outcomes


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("=== 3 passed, 1 skipped in 0.12s ===", (3, 0, 1)),
        ("1 failed, 2 passed, 1 error in 3.1s", (2, 2, 0)),
        ("Tests:       1 failed, 2 skipped, 3 passed, 6 total", (3, 1, 2)),
        ("\x1b[2m      Tests \x1b[22m \x1b[32m3 passed\x1b[39m | 1 skipped (4)", (3, 0, 1)),
        ("  3 passing (5ms)\n  1 pending\n  2 failing\n", (3, 2, 1)),
        ("Ran 0 tests in 0.000s\n\nOK", (0, 0, 0)),
        (UNIT.decode(), (1, 1, 1)),
        (CARGO.decode() + "test result: ok. 2 passed; 0 failed; 0 ignored;", (3, 1, 1)),
        (TAP.decode(), (1, 1, 1)),
        ("5 modules in 3.2s\nbuilt", None),
        ("", None),
    ],
)
def test_counts_in_output(output: str, expected: tuple[int, int, int] | None) -> None:
    counts = printed_counts(output.encode(), b"")
    assert (counts and (counts.passed, counts.failed, counts.skipped)) == expected


def test_outcomes_in_a_report_of_jest() -> None:
    tests = [{"fullName": "adds", "status": "passed"}, {"fullName": "later", "status": "pending"}, 3]
    report = {"testResults": [{"name": "/tree/src/a.test.js", "assertionResults": tests}, None]}
    assert reported_outcomes(report) == {"tree/src/a.test.js: adds": "passed", "tree/src/a.test.js: later": "skipped"}


def test_builds_that_failed() -> None:
    assert build_failed(b"FAIL x [build failed]", b"")
    assert build_failed(b"", b"error[E0425]: cannot find function")
    assert not build_failed(b"assertion failed", b"")


def test_silent_tests_are_those_without_an_outcome() -> None:
    report = ProbeReport(
        collected=frozenset({"m.T.test_a", "m.U.test_b", "m.V.test_c"}),
        outcomes={"m.T.test_a": "passed", "setUpClass (m.U)": "skipped"},
    )
    assert report.silent == ["m.V.test_c"]


def test_the_cache_ignores_what_changed_since_the_start(tmp_path: Path) -> None:
    run = seen("a+ b-", green=False)
    began = time.time() - 1  # the clock of files is coarse
    cache = OutcomeCache(tmp_path / "cache", since=began)
    cache.put("key", run)
    assert cache.get("key") == run
    assert OutcomeCache(tmp_path / "cache", since=began).get("key") is None, (
        "an agent of this process could have written it"
    )
    [file] = (tmp_path / "cache").iterdir()
    later = file.stat().st_ctime + 1
    assert OutcomeCache(tmp_path / "cache", since=later).get("key") == run
    assert OutcomeCache(tmp_path / "cache", since=later).get("other") is None
    file.write_bytes(b"\x00rubbish")
    os.utime(file, (0, 0))
    assert OutcomeCache(tmp_path / "cache", since=later).get("key") is None


def test_the_cache_is_bounded_and_keeps_only_complete_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observations, "_MOST_FILES", 3)
    folder = tmp_path / "cache"
    cache = OutcomeCache(folder, since=time.time())
    cache.put("cut off", seen(timed_out=True))
    cache.put("not started", seen(started=False))
    assert not folder.exists()
    for number in range(6):
        cache.put(str(number), seen("a+"))
    assert len(list(folder.iterdir())) == 3
