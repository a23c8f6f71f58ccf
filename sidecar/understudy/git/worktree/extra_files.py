"""Bring into a tree what git does not carry: ignored files that the user listed, and declared links.

`.worktreeinclude` at the top of the checkout holds patterns in the syntax of `.gitignore`; so do the configured copies.
Only files that git does not track are ever copied, and none that is not listed: a secret travels only by name. A link
leads into the user's checkout and is writable; the notes say so.
"""

# pathlib has neither descriptors nor paths of bytes:
# ruff: noqa: PTH101, PTH102, PTH110, PTH114, PTH115, PTH117, PTH123, PTH211

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from understudy.git.call import check_not_aborted
from understudy.git.names import quote, refused
from understudy.git.repository import Repository
from understudy.git.store import Store
from understudy.git.tree import Tree
from understudy.model.errors import ErrorKind, UnderstudyError

INCLUDE = ".worktreeinclude"

COPY_TOTAL_BYTES = 2 * 1024 * 1024 * 1024
"""All copies together; more is a link's business."""

COPY_FILES = 100_000

_SCANNED = 20_000
"""Entries below a link that are looked at for links back into the checkout."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something brought into a tree. ``path`` is inside the tree; the fingerprint tells whether it changed there."""

    path: bytes
    kind: Literal["copy", "link"]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Items:
    """All that was brought in, and from where."""

    source: Path
    target: Path
    items: list[Item] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def paths(self) -> list[bytes]:
        """Return the paths to keep when the tree is made exactly a commit."""
        return [item.path for item in self.items]


def apply(tree: Tree, repository: Repository, *, copy: Iterable[str] = (), link: Iterable[str] = ()) -> Items:
    """Copy and link into the tree, after its base was written, and say what was done.

    ``copy`` are further patterns, ``link`` paths inside the checkout. A path that the base already has is left alone.
    The tree is told, so that nothing brought in becomes part of a result, ignored or not.
    Errors: ``config_invalid`` for a link that is no path inside the checkout, ``store_full``.
    """
    target = tree.path
    result = Items(repository.top, target)
    for name in link:
        _link(result, name)
    patterns = "\n".join([*_include(repository.top), *copy]).strip()
    if patterns:
        links = [item.path + b"/" for item in result.items]
        budget = COPY_TOTAL_BYTES
        paths = [
            p for p in _matching(tree.store, repository, patterns) if not any(p.startswith(below) for below in links)
        ]
        for path in paths[:COPY_FILES]:
            check_not_aborted()
            source = _at(repository.top, path)
            found = os.lstat(source)
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)) or refused(path):
                continue
            budget -= found.st_size
            if budget < 0 or not os.access(source, os.R_OK, follow_symlinks=False):
                result.notes.append(f"{quote(path)} was not copied: it cannot be read, or the copies are too large.")
                continue
            if _copy(result, path):
                result.items.append(Item(path, "copy", _fingerprint(_at(target, path))))
        if len(paths) > COPY_FILES:
            result.notes.append(f"{len(paths) - COPY_FILES} more files match and were not copied.")
    tree.exclude(result.paths())
    return result


def changed(items: Items) -> list[Item]:
    """Return the items whose copy or link in the tree is not what was put there."""
    return [item for item in items.items if _fingerprint(_at(items.target, item.path)) != item.fingerprint]


def renew(items: Items) -> Items:
    """Make the changed items anew from the user's checkout and return the items with their present fingerprints.

    An item whose source is gone leaves the list, and the tree.
    """
    renewed = Items(items.source, items.target, [], list(items.notes))
    damaged = set(changed(items))
    for item in items.items:
        check_not_aborted()
        if item not in damaged:
            renewed.items.append(item)
            continue
        _remove(_at(items.target, item.path))
        if item.kind == "link":
            _link(renewed, os.fsdecode(item.path))
        elif os.path.lexists(_at(items.source, item.path)) and _copy(renewed, item.path):
            renewed.items.append(Item(item.path, "copy", _fingerprint(_at(items.target, item.path))))
    return renewed


def _at(root: Path, path: bytes) -> bytes:
    return os.fsencode(root) + b"/" + path


def _include(top: Path) -> list[str]:
    try:
        descriptor = os.open(top / INCLUDE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return []
        return stream.read(1 << 20).decode(errors="surrogateescape").splitlines()


def _matching(store: Store, repository: Repository, patterns: str) -> list[bytes]:
    """Return the untracked files of the checkout that the patterns match; repositories inside it are passed over."""
    with store.temporary() as folder:
        listed = folder / "patterns"
        listed.write_bytes(patterns.encode(errors="surrogateescape") + b"\n")
        index = store.base_index if store.base_index.exists() else folder / "index"
        output = store.git(
            "ls-files", "-z", "-o", "-i", f"--exclude-from={listed}", work_tree=repository.top, index=index
        )
    return sorted(path for path in output.split(b"\0")[:-1] if not path.endswith(b"/"))


def _parent(target: Path, path: bytes) -> bool:
    """Make the folders above ``path`` inside the tree; False when something else is in the way."""
    current = os.fsencode(target)
    for part in path.split(b"/")[:-1]:
        current += b"/" + part
        try:
            os.mkdir(current)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(current).st_mode):
                return False
    return True


def _copy(items: Items, path: bytes) -> bool:
    source, target = _at(items.source, path), _at(items.target, path)
    if os.path.lexists(target) or not _parent(items.target, path):
        return False
    try:
        if os.path.islink(source):
            real = os.path.realpath(source)
            if os.path.isabs(os.readlink(source)) or not real.startswith(os.fsencode(items.source) + b"/"):
                items.notes.append(f"{quote(path)} is a link that leads out of the tree and was not copied.")
                return False
            os.symlink(os.readlink(source), target)
            return True
        shutil.copyfile(source, target, follow_symlinks=False)
        os.chmod(target, 0o755 if os.lstat(source).st_mode & 0o100 else 0o644)
    except OSError as error:
        kind = ErrorKind.STORE_FULL if error.errno == errno.ENOSPC else ErrorKind.STORE_UNAVAILABLE
        raise UnderstudyError(
            kind, f"{quote(path)} could not be copied into the tree: {error.strerror}", hint="Free space, or list less."
        ) from error
    return True


def _link(items: Items, name: str) -> None:
    path = os.fsencode(name.strip("/"))
    if refused(path):
        raise UnderstudyError(
            ErrorKind.CONFIG_INVALID, f"The link {name!r} is no path inside the checkout", hint="Name a folder in it."
        )
    source, target = _at(items.source, path), _at(items.target, path)
    if not os.path.exists(source):
        items.notes.append(f"{quote(path)} is to be linked and does not exist.")
        return
    if os.path.lexists(target) or not _parent(items.target, path):
        items.notes.append(f"{quote(path)} is to be linked and is part of the base already.")
        return
    os.symlink(source, target)
    items.items.append(Item(path, "link", _fingerprint(target)))
    items.notes.append(f"{quote(path)} is a link into your checkout: what is written there changes your files.")
    back = _leads_back(items.source, source)
    if back is not None:
        items.notes.append(
            f"{quote(path)} holds links back into your checkout ({quote(back)}): code loaded there is not the tree's."
        )


def _leads_back(top: Path, folder: bytes) -> bytes | None:
    """Return a link below ``folder`` that resolves to the user's checkout outside of it (npm workspaces make such)."""
    inside = os.path.realpath(folder) + b"/"
    checkout = os.fsencode(top) + b"/"
    seen = 0
    waiting = [folder]
    while waiting and seen < _SCANNED:
        current = waiting.pop()
        try:
            entries = list(os.scandir(current))
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if entry.is_symlink():
                real = os.path.realpath(entry.path)
                if (real + b"/").startswith(checkout) and not real.startswith(inside):
                    return entry.path[len(checkout) :]
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
    return None


def _fingerprint(full: bytes) -> str:
    try:
        found = os.lstat(full)
    except OSError:
        return ""
    if stat.S_ISLNK(found.st_mode):
        return "link:" + hashlib.sha256(os.readlink(full)).hexdigest()
    if not stat.S_ISREG(found.st_mode):
        return "other"
    digest = hashlib.sha256()
    try:
        with open(full, "rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    except OSError:
        return "unreadable"
    return f"file:{stat.S_IMODE(found.st_mode) & 0o111:o}:{digest.hexdigest()}"


def _remove(full: bytes) -> None:
    from understudy.git.sweep import remove_tree  # noqa: PLC0415 - in the rare case that something changed

    remove_tree(Path(os.fsdecode(full)))
