"""Write the base: exactly what the user sees, as a commit in the store.

It contains HEAD, the index, unstaged and untracked files and the unsaved texts of open documents, byte for byte. A copy
of the user's index serves as a cache, so that only changed files are read again. The user's repository is not written
to, and no program that it names is run. Files that are left out are listed. References in the user's repository protect
the commits that delegations start from against its garbage collection (*pins*).
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from understudy.git.base.index import (
    Base,
    BaseLimits,
    IndexWriter,
    missing_objects,
    note_submodules,
    read_entries,
    require_objects,
)
from understudy.git.command import git_output, run_git
from understudy.git.object_store import ObjectStore, borrowing_git_dir, disk_full_errors
from understudy.git.path_rules import without_environments
from understudy.git.repository import Repository, locate, resolve
from understudy.model.errors import ErrorKind, UnderstudyError

LARGE_FILES = 1000
LARGE_BYTES = 100_000_000
"""A folder without git that has more is copied only if the user says so."""
_TRIES = 3
"""How often to try: a file that vanishes between listing and reading fails a try."""
REFERENCES = "refs/understudy/"
"""Prefix of the only references that Understudy writes to the user's repository without being asked."""
EXPORTED = f"{REFERENCES}export-"
"""Prefix of the references that keep exported commits."""
_BASE = f"{REFERENCES}base="
"""Prefix of pins. git looks for ``refs/<name>`` before ``refs/heads/<name>``, so a pin ``refs/understudy/<id>`` would
hide the user's branch ``understudy/<id>``. No ``launch.branch`` may contain ``=``."""
_IDENTIFIER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.|lock\b|$)){0,127}")


def refuse_large_folder(top: Path) -> None:
    """Raise ``base_unavailable``, about the parameter ``whole_folder``, for a large folder without git."""
    if locate(top).is_repository:
        return
    size = 0
    for files, path in enumerate(_copied_files(top), 1):
        with contextlib.suppress(OSError):
            size += os.lstat(path).st_size
        if files > LARGE_FILES or size > LARGE_BYTES:
            what = f"over {LARGE_FILES:,} files" if files > LARGE_FILES else f"over {LARGE_BYTES // 1_000_000} MB"
            raise UnderstudyError(
                ErrorKind.BASE_UNAVAILABLE,
                f"{top} is not a git repository, and it is large: {what} would be copied for each delegation.",
                hint="Run `git init` there, with what is not part of the project in .gitignore. Or copy everything: "
                "start in a terminal with --whole-folder.",
                parameter="whole_folder",
            )


def _copied_files(top: Path) -> Iterator[bytes]:
    """Yield the files of a folder without git that a worktree gets: environments and what is ignored are left out."""
    if not (top / ".gitignore").is_file():
        for folder, names, inside in os.walk(os.fsencode(top)):
            if b"pyvenv.cfg" in inside:
                names.clear()
                continue
            yield from (b"%b/%b" % (folder, name) for name in inside)
        return
    with tempfile.TemporaryDirectory() as scratch:
        git_dir = Path(scratch) / "git"
        borrowing_git_dir(git_dir, [], "sha1")
        arguments = ("ls-files", "-z", "-o", "--exclude-standard")
        listed = git_output(*arguments, git_dir=git_dir, work_tree=top).split(b"\0")[:-1]
    yield from (b"%b/%b" % (os.fsencode(top), path) for path in without_environments(listed)[0])


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


def pin(repository: Repository, identifier: str, commit: str) -> None:
    """Keep ``commit`` (HEAD, or the revision a delegation starts from) in the user's repository.

    Writes only the reference ``refs/understudy/base=<identifier>``, with hooks off and no reflog, and moves the pins of
    earlier versions. Does nothing without a repository, or when the commit is not the user's (before the first commit).
    """
    name = _reference_name(identifier)
    if repository.common_dir is None or not commit:
        return
    move_earlier(repository)
    with _as_base_error(repository):
        git_output("update-ref", "--end-of-options", name, commit, git_dir=repository.common_dir)


def unpin(repository: Repository, identifier: str) -> None:
    """Remove the reference that ``pin`` wrote, or an earlier version did, if there is one."""
    names = (_reference_name(identifier), REFERENCES + identifier)
    if repository.common_dir is not None:
        steps = "".join(f"delete {name}\n" for name in names)
        with _as_base_error(repository):
            git_output("update-ref", "--stdin", git_dir=repository.common_dir, stdin=steps.encode())
        # git leaves the empty folder; it is removed with the last reference.
        with contextlib.suppress(OSError):
            (repository.common_dir / "refs" / "understudy").rmdir()


def move_earlier(repository: Repository) -> None:
    """Move the pins that earlier versions wrote as ``refs/understudy/<id>``, all or none.

    If git cannot, for example because another process is moving them, they stay where they are: they still protect
    their commits.
    """
    if repository.common_dir is None:
        return
    form = "--format=%(refname) %(objectname)"
    listing = run_git("for-each-ref", form, REFERENCES.rstrip("/"), git_dir=repository.common_dir).stdout
    steps = ""
    for line in listing.decode(errors="replace").splitlines():
        name, _, commit = line.partition(" ")
        identifier = identifier_of(name)
        if identifier is not None and name == REFERENCES + identifier:
            steps += f"update {_BASE}{identifier} {commit}\ndelete {name} {commit}\n"
    if steps:
        run_git("update-ref", "--stdin", git_dir=repository.common_dir, stdin=steps.encode())


def identifier_of(name: str) -> str | None:
    """Return the delegation whose pin has this full name, also in the form of earlier versions; None for others."""
    if name.startswith(EXPORTED) or not name.startswith(REFERENCES):
        return None
    identifier = name.removeprefix(_BASE).removeprefix(REFERENCES)
    return identifier if _IDENTIFIER.fullmatch(identifier) else None


def _reference_name(identifier: str) -> str:
    if not _IDENTIFIER.fullmatch(identifier):
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, f"{identifier!r} cannot be part of a reference's name.")
    return _BASE + identifier


@contextlib.contextmanager
def _as_base_error(repository: Repository) -> Iterator[None]:
    try:
        yield
    except UnderstudyError as error:
        if error.kind is not ErrorKind.INTERNAL:
            raise
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"The starting commit could not be kept in {repository.top}: {error.message}",
            hint="Look for a stale lock file or missing permissions in its git folder.",
        ) from error
