"""Read and write objects of a store with as few git processes as possible.

An accept has to be about as fast as `git apply`, and each start of git costs about 4 ms.
"""

from __future__ import annotations

import os
import secrets
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from understudy.git import verification
from understudy.git.command import git_output, run_git
from understudy.git.object_store import ObjectStore
from understudy.model.errors import ErrorKind, UnderstudyError

_READ_LIMIT = 1 << 30
"""Bytes read in one call: twice the limit for results (``collect.RESULT_TOTAL_BYTES``)."""

_SHA256_LENGTH = 64

_LOOSE_LIMIT = 8 << 20
"""Largest blob that is read without git; a larger one takes longer than a start of git."""


def object_id(kind: str, content: bytes, object_format: str) -> str:
    """Return the id that git gives an object."""
    return verification.digest(kind, content, object_format)


def write_object(git_dir: Path, kind: str, content: bytes, object_format: str, *, sync: bool = False) -> str:
    """Write a loose object below ``git_dir`` unless it exists undamaged; return its id. ``sync`` makes it durable.

    Raises the disk's OSError.
    """
    identifier = object_id(kind, content, object_format)
    place = f"{git_dir}/objects/{identifier[:2]}/{identifier[2:]}"
    if _loose(place) == f"{kind} {len(content)}\0".encode() + content:
        return identifier
    target = Path(place)
    folder = target.parent
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


def pack_into(objects: Path, *options: str, git_dir: Path, source: Path, stdin: bytes) -> None:
    """Copy objects of the object directory ``source`` to another one, as one pack that appears when it is complete.

    ``stdin`` names the objects (with ``--revs``, the revisions). Errors: those of `git_output`.
    """
    # git first writes a pack to its own object directory, and cannot move it from there to another file system: so the
    # target is its own one.
    pack = objects / "pack" / "pack"
    arguments = ["pack-objects", "-q", *options, str(pack)]
    git_output(*arguments, git_dir=git_dir, object_directory=objects, alternates=[source], stdin=stdin)


def write_blob(store: ObjectStore, content: bytes) -> str:
    """Write a blob into the store; raise ``disk_full`` or ``state_unavailable`` for disk errors."""
    with store.writing():
        return write_object(store.path, "blob", content, store.object_format)


def write_flat_tree(store: ObjectStore, entries: Iterable[tuple[bytes, str, str]]) -> str:
    """Write a tree without folders from (name, mode, blob), sorted by the bytes of the names."""
    content = b"".join(
        mode.encode() + b" " + name + b"\0" + bytes.fromhex(identifier) for name, mode, identifier in sorted(entries)
    )
    with store.writing():
        return write_object(store.path, "tree", content, str(store.description["objectFormat"]))


def read_blobs(store: ObjectStore, identifiers: Iterable[str]) -> dict[str, bytes]:
    """Return the verified contents of blobs with one call of git; damaged ones are recovered from their copies.

    Errors: ``base_unavailable`` when one is missing, or damaged without a good copy.
    """
    asked = list(dict.fromkeys(identifiers))
    objects = verification.read_objects(store, asked, limit=_READ_LIMIT) if asked else []
    return {identifier: content for identifier, _, content in objects}


def read_kept_blobs(git_dir: Path, identifiers: Iterable[str]) -> dict[str, bytes]:
    """Read blobs as ``read_blobs`` does, from a git directory that is not a store and has no copies."""
    asked = list(dict.fromkeys(identifiers))
    if not asked:
        return {}
    names = "".join(f"{identifier}\n" for identifier in asked).encode()
    completed = run_git("cat-file", "--batch", "--buffer", git_dir=git_dir, stdin=names, output_limit=_READ_LIMIT)
    object_format = "sha256" if len(asked[0]) == _SHA256_LENGTH else "sha1"
    objects, damaged = verification.parse_objects(asked, completed, git_dir, object_format)
    if damaged:
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"The object {damaged[0][:12]} is no longer in {git_dir}, or is damaged.",
            hint="Nothing was restored. The disk may be damaged: check it, and restore from a backup of that folder.",
        )
    return {identifier: content for identifier, _, content in objects}


def read_loose(git_dir: Path, identifier: str, object_format: str) -> bytes | None:
    """Return the contents of a blob that is a loose object below ``git_dir``, without git; None if it is not.

    The contents are used only if they have this id.
    """
    whole = _loose(f"{git_dir}/objects/{identifier[:2]}/{identifier[2:]}")
    content = whole[whole.find(b"\0") + 1 :]
    return content if object_id("blob", content, object_format) == identifier else None


def _loose(path: str) -> bytes:
    """Return an unpacked loose object including its header; empty if it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as stream:  # noqa: PTH123 - for tens of thousands of objects
            return zlib.decompressobj().decompress(stream.read(), _LOOSE_LIMIT)
    except (OSError, zlib.error):
        return b""
