"""What an edit inserted into a text, and errors about a file that cannot be edited. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.model.errors import ErrorKind, UnderstudyError


@dataclass(frozen=True, slots=True)
class Inserted:
    """A text with an insertion."""

    text: str
    start: int
    """Where the insertion begins, in characters."""
    length: int
    entry: int
    """Where the entry's name begins, counted from ``start``."""
    container: bool
    """Whether the table of servers was made for the entry."""

    @property
    def insertion(self) -> str:
        """Return what was inserted."""
        return self.text[self.start : self.start + self.length]


def insert_at(text: str, start: int, insertion: str, entry: int, *, container: bool) -> Inserted:
    """Return ``text`` with ``insertion`` at ``start``."""
    return Inserted(text[:start] + insertion + text[start:], start, len(insertion), entry, container)


def unusable(text: str, offset: int, problem: str, hint: str = "Correct it, then try again.") -> UnderstudyError:
    """Return ``config_invalid`` that names the line and column (from 1) of ``offset``."""
    before = text[:offset]
    line = before.count("\n") + 1
    column = offset - (before.rfind("\n") + 1) + 1 - (before.startswith("\ufeff") if line == 1 else 0)
    return UnderstudyError(ErrorKind.CONFIG_INVALID, f"Line {line}, column {column}: {problem}", hint=hint)


def line_end(text: str) -> str:
    """Return the line end that a text uses."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"
