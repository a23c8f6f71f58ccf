"""Split bytes into bounded lines, and parse them as strict JSON (RFC 8259 and RFC 7493, I-JSON)."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from understudy.model.text import foreign_json

LONGEST_FRAME = 4 * 1024 * 1024
"""Bytes; a longer line is rejected and skipped up to its newline."""


class Malformed(Exception):  # noqa: N818 - about a message, not an error of the program
    """A line that is not JSON; ``str()`` is the reason."""


class Lines:
    """Splits chunks of bytes into lines; keeps at most one line in memory."""

    def __init__(self, longest: int = LONGEST_FRAME) -> None:
        """Reject lines longer than ``longest`` bytes."""
        self._longest = longest
        self._kept = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """Return the lines that ``data`` completes, without newlines; None stands for one that was too long."""
        *complete, rest = data.split(b"\n")
        lines = [self._complete(piece) for piece in complete]
        self._kept += b"" if self._skipping else rest
        if len(self._kept) > self._longest:
            self._kept.clear()
            self._skipping = True
        return lines

    def end(self) -> list[bytes | None]:
        """Return the last line of the stream if it has no newline."""
        left = self._complete(b"")
        return [] if left == b"" else [left]

    def _complete(self, piece: bytes) -> bytes | None:
        line = bytes(self._kept) + piece
        skipped, self._skipping = self._skipping, False
        self._kept.clear()
        return None if skipped or len(line) > self._longest else line


def parse(line: bytes) -> Any:
    """Return the JSON value of a line; raise ``Malformed``.

    Also rejected: NaN and infinities, numbers beyond a double, a duplicate key in one object (parsers disagree about
    its value), nesting beyond the recursion limit. Half a surrogate pair becomes U+FFFD: the request has an id, by
    which its client waits for an answer.
    """
    try:
        try:
            msgspec.json.decode(line)
        except msgspec.DecodeError:
            line = foreign_json.with_whole_pairs(line)
            msgspec.json.decode(line)
        return json.loads(line, object_pairs_hook=_unique)
    except Malformed:
        raise
    except RecursionError:
        raise Malformed("it is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise Malformed(str(error)) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Malformed("an object has a duplicate key")
    return members
