"""Find parts of a place of which a change that is noticed beside them says nothing: inner functions and parameters."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from understudy.judge.places.changed_places import ANYTHING
from understudy.mutants.generate import emptied, inner_functions_of
from understudy.mutants.python_declarations import python_syntax

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def inner_functions(path: str, after: bytes, lines: Collection[int]) -> dict[str, frozenset[int]]:
    """Return the functions inside of others that have some of these lines, from 1: name → all its lines."""
    return {
        name: frozenset(range(first, last + 1))
        for name, first, last in inner_functions_of(path, after)
        if any(line in lines for line in range(first, last + 1))
    }


def without_function(path: str, after: bytes, function: frozenset[int], lines: Collection[int]) -> bytes | None:
    """Return a file in which an inner function does nothing; None if these lines are only a part of it."""
    return emptied(path, after, function) if function <= set(lines) else None


def ignored_parameters(
    path: str, before: bytes | None, after: bytes, lines: Collection[int]
) -> list[tuple[str, bytes | None]]:
    """Return what functions on some lines, from 1, take now, each with the file in which it makes no difference.

    Only in Python. For a function that the base has, these are all new parameters. Of a new one, they are those that
    can be left out and that nothing reads; None stands for the file, which is the same. Names with an underscore in
    front are meant to be ignored.
    """
    if not path.endswith(".py"):
        return []
    old = {
        name: {argument.arg for argument, _ in _parameters(function)} for name, function in _functions(before or b"")
    }
    ignored: list[tuple[str, bytes | None]] = []
    for name, function in _functions(after):
        heads = range(function.lineno, function.body[0].lineno)
        if not any(line in lines for line in heads):
            continue
        read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        for parameter, value in _parameters(function):
            label = f"{name}({parameter.arg})"
            if parameter.arg.startswith("_") or parameter.arg in old.get(name, {"self", "cls"}):
                continue
            if name in old:
                content = _with_value(after, function, parameter.arg, value)
                ignored += [(label, content)] if content is not None else []
            elif value not in {None, b"()", b"{}"} and parameter.arg not in read:
                ignored.append((label, None))
    return ignored


def _functions(source: bytes) -> list[tuple[str, _Function]]:
    """Return all functions with the names around them."""
    tree = python_syntax(source)
    if tree is None:
        return []
    functions = []
    stack: list[tuple[str, ast.AST]] = [("", tree)]
    while stack:
        scope, node = stack.pop()
        for child in ast.iter_child_nodes(node):
            inside = scope
            if isinstance(child, _Function | ast.ClassDef):
                inside = f"{scope}.{child.name}" if scope else child.name
            if isinstance(child, _Function):
                functions.append((inside, child))
            stack.append((inside, child))
    return functions


def _parameters(function: _Function) -> Iterator[tuple[ast.arg, bytes | None]]:
    """Yield each parameter, and the text of its value if a call leaves it out."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    values = [None] * (len(named) - len(arguments.defaults)) + list(arguments.defaults)
    for parameter, value in zip([*named, *arguments.kwonlyargs], [*values, *arguments.kw_defaults], strict=True):
        yield parameter, ast.unparse(value).encode() if value is not None else None
    for rest, empty in ((arguments.vararg, b"()"), (arguments.kwarg, b"{}")):
        if rest is not None:
            yield rest, empty


def _with_value(source: bytes, function: _Function, name: str, value: bytes | None) -> bytes | None:
    """Return the source in which a function sets its parameter first; None if its body is on the line of its head."""
    lines = source.splitlines(keepends=True)
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(function.body) > 1:
        first = function.body[1]
    at = min((decorator.lineno for decorator in getattr(first, "decorator_list", ())), default=first.lineno) - 1
    indent = lines[at][: first.col_offset]
    if indent.strip() or not indent:
        return None
    lines.insert(at, indent + name.encode() + b" = " + (value or ANYTHING) + b"\n")
    return b"".join(lines)
