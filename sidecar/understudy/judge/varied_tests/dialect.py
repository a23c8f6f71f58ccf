"""What a language must declare so that copies of its tests can write down what they see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.mutants.test_code.definitions import DefinedTest

if TYPE_CHECKING:
    from tree_sitter import Node

COPY = -1
"""The number of the copy in a ``Template``."""

Template = list[bytes | int]
"""The text of a test in pieces; a number is that of a literal, or ``COPY``."""

Edit = tuple[int, int, bytes]
"""Start, end and replacement, in bytes."""


@dataclass(frozen=True)
class Site:
    """Names for one place of a test."""

    name: str
    """Begins the names of all that is added to the file."""
    number: int
    """Is different for each place."""

    def code(self) -> Template:
        """Return the first arguments of what writes down a value: the numbers of the copy and of the place."""
        return [COPY, f", {self.number}".encode()]


Render = Callable[["Node"], Template]
NewSite = Callable[[], Site]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How the tests of a language are copied."""

    languages: tuple[str, ...]
    """Their names."""
    is_test: Callable[[Node, DefinedTest], bool]
    """Whether a definition, with its statement, is a test that can be copied."""
    name_of: Callable[[Node], Node | None]
    """Return the node with the name, or the title, of the test in a statement; None: it cannot get another one."""
    left_out: Callable[[Node, str], Edit | None]
    """Return the edit by which the test in a statement does not run, with a name that nothing in the file has."""
    recorded: Callable[[Node, Node, Render, NewSite], Template | None]
    """Return what takes the place of a node in a copy, so that it writes down a value; None: nothing.

    The arguments are the node, the statement of its test, what renders a node below it, and what makes a place.
    """
    helper: Callable[[Node, str, str], tuple[Edit, bytes]]
    """Return the edit that the file needs once, and what each scope needs before its first copy.

    The arguments are the root of the file, the beginning of all names, and the path of the file to write to.
    """


def joined(template: Sequence[bytes | int], copy: int, literals: Sequence[bytes]) -> bytes:
    """Return the text of a copy, with these texts of its literals."""
    return b"".join(
        piece if isinstance(piece, bytes) else str(copy).encode() if piece == COPY else literals[piece]
        for piece in template
    )


def below(node: Node, render: Render) -> Template:
    """Return the text of a node with what is rendered for the nodes in it."""
    text, start = node.text or b"", node.start_byte
    pieces: Template = []
    at = start
    for child in node.children:
        pieces += [text[at - start : child.start_byte - start], *render(child)]
        at = child.end_byte
    return [*pieces, text[at - start :]]
