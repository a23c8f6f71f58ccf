"""Keep tests in a file, but let them do nothing: a caller executes none of their code, and no assertion fails."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.language import text_of
from understudy.mutants.test_code.definitions import DefinedTest, defining_call, definitions_of, node_of

if TYPE_CHECKING:
    from tree_sitter import Node

_GO_TEST = re.compile(
    rb"func\s+(?:(?:Test|Fuzz)(?![a-z])\w*\s*\(\s*\w+\s+\*testing\.[TF]\s*\)|Example(?![a-z])\w*\s*\(\s*\)"
    rb"|\([^)]*\)\s*Test\w*\s*\(\s*\))\s*\{"
)
"""Matches a test's beginning, also that of a method: suites, as those of ``testify``, call them by their names."""
_NO_PYTHON_TEST = re.compile(rb"^[ \t]*@.*(?:fixture|property)", re.MULTILINE)
_RUST_TEST = re.compile(rb"#\[(?!cfg)[^\]\n]*\b\w*test\w*\b")
_HOOK = re.compile(r"\.(?:before|after)\w*$|\.(?:use|step|extend)$")
_SCRIPT_FUNCTIONS = frozenset({"arrow_function", "function_expression", "generator_function"})
_NO_FUNCTIONS = frozenset({"object", "number", "string", "template_string", "true", "false", "null", "undefined"})

_Edit = tuple[int, int, bytes]
"""Where it starts and ends, in bytes, and the text that takes the place."""


def usual_tests(path: str, source: bytes) -> list[DefinedTest]:
    """Return the definitions in a file that are tests by the usual rules of their runner."""
    language = language_of(path)
    tests = [test for test in definitions_of(path, source) if not test.group]
    match language.name if language is not None else "":
        case "python":
            named = [test for test in tests if test.names[-1].startswith("test")]
            return [test for test in named if not _NO_PYTHON_TEST.search(source[test.start : test.end])]
        case "go":
            return [
                test for test in tests if path.endswith("_test.go") and _GO_TEST.search(source[test.start : test.end])
            ]
        case "rust":
            return [test for test in tests if _RUST_TEST.search(source[test.start : test.end].partition(b"{")[0])]
        case _:
            return tests


def emptied(path: str, source: bytes, tests: Collection[DefinedTest]) -> bytes:
    """Return a file in which these of its tests return at once; other code keeps its bytes.

    A test whose code is not in its definition stays as it is, and so does a Go test that another process runs by name.
    """
    language = language_of(path)
    if language is None or not tests:
        return source
    root = language.parse(source)
    pieces, last = [], 0
    for test in sorted(tests, key=lambda test: (test.start, -test.end)):
        edit = None if test.start < last else _edit(node_of(root, test), source)
        if edit is not None:
            pieces += [source[last : edit[0]], edit[2]]
            last = edit[1]
    return b"".join([*pieces, source[last:]])


def _edit(node: Node, source: bytes) -> _Edit | None:
    node = node.child_by_field_name("definition") or defining_call(node)
    match node.type:
        case "function_definition":
            body = node.child_by_field_name("body")
            return None if body is None else (body.start_byte, body.end_byte, b"return")
        case "function_declaration" | "method_declaration":
            return _go(node, source)
        case "function_item":
            return _rust(node)
        case "call_expression":
            return _script(node)
    return None


def _go(node: Node, source: bytes) -> _Edit | None:
    name = node.child_by_field_name("name")
    if name is None or node.child_by_field_name("result") is not None:
        return None
    if b"-test.run" in source and source.count(name.text or b"") > 1:
        return None
    return _after_brace(node, b"return;")


def _rust(node: Node) -> _Edit | None:
    result = node.child_by_field_name("return_type")
    value = b"" if result is None else b" Ok(())" if "<()" in text_of(result) else None
    # The compiler must not see that the rest is never reached: warnings can be errors.
    return None if value is None else _after_brace(node, b"if !::std::thread::panicking() { return%s; }" % value)


def _after_brace(node: Node, text: bytes) -> _Edit | None:
    body = node.child_by_field_name("body")
    return None if body is None else (body.start_byte + 1, body.start_byte + 1, b" " + text)


def _script(node: Node) -> _Edit | None:
    called, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if called is None or arguments is None or _HOOK.search(text_of(called)):
        return None
    candidates = [
        argument
        for argument in arguments.named_children[1:]
        if argument.type not in _NO_FUNCTIONS and "comment" not in argument.type
    ]
    functions = [argument for argument in candidates if argument.type in _SCRIPT_FUNCTIONS]
    functions = functions or [argument for argument in candidates if not text_of(argument).isupper()][-1:]
    # Without parameters: a runner waits for a function that takes a callback.
    return (functions[0].start_byte, functions[0].end_byte, b"() => {}") if functions else None
