"""Remember what the user's own programs wrote to checkouts: files that an editor saved, and accepted results.

A change that is in this record was made by the user, so no agent is suspected of it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from understudy.files import durable
from understudy.journal.state_folder import state_root

_NAME = "editor-saves.jsonl"
_LIMIT = 1 << 20
"""Bytes kept; the older half is dropped when there are more."""
_MOST_FILES = 5000
"""Files that one call records: more than the bytes that are kept usually hold."""
FILE_BYTES = 32 * 1024 * 1024
"""A larger file is not hashed, so a save of it is not remembered."""


def record(paths: Iterable[Path]) -> None:
    """Remember the current contents of files; errors are ignored, because nothing else depends on the record."""
    with suppress(OSError):
        newest = list(paths)[-_MOST_FILES:]
        lines = b"".join(json.dumps([os.path.realpath(path), digest_of(path)]).encode() + b"\n" for path in newest)
        target = state_root() / _NAME
        descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, lines)
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if size > _LIMIT:
            kept = durable.read_whole(target, size)[-_LIMIT // 2 :].partition(b"\n")[2]
            temporary = target.with_suffix(f".{os.getpid()}.tmp")
            temporary.write_bytes(kept)
            temporary.replace(target)


def is_known(path: Path, known: frozenset[tuple[str, str]]) -> bool:
    """Return whether the current content of a file (or that it is missing) is in the record."""
    return (os.path.realpath(path), digest_of(path)) in known


def read() -> frozenset[tuple[str, str]]:
    """Return (real path, digest) of everything in the record."""
    found = set()
    with suppress(OSError):
        for line in durable.read_whole(state_root() / _NAME, 2 * _LIMIT).splitlines():
            with suppress(ValueError):
                path, digest = json.loads(line)
                found.add((str(path), str(digest)))
    return frozenset(found)


def digest_of(path: Path) -> str:
    """Return the digest of a file's content; empty if it is missing, too large or not a regular file."""
    with suppress(OSError):
        content = durable.read_whole(path, FILE_BYTES + 1)
        return hashlib.sha256(content).hexdigest() if len(content) <= FILE_BYTES else ""
    return ""
