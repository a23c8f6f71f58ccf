"""Understudy's block in a file that the user owns: insert it, replace it, remove it, without changing any other byte.

    <!-- understudy:begin v1 1f0c2d3e4a5b added=2 -->
    …
    <!-- understudy:end -->

The first marker has a digest of the lines between the markers, so edits inside are noticed, and how many line breaks
were added before it; or ``made=3``: the file and three folders above it were made for the block. A begin without an
end, or an end without a begin, is text of the user's. A file that is completely ours, such as a skill, ends with
``<!-- understudy:file v1 1f0c2d3e4a5b made=3 -->``.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

VERSION = 1
_BEGIN = re.compile(rb"<!-- understudy:begin v(\d{1,6}) ([0-9a-f]{12}) (added|made)=(\d) -->\r?\n")
_END = re.compile(rb"<!-- understudy:end -->(\r?\n)?")
_FILE = re.compile(rb"<!-- understudy:file v(\d{1,6}) ([0-9a-f]{12}) made=(\d) -->\r?\n?\Z")


@dataclass(frozen=True, slots=True)
class Block:
    """Where the block is in a file."""

    start: int
    end: int
    """After the line break of the last marker."""
    body: str
    """The lines between the markers, with ``\\n``."""
    added: int
    """How many line breaks were added before the block."""
    made: int | None
    """How many folders were made for the file, if it was made for the block."""
    edited: bool
    """Whether someone has changed the lines between the markers."""


def find(content: bytes) -> Block | None:
    """Return the block in ``content``; the last one if there are several."""
    block = None
    begins = list(_BEGIN.finditer(content))
    for number, begin in enumerate(begins):
        limit = begins[number + 1].start() if number + 1 < len(begins) else len(content)
        end = _END.search(content, begin.end(), limit)
        if end is not None:
            body = _lines(content[begin.end() : end.start()])
            edited = begin[2].decode() != _digest(body)
            made = int(begin[4]) if begin[3] == b"made" else None
            added = int(begin[4]) if made is None else 0
            block = Block(begin.start(), end.end(), body, added, made, edited)
    return block


def insert(content: bytes | None, body: str, made: int = 0) -> bytes:
    """Return ``content`` with a block that has ``body``: in the place of the earlier block, or at the end.

    ``content`` is None for a file that is made for the block, with ``made`` folders.
    """
    if content is None:
        return _block(body, f"made={made}", b"\n")
    eol = b"\r\n" if re.match(rb"[^\n]*\r\n", content) else b"\n"
    earlier = find(content)
    if earlier is not None:
        how = f"added={earlier.added}" if earlier.made is None else f"made={earlier.made}"
        return content[: earlier.start] + _block(body, how, eol) + content[earlier.end :]
    added = 0 if not content else 1 if content.endswith(b"\n") else 2
    return content + eol * added + _block(body, f"added={added}", eol)


def remove(content: bytes) -> bytes | None:
    """Return ``content`` without its block; the inverse of ``insert`` if nothing was written after the block.

    None: the file was made for the block, and has nothing else.
    """
    block = find(content)
    if block is None:
        return content
    before, after = content[: block.start], content[block.end :]
    if not after:
        # Otherwise what the user wrote below would be joined to the line above.
        for _ in range(block.added):
            before = before[:-2] if before.endswith(b"\r\n") else before.removesuffix(b"\n")
    return None if block.made is not None and not before + after else before + after


def whole_file(body: str, made: int) -> bytes:
    """Return the bytes of a file that is completely ours, for which ``made`` folders were made."""
    return f"{body}<!-- understudy:file v{VERSION} {_digest(body)} made={made} -->\n".encode()


def find_file(content: bytes) -> Block | None:
    """Return the block that such a file is; None if the file is not ours."""
    match = _FILE.search(content)
    if match is None:
        return None
    body = _lines(content[: match.start()])
    return Block(0, len(content), body, 0, int(match[3]), match[2].decode() != _digest(body))


def _block(body: str, how: str, eol: bytes) -> bytes:
    begin = f"<!-- understudy:begin v{VERSION} {_digest(body)} {how} -->\n"
    return f"{begin}{body}<!-- understudy:end -->\n".encode().replace(b"\n", eol)


def _lines(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogateescape")).hexdigest()[:12]
