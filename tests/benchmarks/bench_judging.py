"""What judging a small result costs, relative to one bare run of its tests."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from project_python import PYTEST, make_environment

CODE = '''\
def parse(text):
    """Return the pairs of `a=1,b=2`."""
    found = {}
    for part in text.split(","):
        name, sign, value = part.partition("=")
        if not sign:
            raise ValueError(part)
        found[name.strip()] = int(value) if value.strip().isdigit() else value.strip()
    return found


def clamp(value, low, high):
    if low > high:
        raise ValueError("low is above high")
    return max(low, min(value, high))


def shown(pairs, limit=3):
    rows = [f"{name}: {value}" for name, value in sorted(pairs.items())]
    more = len(rows) - limit
    return rows[:limit] + ([f"and {more} more"] if more > 0 else [])
'''
TESTS = """\
import pytest
from pairs import clamp, parse, shown


def test_parse():
    assert parse("a=1, b = x") == {"a": 1, "b": "x"}
    with pytest.raises(ValueError):
        parse("a")


def test_clamp():
    assert (clamp(5, 0, 3), clamp(-1, 0, 3), clamp(2, 0, 3), clamp(3, 3, 3)) == (3, 0, 2, 3)
    with pytest.raises(ValueError):
        clamp(1, 2, 1)


def test_shown():
    assert shown({"b": 2, "a": 1}) == ["a: 1", "b: 2"]
    assert shown({"b": 2, "a": 1, "c": 3, "d": 4}, 2) == ["a: 1", "b: 2", "and 2 more"]
"""
RUNS = 5


def judging(bench: ModuleType) -> None:
    """Measure the check of a new pytest file, with everything that decides its verdict."""
    top = bench.repository("pairs", 1)
    (top / "pairs.py").write_text(CODE)
    make_environment(top / ".venv", PYTEST)
    (top / ".gitignore").write_text(".venv\n")
    bench.git("add", "-A", cwd=top)
    bench.git("commit", "-qm", "code", cwd=top)
    bench.call("workspace/trust", workspace=str(top), trusted=True)
    program = f"import pathlib; pathlib.Path('test_pairs.py').write_text({TESTS!r})"
    bench.delegator("writer", sys.executable, "-c", program + '; print(\'{"type":"result","ok":true,"text":""}\')')
    identifier = bench.call(
        "delegations/start", recipe="tests", files=[str(top / "pairs.py")], delegator="writer", workspace=str(top)
    ).id
    done = bench.wait(identifier)
    [check] = done.checks
    bare = []
    for _ in range(RUNS):
        began = time.perf_counter()
        subprocess.run([*check.argv], cwd=done.worktree, check=True, capture_output=True)
        bare.append(time.perf_counter() - began)
    mutation, whole = [], []
    for _ in range(RUNS):
        began = time.perf_counter()
        [again] = bench.call("delegations/check", id=identifier).checks
        whole.append(time.perf_counter() - began)
        mutation.append(again.mutation.seconds)
    one = statistics.median(bare)
    what = f"{check.mutation.viable} mutants and shams"
    bench.row(
        "judging",
        f"mutation testing with {what} / one bare run ({one:.2f} s)",
        statistics.median(mutation) / one,
        6.0,
        "x",
    )
    bench.row(
        "judging", "everything that decides the verdict / one bare run", statistics.median(whole) / one, 15.0, "x"
    )
    each = statistics.median(mutation) / max(1, check.mutation.viable)
    bench.row("judging", "one mutant with pytest, everything shared among them / one bare run", each / one, 0.5, "x")
