"""Read and write objects of a store with as few git processes as possible.

An accept has to be about as fast as `git apply`, and each start of git costs about 4 ms.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from understudy.git.command import git_output
from understudy.git.object_store import ObjectStore
from understudy.model.errors import ErrorKind, UnderstudyError

_READ_LIMIT = 1 << 30
"""Bytes read in one call: twice the limit for results (``collect.RESULT_TOTAL_BYTES``)."""

_LOOSE_LIMIT = 8 << 20
"""Largest blob that is read without git; a larger one takes longer than a start of git."""


def object_id(kind: str, content: bytes, object_format: str) -> str:
    """Return the id that git gives an object: the digest of ``<kind> <size>``, a NUL, and the content."""
    digest = hashlib.new(object_format, usedforsecurity=False)
    digest.update(f"{kind} {len(content)}\0".encode())
    digest.update(content)
    return digest.hexdigest()


def write_object(git_dir: Path, kind: str, content: bytes, object_format: str, *, sync: bool = False) -> str:
    """Write a loose object below ``git_dir`` unless it exists, and return its id; ``sync`` makes it durable.

    Raises the disk's OSError.
    """
    identifier = object_id(kind, content, object_format)
    folder = git_dir / "objects" / identifier[:2]
    target = folder / identifier[2:]
    if target.exists():
        return identifier
    folder.mkdir(mode=0o700, exist_ok=True)
    # git's own prefix, so that its garbage collection removes the file.
    temporary = folder / f"tmp_obj_{secrets.token_hex(8)}"
    try:
        with temporary.open("xb") as stream:
            os.fchmod(stream.fileno(), 0o444)
            stream.write(zlib.compress(f"{kind} {len(content)}\0".encode() + content, 1))
            if sync:
                stream.flush()
                os.fsync(stream.fileno())
        temporary.rename(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    return identifier


def write_blob(store: ObjectStore, content: bytes, *, sync: bool = False) -> str:
    """Write a blob into the store; raise ``disk_full`` or ``state_unavailable`` for disk errors."""
    with store.writing():
        return write_object(store.path, "blob", content, str(store.description["objectFormat"]), sync=sync)


def write_flat_tree(store: ObjectStore, entries: Iterable[tuple[bytes, str, str]]) -> str:
    """Write a tree without folders from (name, mode, blob), sorted by the bytes of the names."""
    content = b"".join(
        mode.encode() + b" " + name + b"\0" + bytes.fromhex(identifier) for name, mode, identifier in sorted(entries)
    )
    with store.writing():
        return write_object(store.path, "tree", content, str(store.description["objectFormat"]))


def read_blobs(store: ObjectStore, identifiers: Iterable[str]) -> dict[str, bytes]:
    """Return the contents of blobs with one call of git; raise ``base_unavailable`` when one is missing."""
    asked = list(dict.fromkeys(identifiers))
    if not asked:
        return {}
    return _contents(
        asked, store.git_output("cat-file", "--batch", stdin=_lines(asked), output_limit=_READ_LIMIT), store.path
    )


def read_kept_blobs(git_dir: Path, identifiers: Iterable[str]) -> dict[str, bytes]:
    """Read blobs as ``read_blobs`` does, from a git directory that is not a store."""
    asked = list(dict.fromkeys(identifiers))
    if not asked:
        return {}
    output = git_output("cat-file", "--batch", git_dir=git_dir, stdin=_lines(asked), output_limit=_READ_LIMIT)
    return _contents(asked, output, git_dir)


def read_loose(git_dir: Path, identifier: str, object_format: str) -> bytes | None:
    """Return the contents of a blob that is a loose object below ``git_dir``, without git; None if it is not.

    The contents are used only if they have this id.
    """
    try:
        packed = (git_dir / "objects" / identifier[:2] / identifier[2:]).read_bytes()
        unpacker = zlib.decompressobj()
        whole = unpacker.decompress(packed, _LOOSE_LIMIT)
    except (OSError, zlib.error):
        return None
    content = whole[whole.find(b"\0") + 1 :]
    return content if object_id("blob", content, object_format) == identifier else None


def _lines(identifiers: list[str]) -> bytes:
    return "".join(f"{each}\n" for each in identifiers).encode()


def _contents(asked: list[str], output: bytes, place: Path) -> dict[str, bytes]:
    found = {}
    position = 0
    for identifier in asked:
        end = output.index(b"\n", position)
        words = output[position:end].split(b" ")
        if len(words) != 3:
            raise UnderstudyError(
                ErrorKind.BASE_UNAVAILABLE,
                f"The object {identifier[:12]} is no longer in {place}.",
                hint="The result can no longer be reviewed: the commits that it is based on may have been removed.",
            )
        size = int(words[2])
        found[identifier] = output[end + 1 : end + 1 + size]
        position = end + 1 + size + 1
    return found
