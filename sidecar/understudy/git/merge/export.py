"""Export a result to the user's repository as a branch or a commit, or as a patch, when the user asks for it.

The user's files, index and HEAD do not change. Hooks and filters never run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.git.base import capture
from understudy.git.changes import Change, Entry, Selection, reader, write_commit
from understudy.git.command import git_output, run_git
from understudy.git.diff import hunk_ids, splits
from understudy.git.merge.hunk_merge import MergePlan, plan
from understudy.git.object_store import ObjectStore
from understudy.git.objects import pack_into
from understudy.git.repository import Repository
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import quote

_PATCH_BYTES = 256 * 1024 * 1024
"""Largest patch in bytes: the output limit of ``git_output``."""

_CONVERSIONS = ("core.autocrlf", "core.eol", "core.symlinks", "core.filemode", "core.precomposeunicode")
"""The user's settings that decide how contents are stored; none names a program."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A commit in the user's repository, the full name of its reference, and notes for the user."""

    commit: str
    reference: str
    notes: list[str] = field(default_factory=list)


def export(
    store: ObjectStore,
    repository: Repository,
    base: str,
    head: str,
    *,
    parent: str | None,
    message: str,
    branch: str | None = None,
    selection: Selection | None = None,
) -> Exported:
    """Commit the change ``base``..``head`` on ``parent`` (HEAD at the base; None: before the first commit).

    ``branch`` is the short name of a new branch; without it ``refs/understudy/export-<commit>`` keeps the commit.
    ``selection`` chooses hunks (None: all). Contents are converted by the user's attributes and settings (line
    endings, encodings); files with a filter are left out and noted. If the user had uncommitted changes in a file,
    only the result's hunks are exported if they merge, else the whole file, with a note.

    Errors: ``isolation_unavailable`` (no repository), ``already_exists`` (the branch, or a reference that hides it),
    ``invalid_params`` (its name), ``config_invalid`` (no user.name or user.email), ``input_empty`` (nothing to export),
    ``base_unavailable``.
    """
    if repository.common_dir is None:
        raise UnderstudyError(
            ErrorKind.ISOLATION_UNAVAILABLE,
            f"{repository.top} has no git history to export to.",
            hint="Export a patch instead.",
        )
    if branch is not None:
        _check_branch(repository, branch)
    author = _person(repository, "AUTHOR")
    committer = _person(repository, "COMMITTER")
    chosen = _complete(store, base, head, selection)
    with store.temporary() as folder:
        exporter = _Exporter(store, repository, folder, parent)
        changes = exporter.changes(base, head, chosen)
        tree = exporter.write(changes)
        if tree == exporter.parent_tree:
            raise UnderstudyError(
                ErrorKind.INPUT_EMPTY,
                "The result contains no changes that could be committed. " + " ".join(exporter.notes),
                hint="Your last commit may contain them already. If not, accept the result instead.",
            )
        lines = [
            f"tree {tree}",
            *([f"parent {parent}"] if parent else []),
            f"author {author}",
            f"committer {committer}",
        ]
        text = "\n".join(lines) + "\n\n" + message.strip() + "\n"
        commit = exporter.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=text.encode(errors="replace"))
        name = commit.decode().strip()
        # One pack, which git sees only when it is complete; objects only borrowed from the store would be missing.
        revisions = f"{name}\n" + (f"^{parent}\n" if parent else "")
        pack_into(
            repository.common_dir / "objects",
            "--revs",
            git_dir=store.own / "attributes.git",
            source=store.path / "objects",
            stdin=revisions.encode(),
        )
    reference = f"refs/heads/{branch}" if branch is not None else f"{capture.EXPORTED}{name[:12]}"
    _create_reference(repository, reference, name, new=branch is not None)
    return Exported(name, reference, exporter.notes)


def patch(store: ObjectStore, base: str, head: str, selection: Selection | None = None) -> bytes:
    """Return the change as a patch for `git apply`, including binary contents; may raise ``file_too_large``."""
    target = head
    if selection is not None:
        planned = plan(store, base, head, selection, reader(store, base))
        target = write_commit(store, base, planned.changes, "A part of the result")
    return store.git_output(
        "diff-tree",
        "-r",
        "-p",
        "--binary",
        "--full-index",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--find-renames=50%",
        "--diff-algorithm=histogram",
        "--end-of-options",
        base,
        target,
        output_limit=_PATCH_BYTES,
    )


def _complete(store: ObjectStore, base: str, head: str, selection: Selection | None) -> Selection:
    if selection is not None:
        return selection
    return {split.change.path: set(hunk_ids(split)) for split in splits(store, base, head)}


def _check_branch(repository: Repository, branch: str) -> None:
    name = f"refs/heads/{branch}"
    git_dir = repository.common_dir or Path("/nonexistent")
    usable = branch.isprintable() and not branch.startswith("-") and branch != "HEAD"
    if not usable or run_git("check-ref-format", name, git_dir=git_dir).code != 0:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"{branch!r} is not a valid branch name.", hint="Choose another name."
        )
    if _exists(git_dir, name):
        raise UnderstudyError(
            ErrorKind.ALREADY_EXISTS, f"The branch {branch} already exists.", hint="Choose another name."
        )
    capture.move_earlier(repository)
    for hiding in (f"refs/{branch}", f"refs/tags/{branch}"):
        if _exists(git_dir, hiding):
            raise UnderstudyError(
                ErrorKind.ALREADY_EXISTS,
                f"A branch {branch} could not be used by its name: git would find {hiding} instead.",
                hint="Choose another name.",
            )


def _exists(git_dir: Path, reference: str) -> bool:
    return run_git("rev-parse", "--verify", "--quiet", "--end-of-options", reference, git_dir=git_dir).code == 0


def _create_reference(repository: Repository, reference: str, commit: str, *, new: bool) -> None:
    git_dir = repository.common_dir or Path("/nonexistent")
    old = ["0" * len(commit)] if new else []  # git refuses when another process created it first
    completed = run_git("update-ref", "--end-of-options", reference, commit, *old, git_dir=git_dir)
    if completed.code != 0:
        raise UnderstudyError(
            ErrorKind.ALREADY_EXISTS if new else ErrorKind.BASE_UNAVAILABLE,
            f"{reference} could not be created: {completed.stderr.decode(errors='replace').strip()[-300:]}",
            hint="Choose another name, or look for a stale lock file in the git folder.",
        )


def _person(repository: Repository, role: str) -> str:
    """Return the user's name, email address and time in the format of a commit, by git's rules."""
    parts = []
    for part in ("name", "email"):
        value = (
            os.environ.get(f"GIT_{role}_{part.upper()}")
            or repository.settings.get(f"{role.lower()}.{part}")
            or repository.settings.get(f"user.{part}")
            or (os.environ.get("EMAIL") if part == "email" else None)
            or ""
        )
        plain = "".join(letter for letter in value if letter not in "<>\n\0").strip()
        if not plain:
            raise UnderstudyError(
                ErrorKind.CONFIG_INVALID,
                f"git does not know your {part}, which a commit needs.",
                hint="Set name and email: git config --global user.name 'NAME' && git config --global user.email EMAIL",
            )
        parts.append(plain)
    now = time.time()
    offset = time.localtime(now).tm_gmtoff // 60
    sign = "-" if offset < 0 else "+"
    return f"{parts[0]} <{parts[1]}> {int(now)} {sign}{abs(offset) // 60:02d}{abs(offset) % 60:02d}"


class _Exporter:
    """One export: writes the changes as objects of the user's repository, converted by its attributes."""

    def __init__(self, store: ObjectStore, repository: Repository, folder: Path, parent: str | None) -> None:
        self.store = store
        self.repository = repository
        self.parent = parent
        self.index = folder / "index"
        self.files = folder / "files"
        self.files.mkdir()
        self.notes: list[str] = []
        self.settings = {key: repository.settings[key] for key in _CONVERSIONS if key in repository.settings}
        self.settings["core.attributesFile"] = str(store.own / "attributes.git" / "global")
        if parent is not None:
            self.git("read-tree", parent)
            self.parent_tree = self.git("rev-parse", "--verify", parent + "^{tree}").decode().strip()
            names = self.git("ls-files", "-z").split(b"\0")[:-1]
            attribute_files = [name for name in names if name.rpartition(b"/")[2] == b".gitattributes"]
            self.git("checkout-index", "-z", "--stdin", stdin=b"".join(name + b"\0" for name in attribute_files))
        else:
            self.git("read-tree", "--empty")
            self.parent_tree = store.empty_tree

    def git(self, *arguments: str | bytes | Path, **keywords: Any) -> bytes:
        """Run git on the store's objects (and through them the user's) with the user's attributes."""
        return git_output(
            *arguments,
            git_dir=self.store.own / "attributes.git",
            work_tree=self.files,
            index=self.index,
            object_directory=self.store.path / "objects",
            extra_config=self.settings,
            **keywords,
        )

    def changes(self, base: str, head: str, selection: Selection) -> list[Change]:
        """Return the changes of the commit: the result's hunks merged into the parent, as far as possible."""
        on_base = plan(self.store, base, head, selection, reader(self.store, base))
        if self.parent is None or self.parent == base:
            return list(on_base.changes)
        parent = self.parent
        read_parent, read_base = self._converted_reader(parent), reader(self.store, base)
        on_parent: MergePlan = plan(self.store, base, head, selection, read_parent)
        failed = {conflict.path for conflict in on_parent.conflicts}
        whole = {path: selection[path] for path in selection if path in failed}
        merged = {path: selection[path] for path in selection if path not in failed}
        changes = list(plan(self.store, base, head, merged, read_parent).changes)
        if whole:
            changes += plan(self.store, base, head, whole, read_base).changes
            self.notes.append(
                "The commit contains your own uncommitted changes to "
                + ", ".join(quote(path) for path in sorted(whole)[:5])
                + (" …" if len(whole) > 5 else "")
                + ", because the result builds on them."
            )
        return changes

    def _converted_reader(self, parent: str) -> Any:
        """Return a reader of the parent's files as a checkout of the user would have them: line endings, encodings."""

        def read(path: bytes) -> Entry | None:
            entry = reader(self.store, parent)(path)
            if entry is None or not entry.mode.startswith("100"):
                return entry
            # Only a filter could run a program, and no configuration that names a filter is read.
            name = b"--path=" + path
            content = self.git("cat-file", "--filters", name, f"{parent}:".encode() + path)
            return Entry(entry.mode, content)

        return read

    def write(self, changes: list[Change]) -> str:
        """Add the changes to the index as git would, and return the tree."""
        attributes = [c for c in changes if c.path.rpartition(b"/")[2] == b".gitattributes"]
        rest = [c for c in changes if c not in attributes]
        # The attributes of the new state decide about the other files.
        for group in (attributes, rest):
            self._write(group)
        return self.git("write-tree").decode().strip()

    def _write(self, changes: list[Change]) -> None:
        for change in changes:
            (self.files / os.fsdecode(change.path)).unlink(missing_ok=True)  # attributes of the parent
        filtered = self._filtered([change.path for change in changes])
        if filtered:
            self.notes.append(
                f"{len(filtered)} files have a filter (Git LFS, encryption), which is not run; they are left out: "
                + ", ".join(quote(path) for path in sorted(filtered)[:5])
                + (" …" if len(filtered) > 5 else "")
            )
        taken = [change for change in changes if change.path not in filtered]
        self._remove([change.path for change in taken if change.after is None])
        added = []
        for change in taken:
            if change.after is None:
                continue
            place = self.files / os.fsdecode(change.path)
            place.parent.mkdir(parents=True, exist_ok=True)
            if change.after.mode == "120000":
                place.symlink_to(os.fsdecode(change.after.content))
            else:
                place.write_bytes(change.after.content)
                place.chmod(0o755 if change.after.mode == "100755" else 0o644)
            added.append(change)
        if added:
            names = b"".join(change.path + b"\0" for change in added)
            self.git("update-index", "--add", "--replace", "-z", "--stdin", stdin=names)
            self._set_modes(added)

    def _remove(self, paths: list[bytes]) -> None:
        if paths:
            self.git("update-index", "-z", "--index-info", stdin=b"".join(map(self.store.removal, paths)))

    def _set_modes(self, changes: Iterable[Change]) -> None:
        """Set the mode of each entry to that of the result, independent of the file system and ``core.filemode``."""
        modes = {change.path: change.after.mode for change in changes if change.after is not None}
        lines = []
        for line in self.git("ls-files", "-s", "-z").split(b"\0")[:-1]:
            details, _, path = line.partition(b"\t")
            mode, identifier, _ = details.decode().split(" ")
            if path in modes and modes[path] != mode:
                lines.append(f"{modes[path]} {identifier}\t".encode() + path + b"\0")
        if lines:
            self.git("update-index", "-z", "--index-info", stdin=b"".join(lines))

    def _filtered(self, paths: list[bytes]) -> set[bytes]:
        if not paths:
            return set()
        output = self.git("check-attr", "-z", "--stdin", "filter", stdin=b"".join(path + b"\0" for path in paths))
        fields = output.split(b"\0")
        return {
            path
            for path, value in zip(fields[::3], fields[2::3], strict=False)
            if value not in {b"unspecified", b"unset", b""}
        }
