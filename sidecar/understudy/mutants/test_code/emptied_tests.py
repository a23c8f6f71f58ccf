"""Keep tests in a file, but let them do nothing: a caller executes none of their code, and no assertion fails."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from understudy.mutants.language import text_of
from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.test_code.definitions import DefinedTest, definitions_of, node_of

if TYPE_CHECKING:
    from tree_sitter import Node

_GO_TEST = re.compile(r"Test|Example|Fuzz")
_RUST_TEST = re.compile(rb"#\[[^\]\n]*\b\w*test\w*\b")
_WRAPPERS = frozenset({"decorated_definition", "expression_statement", "await_expression"})
_SCRIPT_FUNCTIONS = frozenset({"arrow_function", "function_expression", "generator_function"})

_Edit = tuple[int, int, bytes]
"""Where it starts and ends, in bytes, and the text that takes the place."""


def find_tests(path: str, source: bytes, names: Collection[str] = ()) -> list[DefinedTest]:
    """Return the definitions in a file that are tests by the runner's usual rules, or are functions of these names."""
    language = language_of(path)
    found = [one for one in definitions_of(path, source) if not one.group]
    match language.name if language is not None else "":
        case "python":
            return [one for one in found if one.names[-1].startswith("test") or one.names[-1] in names]
        case "go":
            return [one for one in found if path.endswith("_test.go") and _GO_TEST.match(one.names[-1])]
        case "rust":
            return [one for one in found if _RUST_TEST.search(source[one.start : one.end].partition(b"{")[0])]
        case _:
            return found


def emptied(path: str, source: bytes, tests: Collection[DefinedTest]) -> bytes:
    """Return a file in which these of its tests return at once; other code keeps its bytes.

    A test whose code is not in its definition stays as it is.
    """
    language = language_of(path)
    if language is None or not tests:
        return source
    root = language.parse(source)
    edits: list[_Edit] = []
    for one in sorted(tests, key=lambda each: (each.start, -each.end)):
        edit = _edit(node_of(root, one), source)
        if edit is not None and not any(start <= edit[0] < end for start, end, _ in edits):
            edits.append(edit)
    rest = source
    for start, end, text in sorted(edits, reverse=True):
        rest = rest[:start] + text + rest[end:]
    return rest


def _edit(node: Node, source: bytes) -> _Edit | None:
    while node.type in _WRAPPERS and node.named_children:
        node = node.named_children[-1]
    match node.type:
        case "function_definition":
            return _python(node, source)
        case "function_declaration":
            return _after_brace(node, b"return;")
        case "function_item":
            return _rust(node)
        case "call_expression":
            return _script(node)
    return None


def _python(node: Node, source: bytes) -> _Edit | None:
    body = node.child_by_field_name("body")
    if body is None:
        return None
    start = body.start_byte
    indent = source[source.rfind(b"\n", 0, start) + 1 : start]
    return start, start, b"return; " if indent.strip() else b"return\n" + indent


def _rust(node: Node) -> _Edit | None:
    result = node.child_by_field_name("return_type")
    value = b"" if result is None else b" Ok(())" if "Result" in text_of(result) else None
    # The compiler must not see that the rest is never reached: warnings can be errors.
    return None if value is None else _after_brace(node, b"if !::std::thread::panicking() { return%s; }" % value)


def _after_brace(node: Node, text: bytes) -> _Edit | None:
    body = node.child_by_field_name("body")
    return None if body is None else (body.start_byte + 1, body.start_byte + 1, b" " + text)


def _script(node: Node) -> _Edit | None:
    arguments = node.child_by_field_name("arguments")
    given = arguments.named_children[1:] if arguments is not None else []
    functions = [one for one in given if one.type in _SCRIPT_FUNCTIONS]
    functions = functions or [one for one in given if one.type == "identifier"]
    # Without parameters: a runner waits for a function that takes a callback.
    return (functions[0].start_byte, functions[0].end_byte, b"() => {}") if functions else None
