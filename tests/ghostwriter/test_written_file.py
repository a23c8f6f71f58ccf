import ast

import pytest

from understudy.ghostwriter.choose_examples import Found, choose, merged
from understudy.ghostwriter.test_file import Style, double_quoted, write


def found(expression, text="1", *, kills=(0,), origin=2, cost=20, unit="f", setup=(), raises=None):
    outcome = ("raises", raises, "") if raises else ("value", "", text)
    return Found(unit, list(setup), expression, outcome, origin, cost, set(kills))


def test_each_example_kills_something_that_the_others_do_not():
    first = found("f(1)", kills={1, 2, 3})
    second = found("f(2)", kills={3, 4}, cost=50)
    useless = found("f(3)", kills={1, 4}, cost=90)
    documented = found("f(4)", kills={2}, origin=0)
    blind = found("f(5)", kills=(), origin=0)
    kept = choose(merged([useless, second, first, documented, blind, found("f(1)", kills={5})]))
    assert [one.expression for one in kept] == ["f(4)", "f(1)", "f(2)"]
    killed: set[int] = set()
    for one in kept:
        assert one.kills - killed
        killed |= one.kills


def test_the_number_of_examples_is_bounded():
    assert len(choose([found(f"f({number})", kills={number}) for number in range(99)], most=7)) == 7


@pytest.mark.parametrize(
    ("example", "line"),
    [
        (found("f('a')", "'b'"), 'assert f("a") == "b"'),
        (found("f(1)", "True"), "assert f(1) is True"),
        (found("f(1)", "None"), "assert f(1) is None"),
        (found("f(1) < f(2)", "False"), "assert not f(1) < f(2)"),
        (found("1 in f(2)", "False"), "assert 1 not in f(2)"),
        (found("f('say \"a\"')", "'it'"), 'assert f(\'say "a"\') == "it"'),
    ],
)
def test_assertions(example, line):
    text, _ = write("m", frozenset({"f"}), [example], Style())
    assert f"    {line}\n" in text


def test_a_file_in_the_style_of_the_project():
    examples = [
        found("f('a')", "'b'"),
        found("f(datetime.date(2024, 2, 29))", raises="ValueError"),
        found("Cart(1).total()", "1", unit="Cart"),
        found("cart.items", "[2]", unit="Cart", setup=["cart = Cart(1)", "cart.add(2)"]),
        found("f('" + "x" * 90 + "')", "1"),
    ]
    text, tests = write("shop.m", frozenset({"f", "Cart"}), examples, Style(70, double_quotes=False))
    ast.parse(text)
    assert max(map(len, text.splitlines())) <= 70
    assert [test.name for test in tests] == ["test_f", "test_cart_total", "test_cart_items"]
    assert (
        "import datetime\n\nimport pytest\n\nfrom shop.m import Cart, f\n\n\ndef test_f():\n    assert f('a') == 'b'\n\n"
        in text
    )
    assert "    cart = Cart(1)\n    cart.add(2)\n    assert cart.items == [2]\n" in text


def test_quotes():
    assert double_quoted("f('a', 'b\"c', b'd', '\\n')") == 'f("a", \'b"c\', b"d", "\\n")'
