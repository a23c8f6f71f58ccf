"""Rust."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from understudy.mutants.languages.language import ARITHMETIC, ASSIGNMENTS, COMPARISONS, LOGIC, Language, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

TEST_ATTRIBUTE = re.compile(
    r"#!?\[\s*(?:cfg\s*\((?!\s*not\b).*\btest\b|(?:\w+::)*(?:test|rstest|test_case|bench)\b)", re.DOTALL
)
"""Matches the attribute of an item that is built for tests only."""


def _skip(node: Node) -> bool:
    match node.type:
        case "mod_item" | "function_item":
            attribute = node.prev_named_sibling
            while attribute is not None and attribute.type in {"attribute_item", "line_comment", "block_comment"}:
                if TEST_ATTRIBUTE.match(text_of(attribute)):
                    return True
                attribute = attribute.prev_named_sibling
            return False
        case "impl_item":
            trait = node.child_by_field_name("trait")
            return trait is not None and text_of(trait).rpartition("::")[2] == "Debug"
        case _:
            return False


def _tail(function: Node) -> Node | None:
    body = function.child_by_field_name("body")
    if function.child_by_field_name("return_type") is None or body is None or not body.named_children:
        return None
    last = body.named_children[-1]
    return None if last.type.endswith(("_statement", "_declaration", "_item", "_comment")) else last


RUST = Language(
    name="rust",
    suffixes=(".rs",),
    grammar="tree_sitter_rust",
    operators={
        "binary_expression": ("operator", {**COMPARISONS, **ARITHMETIC, **LOGIC}),
        "compound_assignment_expr": ("arithmetic", ASSIGNMENTS),
    },
    conditions={"if_expression": "condition", "while_expression": "condition"},
    negated="!(%s)",
    negations={"unary_expression": "!"},
    words={"true": "false", "false": "true", "break": "continue", "continue": "break"},
    word_nodes=frozenset({"boolean_literal", "break_expression", "continue_expression"}),
    numbers=frozenset({"integer_literal", "float_literal"}),
    strings=frozenset({"string_literal", "raw_string_literal"}),
    returns={"return_expression": "Default::default()"},
    statements=frozenset({"expression_statement"}),
    removed="",
    calls=frozenset({"call_expression", "macro_invocation", "await_expression"}),
    functions=frozenset({"function_item"}),
    classes=frozenset({"impl_item", "trait_item"}),
    for_the_compiler=frozenset({"use_declaration"}),
    not_for_the_compiler=re.compile(r"^pub\b"),
    bindings=frozenset({"const_item", "static_item"}),
    skipped=frozenset(
        {"attribute_item", "inner_attribute_item", "use_declaration", "array_type", "const_parameter"}
        | {"line_comment", "block_comment", "type_arguments", "macro_definition"}
    ),
    skip=_skip,
    quiet=re.compile(r"(?:log::|tracing::)?(?:trace|debug|info|warn|error|e?print(?:ln)?|debug_assert\w*)!"),
    message_calls=re.compile(
        r"(?:panic|unreachable|todo|unimplemented|(?:debug_)?assert\w*|bail|anyhow|ensure)!|.*\.expect(?:_err)?",
        re.DOTALL,
    ),
    tail=_tail,
    # The condition avoids a warning about unreachable code, which a crate may turn into an error.
    abort="if ::std::process::id() != 0 { ::std::process::abort(); }",
    comment="// %s",
    dead_store="const _: u8 = 0; // %s",
    local_store="let _%s = 0; ",
)
