"""Python."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from understudy.mutants.languages.language import ARITHMETIC, ASSIGNMENTS, COMPARISONS, Language, is_condition, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_COMPARISONS = {**COMPARISONS, "in": "not in", "not in": "in", "is": "is not", "is not": "is", "<>": "=="}
_ARITHMETIC = {**ARITHMETIC, "//": "*", "**": "*", "*": "+", "%": "+", "@": "+"}
_ASSIGNMENTS = {**ASSIGNMENTS, "//=": "*=", "**=": "*=", "*=": "+=", "%=": "*="}

_GUARDS = re.compile(r"__name__\s*[=!]=|\bTYPE_CHECKING\b")
_PLATFORMS = re.compile(r"\b(?:sys\.(?:version|platform|implementation)|os\.name\b|platform\.\w+\(|PY[23]\b)")
"""Matches conditions that are always the same on one machine; the code below may run on another one."""
_TYPE_NAMES = re.compile(r"(?:typing\.|t\.|_t\.)?(?:NewType|TypeVar|ParamSpec|TypeVarTuple|TypeAliasType|cast)\(")
_METADATA = re.compile(r"__(?:all|slots|version|author|license|copyright|email|title|doc|package)\w*__\b")


def _skip(node: Node) -> bool:
    if is_condition(node, ("if_statement", "elif_clause")) and _PLATFORMS.search(text_of(node)):
        return True
    match node.type:
        case "if_statement" | "elif_clause":
            condition = node.child_by_field_name("condition")
            return condition is not None and _GUARDS.search(text_of(condition)) is not None
        case "function_definition":
            name = node.child_by_field_name("name")
            return name is not None and text_of(name) in {"__repr__", "__del__"}
        case "call":
            return _TYPE_NAMES.match(text_of(node)) is not None
        case "assignment":
            return _METADATA.match(text_of(node)) is not None
        case "expression_statement":
            only = node.named_children[0] if node.named_child_count == 1 else None
            return only is not None and only.type in {"string", "concatenated_string", "ellipsis"}  # a docstring
        case _:
            return False


PYTHON = Language(
    name="python",
    suffixes=(".py",),
    grammar="tree_sitter_python",
    operators={
        "comparison_operator": ("comparison", _COMPARISONS),
        "binary_operator": ("arithmetic", _ARITHMETIC),
        "boolean_operator": ("boolean", {"and": "or", "or": "and"}),
        "augmented_assignment": ("arithmetic", _ASSIGNMENTS),
    },
    conditions={
        "if_statement": "condition",
        "elif_clause": "condition",
        "while_statement": "condition",
        "conditional_expression": 1,
        "if_clause": 0,
    },
    negated="not (%s)",
    negations={"not_operator": "not"},
    words={"True": "False", "False": "True", "break": "continue", "continue": "break"},
    word_nodes=frozenset({"true", "false", "break_statement", "continue_statement"}),
    numbers=frozenset({"integer", "float"}),
    strings=frozenset({"string"}),
    returns={"return_statement": '"XX"', "yield": '"XX"'},
    results={"lambda": '"XX"'},
    throws={"raise_statement": "pass"},
    statements=frozenset({"expression_statement"}),
    removed="pass",
    calls=frozenset({"call", "await"}),
    defaults=frozenset({"default_parameter", "typed_default_parameter"}),
    none="None",
    stores={"assignment": re.compile(r"(?:self|cls)\.(?!__)\w+")},
    functions=frozenset({"function_definition"}),
    empty_body=b"return None",
    classes=frozenset({"class_definition"}),
    bindings=frozenset({"assignment"}),
    skipped=frozenset(
        {"decorator", "type", "import_statement", "import_from_statement", "future_import_statement"}
        | {"type_alias_statement", "comment", "global_statement", "nonlocal_statement"}
    ),
    skip=_skip,
    quiet=re.compile(
        r"(?:await\s+)?(?:(?:self|cls)\.)?_?(?:log|logger|logging|LOG|LOGGER|warnings)\b|print\(|super\(\)\.__init__"
    ),
    messages=frozenset({"raise_statement", "assert_statement"}),
    abort='__import__("os")._exit(97)',
    abort_first='(__import__("os")._exit(97), (%s))[1]',
    comment="# %s",
    dead_store="%s = 0",
    local_store="%s = 0",
    observed_locals=re.compile(r"\b(?:locals|vars|eval|exec|dir|_getframe|currentframe)\("),
)
