"""Make all mutants of a file, and compare what two versions of a file run."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.language import EXACT_OPPOSITES, Language, text_of
from understudy.mutants.languages.python import PYTHON
from understudy.mutants.python_declarations import only_abstract, python_syntax

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_BYTES = 2 * 1024 * 1024
"""Largest file that is mutated or compared. Larger ones are generated, or data."""
_KEPT_FILES = 16
"""Files of which what was found is kept: each place of a file asks for it again."""
_CALL_PREFIX = 200
"""Characters of a call that show whether it only logs."""
BLOCKS = re.compile(r"block|body|^(?:module|program|source_file|statement_list|declaration_list|compilation_unit)$")
"""Matches the types of nodes whose children are statements or declarations."""
_ARGUMENTS = frozenset({"argument_list", "arguments", "token_tree"})
_LOOP = re.compile(r"^(?:for|while|do|loop|enhanced_for)_")
_SWITCH = re.compile(r"switch|select")
_WORD = re.compile(r"\w+")
_STRING_PREFIX = re.compile(r"""[a-zA-Z]*\#*(?:\"\"\"|'''|["'`])""")
_WHOLE_NUMBER = re.compile(r"(\d[\d_]*)([a-zA-Z]\w*)?")
_DECIMAL = re.compile(r"(\d[\d_]*)(\.\d[\d_]*\w*)")

Edit = tuple[int, int, str, str]
"""Start, end, text and kind of a change."""
_TEXT = re.compile(r"string|template|regex|char")
"""Matches the types of nodes whose spaces matter, and whose text is not only that of the nodes below."""
_DECORATOR = re.compile(rb"^\s*@\w", re.MULTILINE)
_DIRECTIVE = re.compile(
    rb"^(?://go:|// \+build\b|#!|#.*coding[:=]|///|//!|/\*[*!][^/]*```)|@(?:jest|vitest|jsx|ts-)|"
    rb"\b(?:noqa|nolint|nosec|type: *ignore|pragma: *no cover|eslint-disable|istanbul ignore|[cv]8 ignore)\b|"
    rb"\b(?:mypy|pylint|pyright|flake8|ruff):"
)
"""Matches comments that decide what is built, run or checked, and those that contain tests (Rust)."""


@dataclass(frozen=True, kw_only=True, order=True)
class Mutant:
    """Replace ``source[start:end]`` with ``text``."""

    start: int
    """Where the replaced bytes begin."""
    end: int
    """Where they end, exclusive; equal to ``start`` for an insertion."""
    text: bytes
    operator: str
    """What kind of change it is, such as ``comparison``."""
    line: int
    """The line of the change, from 1."""
    first_line: int
    """The first of the lines that run when the changed code runs, from 1. A runner may report any line of a statement
    as executed, so these are the lines from its beginning to the change. For a default value, they are those of the
    function's body."""
    last_line: int
    """The last of those lines, inclusive."""
    function: str
    """The name of the function, with those of the classes and functions around it; empty for code outside functions,
    which runs when the file is loaded."""

    def apply(self, source: bytes) -> bytes:
        """Return the mutated source."""
        return source[: self.start] + self.text + source[self.end :]


@functools.lru_cache(maxsize=_KEPT_FILES)
def mutants_of(path: str, source: bytes) -> Sequence[Mutant]:
    """Return all mutants of a file in the order of their positions; none if its language is unknown.

    The suffix of ``path`` decides the language. Two mutants never have the same source. What no test can see is left
    out: log calls, texts of errors, imports, types, conditions that ask for the platform. A mutant may fail to compile.
    """
    language = language_of(path)
    if language is None or len(source) > _MOST_BYTES:
        return ()
    mutants: dict[tuple[int, int, bytes], Mutant] = {}
    for mutant in _walk(language, language.parse(source)):
        mutants.setdefault(_smallest(source, mutant), mutant)
    return tuple(sorted(mutants[key] for key in mutants if key[2] or key[1] > key[0]))


@functools.lru_cache(maxsize=_KEPT_FILES)
def functions_of(path: str, source: bytes) -> Sequence[tuple[str, int, int]]:
    """Return the name, first and last line, from 1, of each function that is in no other one, each class and binding.

    Bindings give a value to a name outside of functions, such as a constant. Names have those of the classes around
    them; decorators belong to the function. A class comes before what is in it.
    """
    language = language_of(path)
    if language is None or len(source) > _MOST_BYTES:
        return []
    spans: list[tuple[str, int, int]] = []
    stack = [(language.parse(source), "")]
    while stack:
        node, scope = stack.pop()
        is_function = node.is_named and node.type in language.functions
        if is_function or (node.is_named and node.type in language.classes):
            name = _name_of(node)
            scope = ".".join(filter(None, (scope, name)))
            around = _statement_around(node)
            if name or not is_function:
                spans.append((scope, around.start_point[0] + 1, around.end_point[0] + 1))
            if is_function and name:
                continue
        elif node.type in language.bindings and _WORD.fullmatch(name := _bound_name(node)):
            around = _statement_around(node)
            if around.start_point[0] != node.start_point[0]:  # one of several in a declaration
                around = node
            spans.append((".".join(filter(None, (scope, name))), around.start_point[0] + 1, around.end_point[0] + 1))
        stack.extend((child, scope) for child in reversed(node.children))
    return spans


@functools.lru_cache(maxsize=_KEPT_FILES)
def inner_functions_of(path: str, source: bytes) -> Sequence[tuple[str, int, int]]:
    """Return the name, first and last line, from 1, of each function with a name that is inside of another one."""
    language = language_of(path)
    if language is None or len(source) > _MOST_BYTES:
        return []
    spans: list[tuple[str, int, int]] = []
    stack = [(language.parse(source), "", False)]
    while stack:
        node, scope, inside = stack.pop()
        is_function = node.is_named and node.type in language.functions
        if (is_function or (node.is_named and node.type in language.classes)) and (name := _name_of(node)):
            scope = ".".join(filter(None, (scope, name)))
            if inside and is_function:
                around = _statement_around(node)
                spans.append((scope, around.start_point[0] + 1, around.end_point[0] + 1))
        stack.extend((child, scope, inside or is_function) for child in reversed(node.children))
    return spans


def _bound_name(binding: Node) -> str:
    fields = map(binding.child_by_field_name, ("left", "name", "property"))
    return next((text_of(field) for field in fields if field is not None), "")


def is_for_the_compiler(path: str, source: bytes, lines: Collection[int]) -> bool:
    """Return whether some lines, from 1, have only declarations that do nothing by themselves, such as Go's imports.

    What uses them is judged where it is. In Python, these are the abstract methods of a class.
    """
    language = language_of(path)
    if language is PYTHON:
        return only_abstract(source, lines)
    if language is None or not language.for_the_compiler or len(source) > _MOST_BYTES:
        return False
    only = True
    for node in language.parse(source).children:
        if any(line + 1 in lines for line in range(node.start_point[0], node.end_point[0] + 1)):
            inner = node.child_by_field_name("declaration") if node.type == "export_statement" else node
            declared = inner is not None and inner.type in language.for_the_compiler
            is_silent = declared and not language.not_for_the_compiler.search(text_of(node))
            only = only and (is_silent or "comment" in node.type or not text_of(node).strip())
    return only


def emptied(path: str, source: bytes, lines: Collection[int]) -> bytes | None:
    """Return the source in which functions that are in some lines as a whole do nothing; None if there are none.

    Lines count from 1. Only in languages in which such a function can return nothing: Python, JavaScript, TypeScript.
    """
    language = language_of(path)
    if language is None or language.empty_body is None or len(source) > _MOST_BYTES:
        return None
    bodies: list[tuple[int, int]] = []
    stack = [language.parse(source)]
    while stack:
        node = stack.pop()
        body = node.child_by_field_name("body")
        if node.is_named and node.type in language.functions and body is not None:
            around = _statement_around(node)
            if all(line + 1 in lines for line in range(around.start_point[0], around.end_point[0] + 1)):
                bodies.append((body.start_byte, body.end_byte))
                continue
        stack.extend(node.children)
    for start, end in sorted(bodies, reverse=True):
        source = source[:start] + language.empty_body + source[end:]
    return source if bodies else None


def _statement_around(node: Node) -> Node:
    """Return the decorated definition, or the declaration of the variable, that a function or class belongs to."""
    around = node
    while (parent := around.parent) is not None and not BLOCKS.search(parent.type):
        around = parent
    return around


def still_parses(path: str, source: bytes, mutant: Mutant) -> bool:
    """Return whether the mutated file has no syntax error that the file did not have."""
    language = language_of(path)
    if language is None:
        return False
    return not language.parse(mutant.apply(source)).has_error or language.parse(source).has_error


@dataclass(frozen=True)
class _Context:
    """What is known of the code around a node."""

    function: str = ""
    scope: str = ""
    """The names of the classes and functions around it."""
    statement_line: int = 1
    body: tuple[int, int] | None = None
    """Lines of a function's body, within its default values."""
    message: bool = False
    """It is part of an error that is raised, so its texts are for people."""


def _walk(language: Language, root: Node) -> Iterator[Mutant]:
    stack = [(root, _Context())]
    while stack:
        node, context = stack.pop()
        if node.type == "ERROR" or node.type in language.skipped or language.skip(node) or _is_quiet(language, node):
            continue
        context = _entered(language, node, context)
        if context.message and _is_text(language, node):
            continue
        for start, end, text, operator in _edits(language, node):
            line = node.start_point[0] + 1 if start == node.start_byte else _line_at(node, start)
            reached = _in_default(language, node, context) if operator == "default" else context
            first, last = reached.body or (min(reached.statement_line, line), line)
            yield Mutant(
                start=start,
                end=end,
                text=text.encode("utf-8", "surrogateescape"),
                operator=operator,
                line=line,
                first_line=first,
                last_line=last,
                function=context.function,
            )
        stack.extend((child, _below(language, node, child, context)) for child in reversed(node.children))


def _entered(language: Language, node: Node, context: _Context) -> _Context:
    """Return what holds for a node and everything in it."""
    parent = node.parent
    line = node.start_point[0] + 1
    if (parent is not None and BLOCKS.search(parent.type)) or node.type.endswith("_clause"):
        context = replace(context, statement_line=line)
    if node.type in language.functions or node.type in language.classes:
        scope = ".".join(filter(None, (context.scope, _name_of(node))))
        context = replace(context, scope=scope, body=None)
        if node.type in language.functions:
            context = replace(context, function=scope or f"line {line}")
    if node.type in language.messages:
        context = replace(context, message=True)
    return context


def _below(language: Language, node: Node, child: Node, context: _Context) -> _Context:
    """Return the context of a child, which may be a default value or the text of an error."""
    if child.type in _ARGUMENTS and language.message_calls.fullmatch(_callee(node, child)):
        return replace(context, message=True)
    in_default = node.type in language.defaults and child == _default_of(node)
    return _in_default(language, node, context) if in_default else context


def _in_default(language: Language, parameter: Node, context: _Context) -> _Context:
    """Return the context of a default value: what it changes shows when the function runs."""
    function = parameter.parent
    while function is not None and function.type not in language.functions | language.results.keys():
        function = function.parent
    body = function.child_by_field_name("body") if function is not None else None
    if body is None:
        return context
    return replace(context, body=(body.start_point[0] + 1, body.end_point[0] + 1))


def _edits(language: Language, node: Node) -> Iterator[Edit]:
    kind = node.type
    if kind in language.operators:
        yield from _operator_edits(language, node)
    if kind in language.conditions:
        yield from _condition_edits(language, node)
    if kind in language.negations and node.children[0].type == language.negations[kind]:
        yield node.start_byte, node.end_byte, text_of(node.children[-1]), "negation"
    word = language.words.get(text_of(node)) if kind in language.word_nodes else None
    if word is not None and (not kind.startswith("break") or _ends_a_loop(node)):
        yield node.start_byte, node.end_byte, word, "boolean" if node.child_count == 0 else "loop"
    if kind in language.numbers and (number := _next_number(text_of(node))) is not None:
        yield node.start_byte, node.end_byte, number, "number"
    if kind in language.strings and (prefix := _STRING_PREFIX.match(text_of(node))):
        at = node.start_byte + len(prefix.group().encode())
        yield at, at, "XX", "string"
    yield from _value_edits(language, node)
    if kind in language.throws:
        yield node.start_byte, node.end_byte, language.throws[kind], "raise"
    if kind in language.statements and node.named_child_count and node.named_children[0].type in language.calls:
        yield node.start_byte, node.end_byte, language.removed, "call"


def _operator_edits(language: Language, node: Node) -> Iterator[Edit]:
    kind, operators = language.operators[node.type]
    for child in node.children:
        operator = " ".join(text_of(child).split())
        if not child.is_named and operator in operators:
            yield child.start_byte, child.end_byte, operators[operator], kind


def _condition_edits(language: Language, node: Node) -> Iterator[Edit]:
    where = language.conditions[node.type]
    if isinstance(where, str):
        condition = node.child_by_field_name(where)
    else:
        condition = node.named_children[where] if where < node.named_child_count else None
    if condition is None or condition.type.startswith("let_") or language.skip(condition):
        return
    inner = condition
    if inner.type == "expression_list":  # of a case of Go, whose values are conditions only if they are compared
        inner = inner.named_children[0]
        if condition.named_child_count > 1 or inner.type not in language.operators:
            return
    while inner.type == "parenthesized_expression" and inner.named_child_count == 1:
        inner = inner.named_children[0]
    # These have another mutant with the same meaning.
    if inner.type in language.negations and inner.children[0].type == language.negations[inner.type]:
        return
    if inner.type in language.word_nodes:
        return
    tokens = [" ".join(text_of(child).split()) for child in inner.children if not child.is_named]
    if inner.type in language.operators and len(tokens) == 1 and tokens[0] in EXACT_OPPOSITES:
        return
    yield condition.start_byte, condition.end_byte, language.negated % text_of(condition), "condition"


def _value_edits(language: Language, node: Node) -> Iterator[Edit]:
    """Yield changes of what a function returns, of what it takes by default, and of what it stores in an object."""
    kind = node.type
    if kind in language.returns and node.named_child_count:
        text = language.zero_value(node) if language.returns[kind] == "zero" else language.returns[kind]
        values = [child for child in node.named_children if child.type not in {"comment", "line_comment"}]
        if text is not None and values:
            yield values[0].start_byte, values[-1].end_byte, text, "return"
    if kind in language.results:
        body = node.child_by_field_name("body")
        if body is not None and not BLOCKS.search(body.type):
            yield body.start_byte, body.end_byte, language.results[kind], "return"
    if kind in language.stores:
        target, stored = node.child_by_field_name("left"), node.child_by_field_name("right")
        # Any other value has mutants of its own, or would be noticed by all tests that use the object.
        if target and stored and stored.type == "identifier" and language.stores[kind].fullmatch(text_of(target)):
            yield stored.start_byte, stored.end_byte, language.none, "store"
    if kind in language.functions and (tail := language.tail(node)) is not None:
        yield tail.start_byte, tail.end_byte, "Default::default()", "return"
    if kind in language.defaults and (value := _default_of(node)) is not None:
        literal = value.type in language.numbers | language.strings | language.word_nodes
        if not literal:  # a literal has mutants of its own
            other = next((word for word in language.words if word.lower() == "false"), language.none)
            yield (
                value.start_byte,
                value.end_byte,
                other if text_of(value) == language.none else language.none,
                "default",
            )


def _default_of(parameter: Node) -> Node | None:
    return parameter.child_by_field_name("value") or parameter.child_by_field_name("right")


def _ends_a_loop(node: Node) -> bool:
    """Return whether a ``break`` ends a loop, where ``continue`` is allowed, and not a ``switch``."""
    at = node.parent
    while at is not None:
        if _SWITCH.search(at.type):
            return False
        if _LOOP.search(at.type):
            return True
        at = at.parent
    return False


def _next_number(text: str) -> str | None:
    if match := _WHOLE_NUMBER.fullmatch(text):
        return f"{int(match[1].replace('_', '')) + 1}{match[2] or ''}"
    if match := _DECIMAL.fullmatch(text):
        return f"{int(match[1].replace('_', '')) + 1}{match[2]}"
    return None


def _callee(call: Node, arguments: Node) -> str:
    """Return what a call calls: its text before the arguments."""
    return (call.text or b"")[: arguments.start_byte - call.start_byte].decode("utf-8", "replace").strip()


def _is_text(language: Language, node: Node) -> bool:
    """Return whether a node is a string, or is put together from one."""
    if node.type in language.operators:
        return any(_is_text(language, child) for child in node.named_children)
    return node.type in language.strings


def _is_quiet(language: Language, node: Node) -> bool:
    if node.type not in language.statements or not node.named_child_count:
        return False
    inner = node.named_children[0]
    return inner.type in language.calls and language.quiet.match(_beginning(inner)) is not None


def _beginning(node: Node) -> str:
    return (node.text or b"")[:_CALL_PREFIX].decode("utf-8", "replace")


def _name_of(node: Node) -> str:
    """Return the name of a function or class; that of the variable or key it is assigned to, if it has none."""
    name = node.child_by_field_name("name") or node.child_by_field_name("type")
    if name is None and (parent := node.parent) is not None:
        name = next(filter(None, map(parent.child_by_field_name, ("name", "key", "left", "property"))), None)
    return "" if name is None else " ".join(text_of(name).split())


def _line_at(node: Node, start: int) -> int:
    """Return the line of the byte ``start`` within a node."""
    return node.start_point[0] + 1 + (node.text or b"")[: start - node.start_byte].count(b"\n")


def _smallest(source: bytes, mutant: Mutant) -> tuple[int, int, bytes]:
    """Return the smallest edit that makes the same source, to recognise mutants that are the same."""
    old, new = source[mutant.start : mutant.end], mutant.text
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return mutant.start + head, mutant.end - tail, new[head : len(new) - tail]


def runs_the_same(path: str, before: bytes | None, after: bytes | None, *, docstrings_run: bool = False) -> bool:
    """Return whether two versions of a file differ at most in spaces, comments and docstrings; None: it does not exist.

    ``docstrings_run``: something reads docstrings, such as a parser whose grammar they are. The suffix of ``path``
    decides the language. Files in unknown languages, with errors, or above 2 MiB must be equal.
    """
    old, new = before or b"", after or b""
    language = language_of(path)
    if old == new:
        # A new empty module changes nothing; without it, a package may not be found.
        return (before is None) == (after is None) or (before is None and language is not None)
    if after is None or language is None or max(len(old), len(new)) > _MOST_BYTES:
        return False
    roots = language.parse(old), language.parse(new)
    if any(root.has_error for root in roots):
        return False
    docstrings = language is PYTHON and not docstrings_run and b"__doc__" not in old + new
    # Decorators may read types.
    erased = language.erased if not _DECORATOR.search(old + b"\n" + new) else frozenset[str]()
    trees = [_syntax(root, source, docstrings, erased) for root, source in zip(roots, (old, new), strict=True)]
    if any(left != right for left, right in zip_longest(*trees)):
        return False
    # The grammar knows no wrong indentation.
    return language is not PYTHON or (python_syntax(old) is None) == (python_syntax(new) is None)


def _syntax(root: Node, source: bytes, docstrings: bool, erased: Collection[str]) -> Iterator[bytes | str]:
    """Yield the types and texts of all nodes that run, each with the end of its children."""
    stack: list[Node | str] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            yield node
            continue
        # The text of a node is copied, so not of those that have children.
        if "comment" in node.type and not _DIRECTIVE.search(node.text or b""):
            continue
        if node.type in erased or (docstrings and is_docstring(node)):
            continue
        yield node.type
        stack.append("end")
        if not node.children or _TEXT.search(node.type):
            yield from filter(None, [node.text])
        else:
            yield from _between(node, source)
            stack += reversed(node.children)


def _between(node: Node, source: bytes) -> Iterator[bytes]:
    """Yield the text of a node that belongs to none of its children."""
    at = node.start_byte
    for child in node.children:
        if gap := source[at : child.start_byte].strip():
            yield gap
        at = child.end_byte
    if gap := source[at : node.end_byte].strip():
        yield gap


def is_docstring(node: Node) -> bool:
    """Return whether a node of Python is the docstring of a module, class or function."""
    if node.type != "expression_statement" or [child.type for child in node.named_children] != ["string"]:
        return False
    above = node.parent
    if above is None or above.type not in {"module", "block"}:
        return False
    first = next((child for child in above.named_children if child.type != "comment"), None)
    return first == node and not (node.text or b"").lstrip(b"rRuU")[:1].isalpha()  # an f-string runs code
