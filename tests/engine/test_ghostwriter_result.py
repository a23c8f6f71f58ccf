"""Judge what the default delegator writes: every test of its result notices something."""

import project_python
import pytest

BASKET = '''
"""Baskets and their labels."""

import enum
from collections import OrderedDict

LIMITS = {"bread": 4, "milk": 6, "eggs": 12, "salt": 1, "tea": 3, "rice": 2, "oil": 5, "jam": 7, "beans": 9}
PRICES = {"bread": 310, "milk": 120, "eggs": 45, "salt": 90, "tea": 280, "rice": 210, "oil": 640, "jam": 330}


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


class Basket:
    """Goods and how they are packed."""

    def __init__(self, width: int = 40, height: int = 25, strict: bool = True, label: str = "basket", sep: str = ", "):
        self.width = width
        self.height = height
        self.strict = strict
        self.label = label
        self.sep = sep
        self.goods: list = []

    def put(self, name: str, count: int = 1) -> None:
        if self.strict and count > LIMITS.get(name, 10):
            raise ValueError(f"too many: {name}")
        self.goods += [name] * count

    def text(self) -> str:
        return f"{self.label}: {self.sep.join(sorted(self.goods))}"

    def area(self) -> int:
        return self.width * self.height


def encode(text: str) -> str:
    return f"{sum(map(ord, text)) % 97}:{text[::-1]}"


def decode(text: str) -> str:
    check, _, body = text.partition(":")
    if check != str(sum(map(ord, body)) % 97):
        raise ValueError("checksum")
    return body[::-1]


def size(width: int, height: int) -> Size:
    return Size.LARGE if width * height > 1000 else Size.SMALL


def counted(names: list[str]) -> OrderedDict:
    found = OrderedDict()
    for name in names:
        found[name] = found.get(name, 0) + 1
    return found


def price(name: str, count: int = 1) -> int:
    """Return the price.

    >>> price("milk", 6)
    648
    """
    total = PRICES[name] * count
    if count >= 6:
        total -= total // 10
    return total
'''


@pytest.mark.heavy
def test_every_test_of_the_ghostwriter_notices_something(project, tmp_path):
    project_python.main(tmp_path / "own")  # with Hypothesis
    project.settings(f'[environment]\npython = "{tmp_path}/own/bin/python"\n')
    project.write("basket.py", BASKET)
    project.commit()
    done = project.run("tests", "basket.py", delegator="ghostwriter")
    written = project.call("delegations/file", id=done.id, path="tests/test_basket.py", side="result").text
    assert (done.verdict, done.reservations) == ("verified", []), written
    [check] = done.checks
    assert check.mutation.idle == [], written
    assert check.mutation.viable < check.mutation.executed, "a sample: the test of one default may not be in it"
    assert "def test_basket_attributes():\n    assert Basket()." in written
    assert "def test_basket_put():\n" in written
    assert "== Size.LARGE" in written
    assert "assert counted([" in written


@pytest.mark.heavy
def test_the_tests_of_a_module_directly_in_src_are_verified(project):
    project.write("src/words.py", "def initials(text: str) -> str:\n    return ''.join(w[0] for w in text.split())\n")
    project.commit()
    done = project.run("tests", "src/words.py", delegator="ghostwriter")
    written = project.call("delegations/file", id=done.id, path="tests/test_words.py", side="result").text
    assert (done.verdict, done.reservations) == ("verified", []), (done.checks, written)
