"""Build a temporary index of what the user sees."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from understudy.files import durable
from understudy.git.command import failure
from understudy.git.object_store import ObjectStore, copy_index
from understudy.git.path_rules import looks_secret, refused, without_environments
from understudy.git.repository import Repository, submodule_objects
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import quote, unquote

_NAMED = 1000
"""How many left-out files are listed; a note counts the others."""


_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-.*\n)*oid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)


_POINTER_LIMIT = 1024
"""Largest pointer file in bytes, by the specification of git-lfs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseLimits:
    """How many files, and how large ones, a base may contain."""

    untracked_file_bytes: int = 5 * 1024 * 1024
    untracked_total_bytes: int = 200 * 1024 * 1024
    total_files: int = 200_000
    """Tracked and untracked files; above this no worktree is created."""


@dataclass(frozen=True, slots=True)
class Base:
    """A base that was written: ``left_out`` has wire paths (``path_quoting.quote``), ``notes`` are for the user."""

    commit: str
    tree: str
    files: int
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class IndexEntry(NamedTuple):
    """One entry of an index, as ``git ls-files -v -s`` prints it."""

    tag: str
    mode: str
    identifier: str
    stage: str


def missing_objects(repository: Repository, what: str) -> UnderstudyError:
    """Return the error for a partial clone that lacks objects."""
    return UnderstudyError(
        ErrorKind.ISOLATION_UNAVAILABLE,
        f"{repository.top} is a partial clone and lacks objects that a worktree needs: {what}.",
        hint="Fetch them first: run `git checkout .` or `git fetch --refetch` there, with access to its server.",
    )


def read_entries(store: ObjectStore, index: Path) -> dict[bytes, IndexEntry]:
    """Return the entries of an index by path; raise ``isolation_unavailable`` when it has conflicts."""
    output = store.git_output("ls-files", "-z", "-v", "-s", index=index)
    entries = {}
    for line in output.split(b"\0")[:-1]:
        details, _, path = line.partition(b"\t")
        tag, mode, identifier, stage = details.decode().split(" ")
        if stage != "0":
            raise UnderstudyError(
                ErrorKind.ISOLATION_UNAVAILABLE,
                f"{quote(path)} and perhaps other files have unresolved conflicts.",
                hint="Resolve them (`git status` lists them), or start with `--base head`.",
            )
        entries[path] = IndexEntry(tag, mode, identifier, stage)
    return entries


def require_objects(store: ObjectStore, repository: Repository, entries: Mapping[bytes, IndexEntry]) -> None:
    """Refuse a partial clone that lacks contents of these files; other repositories are complete by git's rules."""
    if not repository.partial:
        return
    paths = {
        entry.identifier: path for path, entry in entries.items() if entry.mode != "160000" and entry.tag.upper() != "S"
    }
    sizes = sizes_of(store, paths)
    absent = [quote(paths[identifier]) for identifier in paths if sizes.get(identifier) is None]
    if absent:
        raise missing_objects(repository, f"the content of {absent[0]} and of {len(absent) - 1} other files")


def sizes_of(store: ObjectStore, identifiers: Iterable[str]) -> dict[str, int | None]:
    """Return the size of each object; None if it is absent."""
    asked = list(dict.fromkeys(identifiers))
    if not asked:
        return {}
    output = store.git_output(
        "cat-file", "--batch-check=%(objectsize)", stdin="".join(f"{identifier}\n" for identifier in asked).encode()
    )
    sizes = [int(line) if line.isdigit() else None for line in output.decode().splitlines()]
    return dict(zip(asked, sizes, strict=True))


def note_submodules(store: ObjectStore, repository: Repository, entries: Mapping[bytes, IndexEntry]) -> list[str]:
    """Record where the contents of the submodules are, for worktrees, and note how each appears."""
    record = {}
    notes = []
    for path, entry in entries.items():
        if entry.mode != "160000":
            continue
        objects = submodule_objects(repository, path)
        local = bool(objects) and (
            store.run_git("cat-file", "-e", entry.identifier + "^{commit}", alternates=objects).code == 0
        )
        if local:
            record[path.hex()] = {
                "commit": entry.identifier,
                "objects": [os.fsencode(folder).hex() for folder in objects],
            }
        notes.append(
            f"The submodule {quote(path)} "
            + (
                f"is at its recorded commit {entry.identifier[:12]}"
                if local
                else "is empty: its commit is not available"
            )
            + "; changes inside it are not included."
        )
    (store.own / "submodules.json").write_text(json.dumps(record))
    return notes[:20] + ([f"{len(notes) - 20} more submodules are not listed."] if len(notes) > 20 else [])


class IndexWriter:
    """One attempt to write what the user sees to a temporary index."""

    def __init__(self, store: ObjectStore, repository: Repository, limits: BaseLimits, index: Path) -> None:
        """Prepare to write ``index``."""
        self.store = store
        self.repository = repository
        self.limits = limits
        self.index = index
        self.top = repository.top
        self.notes: list[str] = []
        self.left_out: list[bytes] = []
        self.budget = limits.untracked_total_bytes

    def write(self, buffers: Mapping[str | bytes, bytes]) -> Base:
        """Commit what the user sees, including the unsaved ``buffers``."""
        entries = self._copy_index()
        entries = self._clear_hiding_bits(entries)
        dirty = self._dirty()
        untracked, nested = self._untracked()
        untracked, environments = without_environments(untracked)
        self.left_out += environments
        if len(entries) + len(untracked) > self.limits.total_files:
            raise UnderstudyError(
                ErrorKind.ISOLATION_UNAVAILABLE,
                f"{self.top} has too many files: {len(entries) + len(untracked)} (limit {self.limits.total_files}).",
                hint="Open a smaller folder, or have git ignore generated files.",
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
        return self.store.git_output(*arguments, work_tree=self.top, index=self.index, stdin=stdin)

    def _copy_index(self) -> dict[bytes, IndexEntry]:
        git_dir = self.repository.git_dir
        source = git_dir / "index" if git_dir else None
        if source is not None and git_dir is not None and source.exists():
            for shared in git_dir.glob("sharedindex.*"):  # git searches the other half of a split index beside HEAD
                shutil.copyfile(shared, self.store.path / shared.name)
            try:
                copy_index(source, self.index)
                return read_entries(self.store, self.index)
            except UnderstudyError as error:
                if error.kind is not ErrorKind.INTERNAL:
                    raise
            except OSError as error:
                if error.errno in {errno.ENOSPC, errno.EDQUOT} or error.filename == str(self.index):
                    raise  # the cause is not the source
                raise UnderstudyError(
                    ErrorKind.BASE_UNAVAILABLE,
                    f"{source} cannot be read: {error.strerror}.",
                    hint="Check its owner and permissions.",
                ) from error
            finally:
                for shared in self.store.path.glob("sharedindex.*"):
                    if not self._uses_shared(shared):
                        shared.unlink()
            self.index.unlink(missing_ok=True)
            self.notes.append(
                "The repository's index is damaged, so every file was read again; staged content not on disk is lost."
            )
        if self.repository.head_commit is None:
            return {}
        # With -m, because only a merge of trees applies the sparse patterns.
        self._git("read-tree", "-m", self.repository.head_commit)
        return read_entries(self.store, self.index)

    def _uses_shared(self, shared: Path) -> bool:
        # The copy refers to its other half by id, in binary; keep it until the temporary index is complete.
        with contextlib.suppress(OSError, ValueError):
            return bytes.fromhex(shared.name.partition(".")[2]) in self.index.read_bytes()
        return False

    def _clear_hiding_bits(self, entries: dict[bytes, IndexEntry]) -> dict[bytes, IndexEntry]:
        """Reveal edits hidden by assume-unchanged and skip-worktree bits, except where a sparse cone explains them."""
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
            return read_entries(self.store, self.index)
        return entries

    def _dirty(self) -> dict[bytes, str]:
        output = self._git("diff-files", "-z", "--name-status", "--ignore-submodules=all")
        fields = output.split(b"\0")
        return {path: status.decode() for status, path in zip(fields[::2], fields[1::2], strict=False)}

    def _untracked(self) -> tuple[list[bytes], list[bytes]]:
        """Return untracked files that are not ignored, and the folders of nested repositories."""
        output = self.store.git_output(
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
                self.notes.append(f"{quote(path)} is now a pipe, socket or device and was left out.")
        elif stat.S_ISREG(mode) and not os.access(self._full(path), os.R_OK):
            self.left_out.append(path)
            self.notes.append(f"{quote(path)} cannot be read; the worktree has its committed version.")
        else:
            add[path] = False

    def _plan_converted(
        self, entries: dict[bytes, IndexEntry], dirty: dict[bytes, str], untracked: list[bytes], add: dict[bytes, bool]
    ) -> None:
        """Plan the files whose stored form differs from what the user sees: line endings, encodings, filters.

        Unchanged files keep the stored form unless it differs in size from the file; conversions of line endings and
        encodings always change the size. True in ``add``: read the file even though it seems unchanged.
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
        sizes = sizes_of(self.store, (entries[path].identifier for path in clean))
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
                    self.notes.append(f"{quote(path)} is encrypted by git-crypt; your changes to it are not included.")
                add.pop(path, None)
            elif dirty.get(path) != "D":
                add[path] = path not in dirty
                other.append(quote(path))
        if other:
            self.notes.append(
                f"{len(other)} files have a filter, which was not run; the worktree has them as you see them: "
                + ", ".join(other[:5])
                + (" …" if len(other) > 5 else "")
            )

    def _plan_pointer(self, path: bytes, entry: IndexEntry, add: dict[bytes, bool], *, changed: bool) -> None:
        """Keep a Git LFS file as its pointer unless its content has changed."""
        if path not in add:
            return
        content = self.store.git_output("cat-file", "blob", entry.identifier, output_limit=1 << 30) if changed else b""
        pointer = _POINTER.fullmatch(content) if len(content) <= _POINTER_LIMIT else None
        if not changed:
            del add[path]  # git saw the file when it stored the pointer, and it has not changed since
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
            self.notes.append(
                f"{quote(path)} is a changed Git LFS file above the limit; the worktree has its old pointer."
            )
        elif size > _POINTER_LIMIT or not _POINTER.fullmatch(_head_of(full)):
            self.notes.append(
                f"{quote(path)} is a changed Git LFS file; the worktree has its content instead of a pointer."
            )

    def _accept_untracked(self, path: bytes) -> bool:
        try:
            facts = os.lstat(self._full(path))
        except OSError:
            return False
        if stat.S_ISLNK(facts.st_mode):
            return True
        if not stat.S_ISREG(facts.st_mode):
            return False
        if (
            facts.st_size > self.limits.untracked_file_bytes
            or facts.st_size > self.budget
            or looks_secret(path)
            or refused(path)
            or not os.access(self._full(path), os.R_OK)
        ):
            self.left_out.append(path)
            return False
        self.budget -= facts.st_size
        return True

    def _update(self, entries: dict[bytes, IndexEntry], add: dict[bytes, bool], delete: list[bytes]) -> None:
        # update-index does not accept a path below a link by name, so deletions are passed as index entries. An entry
        # that seems unchanged is written again without the cached state of its file, so that git reads it.
        facts = [self.store.removal(path) for path in delete]
        for path, forced in add.items():
            if forced:
                facts.append(f"{entries[path].mode} {entries[path].identifier}\t".encode() + path + b"\0")
        if facts:
            self._git("update-index", "-z", "--index-info", stdin=b"".join(facts))
        if add:
            self._git("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=_joined(add))

    def _overlay(
        self, name: str | bytes, content: bytes, entries: dict[bytes, IndexEntry], nested: list[bytes]
    ) -> None:
        """Replace the file's content with the text of an open document."""
        path = name if isinstance(name, bytes) else _unquoted(name)
        if refused(path):
            raise UnderstudyError(
                ErrorKind.PATH_ESCAPE,
                f"The open document {quote(path)} is not inside {self.top}.",
                hint="Pass only documents of the workspace.",
            )
        real = os.path.realpath(self._full(path))
        inside = os.fsencode(self.top) + b"/"
        if real != self._full(path):
            if not real.startswith(inside) or refused(real[len(inside) :]):
                self.left_out.append(path)
                self.notes.append(f"{quote(path)} is a link out of the workspace; its unsaved text was not included.")
                return
            path = real[len(inside) :]
        modules = [p for p, entry in entries.items() if entry.mode == "160000"]
        if any(path.startswith(folder + b"/") for folder in (*nested, *modules)):
            self.left_out.append(path)
            self.notes.append(f"{quote(path)} belongs to another repository; its unsaved text was not included.")
            return
        before = entries.get(path)
        if before is None and (
            looks_secret(path) or len(content) > self.limits.untracked_file_bytes or self._ignored(path)
        ):
            self.left_out.append(path)
            return
        with contextlib.suppress(ValueError):
            self.left_out.remove(path)
        identifier = (
            self.store.git_output("hash-object", "-w", "--no-filters", "--stdin", stdin=content).decode().strip()
        )
        executable = os.access(real, os.X_OK) and self.repository.setting("core.filemode", default=True)
        mode = before.mode if before and before.mode.startswith("100") else "100755" if executable else "100644"
        self._git(
            "update-index", "--replace", "-z", "--index-info", stdin=f"{mode} {identifier}\t".encode() + path + b"\0"
        )

    def _ignored(self, path: bytes) -> bool:
        # check-ignore does not support literal pathspecs; "./" before the path makes a leading ":" literal.
        completed = self.store.run_git(
            "check-ignore",
            "-z",
            "--stdin",
            work_tree=self.top,
            index=self.index,
            stdin=b"./" + path + b"\0",
            literal_pathspecs=False,
        )
        if completed.code > 1:  # exit code 1: not ignored
            raise failure(("check-ignore",), completed, self.top)
        return completed.code == 0

    def _commit(self, nested: list[bytes]) -> Base:
        entries = read_entries(self.store, self.index)
        require_objects(self.store, self.repository, entries)
        tree = self._git("write-tree").decode().strip()
        head = self.repository.head_commit
        commit = head or ""
        if head is None or self.store.git_output("rev-parse", "--verify", head + "^{tree}").decode().strip() != tree:
            parent = ["-p", head] if head else []
            commit = self.store.git_output("commit-tree", tree, *parent, "-m", "What the user sees").decode().strip()
            # Objects that only the user's repository has and that HEAD does not contain (staged, then changed again)
            # may be garbage-collected at any time, so a pack in the store contains everything that HEAD does not.
            revisions = f"{commit}\n" + (f"^{head}\n" if head else "")
            pack = self.store.path / "objects" / "pack" / "pack"
            self.store.git_output("pack-objects", "-q", "--revs", pack, stdin=revisions.encode())
        self.index.replace(self.store.base_index)
        self.store.hide(commit, [path for path, entry in entries.items() if entry.tag.upper() == "S"])
        self.notes += note_submodules(self.store, self.repository, entries)
        if nested:
            named = ", ".join(quote(path) for path in nested[:5]) + (" …" if len(nested) > 5 else "")
            self.notes.append(f"{len(nested)} folders are nested repositories and were left out: {named}")
            self.left_out += nested
        if self.repository.operation is not None:
            self.notes.append(f"The repository is in the middle of {self.repository.operation}.")
        more = len(self.left_out) - _NAMED
        if more > 0:
            self.notes.append(f"{more} more files were left out and are not listed.")
        files = sum(entry.mode != "160000" for entry in entries.values())
        return Base(commit, tree, files, [quote(path) for path in sorted(self.left_out)[:_NAMED]], self.notes)


def _joined(items: Iterable[bytes]) -> bytes:
    return b"".join(item + b"\0" for item in items)


def _unquoted(name: str) -> bytes:
    try:
        return unquote(name)
    except ValueError:
        return b""


def _head_of(full: bytes) -> bytes:
    """Return the beginning of a regular file, without following a link or blocking on a pipe."""
    with contextlib.suppress(OSError):
        return durable.read_whole(Path(os.fsdecode(full)), 1 << 20)
    return b""


def _sha256(full: bytes) -> str:
    with open(full, "rb") as stream:  # noqa: PTH123 - a path of bytes
        return hashlib.file_digest(stream, "sha256").hexdigest()
