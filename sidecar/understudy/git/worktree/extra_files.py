"""Add files to a worktree that git does not track: ignored files that the user listed, version files, declared links.

`.worktreeinclude` at the top of the checkout contains patterns in the syntax of `.gitignore`; so does the configured
list of copies. Only untracked files that are listed are copied, so a secret is copied only if the user names it. A link
leads into the user's checkout and is writable; a note reports that.

The module with the version that a build writes (``version_files``) is copied as well.
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

from understudy.files.version_files import version_files
from understudy.git.command import check_not_aborted
from understudy.git.object_store import ObjectStore
from understudy.git.path_rules import refused
from understudy.git.repository import Repository
from understudy.git.worktree.cleanup import delete_folder
from understudy.git.worktree.worktree import Worktree
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import quote

INCLUDE = ".worktreeinclude"

COPY_TOTAL_BYTES = 2 * 1024 * 1024 * 1024
"""Limit of all copies together; declare a link for larger files."""

COPY_FILES = 100_000

_SCANNED = 20_000
"""Most entries below a link that are checked for links back into the checkout."""


@dataclass(frozen=True, slots=True)
class ExtraFile:
    """A file or link added to a worktree. ``path`` is inside the worktree; the fingerprint detects changes there."""

    path: bytes
    kind: Literal["copy", "link"]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class ExtraFiles:
    """All files and links that were added, and where they come from."""

    source: Path
    target: Path
    items: list[ExtraFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def paths(self) -> list[bytes]:
        """Return the paths to keep when the worktree is reset to a commit."""
        return [item.path for item in self.items]


def apply(tree: Worktree, repository: Repository, *, copy: Iterable[str] = (), link: Iterable[str] = ()) -> ExtraFiles:
    """Copy and link files into the worktree, after its base was written; return what was done.

    ``copy`` are further patterns, ``link`` paths inside the checkout. The module with the version that a build writes
    is copied, too. Paths that the base already has are skipped.
    The worktree records the paths, so that none of them becomes part of a result, ignored or not.
    Errors: ``config_invalid`` for a link that is not a path inside the checkout, ``disk_full``.
    """
    target = tree.path
    result = ExtraFiles(repository.top, target)
    for name in link:
        _link(result, name)
    generated = version_files(repository.top, target)
    patterns = "\n".join([*_include(repository.top), *copy, *(f"/{path}" for path in generated)]).strip()
    if patterns:
        links = [item.path + b"/" for item in result.items]
        budget = COPY_TOTAL_BYTES
        paths = [
            p for p in _matching(tree.store, repository, patterns) if not any(p.startswith(below) for below in links)
        ]
        for path in paths[:COPY_FILES]:
            check_not_aborted()
            source = _at(repository.top, path)
            facts = os.lstat(source)
            if not (stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode)) or refused(path):
                continue
            budget -= facts.st_size
            if budget < 0 or not os.access(source, os.R_OK, follow_symlinks=False):
                result.notes.append(f"{quote(path)} was not copied: it cannot be read, or the copies are too large.")
                continue
            if _copy(result, path):
                result.items.append(ExtraFile(path, "copy", _fingerprint(_at(target, path))))
        if len(paths) > COPY_FILES:
            result.notes.append(f"{len(paths) - COPY_FILES} more files match the patterns but were not copied.")
    tree.exclude(result.paths())
    return result


def changed(items: ExtraFiles) -> list[ExtraFile]:
    """Return the items whose copy or link in the worktree has changed."""
    return [item for item in items.items if _fingerprint(_at(items.target, item.path)) != item.fingerprint]


def restore_changed(items: ExtraFiles) -> ExtraFiles:
    """Copy the changed items again from the user's checkout and return all items with their current fingerprints.

    An item whose source is gone is removed from the list and the worktree.
    """
    renewed = ExtraFiles(items.source, items.target, [], list(items.notes))
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
            renewed.items.append(ExtraFile(item.path, "copy", _fingerprint(_at(items.target, item.path))))
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


def _matching(store: ObjectStore, repository: Repository, patterns: str) -> list[bytes]:
    """Return the untracked files of the checkout that match the patterns, without those in nested repositories."""
    with store.temporary() as folder:
        listed = folder / "patterns"
        listed.write_bytes(patterns.encode(errors="surrogateescape") + b"\n")
        index = store.base_index if store.base_index.exists() else folder / "index"
        output = store.git_output(
            "ls-files", "-z", "-o", "-i", f"--exclude-from={listed}", work_tree=repository.top, index=index
        )
    return sorted(path for path in output.split(b"\0")[:-1] if not path.endswith(b"/"))


def _parent(target: Path, path: bytes) -> bool:
    """Create the parent folders of ``path`` in the worktree; return False when something else blocks them."""
    current = os.fsencode(target)
    for part in path.split(b"/")[:-1]:
        current += b"/" + part
        try:
            os.mkdir(current)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(current).st_mode):
                return False
    return True


def _copy(items: ExtraFiles, path: bytes) -> bool:
    source, target = _at(items.source, path), _at(items.target, path)
    if os.path.lexists(target) or not _parent(items.target, path):
        return False
    try:
        if os.path.islink(source):
            real = os.path.realpath(source)
            if os.path.isabs(os.readlink(source)) or not real.startswith(os.fsencode(items.source) + b"/"):
                items.notes.append(f"{quote(path)} is a link that leads out of the workspace and was not copied.")
                return False
            os.symlink(os.readlink(source), target)
            return True
        shutil.copyfile(source, target, follow_symlinks=False)
        os.chmod(target, 0o755 if os.lstat(source).st_mode & 0o100 else 0o644)
    except OSError as error:
        kind = ErrorKind.DISK_FULL if error.errno == errno.ENOSPC else ErrorKind.STATE_UNAVAILABLE
        raise UnderstudyError(
            kind,
            f"{quote(path)} could not be copied into the worktree: {error.strerror}.",
            hint="Free some space, or list fewer files.",
        ) from error
    return True


def _link(items: ExtraFiles, name: str) -> None:
    path = os.fsencode(name.strip("/"))
    if refused(path):
        raise UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            f"The link {name!r} is not a path inside the checkout.",
            hint="Name a file or folder inside the checkout.",
        )
    source, target = _at(items.source, path), _at(items.target, path)
    if not os.path.exists(source):
        items.notes.append(f"{quote(path)} was not linked: it does not exist in your checkout.")
        return
    if os.path.lexists(target) or not _parent(items.target, path):
        items.notes.append(f"{quote(path)} was not linked: the base contains this path.")
        return
    os.symlink(source, target)
    items.items.append(ExtraFile(path, "link", _fingerprint(target)))
    items.notes.append(f"{quote(path)} is a link into your checkout: writing to it changes your files.")
    back = _leads_back(items.source, source)
    if back is not None:
        items.notes.append(
            f"{quote(path)} links back into your checkout at {quote(back)}: code loaded there is not the worktree's."
        )


def _leads_back(top: Path, folder: bytes) -> bytes | None:
    """Return a link below ``folder`` that resolves to elsewhere in the user's checkout (as in npm workspaces)."""
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
        facts = os.lstat(full)
    except OSError:
        return ""
    if stat.S_ISLNK(facts.st_mode):
        return "link:" + hashlib.sha256(os.readlink(full)).hexdigest()
    if not stat.S_ISREG(facts.st_mode):
        return "other"
    try:
        with open(full, "rb") as stream:
            digest = hashlib.file_digest(stream, "sha256")
    except OSError:
        return "unreadable"
    return f"file:{stat.S_IMODE(facts.st_mode) & 0o111:o}:{digest.hexdigest()}"


def _remove(full: bytes) -> None:
    delete_folder(Path(os.fsdecode(full)))
