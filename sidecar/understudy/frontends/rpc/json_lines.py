"""From bytes to messages: lines, with a bound, and JSON exactly as RFC 8259 and RFC 7493 (I-JSON) have it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

LONGEST_FRAME = 4 * 1024 * 1024
"""A longer line is refused and skipped up to its newline."""


class Malformed(Exception):  # noqa: N818 - a verdict on a message, not a fault
    """A line that is no JSON; ``str()`` says why."""


class Lines:
    """Lines out of pieces of bytes, with at most one line kept."""

    def __init__(self, longest: int = LONGEST_FRAME) -> None:
        """Refuse lines above ``longest`` bytes."""
        self._longest = longest
        self._kept = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """Return the lines completed by ``data``, without their newlines; None stands for one that was too long."""
        *complete, rest = data.split(b"\n")
        found = [self._complete(piece) for piece in complete]
        self._kept += b"" if self._skipping else rest
        if len(self._kept) > self._longest:
            self._kept.clear()
            self._skipping = True
        return found

    def end(self) -> list[bytes | None]:
        """Return what was left without a newline when the stream ended."""
        left = self._complete(b"")
        return [] if left == b"" else [left]

    def _complete(self, piece: bytes) -> bytes | None:
        line = bytes(self._kept) + piece
        skipped, self._skipping = self._skipping, False
        self._kept.clear()
        return None if skipped or len(line) > self._longest else line


def parse(line: bytes) -> Any:
    """Return the JSON value of a line; raise ``Malformed``.

    Refused besides what is no JSON: NaN and infinities, numbers no double holds, lone surrogates, the same key twice
    in one object (two readers would see two messages), nesting beyond what a reader survives.
    """
    try:
        msgspec.json.decode(line)
        return json.loads(line, object_pairs_hook=_unique)
    except Malformed:
        raise
    except RecursionError:
        raise Malformed("nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise Malformed(str(error)) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Malformed("the same key stands twice in one object")
    return found
