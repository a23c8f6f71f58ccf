"""Remember what the user's own programs wrote to checkouts: files that an editor saved, and accepted results.

A change that is in this record was made by the user, so no agent is suspected of it.

While an agent works in a checkout, the contents are kept, too (``keep_contents``): what the user saved and the agent
changed afterwards can then be distinguished.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from understudy.files import durable
from understudy.journal.delegation_folder import state_root
from understudy.model.text import path_quoting
from understudy.model.wire import ready

_NAME = "editor-saves.jsonl"
_LIMIT = 1 << 20
"""Bytes kept; the older half is dropped when there are more."""
MOST_FILES = 5000
"""Files that one call records: more than the bytes that are kept usually hold."""
FILE_BYTES = 32 * 1024 * 1024
"""A larger file is not hashed, so a save of it is not remembered."""

_KEEPERS = "checkout-runs"
KEPT_BYTES = 256 * 1024 * 1024
"""All contents that are kept for one checkout; of further saves, only the digest is."""
_KEPT_LINES = 16 * 1024 * 1024
"""Bytes of the list of these saves: far more than a person saves while an agent works."""


class KeptSave(msgspec.Struct, frozen=True, array_like=True):
    """One save in a checkout in which an agent works."""

    path: str
    """Real path, as ``path_quoting.quote`` writes it."""
    exists: bool
    """Whether there was a file: an accept of another result can remove one."""
    digest: str
    """SHA-256 of the content; empty if it was larger than ``FILE_BYTES``."""
    file: str
    """Name of the file that has the content; empty if it was not kept."""


def record(paths: Iterable[Path], saved: Mapping[Path, bytes] | None = None) -> None:
    """Remember the current contents of files; errors are ignored, because nothing else depends on the record.

    ``saved`` has the contents of those among them that another program has changed since they were saved.
    """
    newest = list(paths)[-MOST_FILES:]
    saved = saved or {}
    _keep(newest, saved)
    with suppress(OSError):
        digests = [_digest(saved[path]) if path in saved else digest_of(path) for path in newest]
        entries = zip(_real_paths(newest), digests, strict=True)
        lines = b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)
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


def is_known(path: Path, record: frozenset[tuple[str, str]]) -> bool:
    """Return whether the current content of a file (or that it is missing) is in the record."""
    return (os.path.realpath(path), digest_of(path)) in record


def read() -> frozenset[tuple[str, str]]:
    """Return (real path, digest) of everything in the record."""
    entries = set()
    with suppress(OSError):
        for line in durable.read_whole(state_root() / _NAME, 2 * _LIMIT).splitlines():
            with suppress(ValueError):
                path, digest = json.loads(line)
                entries.add((str(path), str(digest)))
    return frozenset(entries)


def digest_of(path: Path) -> str:
    """Return the digest of a file's content; empty if it is missing, too large or not a regular file."""
    with suppress(OSError):
        return _digest(durable.read_whole(path, FILE_BYTES + 1))
    return ""


def _real_paths(paths: Iterable[Path]) -> list[str]:
    """Return the real path of each file; each folder is looked at once."""
    folders: dict[Path, str] = {}
    real_paths = []
    for path in paths:
        if path.name == ".." or os.path.islink(path):  # noqa: PTH114 - it raises nothing
            real_paths.append(os.path.realpath(path))
            continue
        if path.parent not in folders:
            folders[path.parent] = os.path.realpath(path.parent)
        real_paths.append(f"{folders[path.parent].rstrip('/')}/{path.name}")
    return real_paths


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest() if len(content) <= FILE_BYTES else ""


def keeper(checkout: Path) -> Path:
    """Return the folder with the contents that are kept for a checkout; it exists only while they are."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(checkout))).hexdigest()[:16]
    return state_root() / _KEEPERS / name


def keep_contents(checkout: Path) -> None:
    """Keep the contents of all files that ``record`` names below ``checkout``, until ``forget_contents``."""
    folder = keeper(checkout)
    with durable.named_failures(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        durable.replace(folder / "checkout", os.fsencode(os.path.realpath(checkout)))


def forget_contents(checkout: Path) -> None:
    """Remove what ``keep_contents`` made."""
    folder = keeper(checkout)
    with durable.named_failures(folder), suppress(FileNotFoundError):
        (folder / "checkout").unlink(missing_ok=True)  # first: nothing is added from here on
        for entry in list(folder.iterdir()):
            entry.unlink(missing_ok=True)
        folder.rmdir()


def kept_saves(checkout: Path) -> list[KeptSave]:
    """Return the saves below ``checkout`` since ``keep_contents``, oldest first."""
    with suppress(OSError):
        lines = durable.read_whole(keeper(checkout) / "saves.jsonl", _KEPT_LINES).splitlines()
        saves = []
        for line in lines:
            with suppress(msgspec.MsgspecError):
                saves.append(msgspec.json.decode(line, type=ready(KeptSave)))
        return saves
    return []


def kept_content(checkout: Path, save: KeptSave) -> bytes | None:
    """Return the content of a file that was saved; None if it was not kept, or is damaged."""
    with suppress(OSError):
        if save.file and "/" not in save.file:
            content = durable.read_whole(keeper(checkout) / save.file, FILE_BYTES + 1)
            return content if hashlib.sha256(content).hexdigest() == save.digest else None
    return None


def _keep(paths: list[Path], saved: Mapping[Path, bytes]) -> None:
    """Keep the contents of files in checkouts in which an agent works; there is none, usually."""
    with suppress(OSError):
        real_paths: list[str] | None = None
        for folder in (state_root() / _KEEPERS).iterdir():
            if not folder.is_dir():
                continue
            with suppress(OSError):
                checkout = os.fsdecode(durable.read_whole(folder / "checkout", 64 * 1024))
                real_paths = real_paths or _real_paths(paths)
                for path, real in zip(paths, real_paths, strict=True):
                    if real.startswith(checkout + "/"):
                        _keep_one(folder, Path(real), saved.get(path))


def _keep_one(folder: Path, path: Path, content: bytes | None) -> None:
    if content is None:
        try:
            content = durable.read_whole(path, FILE_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            content = None  # removed
    digest = _digest(content) if content is not None else ""
    name = digest
    if content is not None and digest and not (folder / name).exists():
        used = sum(entry.stat().st_size for entry in folder.iterdir())
        if used + len(content) <= KEPT_BYTES:
            temporary = folder / f"{secrets.token_hex(6)}.tmp"
            temporary.write_bytes(content)
            temporary.chmod(0o600)
            temporary.replace(folder / name)
        else:
            name = ""
    line = (
        msgspec.json.encode(KeptSave(path_quoting.quote(os.fsencode(path)), content is not None, digest, name)) + b"\n"
    )
    descriptor = os.open(folder / "saves.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        if os.fstat(descriptor).st_size + len(line) <= _KEPT_LINES:
            os.write(descriptor, line)
    finally:
        os.close(descriptor)
