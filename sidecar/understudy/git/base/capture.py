"""Write the base: exactly what the user sees, as a commit in the store.

It contains HEAD, the index, unstaged and untracked files and the unsaved texts of open documents, byte for byte. A copy
of the user's index serves as a cache, so that only changed files are read again. The user's repository is not written
to, and no program that it names is run. Files that are left out are listed.
"""

from __future__ import annotations

from collections.abc import Mapping

from understudy.git.base.index import (
    Base,
    BaseLimits,
    IndexWriter,
    missing_objects,
    note_submodules,
    read_entries,
    require_objects,
)
from understudy.git.command import run_git
from understudy.git.object_store import ObjectStore, disk_full_errors
from understudy.git.repository import Repository, resolve
from understudy.model.errors import ErrorKind, UnderstudyError

_TRIES = 3
"""How often to try: a file that vanishes between listing and reading fails a try."""


def write_base(
    store: ObjectStore,
    repository: Repository,
    *,
    kind: str = "current",
    buffers: Mapping[str | bytes, bytes] | None = None,
    limits: BaseLimits | None = None,
) -> Base:
    """Write the base into the store and return its commit.

    ``kind`` is ``current``, ``head`` or a revision of the user's repository; ``buffers`` maps paths inside the
    workspace (wire form or bytes) to unsaved contents and is used for ``current`` only. When nothing differs from HEAD,
    the base *is* HEAD. Otherwise its parent is HEAD, and every object that HEAD does not contain is in the store.

    Files with a filter: an unchanged Git LFS file stays a pointer; a changed one is included as it is, with a note,
    up to the limit for untracked files. A git-crypt file stays encrypted. Other filters are never run: such files are
    included as the user sees them, and listed.

    Errors: ``isolation_unavailable`` (bare, unresolved conflicts, objects missing in a partial clone, too many files),
    ``base_unavailable`` (missing or unreadable), ``path_escape`` (a buffer outside the workspace), ``disk_full``,
    ``timed_out``.
    """
    limits = limits or BaseLimits()
    repository.require_files()
    if kind != "current":
        return _write_revision(store, repository, "HEAD" if kind == "head" else kind)
    with disk_full_errors(store.path), store.temporary() as folder:
        for attempt in range(1, _TRIES + 1):
            writer = IndexWriter(store, repository, limits, folder / f"index.{attempt}")
            try:
                return writer.write(buffers or {})
            except UnderstudyError as error:
                if error.kind is not ErrorKind.INTERNAL or attempt == _TRIES:
                    raise _reason(repository, error) from error
    raise AssertionError  # pragma: no cover - the loop returns or raises


def _reason(repository: Repository, error: UnderstudyError) -> UnderstudyError:
    """Return an error that explains a failed git call to the user."""
    if error.kind is ErrorKind.FILE_TOO_LARGE:
        return UnderstudyError(ErrorKind.ISOLATION_UNAVAILABLE, error.message, hint=error.hint)
    if error.kind is not ErrorKind.INTERNAL:
        return error
    if repository.partial:
        return missing_objects(repository, error.message)
    head, git_dir = repository.head_commit, repository.git_dir
    if head is not None and git_dir is not None and run_git("cat-file", "-e", f"{head}^{{tree}}", git_dir=git_dir).code:
        return UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"git cannot read the commit {head[:10]}, which is HEAD in {repository.top}.\n{error.message}",
            hint="Run `git fsck` there; `git fetch` restores objects that a remote has.",
        )
    return UnderstudyError(
        ErrorKind.BASE_UNAVAILABLE,
        f"The files in {repository.top} could not be read: {error.message}",
        hint="Run `git fsck` and `git status` there.",
    )


def _write_revision(store: ObjectStore, repository: Repository, revision: str) -> Base:
    if revision == "HEAD" and repository.head_commit is None:
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"{repository.top} has no commit yet."
            if repository.is_repository
            else f"{repository.top} has no git history.",
            hint="Omit the base to start from your current files.",
        )
    commit = resolve(repository, revision)
    with store.temporary() as folder:
        index = folder / "index"
        try:
            store.git_output("read-tree", "-m", commit, index=index)
            tree = store.git_output("rev-parse", "--verify", commit + "^{tree}").decode().strip()
            entries = read_entries(store, index)
            require_objects(store, repository, entries)
        except UnderstudyError as error:
            raise _reason(repository, error) from error
        index.replace(store.base_index)
        store.hide(commit, [path for path, entry in entries.items() if entry.tag.upper() == "S"])
    notes = note_submodules(store, repository, entries)
    return Base(commit, tree, sum(entry.mode != "160000" for entry in entries.values()), [], notes)
