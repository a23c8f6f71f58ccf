"""Local names say what they hold: the number of vague ones only goes down."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "sidecar" / "understudy"
VAGUE = frozenset({"found", "one", "known", "given", "said", "own", "wanted", "each", "done"})
"""Names that fit any value. A variable is called what it holds: by default its type, in lower case."""
MOST_VAGUE = 25
"""How many functions bind how many of these names. Lower it with each that you rename; nothing may be added."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def bound_names(function: Function) -> set[str]:
    """Return the parameters and the local variables of a function, without those of functions in it."""
    arguments = function.args
    names = {argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    names |= {argument.arg for argument in (arguments.vararg, arguments.kwarg) if argument is not None}
    nodes = list(function.body) if isinstance(function.body, list) else [function.body]
    while nodes:
        node = nodes.pop()
        if isinstance(node, Function):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        nodes += ast.iter_child_nodes(node)
    return names


def vague_names(source: str) -> Counter[str]:
    """Return how many functions bind each vague name."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, Function)]
    return Counter(name for function in functions for name in bound_names(function) & VAGUE)


def test_the_number_of_vague_names_only_goes_down():
    counts = Counter[str]()
    for path in PACKAGE.rglob("*.py"):
        counts += vague_names(path.read_text(encoding="utf-8"))
    assert counts.total() == MOST_VAGUE, f"{dict(counts.most_common())}: lower MOST_VAGUE, or name what is held"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(found): one = found", {"found": 1, "one": 1}),
        ("def f():\n    for one in x: pass\n    return [one for one in y]", {"one": 1}),
        ("def f(x):\n    def g(own): return own\n    return lambda done: g(done)", {"own": 1, "done": 1}),
        ("def f(path):\n    return path.found", {}),
    ],
)
def test_names_are_counted_once_for_each_function(source, names):
    assert vague_names(source) == names
