"""Take a result into the user's repository as a branch or a commit, or out of it as a patch: the user's decision only.

The user's files, index and HEAD stay as they are. Hooks and filters never run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.git.base import REFERENCES
from understudy.git.call import git, try_git
from understudy.git.commits import reader, write_commit
from understudy.git.diff import hunk_ids, splits
from understudy.git.merge import Change, Entry, MergePlan, Selection, plan
from understudy.git.names import quote
from understudy.git.repository import Repository
from understudy.git.store import Store
from understudy.model.errors import ErrorKind, UnderstudyError

_PATCH_BYTES = 256 * 1024 * 1024
"""Bytes of a patch; what ``call.git`` keeps of an output."""

_CONVERSIONS = ("core.autocrlf", "core.eol", "core.symlinks", "core.filemode", "core.precomposeunicode")
"""The user's settings that decide how contents are stored; none names a program."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A commit in the user's repository, the full name of the reference that holds it, and sentences for a person."""

    commit: str
    reference: str
    notes: list[str] = field(default_factory=list)


def export(
    store: Store,
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

    ``branch`` is a new branch's short name; without it the commit is held by ``refs/understudy/export-<commit>``.
    ``selection`` leaves hunks out (None: all). Contents are converted as the user's attributes and settings say (line
    endings, encodings); files with a filter are left out and noted. Where the user had uncommitted changes in a file,
    only the result's hunks are taken when they merge; else the whole file, noted.

    Errors: ``isolation_unavailable`` (no repository), ``already_exists`` (the branch), ``invalid_params`` (its name),
    ``config_invalid`` (no user.name or user.email), ``input_empty`` (nothing to export), ``base_unavailable``.
    """
    if repository.common_dir is None:
        raise UnderstudyError(
            ErrorKind.ISOLATION_UNAVAILABLE,
            f"{repository.top} has no git history to export to",
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
                "Nothing of the result is left to be committed. " + " ".join(exporter.notes),
                hint="Accept it instead; it may be in your last commit already.",
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
        # One pack, which git sees only when it is complete; objects that the store lends would not be in the user's.
        wanted = f"{name}\n" + (f"^{parent}\n" if parent else "")
        exporter.git("pack-objects", "-q", "--revs", repository.common_dir / "objects/pack/pack", stdin=wanted.encode())
    reference = f"refs/heads/{branch}" if branch is not None else f"{REFERENCES}export-{name[:12]}"
    _create_reference(repository, reference, name, new=branch is not None)
    return Exported(name, reference, exporter.notes)


def patch(store: Store, base: str, head: str, selection: Selection | None = None) -> bytes:
    """Return the change as a patch that `git apply` takes, binary contents included; ``file_too_large``."""
    target = head
    if selection is not None:
        planned = plan(store, base, head, selection, reader(store, base))
        target = write_commit(store, base, planned.changes, "A part of the result")
    return store.git(
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


def _complete(store: Store, base: str, head: str, selection: Selection | None) -> Selection:
    if selection is not None:
        return selection
    return {split.change.path: set(hunk_ids(split)) for split in splits(store, base, head)}


def _check_branch(repository: Repository, branch: str) -> None:
    name = f"refs/heads/{branch}"
    git_dir = repository.common_dir or Path("/nonexistent")
    usable = branch.isprintable() and not branch.startswith("-") and branch != "HEAD"
    if not usable or try_git("check-ref-format", name, git_dir=git_dir).code != 0:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"{branch!r} cannot be the name of a branch", hint="Choose another name."
        )
    if try_git("rev-parse", "--verify", "--quiet", "--end-of-options", name, git_dir=git_dir).code == 0:
        raise UnderstudyError(
            ErrorKind.ALREADY_EXISTS, f"There is a branch {branch} already", hint="Choose another name."
        )


def _create_reference(repository: Repository, reference: str, commit: str, *, new: bool) -> None:
    git_dir = repository.common_dir or Path("/nonexistent")
    old = ["0" * len(commit)] if new else []  # refused by git when somebody was quicker
    done = try_git("update-ref", "--end-of-options", reference, commit, *old, git_dir=git_dir)
    if done.code != 0:
        raise UnderstudyError(
            ErrorKind.ALREADY_EXISTS if new else ErrorKind.BASE_UNAVAILABLE,
            f"{reference} could not be made: {done.stderr.decode(errors='replace').strip()[-300:]}",
            hint="Choose another name, or look for a lock file left in the git folder.",
        )


def _person(repository: Repository, role: str) -> str:
    """Return name, address and time as a commit has them: the person's own, by git's rules."""
    found = []
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
                f"git does not know your {part}, and a commit needs it",
                hint=f"git config --global user.{part} …",
            )
        found.append(plain)
    now = time.time()
    offset = time.localtime(now).tm_gmtoff // 60
    sign = "-" if offset < 0 else "+"
    return f"{found[0]} <{found[1]}> {int(now)} {sign}{abs(offset) // 60:02d}{abs(offset) % 60:02d}"


class _Exporter:
    """One export: the changes in the form of the user's history, as objects of the user's repository."""

    def __init__(self, store: Store, repository: Repository, folder: Path, parent: str | None) -> None:
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
            own = [name for name in names if name.rpartition(b"/")[2] == b".gitattributes"]
            self.git("checkout-index", "-z", "--stdin", stdin=b"".join(name + b"\0" for name in own))
        else:
            self.git("read-tree", "--empty")
            self.parent_tree = store.empty_tree

    def git(self, *arguments: str | bytes | Path, **keywords: Any) -> bytes:
        """Run git on the store's objects (and through them the user's) with the user's attributes."""
        return git(
            *arguments,
            git_dir=self.store.own / "attributes.git",
            work_tree=self.files,
            index=self.index,
            object_directory=self.store.path / "objects",
            extra_config=self.settings,
            **keywords,
        )

    def changes(self, base: str, head: str, selection: Selection) -> list[Change]:
        """Return what the commit changes: the result's hunks on the parent, where they merge with it."""
        on_base = plan(self.store, base, head, selection, reader(self.store, base))
        if self.parent is None or self.parent == base:
            return list(on_base.changes)
        parent = self.parent
        read_parent, read_base = self._converted_reader(parent), reader(self.store, base)
        on_parent: MergePlan = plan(self.store, base, head, selection, read_parent)
        failed = {conflict.path for conflict in on_parent.conflicts}
        whole = {path: selection[path] for path in selection if path in failed}
        merged = {path: selection[path] for path in selection if path not in failed}
        found = list(plan(self.store, base, head, merged, read_parent).changes)
        if whole:
            found += plan(self.store, base, head, whole, read_base).changes
            self.notes.append(
                "The commit contains your own uncommitted changes to "
                + ", ".join(quote(path) for path in sorted(whole)[:5])
                + (" …" if len(whole) > 5 else "")
                + ", because the result builds on them."
            )
        return found

    def _converted_reader(self, parent: str) -> Any:
        """Read the parent as files, the way a checkout of the user's has them: line endings, encodings."""

        def read(path: bytes) -> Entry | None:
            found = reader(self.store, parent)(path)
            if found is None or not found.mode.startswith("100"):
                return found
            # Only a filter could run a program, and no configuration that names one is read.
            name = b"--path=" + path
            content = self.git("cat-file", "--filters", name, f"{parent}:".encode() + path)
            return Entry(found.mode, content)

        return read

    def write(self, changes: list[Change]) -> str:
        """Put the changes into the index as git would add them, and return the tree."""
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
            null = "0" * len(self.store.empty_tree)
            facts = b"".join(f"0 {null}\t".encode() + path + b"\0" for path in paths)
            self.git("update-index", "-z", "--index-info", stdin=facts)

    def _set_modes(self, changes: Iterable[Change]) -> None:
        """Give each entry the mode of the result, whatever this file system and ``core.filemode`` make of it."""
        wanted = {change.path: change.after.mode for change in changes if change.after is not None}
        lines = []
        for line in self.git("ls-files", "-s", "-z").split(b"\0")[:-1]:
            details, _, path = line.partition(b"\t")
            mode, identifier, _ = details.decode().split(" ")
            if path in wanted and wanted[path] != mode:
                lines.append(f"{wanted[path]} {identifier}\t".encode() + path + b"\0")
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
