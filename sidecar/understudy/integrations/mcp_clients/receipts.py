"""What an install inserted, so that an uninstall restores the bytes that were there before.

One file in ``<state>/mcp-clients`` for each changed file. It is not needed to remove an entry: without it, a table or
a file that was made for the entry stays, empty.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import msgspec

from understudy.files import durable
from understudy.journal import state_folder

_MOST_BYTES = 64 * 1024


class Receipt(msgspec.Struct, kw_only=True):
    """What was inserted into one file."""

    path: str
    insertion: str
    entry: int
    """Where the entry's name begins in it."""
    container: bool
    """Whether the table of servers was made for the entry."""
    file: bool
    """Whether the file was made for it."""
    folders: int
    """How many folders were made for the file."""


def read(path: Path, name: str) -> Receipt | None:
    """Return the receipt for an entry in a file, None without one that is valid."""
    try:
        found = msgspec.json.decode(durable.read_whole(_place(path, name), _MOST_BYTES), type=Receipt)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.path == str(path) else None


def write(receipt: Receipt, path: Path, name: str) -> None:
    """Keep a receipt. Errors: ``disk_full``, ``state_unavailable``."""
    place = _place(path, name)
    with durable.named_failures(place):
        place.parent.mkdir(mode=durable.PRIVATE_FOLDER, exist_ok=True)
        durable.replace(place, msgspec.json.encode(receipt), several_writers=True)


def forget(path: Path, name: str) -> None:
    """Remove a receipt."""
    with contextlib.suppress(OSError):
        _place(path, name).unlink()


def _place(path: Path, name: str) -> Path:
    digest = hashlib.sha256(os.fsencode(path) + b"\0" + name.encode()).hexdigest()[:24]
    return state_folder.state_root() / "mcp-clients" / f"{digest}.json"
