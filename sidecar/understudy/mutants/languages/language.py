"""What a language must declare so that its code can be mutated."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

Operators = Mapping[str, str]
"""Operator → the operator that takes its place."""

COMPARISONS: Operators = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC: Operators = {
    "+": "-",
    "-": "+",
    "*": "/",
    "/": "*",
    "%": "*",
    "<<": ">>",
    ">>": "<<",
    "&": "|",
    "|": "&",
    "^": "&",
}
ASSIGNMENTS: Operators = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "%=": "*=", "|=": "&=", "&=": "|="}
LOGIC: Operators = {"&&": "||", "||": "&&"}
STEPS: Operators = {"++": "--", "--": "++"}
EXACT_OPPOSITES = frozenset({"==", "!=", "===", "!==", "is", "is not", "in", "not in"})
"""Comparisons whose replacement is their negation, so that negating the condition around them would be the same."""

_KEPT_FILES = 4
"""Files of which the tree is kept: each place of a file asks for it again."""
_NOTHING = re.compile(r"(?!)")


@dataclass(frozen=True, kw_only=True)
class Language:
    """The names that a grammar gives to what can be mutated. ``Node`` types are those of the grammar."""

    name: str
    """Its name in reports, as Stryker's viewers expect it."""
    suffixes: tuple[str, ...]
    grammar: str
    """The Python module of the grammar."""
    entry: str = "language"
    """The function of that module that returns the grammar."""

    operators: Mapping[str, tuple[str, Operators]]
    """Node type → the kind of mutant (as in ``Mutant.operator``) and the operators of its direct children."""
    conditions: Mapping[str, str | int]
    """Node type → the field, or the index among the named children, of its condition."""
    negated: str
    """How to negate a condition: a text with one ``%s``."""
    negations: Mapping[str, str]
    """Node type of a negation → its operator; the last child is what it negates."""
    words: Mapping[str, str]
    """Text of a keyword that is a value or a statement → its replacement, such as ``true`` → ``false``."""
    word_nodes: frozenset[str]
    """Node types of these keywords."""
    numbers: frozenset[str]
    strings: frozenset[str]
    returns: Mapping[str, str]
    """Node type → what is returned instead. A text of ``zero`` means ``zero_value``."""
    results: Mapping[str, str] = field(default_factory=dict)
    """Node type of a function whose body is an expression (a lambda) → what that expression becomes."""
    throws: Mapping[str, str] = field(default_factory=dict)
    """Node type of a statement that raises or throws → what takes its place."""
    statements: frozenset[str]
    """Node types of a statement that is one expression."""
    removed: str
    """What takes the place of a removed call."""
    calls: frozenset[str]
    """Node types of calls that can be removed where they are a statement."""
    defaults: frozenset[str] = frozenset()
    """Node types of parameters with a default value, in the field ``value``."""
    none: str = ""
    """The language's word for "no value", which replaces a default."""

    stores: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    """Node type of an assignment → what it matches on the left if a variable on the right may become ``none``: the
    attributes of an object. Only in languages where every variable may be ``none``; a local one would do too much."""

    functions: frozenset[str]
    """Node types of functions whose body is in the field ``body``."""
    empty_body: bytes | None = None
    """A body with which each of them does nothing; None if one that returns nothing cannot be built."""
    classes: frozenset[str]
    for_the_compiler: frozenset[str] = frozenset()
    """Node types of declarations that do nothing by themselves, and without which what uses them cannot be built."""
    not_for_the_compiler: re.Pattern[str] = _NOTHING
    """Matches the text of those that do something all the same: they load code, or give others a name to use."""
    erased: frozenset[str] = frozenset()
    """Node types that the compiler leaves out of what runs, such as the types of TypeScript."""
    bindings: frozenset[str] = frozenset()
    """Node types that give a value to a name which is in the field ``name`` or ``left``."""
    skipped: frozenset[str]
    """Node types that no test can see, such as imports and types."""
    skip: Callable[[Node], bool] = lambda _: False
    """Whether a node is skipped for a reason of this language, such as ``if TYPE_CHECKING``."""
    quiet: re.Pattern[str] = _NOTHING
    """Matches the beginning of a call that only logs or prints for people."""
    messages: frozenset[str] = frozenset()
    """Node types in which a string is the text of an error."""
    message_calls: re.Pattern[str] = _NOTHING
    """Matches what a call calls, if the strings among its arguments are the text of an error."""
    zero_value: Callable[[Node], str | None] = lambda _: None
    """Return the zero value of the result type of the function around a node; None if there is none."""
    tail: Callable[[Node], Node | None] = lambda _: None
    """Return the expression that a function's body ends with and which it returns; None if there is none."""

    abort: str
    """A statement that ends the process at once, so that no code around it can catch that; see ``reach_probe``."""
    abort_first: str = ""
    """How to end the process before the expression of a function of ``results``: a text with one ``%s``."""
    abort_import: str = ""
    """What ``abort`` needs after the node of ``abort_import_after``."""
    abort_import_after: str = ""

    comment: str
    """How to write a comment of one line: a text with one ``%s``."""
    dead_store: str | None
    """A line that is valid at the end of a file and stores a value that nothing reads; ``%s`` is a name."""
    local_store: str
    """The same before the last statement of a function: on a line of its own if it does not end with a space."""
    observed_locals: re.Pattern[str] = _NOTHING
    """Matches code that can see the variables of the function around it."""

    def parse(self, source: bytes) -> Node:
        """Return the root of the syntax tree."""
        return _root(self.grammar, self.entry, source)


@functools.lru_cache(maxsize=_KEPT_FILES)
def _root(grammar: str, entry: str, source: bytes) -> Node:
    return _parser(grammar, entry).parse(source).root_node


@functools.cache
def _parser(grammar: str, entry: str) -> Parser:
    import tree_sitter

    return tree_sitter.Parser(tree_sitter.Language(getattr(importlib.import_module(grammar), entry)()))


def is_condition(node: Node, statements: Collection[str]) -> bool:
    """Return whether a node is the condition of one of these kinds of statements."""
    parent = node.parent
    return parent is not None and parent.type in statements and parent.child_by_field_name("condition") == node


def text_of(node: Node) -> str:
    """Return the source of a node; bytes that are not UTF-8 come back by ``surrogateescape``."""
    return (node.text or b"").decode("utf-8", "surrogateescape")
