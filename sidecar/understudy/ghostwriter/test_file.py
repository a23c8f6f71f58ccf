"""Write the tests of one module as text, in the style of the project."""

from __future__ import annotations

import ast
import builtins
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .choose_examples import DOCUMENTED, Found, Property
from .documented import is_import

HELPERS = ("datetime", "decimal", "fractions")
INDENT = 4
MOST_BROKEN = 14
"""The most lines that an example may have because a line is too long."""


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


def write(
    module: str,
    module_names: frozenset[str],
    examples: list[Found],
    style: Style,
    properties: Iterable[Property] = (),
    *,
    imports: Mapping[str, str] | None = None,
    sources: str = "",
) -> tuple[str, list[TestFunction]]:
    """Return the file and its tests; examples that are too long are left out.

    ``imports`` are the statements that import the other names which examples of the documentation may use. ``sources``
    is the folder to put on the import path, relative to the file's own folder; empty: nothing is needed.
    """
    bodies, extra = _without_imports(examples, module_names, imports or {})
    fitting = [(example, lines) for example, body in bodies if (lines := _lines(body, style)) is not None]
    tests = [
        *_tests(fitting, module_names),
        *(test for tested in properties if (test := _property_test(tested, style))),
    ]
    texts = [line for test in tests for line in test.lines]
    used = _names("\n".join(texts))
    errors = {(example.outcome[2], example.outcome[1]) for example, _ in fitting if example.outcome[0] == "raises"}
    imported = {name for name in used & module_names if name not in HELPERS or name in module_names}
    helpers = [f"import {name}" for name in HELPERS if name in used and name not in module_names and name not in extra]
    elsewhere = {f"from {place} import {name}" for place, name in errors if place not in {"", "."}}
    standard, others, project = _sorted_imports({line for name, line in extra.items() if name in used}, module)
    tools = [
        *(["import pytest"] if any("pytest.raises" in text for text in texts) else []),
        *(["from hypothesis import given, settings"] if any(test.decorators for test in tests) else []),
        *(["from hypothesis import strategies as st"] if any(test.decorators for test in tests) else []),
    ]
    paths = ["import sys", "from pathlib import Path"] if sources else []
    late = [*sorted(elsewhere | set(project)), *([_import_line(module, imported, style)] if imported else [])]
    if sources:
        late = [line.replace("\n", "  # noqa: E402\n", 1) if "\n" in line else f"{line}  # noqa: E402" for line in late]
    blocks = [
        _header(module, style),
        "\n".join(sorted({*standard, *helpers, *paths}, key=_import_order)),
        "\n".join([*sorted({*tools, *others}, key=_import_order)]),
        _path_line(sources, style),
        "\n".join(late),
    ]
    functions = [
        "".join(f"{line}\n" for line in test.decorators)
        + f"def {test.name}({test.arguments}):\n"
        + "\n".join("    " + line if line else "" for line in test.lines)
        for test in tests
    ]
    return "\n\n".join(filter(None, blocks)) + "\n\n\n" + "\n\n\n".join(functions) + "\n", tests


def _without_imports(
    examples: list[Found], module_names: frozenset[str], imports: Mapping[str, str]
) -> tuple[list[tuple[Found, Found]], dict[str, str]]:
    """Return each example with the part of it that a test contains, and the imports by name that the file needs.

    An import within an example moves to the head of the file, unless another example means something else by its name.
    Examples of the documentation see the names that its module imports; where an invented example means a helper module
    by such a name, it is left out.
    """
    head: dict[str, str] = {}
    bodies: list[tuple[Found, Found]] = []
    for example in sorted(examples, key=lambda example: example.origin != DOCUMENTED):
        kept = []
        for statement in example.setup:
            bound = _imported_by(statement) if is_import(statement) else {}
            if bound and all(name not in module_names and head.get(name, line) == line for name, line in bound.items()):
                head.update(bound)
            else:
                kept.append(statement)
        body = replace(example, setup=kept)
        free = _free_names(body) - module_names
        if example.origin == DOCUMENTED:
            for name in free & imports.keys():
                head.setdefault(name, imports[name])
        elif any(head.get(name, f"import {name}") != f"import {name}" for name in free & set(HELPERS)):
            continue
        bodies.append((example, body))
    order = {id(example): number for number, example in enumerate(examples)}
    return sorted(bodies, key=lambda pair: order[id(pair[0])]), head


def _imported_by(statement: str) -> dict[str, str]:
    """Return each name that an import binds, with the import of this name alone."""
    imports = {}
    for node in ast.parse(statement).body:
        # A relative import within an example has no meaning in the test file.
        if not isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.ImportFrom) and node.level):
            continue
        for alias in node.names:
            single = ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], 0)
            imports[alias.asname or alias.name.split(".")[0]] = ast.unparse(single)
    return imports


def _free_names(example: Found) -> set[str]:
    """Return the names that an example uses and does not bind."""
    value = example.outcome[2] if example.outcome[0] == "value" else example.outcome[1]
    nodes = [*ast.walk(ast.parse("\n".join([*example.setup, example.expression]))), *ast.walk(ast.parse(value))]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    return {name.id for name in names} - {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _sorted_imports(lines: Iterable[str], module: str) -> tuple[list[str], list[str], list[str]]:
    """Return imports of the standard library, of other packages, and of the module's own package; joined by module."""
    joined: dict[tuple[str, bool], list[str]] = {}
    for line in lines:
        node = ast.parse(line).body[0]
        if isinstance(node, ast.Import | ast.ImportFrom):
            place = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            names = [ast.unparse(alias) for alias in node.names]
            for name in names:
                joined.setdefault((place or name, bool(place)), []).append(name)
    groups: tuple[list[str], list[str], list[str]] = ([], [], [])
    for (place, is_from), names in joined.items():
        top = place.split(" ")[0].split(".")[0]
        group = 0 if top in sys.stdlib_module_names else 2 if top == module.partition(".")[0] else 1
        groups[group].append(f"from {place} import {', '.join(sorted(names))}" if is_from else f"import {place}")
    return groups


def _import_order(line: str) -> tuple[bool, str]:
    return not line.startswith("import "), line.lower()


def _path_line(sources: str, style: Style) -> str:
    """Return the statement that puts a folder on the import path, for modules that are not installed."""
    if not sources:
        return ""
    up = sources.split("/").count("..")
    rest = "".join(f" / {part!r}" for part in sources.split("/") if part not in {"..", "."})
    line = f"sys.path.insert(0, str(Path(__file__).parents[{up}]{rest}))"
    return double_quoted(line) if style.double_quotes else line


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
    """Return the lines of an example, or None when it is too long."""
    kind, name, text = example.outcome
    if kind == "raises":
        lines = [f"with pytest.raises({name}):", f"    {example.expression}"]
    else:
        lines = [_assertion(example.expression, text)]
    lines = [line for statement in [*example.setup, *lines] for line in statement.split("\n")]
    lines = [double_quoted(line) if style.double_quotes else line for line in lines]
    broken = [broken_line(line, style) for line in lines]
    whole = [line for part in broken for line in part]
    fits = all(broken) and len(whole) <= len(lines) + MOST_BROKEN
    return whole if fits and all(len(line) + INDENT <= style.width for line in whole) else None


def broken_line(line: str, style: Style) -> list[str]:
    """Return the lines of a statement, broken at brackets when it is too long for one; none when that is not enough."""
    width = style.width - INDENT
    if len(line) <= width:
        return [line]
    text = line.strip()
    indent = line[: len(line) - len(text)]
    try:
        statement = ast.parse(text).body[0]
    except SyntaxError:  # such as the head of a block
        return []
    whole = getattr(statement, "test", None) or getattr(statement, "value", None)
    sides = [whole.comparators[-1], whole.left] if isinstance(whole, ast.Compare) else [whole]
    for node in filter(None, sides):
        pieces = _pieces(text, node, width - len(indent) - INDENT, style)
        start, end = _offset(text, node.col_offset), _offset(text, node.end_col_offset or 0)
        if pieces:
            head, items, tail = pieces
            lines = [text[:start] + head, *(" " * INDENT + item for item in items), tail + text[end:]]
            if all(len(indent + part) <= width for part in lines):
                return [indent + part for part in lines]
    return []


def _pieces(text: str, node: ast.expr, width: int, style: Style) -> tuple[str, list[str], str] | None:
    """Return an expression as an opening bracket, lines within the bracket, and the closing one."""
    segment = ast.get_source_segment(text, node) or ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return "(", list(_string_lines(node.value, width, style)), ")"
    if isinstance(node, ast.List | ast.Tuple | ast.Set) and node.elts:
        items = [ast.get_source_segment(text, part) or "" for part in node.elts]
        return segment[0], [item + "," for item in items], segment[-1]
    if isinstance(node, ast.Dict) and None not in node.keys:
        pairs = zip(node.keys, node.values, strict=True)
        items = [f"{ast.get_source_segment(text, k)}: {ast.get_source_segment(text, v)}," for k, v in pairs if k]
        return "{", items, "}"
    if isinstance(node, ast.Call) and (node.args or node.keywords):
        inner: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
        head = text[_offset(text, node.col_offset) : _offset(text, inner[0].col_offset)]
        return head, [f"{ast.get_source_segment(text, part)}," for part in inner], ")"
    return None


def _string_lines(value: str, width: int, style: Style) -> Iterable[str]:
    """Yield literals that make up a string, one for each of its lines, or more where a line is too long."""
    for line in value.splitlines(keepends=True):
        left = line
        while left:
            size = len(left)
            while size > 1 and len(repr(left[:size])) > width:
                size -= 1
            piece, left = repr(left[:size]), left[size:]
            yield double_quoted(piece) if style.double_quotes else piece


def _offset(text: str, column: int) -> int:
    """Return the index of a column of the syntax tree, which counts bytes."""
    return len(text.encode()[:column].decode("utf-8", "ignore"))


def _assertion(expression: str, text: str) -> str:
    node = ast.parse(expression, mode="eval").body
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):  # `not x is True` says nothing about x
        operand = ast.unparse(node.operand) if isinstance(node.operand, ast.Call | ast.Name | ast.Attribute) else ""
        return f"assert {expression}" if text == "True" else f"assert {operand or f'({ast.unparse(node.operand)})'}"
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
        match = re.fullmatch(r"(b?)'((?:[^'\"\\]|\\[^'\"])*)'", token.string)
        if token.type == tokenize.STRING and match and token.start[0] == token.end[0] == 1:
            text = text[: token.start[1]] + f'{match[1]}"{match[2]}"' + text[token.end[1] :]
    return " " * indent + text


def _tests(fitting: list[tuple[Found, list[str]]], module_names: frozenset[str]) -> list[TestFunction]:
    groups: dict[str, list[tuple[Found, list[str]]]] = {}
    for example, lines in fitting:
        groups.setdefault(_subject(example, module_names), []).append((example, lines))
    tests = []
    taken: set[str] = set()
    for subject, members in groups.items():
        name = f"test_{subject}"
        while name in taken:
            name += "_"
        taken.add(name)
        members.sort(key=lambda item: (bool(item[0].setup), item[0].outcome[0] == "raises", len(item[0].expression)))
        body: list[str] = []
        for example, lines in members:
            if body and (example.setup or example.outcome[0] == "raises"):
                body.append("")
            body += lines
        tests.append(TestFunction(name, body, [example for example, _ in members]))
    return tests


def _property_test(tested: Property, style: Style) -> TestFunction | None:
    """Return a Hypothesis test, or None when a line is too long."""
    decorator = f"@given({', '.join(strategy for _, strategy in tested.arguments)})"
    names = ", ".join(name for name, _ in tested.arguments)
    line = f"assert {tested.assertion}"
    if max(len(decorator), len(line) + 4, len(tested.name) + len(names) + 14) > style.width:
        return None
    # No deadline: a test must not fail because the machine is busy.
    return TestFunction(f"test_{tested.name}", [line], [], ["@settings(deadline=None)", decorator], names)


def _subject(example: Found, module_names: frozenset[str]) -> str:
    """Return what an example is about, as a part of a name: the function, or the class and its method."""
    node: ast.expr = ast.parse(example.expression, mode="eval").body
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"list", "str", "len", "bool"}
        and node.args
    ):
        node = node.args[0]
    unit = example.unit or next((name for name in _ordered_names(example) if name in module_names), "examples")
    words = [unit]
    method = _method(node, example)
    if method and method != unit:
        words.append(method)
    elif isinstance(node, ast.Compare | ast.BinOp) and unit[:1].isupper():
        words.append(
            {"Eq": "equality", "Lt": "order", "In": "contains"}.get(
                type(getattr(node, "ops", [node])[0]).__name__, "operators"
            )
        )
    return "_".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower().strip("_") for word in words)


def _method(node: ast.expr, example: Found) -> str:
    """Return the name of the method that an example is about, or ``attributes``; empty if it is about neither."""
    if not isinstance(node, ast.Call):  # the state of an object, after its last call
        last = ast.parse(example.setup[-1]).body[-1] if example.setup else None
        shown = node.value if isinstance(node, ast.Attribute) else node
        node = last.value if isinstance(last, ast.Expr) else shown
        if isinstance(shown, ast.Call) and isinstance(shown.func, ast.Name) and node is shown:
            return "attributes"
    function = node.func if isinstance(node, ast.Call) else node
    return function.attr if isinstance(function, ast.Attribute) else ""


def _ordered_names(example: Found) -> Iterable[str]:
    for text in (example.expression, *example.setup):
        names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
        yield from (node.id for node in sorted(names, key=lambda node: (node.lineno, node.col_offset)))


def _names(text: str) -> set[str]:
    names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    return {name for name in names if name == "datetime" or not hasattr(builtins, name) or name in names}
