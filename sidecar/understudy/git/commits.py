"""Read a commit of a store file by file, and make a commit of another with a few files changed."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.git.diff import read_file
from understudy.git.merge import OTHER, Change, Entry, Reader
from understudy.git.names import quote, refused
from understudy.git.objects import write_blob
from understudy.git.store import Store
from understudy.model.errors import ErrorKind, UnderstudyError

_LIMIT = 1 << 28
"""Bytes of one file read from a commit: five times what a result may hold (``tree.RESULT_FILE_BYTES``)."""


def reader(store: Store, commit: str) -> Reader:
    """Return a ``Reader`` of a commit, for ``merge.plan``. A folder or submodule has the mode ``merge.OTHER``."""

    def read(path: bytes) -> Entry | None:
        found = read_file(store, commit, path, limit=_LIMIT)
        if found is not None:
            return Entry(found[1], found[0])
        parts = path.split(b"/")
        for length in range(1, len(parts) + 1):
            listing = store.git("ls-tree", "-z", "--full-tree", "--end-of-options", commit, b"/".join(parts[:length]))
            if not listing:
                return None
            if length == len(parts) or not listing.startswith(b"040000"):
                return Entry(OTHER, b"")
        return None

    return read


def write_commit(store: Store, parent: str, changes: Iterable[Change], message: str) -> str:
    """Commit ``parent``'s files with ``changes`` (their ``after`` counts), on ``parent``; no difference: ``parent``."""
    null = "0" * len(store.empty_tree)
    listed = list(changes)
    # What leaves goes first: the index refuses a file where it still has a folder.
    lines = [f"0 {null}\t".encode() + change.path + b"\0" for change in listed if change.after is None]
    for change in listed:
        if change.after is not None:
            blob = write_blob(store, change.after.content)
            lines.append(f"{change.after.mode} {blob}\t".encode() + change.path + b"\0")
    if not lines:
        return parent
    with store.temporary() as folder:
        index = folder / "index"
        store.git("read-tree", parent, index=index)
        store.git("update-index", "--replace", "-z", "--index-info", stdin=b"".join(lines), index=index)
        tree = store.git("write-tree", index=index).decode().strip()
    if tree == store.git("rev-parse", "--verify", "--end-of-options", parent + "^{tree}").decode().split()[-1]:
        return parent
    return store.git("commit-tree", tree, "-p", parent, "-F", "-", stdin=message.encode()).decode().strip()


def amend(store: Store, base: str, head: str, path: bytes, content: bytes) -> str:
    """Return a new head: ``head`` with the contents of ``path`` replaced, its mode kept; split it into hunks anew.

    ``path`` is a file of ``head``, or one that ``base`` has and the result deleted (it then comes back).
    Errors: ``invalid_params`` when it is neither, ``path_escape``.
    """
    if refused(path):
        raise UnderstudyError(ErrorKind.PATH_ESCAPE, f"{quote(path)} is no path of a file", hint="Name a file.")
    known = read_file(store, head, path, limit=_LIMIT) or read_file(store, base, path, limit=_LIMIT)
    if known is None or known[1] not in {"100644", "100755"}:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{quote(path)} is no file of the result",
            hint="Only a file that the result or its base has can be edited.",
        )
    after = Entry(known[1], content)
    return write_commit(store, head, [Change(path, None, after)], "Edited by hand")
