"""Write the tests of one module as text, in the style of the project."""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, field

from .choose_examples import Found, Property

HELPERS = ("datetime", "decimal", "fractions")


@dataclass
class Style:
    """How the project writes its tests."""

    width: int = 88
    double_quotes: bool = True


@dataclass
class TestFunction:
    """One test: its name, its lines without indentation of the body, the examples that it holds."""

    __test__ = False

    name: str
    lines: list[str]
    examples: list[Found]
    decorators: list[str] = field(default_factory=list)
    arguments: str = ""
    kills: set[int] = field(default_factory=set)


def write(
    module: str, own: frozenset[str], examples: list[Found], style: Style, properties: Iterable[Property] = ()
) -> tuple[str, list[TestFunction]]:
    """Return the file and its tests; examples that do not fit on a line are left out."""
    fitting = [(one, lines) for one in examples if (lines := _lines(one, style)) is not None]
    tests = [*_tests(fitting, own), *(test for one in properties if (test := _property_test(one, style)))]
    texts = [line for test in tests for line in test.lines]
    used = _names("\n".join(texts))
    errors = {(one.outcome[2], one.outcome[1]) for one, _ in fitting if one.outcome[0] == "raises"}
    imported = {name for name in used & own if name not in HELPERS or name in own}
    standard = [f"import {name}" for name in HELPERS if name in used and name not in own]
    elsewhere = sorted({f"from {place} import {name}" for place, name in errors if place not in {"", "."}})
    blocks = [
        _header(module, style),
        "\n".join(standard),
        "\n".join(
            [
                *(["import pytest"] if any("pytest.raises" in text for text in texts) else []),
                *(["from hypothesis import given, settings"] if any(test.decorators for test in tests) else []),
                *(["from hypothesis import strategies as st"] if any(test.decorators for test in tests) else []),
            ]
        ),
        "\n".join([*elsewhere, _import_line(module, imported, style)]),
    ]
    bodies = [
        "".join(f"{line}\n" for line in test.decorators)
        + f"def {test.name}({test.arguments}):\n"
        + "\n".join("    " + line if line else "" for line in test.lines)
        for test in tests
    ]
    return "\n\n".join(filter(None, blocks)) + "\n\n\n" + "\n\n\n".join(bodies) + "\n", tests


def _header(module: str, style: Style) -> str:
    first = f'"""Record what ``{module}`` does at the commit that adds this file.'
    if len(first) > style.width:
        first = '"""Record what this module does at the commit that adds this file.'
    return f"{first}\n\nA failing line means that the behaviour changed, on purpose or not.\n" + '"""'


def _import_line(module: str, names: set[str], style: Style) -> str:
    ordered = sorted(names, key=lambda name: (not (name.isupper() and len(name) > 1), not name[0].isupper(), name))
    line = f"from {module} import {', '.join(ordered)}"
    return (
        line
        if len(line) <= style.width
        else f"from {module} import (\n" + "".join(f"    {n},\n" for n in ordered) + ")"
    )


def _lines(example: Found, style: Style) -> list[str] | None:
    """Return the lines of an example, or None when one is too long."""
    kind, name, text = example.outcome
    if kind == "raises":
        lines = [f"with pytest.raises({name}):", f"    {example.expression}"]
    else:
        lines = [_assertion(example.expression, text)]
    lines = [line for statement in [*example.setup, *lines] for line in statement.split("\n")]
    lines = [double_quoted(line) if style.double_quotes else line for line in lines]
    return lines if all(len(line) + 4 <= style.width for line in lines) else None


def _assertion(expression: str, text: str) -> str:
    node = ast.parse(expression, mode="eval").body
    if isinstance(node, ast.Compare) and text in {"True", "False"}:
        if len(node.ops) == 1 and text == "False" and isinstance(node.ops[0], ast.In):
            return f"assert {ast.unparse(node.left)} not in {ast.unparse(node.comparators[0])}"
        return f"assert {expression}" if text == "True" else f"assert not {expression}"
    if isinstance(node, ast.Compare | ast.BoolOp | ast.Lambda | ast.IfExp):
        expression = f"({expression})"
    return f"assert {expression} {'is' if text in {'None', 'True', 'False'} else '=='} {text}"


def double_quoted(line: str) -> str:
    """Return the line with double quotes around strings that contain none."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(line.strip() + "\n").readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return line
    indent = len(line) - len(line.lstrip())
    text = line.strip()
    for token in reversed(tokens):
        found = re.fullmatch(r"(b?)'((?:[^'\"\\]|\\[^'\"])*)'", token.string)
        if token.type == tokenize.STRING and found and token.start[0] == token.end[0] == 1:
            text = text[: token.start[1]] + f'{found[1]}"{found[2]}"' + text[token.end[1] :]
    return " " * indent + text


def _tests(fitting: list[tuple[Found, list[str]]], own: frozenset[str]) -> list[TestFunction]:
    groups: dict[str, list[tuple[Found, list[str]]]] = {}
    for one, lines in fitting:
        groups.setdefault(_subject(one, own), []).append((one, lines))
    tests = []
    taken: set[str] = set()
    for subject, members in groups.items():
        name = f"test_{subject}"
        while name in taken:
            name += "_"
        taken.add(name)
        members.sort(key=lambda item: (bool(item[0].setup), item[0].outcome[0] == "raises", len(item[0].expression)))
        body: list[str] = []
        for one, lines in members:
            if body and (one.setup or len(lines) > 1):
                body.append("")
            body += lines
        kills = set().union(*(one.kills for one, _ in members))
        tests.append(TestFunction(name, body, [one for one, _ in members], kills=kills))
    return tests


def _property_test(one: Property, style: Style) -> TestFunction | None:
    """Return a Hypothesis test, or None when a line is too long."""
    given = f"@given({', '.join(strategy for _, strategy in one.arguments)})"
    names = ", ".join(name for name, _ in one.arguments)
    line = f"assert {one.assertion}"
    if max(len(given), len(line) + 4, len(one.name) + len(names) + 14) > style.width:
        return None
    # No deadline: a test must not fail because the machine is busy.
    return TestFunction(f"test_{one.name}", [line], [], ["@settings(deadline=None)", given], names, one.kills)


def _subject(example: Found, own: frozenset[str]) -> str:
    """Return what an example is about, as a part of a name: the function, or the class and its method."""
    node: ast.expr = ast.parse(example.expression, mode="eval").body
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"list", "str", "len", "bool"}
        and node.args
    ):
        node = node.args[0]
    function = node.func if isinstance(node, ast.Call) else node
    unit = example.unit or next((name for name in _ordered_names(example) if name in own), "examples")
    words = [unit]
    if isinstance(function, ast.Attribute) and function.attr != unit:
        words.append(function.attr)
    elif isinstance(node, ast.Compare | ast.BinOp) and unit[:1].isupper():
        words.append(
            {"Eq": "equality", "Lt": "order", "In": "contains"}.get(
                type(getattr(node, "ops", [node])[0]).__name__, "operators"
            )
        )
    return "_".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower().strip("_") for word in words)


def _ordered_names(example: Found) -> Iterable[str]:
    for text in (example.expression, *example.setup):
        names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
        yield from (node.id for node in sorted(names, key=lambda node: (node.lineno, node.col_offset)))


def _names(text: str) -> set[str]:
    names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    return {name for name in names if name == "datetime" or not hasattr(builtins, name) or name in names}
