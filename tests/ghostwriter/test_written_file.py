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
        (found("not f(1)", "True"), "assert not f(1)"),
        (found("not f(1)", "False"), "assert f(1)"),
        (found("not f(1) < f(2)", "False"), "assert (f(1) < f(2))"),
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
    assert [test.name for test in tests] == ["test_f", "test_cart_total", "test_cart_add"]
    assert (
        "import datetime\n\nimport pytest\n\nfrom shop.m import Cart, f\n\n\ndef test_f():\n    assert f('a') == 'b'\n\n"
        in text
    )
    assert "    cart = Cart(1)\n    cart.add(2)\n    assert cart.items == [2]\n" in text


def test_quotes():
    assert double_quoted("f('a', 'b\"c', b'd', '\\n')") == 'f("a", \'b"c\', b"d", "\\n")'


@pytest.mark.parametrize(
    ("example", "lines"),
    [
        pytest.param(
            found("table([1, 2])", repr("+---+---+\n| a | b |\n+---+---+")),
            [
                "assert table([1, 2]) == (",
                '    "+---+---+\\n"',
                '    "| a | b |\\n"',
                '    "+---+---+"',
                ")",
            ],
            id="a text, at its own lines",
        ),
        pytest.param(
            found("f(1)", "['first value', 'second value', {'third': 3}]"),
            ["assert f(1) == [", '    "first value",', '    "second value",', '    {"third": 3},', "]"],
            id="a list",
        ),
        pytest.param(
            found("f('É' * 3)", "{'first value': 1, 'É': (2, 3), 'third value': 4}"),
            ['assert f("É" * 3) == {', '    "first value": 1,', '    "É": (2, 3),', '    "third value": 4,', "}"],
            id="a dictionary",
        ),
        pytest.param(
            found("convert('first value', 'second value', strict=True)", "1"),
            ["assert convert(", '    "first value",', '    "second value",', "    strict=True,", ") == 1"],
            id="a call",
        ),
        pytest.param(
            found("convert('first value', 'second value', strict=True)", raises="ValueError"),
            [
                "with pytest.raises(ValueError):",
                "    convert(",
                '        "first value",',
                '        "second value",',
                "        strict=True,",
                "    )",
            ],
            id="in a block",
        ),
    ],
)
def test_long_lines_are_broken(example, lines):
    own = frozenset({"f", "table", "convert"})
    text, _ = write("m", own, [example], Style(40))
    body = text.partition("():\n")[2].splitlines()
    assert [line.removeprefix("    ") for line in body] == lines
    assert max(map(len, body)) <= 40
    whole, _ = write("m", own, [example], Style(200))
    assert ast.dump(ast.parse(text).body[-1]) == ast.dump(ast.parse(whole).body[-1])


def test_what_stays_too_long_is_left_out():
    one = found("f('" + "x" * 90 + "')", "1")
    many = found("f(1)", repr(list(range(1000, 1040))))
    assert write("m", frozenset({"f"}), [one, many], Style(70))[1] == []


@pytest.mark.parametrize(
    ("example", "name"),
    [
        (found("Cart(1).size"), "test_cart_attributes"),
        (found("str(Cart(1))"), "test_cart"),
        (found("len(Cart(1).emptied())"), "test_cart_emptied"),
        (found("Cart(1).emptied().size"), "test_cart_emptied"),
        (found("Cart.of(1).size"), "test_cart_of"),
        (found("Cart(1) == Cart(1)", "True"), "test_cart_equality"),
        (found("cart.size", setup=["cart = Cart(1)", "cart.add(2)"]), "test_cart_add"),
        (found("list(cart)", setup=["cart = Cart(1)", "cart.add(2)"]), "test_cart_add"),
        (found("cart.find(2)", setup=["cart = Cart(1)", "cart.add(2)"]), "test_cart_find"),
        (found("cart[0]", setup=["cart = Cart(1)"]), "test_cart"),
    ],
)
def test_names(example, name):
    example.unit = "Cart"
    assert [test.name for test in write("shop", frozenset({"Cart"}), [example], Style())[1]] == [name]
