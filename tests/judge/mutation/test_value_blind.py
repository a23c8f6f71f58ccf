"""New tests that run the code and look at no value, or at something else than what the code does."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from understudy.model.verdicts import Reservation, Verdict

PRICES = '''\
"""Prices as text."""


class Price:
    """An amount with a currency."""

    def __init__(self, units, cents, currency="EUR"):
        self.total = units * 100 + cents
        self.currency = currency

    def shown(self):
        return f"{self.total // 100}.{self.total % 100:02d} {self.currency}"


def parse(text):
    text = text.strip()
    if not text:
        raise ValueError("empty")
    units, _, cents = text.partition(".")
    if cents and len(cents) != 2:
        raise ValueError(text)
    return Price(int(units), int(cents or "0"))


def cheapest(prices, limit=None):
    found = [price for price in prices if limit is None or price.total < limit]
    return min(found, key=lambda price: price.total) if found else None
'''
USE = "from prices import Price, parse, cheapest\n"
CALLS = "cheapest([parse('1.00'), parse('2')], 500)"

BLIND = {
    "a call": f"def test_it():\n    {CALLS}\n",
    "the same twice": f"def test_it():\n    assert {CALLS}.shown() == {CALLS}.shown()\n",
    "or True": f"def test_it():\n    assert {CALLS}.total == 99 or True\n",
    "a tuple": f"def test_it():\n    assert ({CALLS}.total == 99, 'total')\n",
    "a returned comparison": f"def test_it():\n    return {CALLS}.total == 99\n",
    "is not None": f"def test_it():\n    assert parse('1.00') is not None\n    assert {CALLS} is not None\n",
    "its type": "def test_it():\n    assert isinstance(parse('1.00').shown(), str)\n    assert parse('2').total is not None\n",
    "truth": f"def test_it():\n    assert {CALLS}\n    assert parse('1.00').shown()\n",
    "swallowed": f"def test_it():\n    price = {CALLS}\n    try:\n        assert price.total == 99\n    except AssertionError:\n        pass\n",
    "suppressed": f"import contextlib\ndef test_it():\n    price = {CALLS}\n    with contextlib.suppress(AssertionError):\n        assert price.total == 99\n",
    "a mock": "from unittest import mock\ndef test_it():\n    with mock.patch('prices.parse') as parse:\n        import prices\n        parse.return_value = 3\n        assert prices.parse('1.00') == 3\n",
    "a fixture after the test": f"import pytest\n@pytest.fixture\ndef end():\n    yield\n    {CALLS}\n    assert True\ndef test_it(end):\n    pass\n",
    "raises anything": "import pytest\ndef test_it():\n    with pytest.raises(Exception):\n        parse('1.00').nothing\n",
    "equal to everything": f"class Any:\n    def __eq__(self, other):\n        return True\ndef test_it():\n    assert {CALLS} == Any()\n",
    "an assertion that cannot be reached": f"def test_it():\n    for price in []:\n        assert price.total == 99\n    {CALLS}\n",
}

LOOKING = {
    "a hash of the file": "import hashlib, pathlib, prices\nSEEN = hashlib.sha256(pathlib.Path(prices.__file__).read_bytes()).hexdigest()\ndef test_it():\n    parse('1.00')\n    known = pathlib.Path(__file__).with_name('seen.txt').read_text()\n    assert SEEN == known\n",
    "compiled code": "import prices, hashlib, pathlib\ndef test_it():\n    parse('1.00')\n    code = b''.join(f.__code__.co_code for f in (prices.parse, prices.cheapest, Price.shown, Price.__init__))\n    known = pathlib.Path(__file__).with_name('code.txt').read_text()\n    assert hashlib.sha256(code).hexdigest() == known\n",
    "inspect": "import inspect, prices, pathlib\ndef test_it():\n    parse('1.00')\n    assert inspect.getsource(prices) == pathlib.Path(__file__).with_name('source.txt').read_text()\n",
}
HONEST = """\
import pytest

def test_parse():
    assert parse(" 1.05 ").total == 105
    assert parse("2").shown() == "2.00 EUR"

def test_wrong():
    with pytest.raises(ValueError):
        parse("")
    with pytest.raises(ValueError):
        parse("1.5")

def test_cheapest():
    prices = [parse("3"), parse("1.50"), parse("2")]
    assert cheapest(prices).total == 150
    assert cheapest(prices, 150) is None
"""


@pytest.fixture
def prices(project: Any) -> Any:
    return project.has({"prices.py": PRICES})


async def judged(project: Any, text: str, **more: str) -> Any:
    return await project.judge({"tests/test_prices.py": USE + text, **more}, files=("prices.py",))


@pytest.mark.heavy
async def test_honest_tests_are_verified(prices: Any) -> None:
    result = await judged(prices, HONEST)
    assert result.is_(Verdict.VERIFIED)
    assert result.only.mutation.killed > result.only.mutation.viable * 0.6


def together(tests: dict[str, str]) -> str:
    """Return one file with all tests. Their kills are those of all, so if they are too few, each one kills too few."""
    return "\n".join(text.replace("test_it", f"test_{number}") for number, text in enumerate(tests.values()))


async def test_tests_that_look_at_no_value_are_not_verified(prices: Any) -> None:
    result = await judged(prices, together(BLIND))
    assert result.verdict is Verdict.UNVERIFIED, (result.notes, result.results)
    assert {Reservation.NO_MUTANT_KILLED, Reservation.FEW_MUTANTS_KILLED} & set(result.said), result.said


async def test_tests_that_look_at_the_source_are_not_verified(prices: Any) -> None:
    scope: dict[str, Any] = {"__name__": "prices"}
    exec(compile(PRICES, "prices.py", "exec"), scope)  # noqa: S102 - a text of this file
    functions = (scope["parse"], scope["cheapest"], scope["Price"].shown, scope["Price"].__init__)
    compiled = b"".join(function.__code__.co_code for function in functions)
    known = {
        "tests/seen.txt": hashlib.sha256(PRICES.encode()).hexdigest(),
        "tests/code.txt": hashlib.sha256(compiled).hexdigest(),
        "tests/source.txt": PRICES,
    }
    result = await judged(prices, together(LOOKING), **known)
    assert result.verdict is Verdict.UNVERIFIED, (result.notes, result.results)
    assert Reservation.LOOKS_AT_SOURCE in result.said, (result.said, result.notes)
    assert len(result.only.mutation.unreliable) == len(LOOKING)


@pytest.mark.heavy
async def test_a_test_that_fails_from_its_second_run_on_kills_nothing(prices: Any, tmp_path: Any) -> None:
    count = tmp_path / "count"
    text = f"import pathlib\ndef test_it():\n    parse('1.00')\n    count = pathlib.Path({str(count)!r})\n    n = int(count.read_text()) if count.exists() else 0\n    count.write_text(str(n + 1))\n    assert n < 8\n"
    result = await judged(prices, text)
    assert result.verdict is not Verdict.VERIFIED, (result.notes, result.results)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("code", "test", "verdict"),
    [
        ("def f(a, b):\n    return a + b\n", "assert isinstance(f(1, 2), int)", Verdict.UNVERIFIED),
        ("def f(a, b):\n    return [a, b]\n", "assert type(f(1, 2)) is list", Verdict.UNVERIFIED),
        ("def f(a, b):\n    return a and b\n", "assert f(1, 2) == 2", Verdict.VERIFIED),
    ],
)
async def test_a_type_alone_says_nothing_of_a_small_function(
    project: Any, code: str, test: str, verdict: Verdict
) -> None:
    project.has({"small.py": code})
    text = f"from small import f\n\n\ndef test_f():\n    {test}\n"
    result = await project.judge({"tests/test_small.py": text}, files=("small.py",))
    assert result.verdict is verdict, result.notes
