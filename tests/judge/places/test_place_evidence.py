"""Evidence for each changed place: which lies are named, and which honest changes are not asked about."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from understudy.model.delegation.events import PlacesJudged
from understudy.model.evidence.checks import Check, Evidence
from understudy.model.places import SHOWN, ChangedPlace, PlaceEvidence, merged
from understudy.model.verdicts import Reservation, Verdict

SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])
MONEY = '''"""Money."""
import json
import math
from pathlib import Path

RATES = json.loads((Path(__file__).parent / "rates.json").read_text())


def show(cents):
    """Return euros."""
    if cents < 0:
        return "-" + show(-cents)
    return f"{cents // 100}.{cents % 100:02d}"


def parse(text):
    if not text:
        raise ValueError("empty")
    whole, _, rest = text.partition(".")
    return int(whole) * 100 + int(rest or 0)


def convert(cents, to):
    return cents * RATES[to]


def total(items):
    result = 0
    for item in items:
        result = result + item
    return result
'''
TESTS = """from money import convert, parse, show, total


def test_money():
    assert show(1234) == "12.34"
    assert parse("12.34") == 1234
    assert convert(100, "usd") == 200
    assert total([1, 2, 3]) == 6
"""
BASE = {"money.py": MONEY, "rates.json": '{"usd": 2}\n', "test_money.py": TESTS, "README.md": "# Money\n"}


def edited(text: str, *pairs: tuple[str, str]) -> str:
    for before, after in pairs:
        assert before in text, before
        text = text.replace(before, after)
    return text


async def judged(project: Any, edits: dict[str, str | None], **named: Any) -> Any:
    project.has(BASE)
    return await project.judge(edits, recipe="implement", checks=(SUITE,), **named)


def evidence(result: Any) -> dict[tuple[str, str], str]:
    """File and function → evidence; the least of several places."""
    order = list(PlaceEvidence)
    found: dict[tuple[str, str], str] = {}
    for place in sorted(result.places, key=lambda place: order.index(place.evidence)):
        found[place.path, place.function] = str(place.evidence)
    return found


async def test_each_place_of_a_result_has_evidence_of_its_own(project: Any) -> None:
    """One result with what is tested and what is not: no part of it is hidden by another one."""
    lines = MONEY.splitlines(keepends=True)
    text = edited(
        "".join(lines),
        ('"""Return euros."""', '"""Return euros and cents."""'),  # a docstring
        ('    if cents < 0:\n        return "-" + show(-cents)\n', ""),  # removed, and no test had noticed it
        ("int(rest or 0)", "int(rest.ljust(2, '0') or 0)"),  # noticed by a value
        ("return cents * RATES[to]", "return RATES[to] * cents"),  # noticed, too
        ("    result = 0\n    for item in items:\n        result = result + item\n    return result\n",
         "    return sum(items)\n"),  # a refactoring of what was tested
    )  # fmt: skip
    text += "\n\ndef halve(cents):\n    return cents // 2\n\n\ndef nothing(cents):\n    pass\n\n\ndouble = total\n"
    result = await judged(
        project,
        {
            "money.py": text,
            "rates.json": '{"usd": 2, "gbp": 3}\n',
            "README.md": "# Money, and more\n",
            ".github/workflows/ci.yml": "on: push\n",
            "test_more.py": "from money import parse\n\n\ndef test_more():\n    assert parse('1.5') == 150\n",
        },
    )
    assert result.is_(Verdict.UNVERIFIED, Reservation.CHANGE_NOT_TESTED)
    assert evidence(result) == {
        ("money.py", "show"): "unnoticed",
        ("money.py", "parse"): "noticed",
        ("money.py", "convert"): "noticed",
        ("money.py", "total"): "noticed",
        ("money.py", "halve"): "unexecuted",
        ("money.py", "nothing"): "unnoticed",
        ("money.py", "double"): "unnoticed",
        ("rates.json", ""): "unlooked",
        ("README.md", ""): "same",
        (".github/workflows/ci.yml", ""): "unlooked",
        ("test_more.py", ""): "new_test",
        ("test_more.py", "test_more"): "new_test",
    }
    told: list[ChangedPlace] = []
    batches = [event for event in result.events if isinstance(event, PlacesJudged)]
    for event in batches:
        told = merged(told, event.places)
    shown = [place for place in result.places if place.evidence in SHOWN]
    assert sorted(map(str, told)) == sorted(map(str, shown)), "what was reported while checks ran is the last word"
    assert len(batches) > 2
    assert {event.total for event in batches} == {len(result.places)}
    [fact] = [fact.text for fact in result.facts if fact.reservation is Reservation.CHANGE_NOT_TESTED]
    assert "changed places are tested. Not: " in fact
    assert "`halve` (no test runs it)" in fact


async def test_a_judging_that_is_stopped_leaves_no_place_out(project: Any) -> None:
    text = edited(MONEY, ("def total(items):\n", "# Sums up.\ndef total(items, start=0):\n"))
    judging = asyncio.create_task(judged(project, {"money.py": text}))
    while not any(isinstance(event, PlacesJudged) for event in project.events):
        assert not judging.done()
        await asyncio.sleep(0.01)
    judging.cancel()
    await asyncio.wait([judging])
    told: list[ChangedPlace] = []
    for event in project.events:
        told = merged(told, event.places) if isinstance(event, PlacesJudged) else told
    assert {place.evidence: place.why for place in told} == {
        "same": "nothing that runs changed",
        "unlooked": "the checks were stopped",
    }
    assert len({place.hunk for place in told}) == 1, "a hunk is tested if all its places are"


@pytest.mark.heavy
@pytest.mark.parametrize(
    "edits",
    [
        pytest.param({"rates.json": '{"usd": 2, "eur": 1}\n', "test_money.py": TESTS + '    assert convert(1, "eur") == 1\n'}, id="data"),
        pytest.param(
            {
                "money.py": edited(MONEY, ("def total(items):\n    result = 0\n", "def total(items, start=0):\n    result = start\n")),
                "test_money.py": TESTS + "    assert total([1], 5) == 6\n    assert total([1]) == 1\n",
            },
            id="a parameter",
        ),
        pytest.param({"money.py": edited(MONEY, ("def show(cents):", "def show(cents: int) -> str:"))}, id="annotations"),
        pytest.param(
            {
                "money.py": edited(MONEY, ("import math\n", ""), ("def total", "def add_up")),
                "test_money.py": edited(TESTS, ("total", "add_up")),
            },
            id="another name, and no unused import",
        ),
        pytest.param(
            {
                "money.py": edited(MONEY, ("from pathlib import Path\n", "from pathlib import Path\n\nfrom sums import total\n"),
                                   (MONEY[MONEY.index("\n\ndef total"):], "\n")),
                "sums.py": "def total(items):\n    return sum(items)\n",
            },
            id="a function that moved to a new module",
        ),
        pytest.param(
            {
                "money.py": edited(MONEY, ("RATES = json", "class Unknown(ValueError):\n    pass\n\n\nRATES = json"),
                                   ("    return cents * R", "    if to not in RATES:\n        raise Unknown(to)\n    return cents * R")),
                "purse.py": 'class Purse:\n    """Holds cents."""\n\n    def __init__(self):\n        self._cents = []\n\n'
                            "    def put(self, cents):\n        self._cents.append(cents)\n\n"
                            "    def __len__(self):\n        return len(self._cents)\n",
                "test_purse.py": "import pytest\n\nfrom money import Unknown, convert\nfrom purse import Purse\n\n\n"
                                 "def test_purse():\n    purse = Purse()\n    purse.put(5)\n    assert len(purse) == 1\n\n\n"
                                 "def test_unknown():\n    with pytest.raises(Unknown):\n        convert(1, 'xyz')\n",
            },
            id="classes",
        ),
    ],
)  # fmt: skip
async def test_honest_changes_are_verified(project: Any, edits: dict[str, str | None]) -> None:
    result = await judged(project, edits)
    assert result.is_(Verdict.VERIFIED), result.places


CLAMP = "def clamp(value):\n    if value > 9:\n        return 9 + 0\n    return value + 0\n"
BIG = "from clamp import clamp\n\n\ndef test_big():\n    assert clamp(12) == 9\n"
SMALL = "from clamp import clamp\n\n\ndef test_small():\n    assert clamp(4) == 4\n"


async def test_a_line_that_no_test_runs_leaves_its_place_open_until_another_check_notices_it(project: Any) -> None:
    edits = {"clamp.py": CLAMP, "test_big.py": BIG, "test_small.py": SMALL}
    checks = [
        Check(name=name, argv=["{python}", "-m", "pytest", "-q", f"test_{name}.py", "test_money.py"])
        for name in ("big", "small")
    ]
    result = await project.has(BASE).judge(edits, recipe="implement", checks=(checks[0],))
    assert result.is_(Verdict.UNVERIFIED, Reservation.CHANGE_NOT_TESTED)
    assert "clamp.py:1 `clamp` (no test runs line 4)" in result.notes
    assert (await project.judge(edits, recipe="implement", checks=tuple(checks))).is_(Verdict.VERIFIED)


async def test_what_there_was_no_time_for_is_named(project: Any) -> None:
    """Places that only undoing could show; a place that a test notices after the end would be a guess."""
    edits = {"rates.json": '{"usd": 2, "eur": 1}\n', "test_money.py": TESTS + '    assert convert(1, "eur") == 1\n'}
    result = await judged(project, edits, evidence=Evidence(seconds=1e-6))
    assert result.is_(Verdict.UNVERIFIED, Reservation.CHANGE_NOT_TESTED)
    assert "rates.json:1 (the time for evidence was over before it was tried)" in result.notes


@pytest.mark.heavy
async def test_a_place_that_only_another_part_of_the_check_notices_is_undone_with_the_whole_check(project: Any) -> None:
    """The check runs pytest among others, whose tests load the place and do not notice it."""
    script = 'set -e\n"$1" -m pytest -q\n"$1" -c "import money; assert money.LIMIT == 7"\n'
    project.has({**BASE, "check.sh": script})
    text = MONEY + "\n\nLIMIT = 7\n"
    check = Check(name="all", argv=["sh", "check.sh", "{python}"])
    result = await project.judge({"money.py": text}, recipe="implement", checks=(check,))
    assert evidence(result) == {("money.py", "LIMIT"): "noticed"}
