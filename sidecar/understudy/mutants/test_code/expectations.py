"""Find what tests expect, and change it: a test that still passes does not compare what the code returns.

Only comparisons that say "equal" are changed, because another value cannot be equal, too. Each has a control, which
fails whatever is compared: a test that passes even then does not depend on this comparison.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.language import Language, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_BYTES = 2 * 1024 * 1024
"""Larger files are generated, or data."""

_PYTHON_CALLS = re.compile(r"assert_?(?:(?:List|Dict|Tuple|Set|Sequence|MultiLine|Count)?Equals?|equals?)|eq_")
_SCRIPT_MATCHERS = re.compile(r"toBe|toEqual|toStrictEqual|eql?|equal|equals")
_SCRIPT_CALLS = re.compile(
    r"(?:(?:\w*[aA]ssert\w*|t|tap|chai|QUnit)\.(?:\w+\.)*(?:is|eq|same|equals|propEqual)|(?:[\w.]+\.)?(?:deep|strict|deepStrict)?[eE]qual)"
)
_GO_CALLS = re.compile(r"(?:Equal|EqualValues|Exactly)f?|DeepEqual|Eq")
_GO_FAILS = re.compile(r"\.(?:Error|Fatal)f?\(|\.Fail(?:Now)?\(")
_RUST_MACROS = re.compile(r"(?:\w+::)*assert_eq")
_JAVA_CALLS = re.compile(r"assertEquals|assertArrayEquals|isEqualTo")
_EXPECT = re.compile(r"\bexpect\s*\(")
_NEGATED = re.compile(r"\.not\b|\.never\b")
_QUOTE = re.compile(r"""[a-zA-Z]*\#*(?:\"\"\"|'''|["'`])""")
_NUMBER = re.compile(r"(\d[\d_]*)((?:\.\d[\d_]*)?[a-zA-Z]\w*|\.\d[\d_]*\w*)?")
_COLLECTIONS = frozenset({"list", "tuple", "dictionary", "set", "array", "object"})
_USES = 2
"""A name that is bound and compared."""

_WRONG_PYTHON = (
    '(lambda v: not v if v is True or v is False else "X" if v is None else v + 1'
    ' if type(v) in (int, float) and v + 1 != v else v + "X" if type(v) is str else [*v, "X"] if type(v) is list'
    ' else (*v, "X") if type(v) is tuple else {**v, "X": 1} if type(v) is dict else "X")'
)
_WRONG_SCRIPT = (
    '((v%s) => typeof v === "number" && v + 1 !== v ? v + 1 : typeof v === "string" ? v + "X"'
    ' : typeof v === "boolean" ? !v : { X: 1 })'
)

Edit = tuple[int, int, bytes]
"""Start and end of the bytes to replace, and what takes their place."""


@dataclass(frozen=True, kw_only=True, order=True)
class Expectation:
    """One comparison of a test file, with two ways to change it."""

    start: int
    """Where the comparison begins, in bytes."""
    line: int
    """The line of the comparison, from 1."""
    wrong: Edit
    """Another value is expected."""
    failing: Edit
    """It fails, whatever is compared."""


def expectations_of(path: str, source: bytes) -> list[Expectation]:
    """Return the comparisons of a test file by their positions; none if its language is unknown."""
    language = language_of(path)
    find = _FINDERS.get(language.name) if language is not None else None
    if language is None or find is None or len(source) > _MOST_BYTES:
        return []
    expectations: list[Expectation] = []
    stack = [language.parse(source)]
    while stack:
        node = stack.pop()
        expectations += find(language, node)
        stack.extend(reversed(node.children))
    return sorted(expectations)


def edited(source: bytes, edits: list[Edit]) -> bytes:
    """Return the source with all edits; of those that overlap, the first only.

    It has another size, so that no compiled form of the file is taken for that of this one.
    """
    text, end = [], 0
    for start, stop, replacement in sorted(set(edits)):
        if start >= end:
            text += [source[end:start], replacement]
            end = stop
    return b"".join([*text, source[end:], b"\n"])


def _python(language: Language, node: Node) -> Iterator[Expectation]:
    if node.type == "assert_statement" and node.named_children:
        for compared in _parts(node.named_children[0], "boolean_operator", "and"):
            operators = [child.type for child in compared.children if not child.is_named]
            if compared.type == "comparison_operator" and operators == ["=="]:
                failing = (node.start_byte, node.end_byte, b"raise AssertionError")
                yield from _compared(language, node, compared.named_children, failing)
    elif node.type == "call" and _PYTHON_CALLS.fullmatch(_called(node)) and _is_statement(node):
        failing = (node.start_byte, node.end_byte, b"raise AssertionError")
        yield from _compared(language, node, _arguments(node)[:2], failing)


def _script(language: Language, node: Node) -> Iterator[Expectation]:
    callee = node.child_by_field_name("function") if node.type == "call_expression" else None
    if callee is None or callee.type not in {"member_expression", "identifier"}:
        return
    arguments, name = _arguments(node), _called(node)
    failing = (node.start_byte, node.end_byte, b'(() => { throw new Error("X") })()')
    if _EXPECT.search(text_of(callee)):
        if len(arguments) == 1 and _SCRIPT_MATCHERS.fullmatch(name) and not _NEGATED.search(text_of(callee)):
            yield from _compared(language, node, arguments, failing)
    elif len(arguments) >= 2 and _SCRIPT_CALLS.fullmatch(text_of(callee)):
        yield from _compared(language, node, arguments[:2], failing)


def _go(language: Language, node: Node) -> Iterator[Expectation]:
    if node.type == "if_statement":
        condition, body = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
        if condition is None or body is None or not _GO_FAILS.search(text_of(body)):
            return
        failing = (condition.end_byte, condition.end_byte, b" || true")
        for compared in _parts(condition, "binary_expression", "||"):
            if compared.type == "binary_expression" and any(child.type == "!=" for child in compared.children):
                yield from _compared(language, node, compared.named_children, failing)
    elif node.type == "call_expression" and _GO_CALLS.fullmatch(_called(node)) and _is_statement(node):
        yield from _compared(language, node, _arguments(node)[1:3], (node.start_byte, node.end_byte, b'panic("X")'))


def _rust(language: Language, node: Node) -> Iterator[Expectation]:
    name = node.child_by_field_name("macro") if node.type == "macro_invocation" else None
    if name is None or not _RUST_MACROS.fullmatch(text_of(name)):
        return
    tokens = [child for child in node.children if child.type == "token_tree"]
    parts: list[list[Node]] = [[]]
    for token in tokens[0].children[1:-1] if tokens else ():
        if token.type == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    literals = [part[-1] for part in parts[:2] if len(part) == 1 or (len(part) == 2 and part[0].type == "-")]
    yield from _compared(language, node, literals, (node.start_byte, node.end_byte, b'panic!("X")'))


def _java(language: Language, node: Node) -> Iterator[Expectation]:
    if node.type == "method_invocation" and _JAVA_CALLS.fullmatch(_called(node)) and _is_statement(node):
        failing = (node.start_byte, node.end_byte, b'org.junit.jupiter.api.Assertions.fail("X")')
        yield from _compared(language, node, _arguments(node)[:2], failing)


_FINDERS: dict[str, Callable[[Language, Node], Iterator[Expectation]]] = {
    "python": _python,
    "javascript": _script,
    "typescript": _script,
    "go": _go,
    "rust": _rust,
    "java": _java,
}


def _compared(language: Language, node: Node, values: list[Node], failing: Edit) -> Iterator[Expectation]:
    """Yield the expectation of a comparison of ``values``, unless nothing can be changed for certain."""
    wrong = next(filter(None, (_wrong(language, value) for value in reversed(values))), None)
    wrong = wrong or next(filter(None, (_wrong_binding(language, node, value) for value in reversed(values))), None)
    if wrong is None and values and all(_is_plain(value) for value in values):
        wrong = _wrapped(language, values[-1])
    if wrong is not None:
        yield Expectation(start=node.start_byte, line=node.start_point[0] + 1, wrong=wrong, failing=failing)


def _wrong(language: Language, value: Node) -> Edit | None:
    """Return an edit that makes another value of a literal, or of the first one in a collection of literals."""
    text = text_of(value)
    if value.type in language.numbers:
        number = _other_number(text)
        return (value.start_byte, value.end_byte, number.encode()) if number is not None else None
    if value.type in language.strings:
        prefix = _QUOTE.match(text)
        at = value.start_byte + len(prefix.group().encode()) if prefix is not None else 0
        return (at, at, b"X") if at else None
    if value.type in language.word_nodes and text in language.words:
        return value.start_byte, value.end_byte, language.words[text].encode()
    if language.none and text in {language.none, "undefined"}:
        return value.start_byte, value.end_byte, b'"X"'
    if value.type in _COLLECTIONS and all(_is_literal(language, item) for item in value.named_children):
        items = [item for item in value.named_children if "comment" not in item.type]
        return next(filter(None, (_wrong(language, item) for item in items)), None)
    if value.type == "pair" and (inner := value.child_by_field_name("value")) is not None:
        return _wrong(language, inner)
    if value.type in {"unary_operator", "unary_expression"} and value.named_child_count == 1:
        return _wrong(language, value.named_children[0])
    return None


def _other_number(text: str) -> str | None:
    match = _NUMBER.fullmatch(text)
    return f"{int(match[1].replace('_', '')) + 1}{match[2] or ''}" if match is not None else None


def _is_literal(language: Language, node: Node) -> bool:
    if node.type in _COLLECTIONS or node.type in {"pair", "unary_operator", "unary_expression"}:
        return all(_is_literal(language, child) for child in node.named_children)
    is_word = node.type in language.word_nodes or text_of(node) == language.none
    is_name = node.parent is not None and node.parent.type == "pair" and node.type == "property_identifier"
    return node.type in language.numbers | language.strings or is_word or is_name


def _wrong_binding(language: Language, node: Node, value: Node) -> Edit | None:
    """Return the edit of the literal that a name is bound to in the same function, only for this comparison."""
    if value.type != "identifier":
        return None
    function = node
    while function.parent is not None and function.type not in language.functions:
        function = function.parent
    bound, uses = [], 0
    stack = [function]
    while stack:
        at = stack.pop()
        target = at.child_by_field_name("left") or at.child_by_field_name("name")
        if at.type in language.bindings and target is not None and text_of(target) == text_of(value):
            bound.append(at.child_by_field_name("right") or at.child_by_field_name("value"))
        uses += at.type == "identifier" and text_of(at) == text_of(value)
        stack.extend(at.children)
    # Where it is used once more, such as for what the code gets, both would change.
    return _wrong(language, bound[0]) if len(bound) == 1 and bound[0] is not None and uses == _USES else None


def _is_plain(value: Node) -> bool:
    return value.type not in {"generator_expression", "spread_element", "list_splat", "keyword_argument", "lambda"}


def _wrapped(language: Language, value: Node) -> Edit | None:
    other = _other_value(language, value.text or b"")
    return (value.start_byte, value.end_byte, other) if other is not None else None


def other_value(path: str, expression: bytes) -> bytes | None:
    """Return an expression for another value of the type that ``expression`` has, where it is run.

    Of types that are not built in, it is a text. None in languages in which that cannot be written.
    """
    language = language_of(path)
    return _other_value(language, expression) if language is not None else None


def _other_value(language: Language, expression: bytes) -> bytes | None:
    match language.name:
        case "python":
            wrong = _WRONG_PYTHON
        case "javascript":
            wrong = _WRONG_SCRIPT % ""
        case "typescript":
            wrong = _WRONG_SCRIPT % ": any"
        case _:
            return None
    return b"%s(%s)" % (wrong.encode(), expression)


def _parts(condition: Node, kind: str, operator: str) -> Iterator[Node]:
    """Yield the conditions that an operator joins."""
    stack = [condition]
    while stack:
        node = stack.pop()
        if node.type == "parenthesized_expression" and node.named_child_count == 1:
            stack.append(node.named_children[0])
        elif node.type == kind and any(child.type == operator for child in node.children):
            stack.extend(reversed(node.named_children))
        else:
            yield node


def _called(call: Node) -> str:
    """Return the last name of what a call calls."""
    callee = call.child_by_field_name("function") or call.child_by_field_name("name")
    return re.split(r"\W+", text_of(callee))[-1] if callee is not None else ""


def _arguments(call: Node) -> list[Node]:
    arguments = call.child_by_field_name("arguments")
    children = arguments.named_children if arguments is not None else []
    return [child for child in children if "comment" not in child.type]


def _is_statement(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "expression_statement"
