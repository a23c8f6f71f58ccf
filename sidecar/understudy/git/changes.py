"""File entries, changes and hunk selections, and commits that are read and written as such."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from understudy.git.diff import read_file
from understudy.git.object_store import ObjectStore
from understudy.git.objects import write_blob
from understudy.git.path_rules import refused
from understudy.git.verification import tree_of
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import quote

OTHER = "040000"
"""Mode of an ``Entry`` for anything that is neither file nor link (a folder, a pipe), or is behind a link or a file."""
_LIMIT = 1 << 28
"""Largest file read from a commit: five times the limit for results (``collect.RESULT_FILE_BYTES``)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or link: git's mode (``100644``, ``100755``, ``120000``, or ``OTHER``) and its bytes (a link's target)."""

    mode: str
    content: bytes
    holds: tuple[bytes, ...] = field(default=(), compare=False)
    """For a folder: the paths of its files, links and other entries, and of empty folders with a slash."""


Reader = Callable[[bytes], Entry | None]
"""Path inside the workspace → its entry, or None if it does not exist. Must not follow links."""


Selection = Mapping[bytes, set[str] | None]
"""Path of a ``FileDiff`` (``path_quoting.unquote``) → ids of its hunks, or None for all of them."""


def folders_of(path: bytes) -> list[bytes]:
    """Return the parent folders of a path, the highest first."""
    parts = path.split(b"/")[:-1]
    return [b"/".join(parts[: number + 1]) for number in range(len(parts))]


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one file: ``before`` is what it was merged with, and must be unchanged when it is written."""

    path: bytes
    before: Entry | None
    after: Entry | None
    source: bytes | None = None
    """For a new file that is another one under a new name: its path, which the same changes remove."""
    permissions: int | None = None
    """The permission bits of a regular file that is removed, or that comes back; None: not known."""
    extended: Mapping[bytes, bytes] | None = None
    """Its extended attributes; None: not known."""


def reader(store: ObjectStore, commit: str) -> Reader:
    """Return a ``Reader`` of a commit, for ``hunk_merge.plan``. Folders and submodules have the mode ``OTHER``."""

    def read(path: bytes) -> Entry | None:
        blob = read_file(store, commit, path, limit=_LIMIT)
        if blob is not None:
            return Entry(blob[1], blob[0])
        parts = path.split(b"/")
        for length in range(1, len(parts) + 1):
            listing = store.git_output(
                "ls-tree", "-z", "--full-tree", "--end-of-options", commit, b"/".join(parts[:length])
            )
            if not listing:
                return None
            if length == len(parts) or not listing.startswith(b"040000"):
                return Entry(OTHER, b"")
        return None

    return read


def write_commit(store: ObjectStore, parent: str, changes: Iterable[Change], message: str) -> str:
    """Commit ``parent`` with ``changes`` applied (only their ``after``); return ``parent`` if nothing differs."""
    listed = list(changes)
    # Removals come first: the index refuses a file where it still has a folder.
    lines = [store.removal(change.path) for change in listed if change.after is None]
    for change in listed:
        if change.after is not None:
            blob = write_blob(store, change.after.content)
            lines.append(f"{change.after.mode} {blob}\t".encode() + change.path + b"\0")
    return commit_entries(store, parent, lines, message)


def commit_entries(store: ObjectStore, parent: str, lines: Sequence[bytes], message: str) -> str:
    """Commit lines for ``git update-index --index-info`` on ``parent``; return ``parent`` if nothing differs."""
    if not lines:
        return parent
    with store.temporary() as folder:
        index = folder / "index"
        store.git_output("read-tree", parent, index=index)
        store.git_output("update-index", "--replace", "-z", "--index-info", stdin=b"".join(lines), index=index)
        tree = store.git_output("write-tree", index=index).decode().strip()
    if tree == tree_of(store, parent):
        return parent
    return store.git_output("commit-tree", tree, "-p", parent, "-F", "-", stdin=message.encode()).decode().strip()


def write_mixed(store: ObjectStore, head: str, base: str, files: Mapping[bytes, bytes | None]) -> str:
    """Commit ``head`` with some files replaced; return ``head`` if nothing differs.

    A file gets the given content (and its mode in ``head``); for None, or if it is a link in ``head``, it becomes as it
    is in ``base``, or is removed if ``base`` has no such file.
    """
    if not files:
        return head
    at_head = listing(store, head)
    files = {path: None if at_head.get(path, b"").startswith(b"12") else content for path, content in files.items()}
    lines = [store.removal(path) for path in files]
    lines += [
        details.replace(b" blob ", b" ").replace(b" commit ", b" ") + b"\t" + path + b"\0"
        for path, details in listing(store, base).items()
        if path in files and files[path] is None
    ]
    for path, content in files.items():
        if content is not None:
            mode = at_head.get(path, b"100644").partition(b" ")[0]
            lines.append(mode + b" " + write_blob(store, content).encode() + b"\t" + path + b"\0")
    return commit_entries(store, head, lines, "The result with files of its base")


def listing(store: ObjectStore, commit: str) -> dict[bytes, bytes]:
    """Return path → ``MODE KIND OBJECT`` of every file, link and submodule in a commit."""
    entries = store.git_output("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit).split(b"\0")[:-1]
    return {path: details for details, _, path in (entry.partition(b"\t") for entry in entries)}


def amend(store: ObjectStore, base: str, head: str, path: bytes, content: bytes | None) -> str:
    """Return a new head: ``head`` with the contents of ``path`` replaced, its mode kept; split it into hunks again.

    ``path`` is a file of ``head``, or a file of ``base`` or of an earlier result that is deleted in ``head``, which
    restores it. None as its content deletes it. Errors: ``invalid_params`` when it is neither, ``path_escape``.
    """
    if refused(path):
        raise UnderstudyError(
            ErrorKind.PATH_ESCAPE, f"{quote(path)} cannot be the path of a file.", hint="Name a file."
        )
    blob = read_file(store, head, path, limit=_LIMIT) or read_file(store, base, path, limit=_LIMIT)
    if blob is None and (before := _before_deletion(store, base, head, path)) is not None:
        blob = read_file(store, before, path, limit=_LIMIT)
    if blob is None or blob[1] not in {"100644", "100755"}:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{quote(path)} is not a file of the result.",
            hint="Only a file of the result or its base can be edited.",
        )
    after = Entry(blob[1], content) if content is not None else None
    return write_commit(store, head, [Change(path, None, after)], "Edited by hand")


def _before_deletion(store: ObjectStore, base: str, head: str, path: bytes) -> str | None:
    """Return the last commit between ``base`` and ``head`` that has a file which ``head`` has not; None if none."""
    options = ("--max-count=1", "--diff-filter=D", "--no-renames", "--format=%P", "--end-of-options")
    listed = store.git_output("log", *options, f"{base}..{head}", "--", path).decode().split()
    return listed[0] if listed else None


def restore(store: ObjectStore, head: str, earlier: str, path: bytes) -> str:
    """Return a new head: ``head`` with one file as it is in the commit ``earlier``, or without it if it is absent."""
    blob = read_file(store, earlier, path, limit=_LIMIT)
    after = None if blob is None else Entry(blob[1], blob[0])
    return write_commit(store, head, [Change(path, None, after)], "Undo an edit by hand")
