"""Find the definitions of tests in a file: functions, and calls such as ``test("title", …)``."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.language import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_BYTES = 2 * 1024 * 1024
"""Larger files are not read: they are generated, or data."""
_ANYTHING = ".*"
_PLACEHOLDER = re.compile(r"%(?:\.\d+)?[a-zA-Z#%$]|\$[\w.#]+")
"""What ``test.each`` replaces in a title."""
_WORDS = re.compile(r"\w+")
_GROUPS = frozenset({"describe", "suite", "context", "fdescribe", "xdescribe"})
_BLOCKS = frozenset({"block", "module", "program", "source_file"})
_TESTS = frozenset({"test", "it", "specify", "fit", "xit", "xtest"})


@dataclass(frozen=True, slots=True)
class DefinedTest:
    """One test, or a group of tests such as a class; any function may be one, because runners can be configured."""

    names: tuple[str, ...]
    """Names or titles as they are written: those of the groups around it, or of a method's type, then its own."""
    pattern: str
    """Matches its full name in the report of a JavaScript runner; empty for other languages."""
    title: str
    """Matches the last part of that name."""
    group: bool
    start: int
    """In bytes, with its decorators and the comments directly above."""
    end: int
    """Behind its last byte."""

    def contains(self, other: DefinedTest) -> bool:
        """Return whether ``other`` is inside of this definition."""
        return self is not other and self.start <= other.start and other.end <= self.end


def definitions_of(path: str, source: bytes) -> list[DefinedTest]:
    """Return the definitions in a file by their position; none if its language has no known tests."""
    language = language_of(path)
    if language is None or len(source) > _MOST_BYTES or language.name not in _FINDERS:
        return []
    return sorted(_FINDERS[language.name](language.parse(source), source), key=lambda test: (test.start, -test.end))


def statements_around(path: str, source: bytes, tests: Collection[DefinedTest]) -> Iterator[bytes]:
    """Yield the code of a file that is outside of these tests, in the largest pieces that contain none of them.

    Comments are left out, and the names of what is around tests, such as that of a class.
    """
    language = language_of(path)
    outer: list[DefinedTest] = []
    for test in sorted(tests, key=lambda test: (test.start, -test.end)):
        if not outer or test.start >= outer[-1].end:
            outer.append(test)
    starts = [test.start for test in outer]
    stack = [language.parse(source)] if language is not None else []
    while stack:
        node = stack.pop()
        before = bisect.bisect_right(starts, node.start_byte)
        if "comment" in node.type or (before and node.start_byte < outer[before - 1].end):
            continue
        if bisect.bisect_left(starts, node.end_byte) > before:
            stack.extend(child for child in node.named_children if not _is_name(node, child))
        else:
            yield node.text or b""


def _is_name(parent: Node, node: Node) -> bool:
    if parent.type == "arguments":
        return node == parent.named_children[0] and "string" in node.type
    return node == parent.child_by_field_name("name")


def node_of(root: Node, test: DefinedTest) -> Node:
    """Return the statement of a definition in the file's syntax tree."""
    node = root.descendant_for_byte_range(max(test.start, test.end - 1), test.end) or root
    while node.parent is not None and node.parent.start_byte >= test.start and node.parent.end_byte <= test.end:
        node = node.parent
    if node.type in _BLOCKS and node.named_children:  # it has nothing but this statement
        return node.named_children[-1]
    return node


# -- functions -----------------------------------------------------------------------------------------------------

_PYTHON_STATEMENTS = frozenset(
    {"module", "block", "if_statement", "elif_clause", "else_clause", "try_statement", "except_clause"}
    | {"finally_clause", "with_statement", "for_statement"}
)


def _python(root: Node, source: bytes) -> Iterator[DefinedTest]:
    return _functions(root, source, ("class_definition", "function_definition"), _PYTHON_STATEMENTS)


def _go(root: Node, source: bytes) -> Iterator[DefinedTest]:
    yield from _functions(root, source, ("", "function_declaration"), frozenset({"source_file"}))
    for node in root.named_children:
        name, receiver = node.child_by_field_name("name"), node.child_by_field_name("receiver")
        if name is not None and receiver is not None:
            words = _WORDS.findall(text_of(receiver))
            names = (words[-1] if words else "", text_of(name))
            yield DefinedTest(names, "", "", False, _start(root, source, node), node.end_byte)


def _rust(root: Node, source: bytes) -> Iterator[DefinedTest]:
    return _functions(root, source, ("mod_item", "function_item"), frozenset({"source_file", "declaration_list"}))


def _functions(root: Node, source: bytes, kinds: tuple[str, str], descended: frozenset[str]) -> Iterator[DefinedTest]:
    """Yield groups and functions, whose node types are ``kinds``, and search in nodes of the types ``descended``."""
    group, function = kinds
    stack: list[tuple[Node, tuple[str, ...]]] = [(root, ())]
    while stack:
        whole, names = stack.pop()
        node = whole.child_by_field_name("definition") if whole.type == "decorated_definition" else whole
        if node is None:
            continue
        if node.type in {group, function}:
            name = node.child_by_field_name("name")
            names = (*names, text_of(name) if name is not None else "")
            yield DefinedTest(names, "", "", node.type == group, _start(root, source, whole), whole.end_byte)
            body = node.child_by_field_name("body")
            if node.type == group and body is not None:
                stack.append((body, names))
        elif node.type in descended:
            stack.extend((child, names) for child in reversed(node.named_children))


# -- calls ---------------------------------------------------------------------------------------------------------

_TEST_ARGUMENTS = frozenset(
    {"arrow_function", "function_expression", "generator_function", "string", "template_string"}
)
"""Types of arguments by which a call defines a test; ``test.each(table)`` and ``test.skipIf(fast)`` have others."""
_MOST_LINKS = 12
"""Most calls and names in one chain, as in ``test.concurrent.each(table)("title", …).timeout(5)``."""


def _script(root: Node, source: bytes) -> Iterator[DefinedTest]:
    stack: list[tuple[Node, tuple[str, ...], str]] = [(root, (), "")]
    while stack:
        node, names, pattern = stack.pop()
        below = node.named_children
        if node.type == "call_expression":
            kind = _kind(node)
            if kind is not None:
                group, has_rows = kind
                whole, below = _whole(node), _arguments(node)
                names = (*names, text_of(below[0]))
                title = _title(below[0], has_rows=has_rows)
                pattern = f"{pattern} {title}" if pattern else title
                yield DefinedTest(names, pattern, title, group, _start(root, source, whole), whole.end_byte)
        stack.extend((child, names, pattern) for child in reversed(below))


def _arguments(call: Node) -> list[Node]:
    arguments = call.child_by_field_name("arguments")
    return arguments.named_children if arguments is not None and arguments.type == "arguments" else []


def defining_call(node: Node) -> Node:
    """Return the call that defines a test in a statement that ``definitions_of`` found, or what is there instead."""
    for _ in range(_MOST_LINKS):
        match node.type:
            case "expression_statement" | "return_statement" | "await_expression" | "parenthesized_expression":
                below = node.named_children[:1]
            case "as_expression" | "satisfies_expression" | "non_null_expression":
                below = node.named_children[:1]
            case "unary_expression" | "binary_expression":
                below = node.named_children[-1:]
            case "call_expression" if _kind(node) is None:
                function = node.child_by_field_name("function")
                below = function.named_children[:1] if function is not None else []
            case _:
                return node
        if not below:
            return node
        node = below[0]
    return node


def _whole(call: Node) -> Node:
    """Return the statement that is only this call, with what is called on its result and a condition before it.

    Where the call is a part of something else, return the call with what is called on its result.
    """
    node = call
    for _ in range(_MOST_LINKS):
        parent = node.parent
        if parent is None:
            break
        match parent.type:
            case "expression_statement" | "return_statement":
                return parent
            case "member_expression" | "await_expression" | "parenthesized_expression" | "unary_expression":
                pass
            case "as_expression" | "satisfies_expression" | "non_null_expression":
                pass
            case "call_expression" if node.type == "member_expression":
                pass
            case "binary_expression" if node == parent.child_by_field_name("right"):
                pass
            case _:
                break
        node = parent
    return node


def _kind(call: Node) -> tuple[bool, bool] | None:
    """Return whether a call defines a group, and whether it does so for each row of a table; None if neither."""
    function = call.child_by_field_name("function")
    table = function is not None and function.type == "call_expression"
    parts = _parts(function)
    arguments = [argument for argument in _arguments(call) if "comment" not in argument.type]
    if not parts or not arguments:
        return None
    has_rows = parts[-1] in {"each", "for"}
    if has_rows and not table:
        return None  # the call with the table: the call around it has the title
    if _GROUPS & set(parts[:2]):
        return (True, has_rows) if len(arguments) > 1 else None
    # What is tested with ``expression.test(text)`` is not a test.
    if len(arguments) == 1 and arguments[0].type not in _TEST_ARGUMENTS:
        return None
    if parts[0] in _TESTS or (len(parts) == 2 and parts[1] in _TESTS):
        return False, has_rows
    return None


def _parts(function: Node | None) -> list[str]:
    """Return the names in what is called: that of the variable first, then those of properties.

    Return nothing for a call on a test's result (``test(…).then``), or if the callee has other parts than names.
    """
    parts: list[str] = []
    for _ in range(_MOST_LINKS):
        if function is None:
            break
        match function.type:
            case "identifier" | "this":
                return [text_of(function), *reversed(parts)]
            case "member_expression":
                name, below = function.child_by_field_name("property"), function.child_by_field_name("object")
                parts.append(text_of(name) if name is not None else "")
            case "call_expression" if not any(argument.type in _TEST_ARGUMENTS for argument in _arguments(function)):
                below = function.child_by_field_name("function")
            case "parenthesized_expression" | "as_expression" | "satisfies_expression" | "non_null_expression":
                below = function.named_children[0] if function.named_children else None
            case "ternary_expression":  # as in ``(fast ? it : it.skip)("title", …)``
                below = function.child_by_field_name("consequence")
            case _:
                break
        function = below
    return []


def _title(node: Node, *, has_rows: bool) -> str:
    """Return a regular expression for what a runner reports as the title."""
    if node.type not in {"string", "template_string"}:
        return _ANYTHING
    pieces = []
    for child in node.named_children:
        if child.type == "string_fragment":
            parts = _PLACEHOLDER.split(text_of(child)) if has_rows else [text_of(child)]
            pieces.append(_ANYTHING.join(map(re.escape, parts)))
        else:
            pieces.append("." if child.type == "escape_sequence" else _ANYTHING)
    return "".join(pieces)


# -- positions -----------------------------------------------------------------------------------------------------


def _start(root: Node, source: bytes, node: Node) -> int:
    """Return where a definition begins, with the comments and attributes directly above."""
    start = node.start_byte
    while (line := _line_start(source, start)) and not source[line:start].strip():
        before = _line_start(source, line - 1)
        text = source[before : line - 1].strip()
        if not text or text.startswith(b"#!/"):
            break
        note = _note_at(root, source.index(text, before))
        if note is None or source[_line_start(source, note.start_byte) : note.start_byte].strip():
            break
        if source[note.end_byte : start].strip():
            break
        start = note.start_byte
    return start


def _line_start(source: bytes, at: int) -> int:
    return source.rfind(b"\n", 0, at) + 1


def _note_at(root: Node, at: int) -> Node | None:
    """Return the comment or attribute at a position; None if something else is there."""
    node = root.descendant_for_byte_range(at, at + 1)
    while node is not None and "comment" not in node.type and node.type != "attribute_item":
        node = node.parent
    while node is not None and node.parent is not None and "comment" in node.parent.type:
        node = node.parent
    return node


_FINDERS: dict[str, Callable[[Node, bytes], Iterator[DefinedTest]]] = {
    "python": _python,
    "javascript": _script,
    "typescript": _script,
    "go": _go,
    "rust": _rust,
}
