"""Read the examples that a module already has: docstrings, README blocks, and calls in the project's tests."""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MOST_EXAMPLES = 200
MOST_CALLS = 300
MOST_SETUP = 4
MOST_TEST_FILES = 200
MAX_BYTES = 400_000


@dataclass
class Documented:
    """One example: statements, an expression, and the outcome that the documentation shows."""

    setup: list[str]
    expression: str
    want: str | None = None
    raises: str | None = None


@dataclass
class _Step:
    text: str
    bound: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)


def documented_examples(root: Path, source: str, module: str) -> list[Documented]:
    """Return the examples of a module's docstrings and of the README."""
    found: list[Documented] = []
    for text in _docstrings(source):
        found += _examples(text, module, {})
    aliases: dict[str, str] = {}
    for text in _readme_blocks(root, module):  # one block imports, the others use it
        found += _examples(text, module, aliases)
    unique = {(tuple(one.setup), one.expression): one for one in reversed(found)}
    return list(unique.values())[::-1][:MOST_EXAMPLES]


def _docstrings(source: str) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text and ">>>" in text:
                yield text


def _readme_blocks(root: Path, module: str) -> Iterator[str]:
    """Yield the Python blocks of the README when one of them imports the module or a package that contains it."""
    names = "|".join(re.escape(".".join(module.split(".")[:count])) for count in range(1, module.count(".") + 2))
    for page in sorted(root.glob("README*"))[:2]:
        if page.is_symlink() or not page.is_file() or page.stat().st_size > MAX_BYTES:
            continue
        text = page.read_text("utf-8", "replace")
        if not re.search(rf"^\W*(?:>>>\s*)?(?:from|import)\s+(?:{names})\b", text, re.MULTILINE):
            continue
        yield from re.findall(r"^```(?:python|py|pycon|python3)\s*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        if page.suffix != ".md" or "```" not in text:
            yield from (block for block in re.split(r"\n(?=\S)", text) if ">>>" in block)


def _examples(text: str, module: str, aliases: dict[str, str]) -> Iterator[Documented]:
    if ">>>" in text:
        try:
            parsed = doctest.DocTestParser().get_examples(text)
        except ValueError:
            return
        pieces = [(one.source.strip(), one.want.strip(), one.exc_msg) for one in parsed]
    else:
        try:
            nodes = ast.parse(text).body
        except (SyntaxError, ValueError):
            return
        lines = text.splitlines()
        pieces = [("\n".join(lines[node.lineno - 1 : node.end_lineno]), "", None) for node in nodes]
    steps: list[_Step] = []
    for source, want, error in pieces:
        step = _step(source, module, aliases)
        if step is None:
            continue
        asserted = _asserted(step.text)
        if asserted is not None or want or error:
            expression, said = asserted or (_printed(step.text), want)
            setup = _setup(expression, steps)
            private = re.search(r"(?<![\w.])_\w|\._[a-z]", "\n".join([expression, *(setup or [])]))
            if setup is not None and expression and not private:
                raises = re.split(r"[:\s]", error.strip())[0].rpartition(".")[2] if error else None
                yield Documented(setup, expression, None if error else said or None, raises)
        if asserted is None:
            steps.append(step)


def _step(source: str, module: str, aliases: dict[str, str]) -> _Step | None:
    """Return a statement without the module's own name in it; None for imports and what cannot be parsed."""
    try:
        nodes = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if module == alias.name or module.startswith(alias.name + "."):
                    aliases[alias.asname or alias.name] = ""
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if f"{node.module}.{alias.name}" == module:
                    aliases[alias.asname or alias.name] = ""
    if any(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes) or not nodes:
        return None
    for name in sorted(aliases, key=len, reverse=True):
        source = re.sub(rf"(?<![\w.'\"]){re.escape(name)}\.(?=\w)", "", source)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {one.id for one in names if isinstance(one.ctx, ast.Store)}
    bound |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return _Step(source, bound, {one.id for one in names})


def _asserted(text: str) -> tuple[str, str | None] | None:
    """Return the expression of ``assert a == b`` or ``self.assertEqual(a, b)`` with the text of the value."""
    node = ast.parse(text).body[0]
    match node:
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
            return _text(left), _literal(right)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="assertEqual" | "assertEquals"), args=[left, right, *_])):
            return _text(left), _literal(right)
    return None


def _literal(node: ast.expr) -> str | None:
    try:
        return repr(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _text(node: ast.AST) -> str:
    """Return the text of an expression, without ``u`` before strings."""
    for item in ast.walk(node):
        if isinstance(item, ast.Constant):
            item.kind = None
    return ast.unparse(node)


def _printed(text: str) -> str:
    """Return the expression of a statement; for ``print(x)`` it is ``x``; empty when there is none."""
    nodes = ast.parse(text).body
    if len(nodes) != 1 or not isinstance(nodes[0], ast.Expr):
        return ""
    value = nodes[0].value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print":
        return _text(value.args[0]) if len(value.args) == 1 and not value.keywords else ""
    return _text(value)


def _setup(expression: str, steps: list[_Step]) -> list[str] | None:
    """Return the earlier statements that bind or use the variables of ``expression``; None when there are too many."""
    if not expression:
        return None
    variables = {name for step in steps for name in step.bound}
    needed = {node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name)} & variables
    chosen: list[str] = []
    for step in reversed(steps):
        if step.bound & needed or (step.used & needed and not step.bound and _may_change(step.text)):
            chosen.insert(0, step.text)
            needed |= step.used & variables
            if step.bound and step.bound <= needed and not step.used & step.bound - step.bound:
                needed -= step.bound - (step.used - step.bound)
    return chosen if len(chosen) <= MOST_SETUP else None


def _may_change(text: str) -> bool:
    """Return whether statements may change an object: an expression that only shows one is not a part of the setup."""
    return any(not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call) for node in ast.parse(text).body)


def calls_in_tests(root: Path, source: str, module: str) -> list[str]:
    """Return the calls of public names in the project's tests, with the values of ``parametrize`` filled in."""
    try:
        nodes = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
        return []
    public = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef) and not n.name.startswith("_")}
    top = module.split(".", maxsplit=1)[0]
    found: dict[str, None] = {}
    files = [*root.rglob("test_*.py"), *root.rglob("*_test.py"), *root.rglob("tests.py")]
    stem = module.rpartition(".")[2]
    files.sort(key=lambda path: (stem not in path.name, len(path.parts), path))
    for path in files[:MOST_TEST_FILES]:
        if {"site-packages", "node_modules"} & set(path.parts) or path.is_symlink() or path.stat().st_size > MAX_BYTES:
            continue
        text = path.read_text("utf-8", "replace")
        if top not in text or len(found) >= MOST_CALLS:
            continue
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        for call in _calls(tree, public):
            found[call] = None
    return list(found)[:MOST_CALLS]


def _calls(tree: ast.Module, public: set[str]) -> Iterator[str]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            rows = list(_parameters(function))
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in public:
                    yield _unqualified(node)
                    for row in rows[:40]:
                        yield _unqualified(_Filled(row).visit(ast.parse(ast.unparse(node), mode="eval").body))


class _Filled(ast.NodeTransformer):
    """Replaces names by expressions."""

    def __init__(self, values: dict[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.values.get(node.id, node)


def _unqualified(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        node = ast.Call(ast.Name(node.func.attr, ast.Load()), node.args, node.keywords)
    return _text(node)


def _parameters(function: ast.FunctionDef) -> Iterator[dict[str, ast.expr]]:
    """Yield the rows of ``pytest.mark.parametrize``."""
    for one in function.decorator_list:
        if isinstance(one, ast.Call) and getattr(one.func, "attr", "") == "parametrize" and len(one.args) >= 2:
            names = one.args[0]
            if isinstance(names, ast.Constant) and isinstance(names.value, str):
                columns = [name.strip() for name in names.value.split(",")]
            elif isinstance(names, ast.List | ast.Tuple):
                columns = [str(getattr(item, "value", "")) for item in names.elts]
            else:
                continue
            for row in one.args[1].elts if isinstance(one.args[1], ast.List | ast.Tuple) else []:
                values = row.elts if len(columns) > 1 and isinstance(row, ast.Tuple | ast.List) else [row]
                if len(values) == len(columns):
                    yield dict(zip(columns, values, strict=True))
