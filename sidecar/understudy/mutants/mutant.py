"""One mutant: a byte-exact edit of one file."""

from __future__ import annotations

from dataclasses import dataclass


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
