"""Write the base: exactly what the user sees, as a commit in the store.

HEAD, index, unstaged and untracked files and the unsaved texts of open documents, byte for byte. The user's index is
copied and serves as a cache of what is known about each file, so that only what changed is read again; the user's
repository is not written to, and no program that it names is run. What is left out is named.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from understudy.git.call import failure, git
from understudy.git.names import looks_secret, quote, refused
from understudy.git.repository import Repository, resolve, submodule_objects
from understudy.git.store import Store, naming_a_full_disk
from understudy.model.errors import ErrorKind, UnderstudyError

REFERENCES = "refs/understudy/"
"""Where the one reference is kept that Understudy writes into the user's repository."""

_NAMED = 1000
"""How many files that were left out are named; a note tells how many more there are."""

_TRIES = 3
"""A file that vanishes between listing and reading spoils a try."""

_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-.*\n)*oid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)

_POINTER_LIMIT = 1024
"""Bytes: the specification of git-lfs bounds a pointer file so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseLimits:
    """How much of what git does not track is carried."""

    untracked_file_bytes: int = 5 * 1024 * 1024
    untracked_total_bytes: int = 200 * 1024 * 1024
    total_files: int = 200_000
    """Tracked and untracked; above it no tree is made."""


@dataclass(frozen=True, slots=True)
class Base:
    """A base that was written. ``left_out`` holds wire paths (``names.quote``), ``notes`` sentences for a person."""

    commit: str
    tree: str
    files: int
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class _Entry(NamedTuple):
    tag: str
    mode: str
    identifier: str
    stage: str


def write_base(
    store: Store,
    repository: Repository,
    *,
    kind: str = "seen",
    buffers: Mapping[str | bytes, bytes] | None = None,
    limits: BaseLimits | None = None,
) -> Base:
    """Write the base into the store and return its commit.

    ``kind`` is ``seen``, ``head`` or a revision of the user's repository; ``buffers`` maps paths inside the workspace
    (wire form or bytes) to unsaved contents and counts for ``seen`` only. When nothing differs from HEAD, the base *is*
    HEAD. Otherwise its parent is HEAD, and every object that HEAD does not hold lies in the store itself.

    Files with a filter: a Git LFS file stays the pointer while its content is the one that the pointer names; changed
    content goes in as it is while it is within the limit for untracked files, with a note. A git-crypt file stays
    encrypted. Other filters are never run; such files go in as the user sees them, and are named.

    Errors: ``isolation_unavailable`` (bare, conflicts not resolved, objects missing in a partial clone, too many
    files), ``base_unavailable`` (nothing there, or not readable), ``path_escape`` (a buffer outside the workspace),
    ``store_full``, ``timed_out``.
    """
    limits = limits or BaseLimits()
    if repository.bare:
        raise UnderstudyError(
            ErrorKind.ISOLATION_UNAVAILABLE,
            f"{repository.top} is a bare repository: there are no files to start from",
            hint="Open a working tree of it.",
        )
    if kind != "seen":
        return _write_revision(store, repository, "HEAD" if kind == "head" else kind)
    with naming_a_full_disk(store.path), store.temporary() as folder:
        for attempt in range(1, _TRIES + 1):
            writer = _Writer(store, repository, limits, folder / f"index.{attempt}")
            try:
                return writer.write(buffers or {})
            except UnderstudyError as error:
                if error.kind is not ErrorKind.INTERNAL or attempt == _TRIES:
                    raise _reason(repository, error) from error
    raise AssertionError  # pragma: no cover - the loop returns or raises


def pin(repository: Repository, identifier: str, commit: str) -> None:
    """Keep ``commit`` (HEAD's, or the revision a delegation starts from) in the user's repository.

    Writes the one reference ``refs/understudy/<identifier>``, hooks off, no reflog. Nothing happens without a
    repository, or when the commit is not the user's (before the first commit).
    """
    name = _reference_name(identifier)
    if repository.common_dir is None or not commit:
        return
    with _as_base_error(repository):
        git("update-ref", "--end-of-options", name, commit, git_dir=repository.common_dir)


def unpin(repository: Repository, identifier: str) -> None:
    """Remove the reference that ``pin`` wrote; nothing happens when there is none."""
    name = _reference_name(identifier)
    if repository.common_dir is not None:
        with _as_base_error(repository):
            git("update-ref", "-d", "--end-of-options", name, git_dir=repository.common_dir)
        # git leaves the empty folder behind; the last one out takes it away.
        with contextlib.suppress(OSError):
            (repository.common_dir / "refs" / "understudy").rmdir()


def _reference_name(identifier: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.|lock\b|$)){0,127}", identifier):
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, f"{identifier!r} cannot be part of a reference's name")
    return REFERENCES + identifier


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
            hint="Look for a lock file left in its git folder, or missing permissions.",
        ) from error


def _reason(repository: Repository, error: UnderstudyError) -> UnderstudyError:
    """Say what a failed call of git means for the person."""
    if error.kind is ErrorKind.FILE_TOO_LARGE:
        return UnderstudyError(ErrorKind.ISOLATION_UNAVAILABLE, error.message, hint=error.hint)
    if error.kind is not ErrorKind.INTERNAL:
        return error
    if repository.partial:
        return _missing(repository, error.message)
    return UnderstudyError(
        ErrorKind.BASE_UNAVAILABLE,
        f"What you see in {repository.top} could not be read: {error.message}",
        hint="Run `git fsck` and `git status` there.",
    )


def _missing(repository: Repository, what: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.ISOLATION_UNAVAILABLE,
        f"{repository.top} is a partial clone and lacks objects that a tree needs: {what}",
        hint="Fetch them first: `git checkout .` or `git fetch --refetch` there, while its server can be reached.",
    )


def _write_revision(store: Store, repository: Repository, revision: str) -> Base:
    if revision == "HEAD" and repository.head_commit is None:
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"{repository.top} has no commit yet"
            if repository.is_repository
            else f"{repository.top} has no git history",
            hint="Leave the base out to start from what you see.",
        )
    commit = resolve(repository, revision)
    with store.temporary() as folder:
        index = folder / "index"
        try:
            store.git("read-tree", "-m", commit, index=index)
            tree = store.git("rev-parse", "--verify", commit + "^{tree}").decode().strip()
            entries = _entries(store, index)
            _check_present(store, repository, entries)
        except UnderstudyError as error:
            raise _reason(repository, error) from error
        index.replace(store.base_index)
        store.hide(commit, [path for path, entry in entries.items() if entry.tag.upper() == "S"])
    notes = _note_submodules(store, repository, entries)
    return Base(commit, tree, sum(entry.mode != "160000" for entry in entries.values()), [], notes)


def _entries(store: Store, index: Path) -> dict[bytes, _Entry]:
    output = store.git("ls-files", "-z", "-v", "-s", index=index)
    found = {}
    for line in output.split(b"\0")[:-1]:
        details, _, path = line.partition(b"\t")
        tag, mode, identifier, stage = details.decode().split(" ")
        if stage != "0":
            raise UnderstudyError(
                ErrorKind.ISOLATION_UNAVAILABLE,
                f"{quote(path)} and perhaps other files have conflicts that are not resolved",
                hint="Resolve them (`git status` names them), or start from `--base head`.",
            )
        found[path] = _Entry(tag, mode, identifier, stage)
    return found


def _check_present(store: Store, repository: Repository, entries: Mapping[bytes, _Entry]) -> None:
    """Refuse a partial clone some of whose contents are not here; others are complete by git's own rules."""
    if not repository.partial:
        return
    wanted = {
        entry.identifier: path for path, entry in entries.items() if entry.mode != "160000" and entry.tag.upper() != "S"
    }
    sizes = _sizes(store, wanted)
    absent = [quote(wanted[identifier]) for identifier in wanted if sizes.get(identifier) is None]
    if absent:
        raise _missing(repository, f"the content of {absent[0]} and of {len(absent) - 1} other files")


def _sizes(store: Store, identifiers: Iterable[str]) -> dict[str, int | None]:
    asked = list(dict.fromkeys(identifiers))
    if not asked:
        return {}
    output = store.git(
        "cat-file", "--batch-check=%(objectsize)", stdin="".join(f"{identifier}\n" for identifier in asked).encode()
    )
    sizes = [int(line) if line.isdigit() else None for line in output.decode().splitlines()]
    return dict(zip(asked, sizes, strict=True))


def _note_submodules(store: Store, repository: Repository, entries: Mapping[bytes, _Entry]) -> list[str]:
    """Record where the contents of the submodules are, for trees to be made of them, and say how each appears."""
    record = {}
    notes = []
    for path, entry in entries.items():
        if entry.mode != "160000":
            continue
        objects = submodule_objects(repository, path)
        local = bool(objects) and (
            store.try_git("cat-file", "-e", entry.identifier + "^{commit}", alternates=objects).code == 0
        )
        if local:
            record[path.hex()] = {
                "commit": entry.identifier,
                "objects": [os.fsencode(folder).hex() for folder in objects],
            }
        notes.append(
            f"The submodule {quote(path)} "
            + (f"is at its recorded commit {entry.identifier[:12]}" if local else "is empty: its commit is not here")
            + "; changes inside it are not carried."
        )
    (store.own / "submodules.json").write_text(json.dumps(record))
    return notes[:20] + ([f"And {len(notes) - 20} more submodules."] if len(notes) > 20 else [])


class _Writer:
    """One try at writing what the user sees, in a temporary index."""

    def __init__(self, store: Store, repository: Repository, limits: BaseLimits, index: Path) -> None:
        self.store = store
        self.repository = repository
        self.limits = limits
        self.index = index
        self.top = repository.top
        self.notes: list[str] = []
        self.left_out: list[bytes] = []
        self.budget = limits.untracked_total_bytes

    def write(self, buffers: Mapping[str | bytes, bytes]) -> Base:
        entries = self._copy_index()
        entries = self._clear_hiding_bits(entries)
        dirty = self._dirty()
        untracked, nested = self._untracked()
        if len(entries) + len(untracked) > self.limits.total_files:
            raise UnderstudyError(
                ErrorKind.ISOLATION_UNAVAILABLE,
                f"{self.top} is too large: {len(entries) + len(untracked)} files, above {self.limits.total_files}",
                hint="Open a smaller folder, or have git ignore what is generated.",
            )
        delete: list[bytes] = []
        add: dict[bytes, bool] = {}
        for path, status in dirty.items():
            self._plan_tracked(path, status, add, delete)
        self._plan_converted(entries, dirty, untracked, add)
        for path in untracked:
            if path not in entries and self._accept_untracked(path):
                add[path] = False
        self._update(entries, add, delete)
        for name, content in buffers.items():
            self._overlay(name, content, entries, nested)
        return self._commit(nested)

    def _full(self, path: bytes) -> bytes:
        return os.fsencode(self.top) + b"/" + path

    def _git(self, *arguments: str | bytes, stdin: bytes | None = None) -> bytes:
        return self.store.git(*arguments, work_tree=self.top, index=self.index, stdin=stdin)

    def _copy_index(self) -> dict[bytes, _Entry]:
        git_dir = self.repository.git_dir
        source = git_dir / "index" if git_dir else None
        if source is not None and git_dir is not None and source.exists():
            for shared in git_dir.glob("sharedindex.*"):  # the other half of a split index is looked for beside HEAD
                shutil.copyfile(shared, self.store.path / shared.name)
            try:
                shutil.copyfile(source, self.index)
                shutil.copystat(source, self.index)  # its time tells git which entries it must not trust
                return _entries(self.store, self.index)
            except UnderstudyError as error:
                if error.kind is not ErrorKind.INTERNAL:
                    raise
            except OSError as error:
                if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                    raise  # not the fault of what is read
                raise UnderstudyError(
                    ErrorKind.BASE_UNAVAILABLE, f"{source} cannot be read: {error.strerror}", hint="Check its owner."
                ) from error
            finally:
                for shared in self.store.path.glob("sharedindex.*"):
                    if not self._uses_shared(shared):
                        shared.unlink()
            self.index.unlink(missing_ok=True)
            self.notes.append(
                "The repository's index is damaged; every file was read anew, and what was staged only is lost."
            )
        if self.repository.head_commit is None:
            return {}
        # -m, because only a merge of trees applies the sparse patterns.
        self._git("read-tree", "-m", self.repository.head_commit)
        return _entries(self.store, self.index)

    def _uses_shared(self, shared: Path) -> bool:
        # The copy names its other half by id, in binary; it is needed until the temporary index is written whole.
        with contextlib.suppress(OSError, ValueError):
            return bytes.fromhex(shared.name.partition(".")[2]) in self.index.read_bytes()
        return False

    def _clear_hiding_bits(self, entries: dict[bytes, _Entry]) -> dict[bytes, _Entry]:
        """Uncover edits behind assume-unchanged and skip-worktree bits, except where a sparse cone explains them."""
        assumed = [path for path, entry in entries.items() if entry.tag.islower()]
        skipped = [
            path
            for path, entry in entries.items()
            if entry.tag.upper() == "S" and (not self.repository.sparse or os.path.lexists(self._full(path)))
        ]
        for option, paths in (("--no-assume-unchanged", assumed), ("--no-skip-worktree", skipped)):
            if paths:
                self._git("update-index", option, "-z", "--stdin", stdin=_joined(paths))
        if assumed or skipped:
            return _entries(self.store, self.index)
        return entries

    def _dirty(self) -> dict[bytes, str]:
        output = self._git("diff-files", "-z", "--name-status", "--ignore-submodules=all")
        fields = output.split(b"\0")
        return {path: status.decode() for status, path in zip(fields[::2], fields[1::2], strict=False)}

    def _untracked(self) -> tuple[list[bytes], list[bytes]]:
        """Return untracked files that are not ignored, and the folders that are repositories of their own."""
        output = self.store.git(
            "ls-files",
            "-z",
            "-o",
            "--exclude-standard",
            work_tree=self.top,
            index=self.index,
            output_limit=64 * 1024 * 1024,
        )
        paths = output.split(b"\0")[:-1]
        return [p for p in paths if not p.endswith(b"/")], [p.rstrip(b"/") for p in paths if p.endswith(b"/")]

    def _plan_tracked(self, path: bytes, status: str, add: dict[bytes, bool], delete: list[bytes]) -> None:
        try:
            mode = os.lstat(self._full(path)).st_mode
        except OSError:
            mode = 0
        if status == "D" or not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            delete.append(path)
            if mode and not stat.S_ISDIR(mode) and status != "D":
                self.notes.append(f"{quote(path)} is a pipe, socket or device now and was left out.")
        elif stat.S_ISREG(mode) and not os.access(self._full(path), os.R_OK):
            self.left_out.append(path)
            self.notes.append(f"{quote(path)} cannot be read; it is in the tree as it was committed.")
        else:
            add[path] = False

    def _plan_converted(
        self, entries: dict[bytes, _Entry], dirty: dict[bytes, str], untracked: list[bytes], add: dict[bytes, bool]
    ) -> None:
        """Plan for files whose stored form is not what the user sees: line endings, encodings, filters.

        Unchanged files keep the stored form unless it differs in size from the file; conversions of line endings and
        encodings always change the size. True in ``add`` means: read it even though it seems unchanged.
        """
        names = [p for p in (*entries, *untracked) if p == b".gitattributes" or p.endswith(b"/.gitattributes")]
        attributes = self.store.own / "attributes.git"
        texts = [(attributes / "info" / "attributes").read_bytes(), (attributes / "global").read_bytes()]
        texts += [_head_of(self._full(name)) for name in names]
        settings = self.repository.settings
        converting = any(text.strip() for text in texts) or any(k in settings for k in ("core.autocrlf", "core.eol"))
        if not converting:
            return
        regular = [p for p, entry in entries.items() if entry.mode in {"100644", "100755"} and entry.tag.upper() != "S"]
        filters: dict[bytes, bytes] = {}
        if any(b"filter" in text for text in texts):
            filters = self.store.attribute("filter", [*regular, *untracked], self.top)
        clean = [path for path in regular if path not in dirty]
        sizes = _sizes(self.store, (entries[path].identifier for path in clean))
        for path in clean:
            with contextlib.suppress(OSError):
                if os.lstat(self._full(path)).st_size != sizes[entries[path].identifier]:
                    add[path] = True
        other = []
        for path, name in filters.items():
            if path not in entries:
                if name.startswith(b"git-crypt"):
                    untracked.remove(path)
                    self.left_out.append(path)
                continue
            if name == b"lfs":
                self._plan_pointer(path, entries[path], add, changed=path in dirty)
            elif name.startswith(b"git-crypt"):
                if path in dirty:
                    self.notes.append(f"{quote(path)} is encrypted by git-crypt; your changes to it are not carried.")
                add.pop(path, None)
            elif dirty.get(path) != "D":
                add[path] = path not in dirty
                other.append(quote(path))
        if other:
            self.notes.append(
                f"{len(other)} files have a filter, which was not run; the tree has them as you see them: "
                + ", ".join(other[:5])
                + (" …" if len(other) > 5 else "")
            )

    def _plan_pointer(self, path: bytes, entry: _Entry, add: dict[bytes, bool], *, changed: bool) -> None:
        """Keep a Git LFS file as its pointer unless its content is another than the pointer names."""
        if path not in add:
            return
        content = self.store.git("cat-file", "blob", entry.identifier, output_limit=1 << 30) if changed else b""
        pointer = _POINTER.fullmatch(content) if len(content) <= _POINTER_LIMIT else None
        if not changed:
            del add[path]  # git saw the file when it stored the pointer, and nothing has touched it since
            return
        if pointer is None:
            return
        full = self._full(path)
        size = os.lstat(full).st_size
        if size == int(pointer[2]) and _sha256(full) == pointer[1].decode():
            del add[path]
        elif size > self.limits.untracked_file_bytes:
            del add[path]
            self.left_out.append(path)
            self.notes.append(f"{quote(path)} is a changed Git LFS file above the limit; the tree has its old pointer.")
        elif size > _POINTER_LIMIT or not _POINTER.fullmatch(_head_of(full)):
            self.notes.append(
                f"{quote(path)} is a changed Git LFS file; the tree has its content instead of a pointer."
            )

    def _accept_untracked(self, path: bytes) -> bool:
        try:
            found = os.lstat(self._full(path))
        except OSError:
            return False
        if stat.S_ISLNK(found.st_mode):
            return True
        if not stat.S_ISREG(found.st_mode):
            return False
        if (
            found.st_size > self.limits.untracked_file_bytes
            or found.st_size > self.budget
            or looks_secret(path)
            or refused(path)
            or not os.access(self._full(path), os.R_OK)
        ):
            self.left_out.append(path)
            return False
        self.budget -= found.st_size
        return True

    def _update(self, entries: dict[bytes, _Entry], add: dict[bytes, bool], delete: list[bytes]) -> None:
        # A path below a link cannot be given to update-index by name, so deletions go in as facts; and an entry that
        # seems unchanged is written anew without what is known of its file, so that git reads it.
        null = "0" * len(self.store.empty_tree)
        facts = [f"0 {null}\t".encode() + path for path in delete]
        for path, forced in add.items():
            if forced:
                facts.append(f"{entries[path].mode} {entries[path].identifier}\t".encode() + path)
        if facts:
            self._git("update-index", "-z", "--index-info", stdin=_joined(facts))
        if add:
            self._git("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=_joined(add))

    def _overlay(self, name: str | bytes, content: bytes, entries: dict[bytes, _Entry], nested: list[bytes]) -> None:
        """Put the text of an open document over the file."""
        path = name if isinstance(name, bytes) else _unquoted(name)
        if refused(path):
            raise UnderstudyError(
                ErrorKind.PATH_ESCAPE,
                f"The open document {quote(path)} is not inside {self.top}",
                hint="Only documents of the workspace can be carried.",
            )
        real = os.path.realpath(self._full(path))
        inside = os.fsencode(self.top) + b"/"
        if real != self._full(path):
            if not real.startswith(inside) or refused(real[len(inside) :]):
                self.left_out.append(path)
                self.notes.append(f"{quote(path)} leads out of the workspace; its unsaved text was not carried.")
                return
            path = real[len(inside) :]
        modules = [p for p, entry in entries.items() if entry.mode == "160000"]
        if any(path.startswith(folder + b"/") for folder in (*nested, *modules)):
            self.left_out.append(path)
            self.notes.append(f"{quote(path)} belongs to another repository; its unsaved text was not carried.")
            return
        known = entries.get(path)
        if known is None and (
            looks_secret(path) or len(content) > self.limits.untracked_file_bytes or self._ignored(path)
        ):
            self.left_out.append(path)
            return
        with contextlib.suppress(ValueError):
            self.left_out.remove(path)
        identifier = self.store.git("hash-object", "-w", "--no-filters", "--stdin", stdin=content).decode().strip()
        executable = os.access(real, os.X_OK) and self.repository.setting("core.filemode", default=True)
        mode = known.mode if known and known.mode.startswith("100") else "100755" if executable else "100644"
        self._git(
            "update-index", "--replace", "-z", "--index-info", stdin=f"{mode} {identifier}\t".encode() + path + b"\0"
        )

    def _ignored(self, path: bytes) -> bool:
        # check-ignore does not know literal pathspecs; "./" before the path keeps a leading ":" from meaning anything.
        done = self.store.try_git(
            "check-ignore",
            "-z",
            "--stdin",
            work_tree=self.top,
            index=self.index,
            stdin=b"./" + path + b"\0",
            literal_pathspecs=False,
        )
        if done.code > 1:  # 1: not ignored
            raise failure(("check-ignore",), done, self.top)
        return done.code == 0

    def _commit(self, nested: list[bytes]) -> Base:
        entries = _entries(self.store, self.index)
        _check_present(self.store, self.repository, entries)
        tree = self._git("write-tree").decode().strip()
        head = self.repository.head_commit
        commit = head or ""
        if head is None or self.store.git("rev-parse", "--verify", head + "^{tree}").decode().strip() != tree:
            parent = ["-p", head] if head else []
            commit = self.store.git("commit-tree", tree, *parent, "-m", "What the user sees").decode().strip()
            # Objects that are only in the user's repository and that HEAD does not hold (staged, then changed again)
            # may be collected there at any time: a pack in the store holds all that HEAD does not.
            wanted = f"{commit}\n" + (f"^{head}\n" if head else "")
            pack = self.store.path / "objects" / "pack" / "pack"
            self.store.git("pack-objects", "-q", "--revs", pack, stdin=wanted.encode())
        self.index.replace(self.store.base_index)
        self.store.hide(commit, [path for path, entry in entries.items() if entry.tag.upper() == "S"])
        self.notes += _note_submodules(self.store, self.repository, entries)
        if nested:
            named = ", ".join(quote(path) for path in nested[:5]) + (" …" if len(nested) > 5 else "")
            self.notes.append(f"{len(nested)} folders are repositories of their own and were left out: {named}")
            self.left_out += nested
        if self.repository.operation is not None:
            self.notes.append(f"The repository is in the middle of {self.repository.operation}.")
        more = len(self.left_out) - _NAMED
        if more > 0:
            self.notes.append(f"{more} more files were left out.")
        files = sum(entry.mode != "160000" for entry in entries.values())
        return Base(commit, tree, files, [quote(path) for path in sorted(self.left_out)[:_NAMED]], self.notes)


def _joined(items: Iterable[bytes]) -> bytes:
    return b"".join(item + b"\0" for item in items)


def _unquoted(name: str) -> bytes:
    from understudy.git.names import unquote  # noqa: PLC0415

    try:
        return unquote(name)
    except ValueError:
        return b""


def _head_of(full: bytes) -> bytes:
    """Return the beginning of a regular file, without following a link or waiting for a pipe."""
    try:
        descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(1 << 20) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""


def _sha256(full: bytes) -> str:
    digest = hashlib.sha256()
    with open(full, "rb") as stream:  # noqa: PTH123 - a path of bytes
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
