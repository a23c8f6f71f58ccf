"""Replace the tests of a file by copies in which one input differs, and which write down what they see.

So the same copies can run on two versions of the code, and what these give can be compared, whatever a runner reports.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.judge.varied_tests import go_copies, python_copies, rust_copies, script_copies
from understudy.judge.varied_tests.dialect import COPY, Dialect, Edit, NewSite, Site, Template, below, joined
from understudy.judge.varied_tests.literals import Literal, literal_of
from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.language import Language
from understudy.mutants.test_code.definitions import DefinedTest, definitions_of, node_of
from understudy.mutants.test_code.expectations import edited

if TYPE_CHECKING:
    from tree_sitter import Node

_DIALECTS: Mapping[str, Dialect] = {
    language: module.DIALECT
    for module in (python_copies, script_copies, go_copies, rust_copies)
    for language in module.DIALECT.languages
}
_MOST_COPIES = 160
"""Most copies of one test."""
_MOST_BYTES = 512 * 1024
"""Most bytes of the copies of one test."""
_MOST_LEVELS = 150
"""What is deeper in a syntax tree stays as it is."""


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A copy of a test: its place in a list is its number."""

    test: str
    """The id of the test."""
    value: float | str | None = None
    """The literal that has another value; None: the copy is exact."""
    literal: int = -1
    """Which literal of the test that is."""
    other: str = ""
    """What is there instead."""
    is_near: bool = False
    """The other value is the number next to it."""
    is_similar: bool = True
    """It is a value like it; False if the literal is one that is often special."""


@dataclass(frozen=True, kw_only=True)
class VariedFile:
    """A file of tests in which only copies run."""

    content: bytes
    copies: Sequence[Copy]
    name: str
    """Is in the names of all copies, before their numbers."""


def varied_file(
    path: str, source: bytes, tests: Mapping[str, DefinedTest], out: str | None, *, exact: bool = False
) -> VariedFile | None:
    """Replace the tests of a file by copies of ``tests`` (id → definition), which write to the file ``out``.

    Of each test, the first and the last copy are exact; with ``exact``, there is one. With None for ``out``, it writes
    nothing, and only has another name. None if no test can be copied.
    """
    language = language_of(path)
    dialect = _DIALECTS.get(language.name) if language is not None else None
    if language is None or dialect is None:
        return None
    root, name = language.parse(source), f"q{secrets.token_hex(4)}"
    once, in_scope = dialect.helper(root, name, out) if out is not None else ((0, 0, b""), b"")
    edits: list[Edit] = [once]
    copies: list[Copy] = []
    scopes = set()
    sites = itertools.count()
    before: dict[int, bytes] = {}
    for test, definition in tests.items():
        statement = node_of(root, definition)
        title = dialect.name_of(statement)
        if title is None or not dialect.is_test(statement, definition):
            continue
        text = source[definition.start : definition.end]
        rendered = _Rendered(language, dialect, statement, title, lambda: Site(name, next(sites)))
        template, literals = rendered.template(recorded=out is not None), rendered.literals
        head = source[definition.start : statement.start_byte]
        most = min(_MOST_COPIES, _MOST_BYTES // len(text))
        variants = list(itertools.islice(_variants(test, literals), max(0, most)))
        plain = [source[literal.start : literal.end] for literal in literals]
        written = []
        unchanged = Copy(test=test), None
        is_alone = exact or out is None
        for copy, other in [unchanged] if is_alone else [unchanged, *variants, unchanged]:
            texts = [*plain]
            if other is not None:
                texts[copy.literal] = other.encode()
            written.append(head + joined(template, len(copies), texts))
            copies.append(copy)
        scope = statement.parent.id if statement.parent is not None else 0
        helper = in_scope if scope not in scopes else b""
        scopes.add(scope)
        indent = source[source.rfind(b"\n", 0, definition.start) + 1 : definition.start]
        end = b"\n" + (indent if not indent.strip() else b"")
        before[definition.start] = helper + end.join([*written, b""])
    if not copies:
        return None
    edits += [(at, at, text) for at, text in before.items()]
    for definition in definitions_of(path, source):
        statement = node_of(root, definition)
        if dialect.is_test(statement, definition) and (edit := dialect.left_out(statement, name)) is not None:
            edits.append(edit)
    return VariedFile(content=edited(source, edits), copies=copies, name=name)


class _Rendered:
    """A test in pieces, in which its literals and the number of the copy are missing."""

    def __init__(
        self,
        language: Language,
        dialect: Dialect,
        statement: Node,
        title: Node,
        new_site: NewSite,
    ) -> None:
        """Render nothing yet: ``statement`` is the test, ``title`` its name, which stays."""
        self._language = language
        self._dialect = dialect
        self._statement = statement
        self._title = title
        self.literals: list[Literal] = []
        """Those of the pieces, by their numbers."""
        self._new_site = new_site
        self._level = 0

    def template(self, *, recorded: bool) -> Template:
        """Return the pieces; without ``recorded``, only the title is another one."""
        return self._rendered(self._statement) if recorded else self._only_renamed(self._statement)

    def _only_renamed(self, node: Node) -> Template:
        return self._other_title(node) if node == self._title else below(node, self._only_renamed)

    def _rendered(self, node: Node) -> Template:
        if node == self._title:
            return self._other_title(node)
        if self._level >= _MOST_LEVELS:
            return [node.text or b""]
        literal = literal_of(self._language, node)
        if literal is not None:
            self.literals.append(literal)
            return [len(self.literals) - 1]
        self._level += 1
        try:
            inside = self._dialect.recorded(node, self._statement, self._rendered, self._new_site)
            return inside if inside is not None else below(node, self._rendered)
        finally:
            self._level -= 1

    def _other_title(self, node: Node) -> Template:
        text = node.text or b""
        end = len(text) - (text[-1:] in {b'"', b"'", b"`"})
        return [text[:end], f"_{self._new_site().name}_".encode(), COPY, text[end:]]


def _variants(test: str, literals: Sequence[Literal]) -> Iterator[tuple[Copy, str]]:
    """Yield copies with another literal and its text: one of each literal after another."""
    of_literals = [_of_literal(test, at, literal) for at, literal in enumerate(literals)]
    rows = itertools.zip_longest(*of_literals)
    yield from (pair for row in rows for pair in row if pair is not None)


def _of_literal(test: str, at: int, literal: Literal) -> list[tuple[Copy, str]]:
    texts = dict.fromkeys([*literal.near, *literal.others])
    return [
        (
            Copy(
                test=test,
                value=literal.value,
                literal=at,
                other=text,
                is_near=text in literal.near,
                is_similar=text in literal.others,
            ),
            text,
        )
        for text in texts
    ]
