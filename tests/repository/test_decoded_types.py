"""Every structure that msgspec decodes was prepared before, or two threads that decode it first end the process."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "sidecar" / "understudy"
PLAIN = frozenset({"None", "bool", "bytes", "dict", "float", "int", "list", "str"})
"""Names of types for which msgspec builds nothing."""


def decoded_type(call: ast.Call) -> ast.expr | None:
    """Return the type that a call has msgspec decode or convert to; None for other calls, and without a type."""
    match call.func:
        case ast.Attribute(attr="decode" | "Decoder" | "convert" as name) if "msgspec" in ast.unparse(call.func):
            kinds = [keyword.value for keyword in call.keywords if keyword.arg == "type"]
            place = {"Decoder": 0, "convert": 1}.get(name, len(call.args))
            return next(iter(kinds + call.args[place : place + 1]), None)
        case _:
            return None


def unprepared(source: str) -> list[str]:
    """Return the decoded types that ``wire.ready`` has not prepared."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    kinds = [kind for kind in map(decoded_type, calls) if kind is not None]
    return [text for kind in kinds if not is_prepared(kind) and (text := ast.unparse(kind))]


def is_prepared(kind: ast.expr) -> bool:
    """Whether a type is the result of ``ready``, or built of plain types alone."""
    if isinstance(kind, ast.Call):
        return ast.unparse(kind.func).split(".")[-1] == "ready"
    return {node.id for node in ast.walk(kind) if isinstance(node, ast.Name)} <= PLAIN


def test_each_decoded_type_was_prepared():
    found = {
        str(path.relative_to(PACKAGE)): types
        for path in PACKAGE.rglob("*.py")
        if path.name != "wire.py" and (types := unprepared(path.read_text(encoding="utf-8")))
    }
    assert found == {}, "pass the type through model.wire.ready"


@pytest.mark.parametrize(
    ("source", "types"),
    [
        ("msgspec.json.decode(data, type=Spec)", ["Spec"]),
        ("msgspec.msgpack.decode(data, type=list[Item] | None)", ["list[Item] | None"]),
        ("msgspec.convert(value, self.params, strict=False)", ["self.params"]),
        ("msgspec.json.Decoder(Entry)", ["Entry"]),
        ("msgspec.json.decode(data, type=ready(Spec))", []),
        ("msgspec.convert(value, wire.ready(Spec))", []),
        ("msgspec.convert(value, int | None)", []),
        ("msgspec.json.decode(data)", []),
        ("data.decode()", []),
    ],
)
def test_a_type_is_found_wherever_it_stands(source, types):
    assert unprepared(source) == types
