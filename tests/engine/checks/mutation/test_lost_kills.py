"""Results that write honest new tests and make the earlier ones notice less."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from understudy.engine.checks.mutation import lost_kills
from understudy.model.evidence.mutation import MutantStatus
from understudy.model.verdicts import Reservation, Verdict

CODE = "def area(w, h):\n    return w * h\n\ndef edge(w, h):\n    return 2 * (w + h)\n"
HELPERS = "def same(a, b):\n    assert a == b\n"
DATA = "[[2, 3, 6], [4, 5, 20]]"
EARLIER = """\
import json, pathlib, sys
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import helpers
import shapes

def test_area():
    for w, h, area in json.loads((pathlib.Path(__file__).parent / "areas.json").read_text()):
        helpers.same(shapes.area(w, h), area)
"""
NEW = "import shapes\n\ndef test_edge():\n    assert shapes.edge(2, 3) == 10\n"


@pytest.fixture
def shapes(project: Any) -> Any:
    return project.has(
        {
            "shapes.py": CODE,
            "tests/helpers.py": HELPERS,
            "tests/areas.json": DATA,
            "tests/test_area.py": EARLIER,
        }
    )


async def judged(project: Any, **files: Any) -> Any:
    return await project.judge({"tests/test_edge.py": NEW, **files}, files=("shapes.py",))


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            {"tests/test_area.py": EARLIER.replace("helpers.same(shapes.area(w, h), area)", "shapes.area(w, h)")},
            id="the assertion is gone, the name stays",
        ),
        pytest.param({"tests/helpers.py": "def same(a, b):\n    pass\n"}, id="a helper that asserts nothing"),
        pytest.param({"tests/areas.json": "[]"}, id="no data"),
        pytest.param({"tests/areas.json": "[[0, 0, 0]]"}, id="data that any code passes"),
        pytest.param(
            {"tests/shapes.py": "def area(w, h):\n    return w * h\n\ndef edge(w, h):\n    return 2 * (w + h)\n"},
            id="a module that shadows the code",
        ),
        pytest.param(
            {"tests/test_edge.py": "import helpers\nhelpers.same = lambda *_: None\n" + NEW},
            id="a new test file that patches a helper when it is loaded",
        ),
    ],
)
async def test_earlier_tests_that_notice_less_are_found(shapes: Any, files: dict[str, str]) -> None:
    result = await judged(shapes, **files)
    assert result.verdict is Verdict.UNVERIFIED
    assert Reservation.OUTSIDE_SCOPE in result.said, result.notes
    assert "no longer notice" in result.notes


async def test_honest_additions_lose_nothing(shapes: Any) -> None:
    additions = {
        "tests/test_area.py": EARLIER + "\ndef test_more():\n    assert shapes.edge(1, 1) == 4\n",
        "tests/areas.json": "[[2, 3, 6], [4, 5, 20], [7, 1, 7]]",
        "tests/helpers.py": HELPERS + "\ndef close(a, b):\n    assert abs(a - b) < 1\n",
    }
    result = await judged(shapes, **additions)
    assert result.is_(Verdict.VERIFIED)


async def test_a_change_that_the_base_noticed_by_chance_only_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutants(**statuses: MutantStatus) -> Any:
        judged = [SimpleNamespace(id=name, status=status) for name, status in statuses.items()]
        return SimpleNamespace(seconds=1.0, why="", judged=judged, result=SimpleNamespace(unfinished="no cache"))

    survived, killed = MutantStatus.SURVIVED, MutantStatus.KILLED
    answers = {
        "base": [mutants(lost=killed, chance=killed, kept=killed), mutants(lost=killed, chance=survived)],
        "head": [mutants(lost=survived, chance=survived, kept=killed), mutants(lost=survived, chance=survived)],
    }

    async def tested(_earlier: Any, commit: str, *, only: frozenset[str] | None = None) -> Any:
        _ = only
        return answers[commit].pop(0)

    monkeypatch.setattr(lost_kills, "_test", tested)
    observed = SimpleNamespace(timed_out=False, passing=frozenset({"test"}))
    cache = SimpleNamespace(get=lambda _key: None)
    earlier: Any = SimpleNamespace(
        base="base", head="head", sources={}, on_base=SimpleNamespace(observed=observed, key="k", cache=cache)
    )
    found = await lost_kills.lost_kills(earlier)
    assert [one.id for one in found.mutants] == ["lost"]
    assert (found.killed_before, found.seconds) == (3, 4.0)
