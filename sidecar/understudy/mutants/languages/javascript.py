"""JavaScript, and TypeScript with and without JSX."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.mutants.languages.language import (
    ARITHMETIC,
    ASSIGNMENTS,
    COMPARISONS,
    LOGIC,
    STEPS,
    Language,
    is_condition,
    text_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_BINARY = {
    **COMPARISONS, **ARITHMETIC, **LOGIC,
    "===": "!==", "!==": "===", "??": "&&", "**": "*", ">>>": "<<",
}  # fmt: skip
_LOADS = re.compile(r"(?:require|import)\s*\(")
_GUARDS = re.compile(r"require\.main\s*===|import\.meta\.main\b")
_PLATFORMS = re.compile(r"\b(?:process\.(?:platform|version)|os\.platform\()")
"""Matches conditions that are always the same on one machine; the code below may run on another one."""


def _skip(node: Node) -> bool:
    if is_condition(node, ("if_statement",)) and _PLATFORMS.search(text_of(node)):
        return True
    match node.type:
        case "if_statement":
            condition = node.child_by_field_name("condition")
            return condition is not None and _GUARDS.search(text_of(condition)) is not None
        case "call_expression":
            return _LOADS.match(text_of(node)) is not None
        case "expression_statement":
            only = node.named_children[0] if node.named_child_count == 1 else None
            return only is not None and only.type == "string"  # "use strict"
        case _:
            return False


JAVASCRIPT = Language(
    name="javascript",
    suffixes=(".js", ".mjs", ".cjs", ".jsx"),
    grammar="tree_sitter_javascript",
    operators={
        "binary_expression": ("operator", _BINARY),
        "augmented_assignment_expression": ("arithmetic", {**ASSIGNMENTS, "**=": "*="}),
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
    numbers=frozenset({"number"}),
    strings=frozenset({"string", "template_string"}),
    returns={"return_statement": "'XX'"},
    results={"arrow_function": "'XX'"},
    throws={"throw_statement": ";"},
    statements=frozenset({"expression_statement"}),
    removed=";",
    calls=frozenset({"call_expression", "await_expression"}),
    defaults=frozenset({"assignment_pattern", "required_parameter", "optional_parameter"}),
    none="null",
    stores={"assignment_expression": re.compile(r"this\.#?\w+")},
    functions=frozenset(
        {"function_declaration", "function_expression", "method_definition", "arrow_function"}
        | {"generator_function_declaration", "generator_function"}
    ),
    empty_body=b"{}",
    classes=frozenset({"class_declaration", "class"}),
    bindings=frozenset({"variable_declarator", "field_definition", "public_field_definition"}),
    skipped=frozenset(
        {"import_statement", "export_clause", "comment", "decorator", "jsx_attribute", "regex"}
        | {"type_annotation", "type_arguments", "type_parameters", "interface_declaration", "type_alias_declaration"}
        | {"literal_type", "ambient_declaration", "function_signature", "implements_clause"}
    ),
    skip=_skip,
    quiet=re.compile(r"(?:await\s+)?(?:this\.)?_?(?:console|debug|log|logger)\b|super\("),
    messages=frozenset({"throw_statement"}),
    message_calls=re.compile(r"(?:new\s+)?[\w.]*Error"),
    abort='globalThis.process.kill(globalThis.process.pid, "SIGKILL");',
    abort_first='(globalThis.process.kill(globalThis.process.pid, "SIGKILL"), (%s))',
    comment="// %s",
    dead_store="var %s = 0;",
    local_store="let %s = 0; ",
)

TYPESCRIPT = replace(
    JAVASCRIPT,
    name="typescript",
    for_the_compiler=frozenset({"interface_declaration", "type_alias_declaration", "import_statement"}),
    not_for_the_compiler=re.compile(r"^import\s(?!type\s)"),
    erased=frozenset({"type_annotation", "type_parameters", "type_arguments"}),
    suffixes=(".ts", ".mts", ".cts"),
    grammar="tree_sitter_typescript",
    entry="language_typescript",
)
TSX = replace(TYPESCRIPT, suffixes=(".tsx",), entry="language_tsx")
