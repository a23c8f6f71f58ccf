"""Read what a module has: its examples in docstrings, README blocks and the project's tests, and what it defines."""

from __future__ import annotations

import ast
import doctest
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

MOST_EXAMPLES = 200
MOST_CALLS = 300
MOST_SETUP = 6
MOST_TEST_FILES = 200
MAX_BYTES = 400_000
SHOWN = 4
"""Most names in a message."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


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
    examples: list[Documented] = []
    inside = _Names(module, source)
    for node in module_imports(source):  # `import package as p` of the module itself is in its namespace
        inside.add_import(node)
    for text in _docstrings(source):
        examples += _examples(text, inside)
    outside = _Names(module, source)
    for text in _readme_blocks(root, module):  # one block imports, the others use it
        in_block = _examples(text, outside)
        examples += [example for example in in_block if not outside.own or _used_names(example) & outside.own]
    unique = {(tuple(example.setup), example.expression): example for example in reversed(examples)}
    return list(unique.values())[::-1][:MOST_EXAMPLES]


def _used_names(example: Documented) -> set[str]:
    tree = ast.parse("\n".join([*example.setup, example.expression]))
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


class _Names:
    """The names by which examples call the module under test; a test calls its functions by their own names."""

    def __init__(self, module: str, source: str) -> None:
        self.module = module
        self.own = defined_names(source)
        self.aliases: dict[str, bool] = {}
        """Name of the module, or of a package that contains it → whether it is the module."""

    def add_import(self, node: ast.Import | ast.ImportFrom) -> None:
        """Remember the names that an import binds to the module, or to a package that contains it."""
        for alias in node.names:
            name = alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
            if self.module == name or (isinstance(node, ast.Import) and self.module.startswith(name + ".")):
                bound = alias.asname or (name if isinstance(node, ast.Import) else alias.name)
                self.aliases[bound] = self.module == name

    def without_aliases(self, text: str) -> str:
        """Return a statement with the module's functions under their own names."""
        for alias in sorted(self.aliases, key=len, reverse=True):

            def shortened(match: re.Match[str], *, whole: bool = self.aliases[alias]) -> str:
                return match[1] if whole or match[1] in self.own else match[0]

            text = re.sub(rf"(?<![\w.'\"]){re.escape(alias)}\.(\w+)", shortened, text)
        return text

    def needed(self, node: ast.Import | ast.ImportFrom) -> ast.stmt | None:
        """Return what is left of an import when the module's own names are there already."""
        if isinstance(node, ast.Import):
            return node
        above = node.level == 0 and node.module and f"{self.module}.".startswith(f"{node.module}.")
        left = [
            alias
            for alias in node.names
            if alias.name != "*" and not (above and not alias.asname and alias.name in self.own)
        ]
        return ast.ImportFrom(node.module, left, node.level) if left and node.module != "__future__" else None


def defined_names(source: str) -> set[str]:
    """Return the names that a module defines or assigns at its top level."""
    names: set[str] = set()
    for node in top_statements(source):
        if isinstance(node, _DEFINITIONS):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names |= {
                item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
            }
    return names


def module_imports(source: str) -> list[ast.Import | ast.ImportFrom]:
    """Return the imports of a module at its top level, also those in its conditions."""
    return [node for node in top_statements(source) if isinstance(node, ast.Import | ast.ImportFrom)]


def names_to_import(source: str, module: str, *, is_package: bool, names: Iterable[str]) -> dict[str, str]:
    """Return how to import each of ``names`` of a module's namespace: as the module does, or from the module."""
    package = module if is_package else module.rpartition(".")[0]
    imports: dict[str, set[str]] = {}
    for node in module_imports(source):
        for alias in node.names:
            if isinstance(node, ast.Import):
                line = ast.unparse(ast.Import([alias]))
            else:
                above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
                place = ".".join([*above, *([node.module] if node.module else [])])
                line = ast.unparse(ast.ImportFrom(place, [alias], 0))
            imports.setdefault(alias.asname or alias.name.split(".")[0], set()).add(line)
    lines_of = {name: f"from {module} import {name}" for name in names}
    return lines_of | {name: lines.pop() for name, lines in imports.items() if name in lines_of and len(lines) == 1}


def top_statements(source: str | bytes) -> list[ast.AST]:
    """Return the statements of a module, also those in its conditions; none if it cannot be parsed."""
    try:
        waiting: list[ast.AST] = list(ast.parse(source).body)
    except (SyntaxError, ValueError, RecursionError):
        return []
    statements: list[ast.AST] = []
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            continue  # what runs only as a program
        statements.append(node)
        if isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            waiting += list(ast.iter_child_nodes(node))
    return statements


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


def _examples(text: str, names: _Names) -> Iterator[Documented]:
    if ">>>" in text:
        try:
            parsed = doctest.DocTestParser().get_examples(text)
        except ValueError:
            return
        pieces = [
            (example.source.strip(), example.want.strip(), example.exc_msg)
            for example in parsed
            if not example.options.get(doctest.SKIP)
        ]
    else:
        try:
            nodes = ast.parse(text).body
        except (SyntaxError, ValueError):
            return
        lines = text.splitlines()
        pieces = [("\n".join(lines[node.lineno - 1 : node.end_lineno]), "", None) for node in nodes]
    if any(_imports_all(source, names.module) for source, _, _ in pieces):
        return  # a function of a test cannot do that
    steps: list[_Step] = []
    for source, want, error in pieces:
        step = _step(source, names)
        if step is None:
            continue
        asserted = _asserted(step.text)
        if asserted is not None or want or error:
            expression, value = asserted or (_printed(step.text), want)
            setup = _setup(expression, steps)
            if setup is not None and expression:
                raises = re.split(r"[:\s]", error.strip())[0].rpartition(".")[2] if error else None
                yield Documented(setup, expression, None if error else value or None, raises)
        if asserted is None and not error:
            steps.append(step)


def _imports_all(source: str, module: str) -> bool:
    """Return whether a statement imports all names of another module."""
    imported = re.match(r"from\s+([\w.]+)\s+import\s*\*", source)
    return imported is not None and imported[1] != module


def _step(source: str, names: _Names) -> _Step | None:
    """Return a statement without the module's own name in it; None if nothing is left, or it cannot be parsed."""
    try:
        nodes = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    left: list[ast.stmt] = []
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.add_import(node)
            if (needed := names.needed(node)) is not None:
                left.append(needed)
        else:
            left.append(node)
    if any(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes):
        source = "\n".join(map(ast.unparse, left))
    else:
        source = names.without_aliases(source)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    if not tree.body:
        return None
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in used if isinstance(node.ctx, ast.Store)}
    bound |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
    return _Step(source, bound, {node.id for node in used})


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
        changes = (not step.bound or _is_block(step.text)) and _may_change(step.text)
        if step.bound & needed or (step.used & needed and changes):
            chosen.insert(0, step.text)
            needed |= step.used & variables
            if step.bound and step.bound <= needed and not step.used & step.bound - step.bound:
                needed -= step.bound - (step.used - step.bound)
    return chosen if sum(not is_import(line) for line in chosen) <= MOST_SETUP else None


def is_import(text: str) -> bool:
    """Return whether a statement is an import."""
    return all(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.parse(text).body)


def _is_block(text: str) -> bool:
    """Return whether statements are a loop or the like, which binds its own names and may change others."""
    return any(isinstance(node, ast.For | ast.While | ast.With | ast.If | ast.Try) for node in ast.parse(text).body)


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
    calls: dict[str, None] = {}
    files = [*root.rglob("test_*.py"), *root.rglob("*_test.py"), *root.rglob("tests.py")]
    stem = module.rpartition(".")[2]
    files.sort(key=lambda path: (stem not in path.name, len(path.parts), path))
    for path in files[:MOST_TEST_FILES]:
        if {"site-packages", "node_modules"} & set(path.parts) or path.is_symlink() or path.stat().st_size > MAX_BYTES:
            continue
        text = path.read_text("utf-8", "replace")
        if top not in text or len(calls) >= MOST_CALLS:
            continue
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        for call in _calls(tree, public):
            calls[call] = None
    return list(calls)[:MOST_CALLS]


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
    for decorator in function.decorator_list:
        if (
            isinstance(decorator, ast.Call)
            and getattr(decorator.func, "attr", "") == "parametrize"
            and len(decorator.args) >= 2
        ):
            names = decorator.args[0]
            if isinstance(names, ast.Constant) and isinstance(names.value, str):
                columns = [name.strip() for name in names.value.split(",")]
            elif isinstance(names, ast.List | ast.Tuple):
                columns = [str(getattr(item, "value", "")) for item in names.elts]
            else:
                continue
            for row in decorator.args[1].elts if isinstance(decorator.args[1], ast.List | ast.Tuple) else []:
                values = row.elts if len(columns) > 1 and isinstance(row, ast.Tuple | ast.List) else [row]
                if len(values) == len(columns):
                    yield dict(zip(columns, values, strict=True))


def nothing_to_test(root: Path, path: PurePosixPath, sources: Path) -> str:
    """Return why the module at ``path`` has no public function or class; ``sources`` is its import root."""
    statements = _statements_of(root / path)
    if private := [node.name for node in statements if isinstance(node, _DEFINITIONS)]:
        return f"Its functions and classes are private ({_some(private)}). Choose a module that uses them."
    if files := Counter(_imported(root, path, statements, sources)):
        names = [name for name, _ in files.most_common()]
        return f"It defines nothing itself, it imports from other files. Choose one of them: {_some(names)}."
    return "It defines no function and no class."


def _statements_of(file: Path) -> list[ast.AST]:
    """Return the statements of a file; none if it cannot be read."""
    try:
        return top_statements(file.read_bytes())
    except OSError:
        return []


def _imported(root: Path, path: PurePosixPath, statements: list[ast.AST], sources: Path) -> Iterator[str]:
    """Yield, for each name that the module imports from the project, the file that the name comes from."""
    for node in statements:
        if not isinstance(node, ast.ImportFrom):
            continue
        folder = root.joinpath(*path.parts[: len(path.parts) - node.level]) if node.level else sources
        named = folder.joinpath(*(node.module or "").split("."))
        for alias in node.names:
            for file in (
                named.with_suffix(".py") if node.module else named,
                named / f"{alias.name}.py",
                named / "__init__.py",
            ):
                if file.is_file() and file != root / path:
                    defined = {node.name for node in _statements_of(file) if isinstance(node, _DEFINITIONS)}
                    if alias.name in defined:
                        yield file.relative_to(root).as_posix()
                    break


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
