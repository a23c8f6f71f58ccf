"""Receive the reports of the probes of one check through a named pipe.

Each line is ``SIGNATURE SESSION NUMBER FLAG TEXT``. The signature (BLAKE2b with the key of the check) covers the rest,
the number counts the lines of a session from 0, and the texts of lines up to one with the flag ``.`` are one JSON
object. What was received stays received, so a report cannot be shortened afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_MOST_BYTES = 64 * 1024 * 1024
"""Most bytes that are kept; the reports of 100,000 tests with long names are smaller."""
_READ_BYTES = 64 * 1024
_KEY_BYTES = 32
_SIGNATURE_BYTES = 16

Entry = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Received:
    """The entries of all sessions, and what was wrong with the lines."""

    sessions: tuple[tuple[Entry, ...], ...] = ()
    """The entries of each process that reported, in their order."""
    forged: int = 0
    """Lines without a valid signature, or sent twice."""
    missing: bool = False
    """A session lacks lines that it sent."""


@dataclass(kw_only=True)
class _Session:
    next: int = 0
    parts: list[bytes] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)


class ReportChannel:
    """A named pipe in ``folder``, read by the running event loop inside of ``with``."""

    def __init__(self, folder: Path) -> None:
        """Create the pipe."""
        self.path = folder / secrets.token_hex(6)
        self.key = secrets.token_bytes(_KEY_BYTES)
        self._data = bytearray()
        self._overflow = False
        os.mkfifo(self.path, 0o600)

    def __enter__(self) -> Self:
        """Start to read."""
        # Opened for writing, too: otherwise the file ends whenever no process has it open, although another may follow.
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Read what is left, and remove the pipe."""
        asyncio.get_running_loop().remove_reader(self._descriptor)
        while self._read():
            pass
        os.close(self._descriptor)
        with contextlib.suppress(OSError):  # a test may have removed it
            self.path.unlink()

    def _read(self) -> bool:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        room = _MOST_BYTES - len(self._data)
        self._data += data[:room]
        self._overflow = self._overflow or len(data) > room
        return not self._overflow

    def received(self) -> Received:
        """Return what was received so far."""
        return verified(bytes(self._data), self.key, cut_off=self._overflow)


def verified(data: bytes, key: bytes, *, cut_off: bool = False) -> Received:
    """Return the entries with a valid signature; ``cut_off``: the end of the data was dropped."""
    sessions: dict[bytes, _Session] = {}
    forged = 0
    missing = cut_off
    lines = data.split(b"\n")
    if lines[-1] == b"" or cut_off:
        lines.pop()
    for line in lines:
        signature, _, body = line.partition(b" ")
        expected = hashlib.blake2b(body, key=key, digest_size=_SIGNATURE_BYTES).hexdigest()
        if not hmac.compare_digest(signature, expected.encode()):
            forged += 1
            continue
        name, number, flag, text = body.split(b" ", 3)
        session = sessions.setdefault(name, _Session())
        if int(number) < session.next:
            forged += 1
            continue
        if int(number) > session.next:
            missing = True
            session.parts.clear()
        session.next = int(number) + 1
        session.parts.append(text)
        if flag == b".":
            session.entries += _entry(b"".join(session.parts))
            session.parts.clear()
    return Received(
        sessions=tuple(tuple(session.entries) for session in sessions.values()), forged=forged, missing=missing
    )


def _entry(text: bytes) -> list[Entry]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []  # its first lines are missing, or it is not JSON
    return [value] if isinstance(value, dict) else []
