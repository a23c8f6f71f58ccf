"""Java."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from understudy.mutants.languages.language import ARITHMETIC, ASSIGNMENTS, COMPARISONS, LOGIC, STEPS, Language, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_PRIMITIVES = {
    "boolean": "false",
    "char": "'\\0'",
    **dict.fromkeys(("byte", "short", "int", "long", "float", "double"), "0"),
}


def _zero_value(node: Node) -> str | None:
    at: Node | None = node
    while at is not None and at.type not in {"method_declaration", "lambda_expression"}:
        at = at.parent
    result = at.child_by_field_name("type") if at is not None else None
    return None if result is None else _PRIMITIVES.get(text_of(result), "null")


JAVA = Language(
    name="java",
    suffixes=(".java",),
    grammar="tree_sitter_java",
    operators={
        "binary_expression": ("operator", {**COMPARISONS, **ARITHMETIC, **LOGIC, ">>>": "<<"}),
        "assignment_expression": ("arithmetic", ASSIGNMENTS),
        "update_expression": ("arithmetic", STEPS),
    },
    conditions={
        "if_statement": "condition",
        "while_statement": "condition",
        "do_statement": "condition",
        "ternary_expression": "condition",
    },
    negated="(!(%s))",
    negations={"unary_expression": "!"},
    words={"true": "false", "false": "true", "break;": "continue;", "continue;": "break;"},
    word_nodes=frozenset({"true", "false", "break_statement", "continue_statement"}),
    numbers=frozenset({"decimal_integer_literal", "decimal_floating_point_literal"}),
    strings=frozenset({"string_literal"}),
    returns={"return_statement": "zero"},
    throws={"throw_statement": ";"},
    statements=frozenset({"expression_statement"}),
    removed=";",
    calls=frozenset({"method_invocation"}),
    functions=frozenset({"method_declaration", "constructor_declaration", "compact_constructor_declaration"}),
    classes=frozenset({"class_declaration", "record_declaration", "enum_declaration", "interface_declaration"}),
    for_the_compiler=frozenset({"package_declaration", "import_declaration"}),
    skipped=frozenset(
        {"import_declaration", "package_declaration", "annotation", "marker_annotation", "line_comment"}
        | {"block_comment", "type_arguments", "dimensions", "annotation_type_declaration", "assert_statement"}
    ),
    quiet=re.compile(r"(?:this\.)?_?(?:log|LOG|logger|LOGGER)\.|System\.(?:out|err)\.|super\."),
    messages=frozenset({"throw_statement"}),
    message_calls=re.compile(r"new\s+[\w.]*(?:Exception|Error)"),
    zero_value=_zero_value,
    abort="Runtime.getRuntime().halt(97);",
    comment="// %s",
    dead_store=None,
    local_store="int %s = 0; ",
)
