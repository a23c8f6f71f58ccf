"""Go."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from understudy.mutants.languages.language import ARITHMETIC, ASSIGNMENTS, COMPARISONS, LOGIC, STEPS, Language, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_ZERO = {
    "string": '""',
    "bool": "false",
    "any": "nil",
    "error": "nil",
    **dict.fromkeys(("int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64"), "0"),
    **dict.fromkeys(("uintptr", "byte", "rune", "float32", "float64", "complex64", "complex128"), "0"),
}
_WITHOUT_VALUE = ("*", "[]", "map[", "func", "chan", "<-chan", "interface")


def _zero_of(name: str) -> str:
    # Whether a named type is a struct is unknown: a mutant with the wrong one does not compile, and is left out.
    return _ZERO.get(name, "nil" if name.startswith(_WITHOUT_VALUE) else f"{name}{{}}")


def _zero_value(node: Node) -> str | None:
    at: Node | None = node
    while at is not None and at.type not in {"function_declaration", "method_declaration", "func_literal"}:
        at = at.parent
    result = at.child_by_field_name("result") if at is not None else None
    if result is None:
        return None
    if result.type != "parameter_list":
        return _zero_of(text_of(result))
    types = []
    for parameter in result.named_children:
        if parameter.type != "parameter_declaration":
            continue
        type_node = parameter.child_by_field_name("type") or parameter
        names = parameter.children_by_field_name("name")
        types += [text_of(type_node)] * max(1, len(names))
    return ", ".join(map(_zero_of, types)) or None


GO = Language(
    name="go",
    suffixes=(".go",),
    grammar="tree_sitter_go",
    operators={
        "binary_expression": ("operator", {**COMPARISONS, **ARITHMETIC, **LOGIC, "&^": "&"}),
        "assignment_statement": ("arithmetic", ASSIGNMENTS),
        "inc_statement": ("arithmetic", STEPS),
        "dec_statement": ("arithmetic", STEPS),
    },
    conditions={"if_statement": "condition", "expression_case": "value"},
    negated="!(%s)",
    negations={"unary_expression": "!"},
    words={"true": "false", "false": "true", "break": "continue", "continue": "break"},
    word_nodes=frozenset({"true", "false", "break_statement", "continue_statement"}),
    numbers=frozenset({"int_literal", "float_literal"}),
    strings=frozenset({"interpreted_string_literal", "raw_string_literal"}),
    returns={"return_statement": "zero"},
    statements=frozenset({"expression_statement"}),
    removed="",
    calls=frozenset({"call_expression"}),
    functions=frozenset({"function_declaration", "method_declaration"}),
    classes=frozenset(),
    for_the_compiler=frozenset({"package_clause", "import_declaration"}),
    not_for_the_compiler=re.compile(r"(?:^|[\s(])[_.]\s+[\"`]|[\"`]C[\"`]"),
    bindings=frozenset({"const_spec", "var_spec"}),
    skipped=frozenset({"import_declaration", "field_declaration", "array_type", "comment", "package_clause"}),
    quiet=re.compile(r"(?:\w+\.)?_?(?:log|slog|glog|klog|logger|Logger)\.|fmt\.(?:P|Fp)rint"),
    message_calls=re.compile(r"panic|(?:\w+\.)?Errorf|errors\.(?:New|Wrapf?)"),
    zero_value=_zero_value,
    abort="process_end.Exit(97);",
    abort_import='; import process_end "os"',
    abort_import_after="package_clause",
    comment="// %s",
    dead_store="var _ = 0 // %s",
    local_store="_ = 0 /* %s */; ",
)
