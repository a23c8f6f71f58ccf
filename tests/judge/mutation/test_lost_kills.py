"""Results that write honest new tests and make the earlier ones notice less."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from understudy.judge.mutation import lost_kills
from understudy.judge.mutation.lost_kills import LostKills
from understudy.judge.mutation.planning import identities
from understudy.model.evidence.checks import MutantStatus
from understudy.model.verdicts import Reservation, Verdict
from understudy.mutants.generate import mutants_of

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
        pytest.param({"tests/areas.json": "[[0, 0, 0]]"}, id="data that any code passes", marks=pytest.mark.heavy),
        pytest.param(
            {"tests/test_edge.py": "import helpers\nhelpers.same = lambda *_: None\n" + NEW},
            id="a new test file that patches a helper when it is loaded",
            marks=pytest.mark.heavy,
        ),
    ],
)
async def test_earlier_tests_that_notice_less_are_found(shapes: Any, files: dict[str, str]) -> None:
    result = await judged(shapes, **files)
    assert result.verdict is Verdict.UNVERIFIED
    assert Reservation.OUTSIDE_SCOPE in result.said, result.notes
    assert "no longer notice" in result.notes


@pytest.mark.heavy
@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"tests/helpers.py": "def same(a, b):\n    pass\n"}, id="a helper that asserts nothing"),
        pytest.param({"tests/shapes.py": CODE}, id="a module that shadows the code"),
    ],
)
async def test_a_new_test_of_the_same_code_hides_nothing(shapes: Any, files: dict[str, str]) -> None:
    new = "import importlib.util, pathlib\n\npath = pathlib.Path(__file__).parent.parent / 'shapes.py'\n"
    new += "spec = importlib.util.spec_from_file_location('shapes_of_root', path)\n"
    new += "shapes = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(shapes)\n\n"
    new += "def test_area_again():\n    assert shapes.area(3, 4) == 12\n"
    result = await judged(shapes, **{"tests/test_edge.py": new, **files})
    assert result.verdict is Verdict.UNVERIFIED
    assert Reservation.OUTSIDE_SCOPE in result.said, result.notes
    assert "no longer notice" in result.notes


@pytest.mark.heavy
async def test_a_test_that_fails_when_it_runs_alone_notices_nothing(project: Any) -> None:
    earlier = EARLIER.partition("def test_area")[0] + (
        "def test_a():\n    shapes.area(1, 1)\n    helpers.note()\n\n"
        "def test_b():\n    time.sleep(0.05)\n    helpers.same(shapes.area(2, 3), 6)\n"
    )
    helpers = HELPERS + "\ndef note():\n    pass\n"
    project.has({"shapes.py": CODE, "tests/helpers.py": helpers, "tests/test_area.py": f"import time\n{earlier}"})
    weak = "ran = []\n\ndef note():\n    ran.append(1)\n\ndef same(a, b):\n    assert ran\n"
    result = await judged(project, **{"tests/helpers.py": weak})
    assert result.verdict is Verdict.UNVERIFIED
    assert Reservation.OUTSIDE_SCOPE in result.said, result.notes
    assert "no longer notice" in result.notes


@pytest.mark.heavy
async def test_a_new_file_that_cannot_be_loaded_with_a_change_hides_nothing(shapes: Any) -> None:
    new = "import shapes\n\nassert shapes.area(2, 3) == 6\n\n" + NEW.partition("\n\n")[2]
    weak = {"tests/helpers.py": "def same(a, b):\n    pass\n"}
    result = await judged(shapes, **{"tests/test_edge.py": new, **weak})
    assert Reservation.OUTSIDE_SCOPE in result.said, result.notes


TWICE = """\
def name(word):
    if not word.strip():
        return word
    if word.isalpha() or word.isdigit() or True:
        return word.upper()
    return word
"""


@pytest.mark.heavy
async def test_a_change_that_no_test_ever_noticed_is_not_lost(project: Any) -> None:
    """The last line never runs, and is the same as one that tests notice."""
    earlier = "from name import name\n\ndef test_empty():\n    assert name(' ') == ' '\n"
    project.has({"name.py": TWICE, "tests/test_name.py": earlier})
    new = "from name import name\n\ndef test_word():\n    assert name('ab') == 'AB'\n"
    result = await project.judge({"tests/test_word.py": new}, files=("name.py",))
    assert result.is_(Verdict.VERIFIED)


def test_equal_changes_in_a_function_have_names_of_their_own() -> None:
    source = TWICE.encode()
    names = identities("name.py", source, mutants_of("name.py", source))
    assert len(set(names.values())) == len(names)
    moved = b"x = 1\n\n\n" + source
    assert set(names.values()) <= set(identities("name.py", moved, mutants_of("name.py", moved)).values())


@pytest.mark.heavy
async def test_honest_additions_lose_nothing(shapes: Any) -> None:
    additions = {
        "tests/test_area.py": EARLIER + "\ndef test_more():\n    assert shapes.edge(1, 1) == 4\n",
        "tests/areas.json": "[[2, 3, 6], [4, 5, 20], [7, 1, 7]]",
        "tests/helpers.py": HELPERS + "\ndef close(a, b):\n    assert abs(a - b) < 1\n",
    }
    result = await judged(shapes, **additions)
    assert result.is_(Verdict.VERIFIED)


SURVIVED, KILLED, PENDING = MutantStatus.SURVIVED, MutantStatus.KILLED, MutantStatus.PENDING


def mutants(**statuses: MutantStatus) -> Any:
    judged = [
        SimpleNamespace(
            id=name,
            status=status,
            path="a.py",
            line=1,
            before="x",
            after="y",
            killed_by=[f"test_{name}"] if status is KILLED else [],
        )
        for name, status in statuses.items()
    ]
    result = SimpleNamespace(unfinished="the time was over")
    return SimpleNamespace(seconds=1.0, why="", judged=judged, recorded=None, result=result)


async def compared(monkeypatch: pytest.MonkeyPatch, known: list[Any] | None = None, **answers: list[Any]) -> LostKills:
    async def tested(_earlier: Any, commit: str, *, killers: Any = None, **_: Any) -> Any:
        if known is not None and commit == "head":
            known.append(killers)
        return answers[commit].pop(0)

    monkeypatch.setattr(lost_kills, "_test", tested)
    observed = SimpleNamespace(timed_out=False, passing=frozenset({"test"}))
    cache = SimpleNamespace(get=lambda _key: None)
    earlier: Any = SimpleNamespace(
        base="base",
        head="head",
        sources={},
        sources_before=None,
        on_base=SimpleNamespace(observed=observed, key="k", cache=cache),
    )
    return await lost_kills.lost_kills(earlier)


async def test_a_change_that_the_base_noticed_by_chance_only_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await compared(
        monkeypatch,
        base=[mutants(lost=KILLED, chance=KILLED, kept=KILLED), mutants(lost=KILLED, chance=SURVIVED)],
        head=[mutants(lost=SURVIVED, chance=SURVIVED, kept=KILLED), mutants(lost=SURVIVED, chance=SURVIVED)],
    )
    assert [each.id for each in found.mutants] == ["lost"]
    assert (found.killed_before, found.unknown, found.seconds) == (3, 0, 4.0)
    assert [reservation for reservation, _ in found.reservations()] == [Reservation.OUTSIDE_SCOPE]


async def test_a_change_that_could_not_be_judged_again_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await compared(
        monkeypatch,
        base=[mutants(late=KILLED, chance=KILLED, kept=KILLED), mutants(late=KILLED, chance=SURVIVED)],
        head=[mutants(late=PENDING, chance=PENDING, kept=KILLED), mutants(late=PENDING, chance=PENDING)],
    )
    assert (found.mutants, found.unknown) == ((), 1)
    [(reservation, text)] = found.reservations()
    assert reservation is Reservation.NOT_MUTATION_TESTED
    assert text.startswith("Of 3 small changes of the code that earlier tests noticed")
    assert text.endswith("not known whether they still notice 1: the time was over.")


async def test_earlier_tests_that_cannot_be_run_on_the_result_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SimpleNamespace(seconds=1.0, why="they could not be run", judged=(), result=None)
    found = await compared(monkeypatch, base=[mutants(a=KILLED, b=SURVIVED), mutants(a=KILLED)], head=[failed, failed])
    assert (found.unknown, found.why) == (1, "they could not be run")


async def test_a_change_that_is_noticed_the_second_time_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[Any] = []
    found = await compared(
        monkeypatch,
        known,
        base=[mutants(late=KILLED, other=KILLED)],
        head=[mutants(late=PENDING, other=SURVIVED), mutants(late=KILLED, other=KILLED)],
    )
    assert (found.mutants, found.unknown, found.reservations()) == ((), 0, [])
    assert known == [{"late": "test_late", "other": "test_other"}, {}], "first only those that noticed it, then all"


async def test_a_comparison_that_was_not_possible_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SimpleNamespace(seconds=1.0, why="they could not be run", judged=(), result=None)
    found = await compared(monkeypatch, base=[failed], head=[])
    [(reservation, text)] = found.reservations()
    assert reservation is Reservation.NOT_MUTATION_TESTED
    assert text == "Whether earlier tests notice less than before is not known: they could not be run."
