"""Create and use the worktree of a delegation: its object store, its base commit, and the folder the agent works in.

``<state>/worktrees/<repository>/<n>/`` contains ``store.git`` (Understudy's object store, always passed explicitly and
never discovered), the worktree in a folder named like the workspace, and ``owners`` (``worktree_record``). A worktree
in which an agent has worked is never reused for another task.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from understudy.engine.worktrees import worktree_record
from understudy.engine.worktrees.worktree_record import (
    BASE_COPY,
    RESULT_COPY,
    SharedBase,
    WorktreeRecord,
    copies_in,
    load_record,
    write_review,
)
from understudy.files import durable, nofollow
from understudy.files.durable import failpoint
from understudy.files.version_files import version_files
from understudy.git import changes, diff, repository, verification
from understudy.git.base import capture
from understudy.git.object_store import ObjectStore, disk_full_errors
from understudy.git.worktree import cleanup, extra_files, rescue, worktree
from understudy.git.worktree.cleanup import delete_folder
from understudy.git.worktree.collect import TrackedContent
from understudy.git.worktree.worktree import Worktree
from understudy.journal.delegation_folder import Folder
from understudy.model.config.delegators import ProgramLimits
from understudy.model.delegation import events
from understudy.model.delegation.delegations import Delegation, FileStat
from understudy.model.delegation.events import Event
from understudy.model.delegation.spec import Spec
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import FileDiff
from understudy.model.text import path_quoting
from understudy.process.call_checks import base_environment, proxies, proxy_passwords
from understudy.process.program_spec import AccessProfile, Program, Role, limits_of
from understudy.secrets.redaction import Redactor

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class CollectedResult:
    """The contents of the worktree as a commit, and what it changes."""

    commit: str
    files: list[FileStat]
    hunks: int


@dataclass(frozen=True)
class FollowUpBase:
    """The base of a reply or a retry, made from its parent's worktree."""

    record: WorktreeRecord
    store: ObjectStore
    base: events.Base
    notes: list[events.Note] = field(default_factory=list)


class DelegationWorktree:
    """The worktree of one delegation. The methods block; call them from a thread."""

    def __init__(self, folder: Folder, spec: Spec, state: Path) -> None:
        """Create nothing on disk."""
        self._folder = folder
        self._spec = spec
        self._state = state
        self._workspace = Path(spec.workspace)
        self._record_path = folder.path / "worktree.json"
        self._record: WorktreeRecord | None = None
        self._store: ObjectStore | None = None
        self._tree: Worktree | None = None
        self._found: repository.Repository | None = None
        """The user's repository, where this process recorded the base of it."""

    # -- creation --------------------------------------------------------------------------------------------

    def load(self) -> bool:
        """Load the record of an earlier worker of this delegation; return false if there is none."""
        if not self._record_path.exists():
            return False
        self._load()
        return True

    def make_base(self, emit: Callable[[Event], None], snapshot: tuple[Path, SharedBase] | None = None) -> None:
        """Commit exactly what the user sees as the base, or use a ``snapshot`` of it and the folder of its objects."""
        repo = self._found = repository.locate(self._workspace)
        root = self.claim(repo)
        failpoint("worktree path claimed")
        if snapshot is not None:
            folder, shared = snapshot
            created = worktree_record.copy_shared(folder, root / "store.git", self._folder.path / BASE_COPY)
            base, kept = shared.base, shared.kept
        else:
            created, kind = ObjectStore.create(root / "store.git", repo), self._spec.params.base or "current"
            base = capture.write_base(created, repo, kind=kind, buffers=self.buffers())
            kept = repo.head_commit if kind == "current" else base.commit
        self._store = dataclasses.replace(created, copies=copies_in(self._folder))
        capture.pin(repo, self._folder.id, kept or "")
        failpoint("base pinned")
        self._record = WorktreeRecord(str(root), str(root / self.name), base.commit, parent=kept)
        if snapshot is None:
            self._copy(BASE_COPY, base.commit, kept)
        self._save()
        emit(events.Base(commit=base.commit, files=base.files, left_out=base.left_out))
        for text in base.notes:
            emit(events.Note(level="warning", text=text))

    def adopt(self, follow_up: FollowUpBase, emit: Callable[[Event], None]) -> None:
        """Take over a follow-up's base and object store."""
        self._record = follow_up.record
        self._store = dataclasses.replace(follow_up.store, copies=(*copies_in(self._folder), *follow_up.store.copies))
        capture.pin(repository.locate(self._workspace), self._folder.id, follow_up.record.parent or "")
        failpoint("follow-up pinned")
        self._copy(BASE_COPY, follow_up.record.start_commit, follow_up.record.parent)
        self._save()
        emit(follow_up.base)
        for note in follow_up.notes:
            emit(note)

    def claim(self, repo: repository.Repository) -> Path:
        """Claim a free folder for the worktree and its git directory; return it."""
        claim = cleanup.claim_worktree_path(self._state / "worktrees", cleanup.repository_key(repo))
        try:
            worktree_record.assign(claim.path, self._folder.id)
        finally:
            claim.release()
        return claim.path

    @property
    def name(self) -> str:
        """Return the name of the worktree's folder."""
        return cleanup.tree_name(self._workspace, reserved={"store.git", "owners"})

    def buffers(self) -> dict[str | bytes, bytes]:
        """Return the unsaved text of open files when the delegation was started, by path."""
        return unsaved_text(self._folder, self._spec)

    def make_tree(self, emit: Callable[[Event], None]) -> None:
        """Check out the base into a worktree with its own git directory, and add the declared extra files.

        An existing worktree is removed first: it comes from a worker that died before any agent started, or from an
        attempt that failed and is kept elsewhere.
        """
        began = time.monotonic()
        if os.path.lexists(self.record.tree):
            Worktree(self.store, Path(self.record.tree)).remove(self._state / "trash")
        self._tree = self._check_out(self.record.start_commit)
        self._save()
        for text in [*self._tree.notes, *(self.record.items.notes if self.record.items is not None else ())]:
            emit(events.Note(level="warning", text=text))
        copied = self.record.items.paths() if self.record.items is not None else []
        for path in version_files(self.store.top, self._tree.path):
            if os.fsencode(path) not in copied:
                continue  # git tracks it
            emit(events.Note(level="info", text=f"{path}, which the build writes, was copied into the worktree."))
        emit(events.Worktree(path=self.record.tree, seconds=round(time.monotonic() - began, 3)))

    def keep_changed(self, commit: str, name: str) -> str | None:
        """Keep the whole worktree, whose contents are ``commit``, under a rescue reference; return it.

        None if no file differs from what the first attempt began with. Raises the errors of ``rescue.save``.
        """
        if self._tree is None or self.tree_of(commit) == self.tree_of(self.record.start_commit):
            return None
        also = [ancestor for ancestor in (self.record.base_commit, self.record.parent) if ancestor]
        return rescue.save(self._state, repository.locate(self.store.top), self._tree, self.store, name, also=also)

    def reopen(self, delegation: Delegation) -> None:
        """Open the worktree of a finished delegation; raise ``base_unavailable`` if it was removed."""
        if not self._record_path.exists():
            raise UnderstudyError(
                ErrorKind.BASE_UNAVAILABLE,
                f"{delegation.id} never had a worktree.",
                hint="See `understudy show` for what happened, then start it again.",
            )
        self._load()
        worktree_record.require_owner(Path(self.record.root), delegation.id)
        if worktree_record.has_tree(Path(self.record.tree)):
            self._tree = Worktree.open(self.store, Path(self.record.tree))
        else:
            self._tree = self._check_out(delegation.head or self.record.base_commit)
            self._save()

    def _check_out(self, commit: str) -> Worktree:
        """Create the worktree of a commit, add the extra files, and record them."""
        made = worktree.create_worktree(self.store, commit, Path(self.record.tree))
        self.record.items = extra_files.apply(
            made,
            self._found or repository.locate(self._workspace),
            copy=self._spec.bootstrap.copy,
            link=self._spec.bootstrap.link,
        )
        return made

    def add_extra_files(self, copy: Sequence[str], link: Sequence[str], emit: Callable[[Event], None]) -> None:
        """Copy and link what the configuration names now and did not when the worktree was created."""
        recorded, tree = self.record.items, self._tree
        if recorded is None or tree is None:
            return
        present = {item.path for item in recorded.items}
        link = [name for name in link if os.fsencode(name.strip("/")) not in present]
        copy = [pattern for pattern in copy if pattern not in self._spec.bootstrap.copy]
        if not link and not copy:
            return
        added = extra_files.apply(tree, repository.locate(self._workspace), copy=copy, link=link)
        self.record.items = dataclasses.replace(recorded, items=[*recorded.items, *added.items])
        self._save()
        for text in added.notes:
            emit(events.Note(level="warning", text=text))

    # -- use -------------------------------------------------------------------------------------------------

    @property
    def has_tree(self) -> bool:
        """Return whether the worktree was created."""
        return self._tree is not None

    @property
    def tree_path(self) -> Path:
        """Return the folder of the worktree."""
        return Path(self.record.tree)

    @property
    def agent_path(self) -> Path:
        """Return the folder in which the agent works."""
        return self.tree_path

    def environment(self) -> dict[str, str]:
        """Return the environment of commands that run in the worktree: no API keys, no variables of delegators."""
        return setup_environment(self.tree_path, self._workspace)

    def read_base(self, path: str) -> bytes | None:
        """Return the content of a file in the base."""
        blob = diff.read_file(self.store, self.record.base_commit, os.fsencode(path))
        return blob[0] if blob is not None else None

    def write_target(self, path: str, text: str) -> None:
        """Write the answer of a recipe that returns a file, unless the agent changed that file."""
        before = self.read_base(path)
        file = self.agent_path.joinpath(*nofollow.safe_parts(path))
        now = file.read_bytes() if file.is_file() and not file.is_symlink() else None
        if now == before:
            nofollow.write_over(self.agent_path, path, text.encode("utf-8"))

    def checkpoint(self, emit: Callable[[Event], None]) -> str:
        """Commit the contents of the worktree on top of the base; return the commit."""
        tree = self._tree
        if tree is None:
            raise UnderstudyError(ErrorKind.BASE_UNAVAILABLE, "There is no worktree to commit.", hint="Start it again.")
        snapshot = tree.snapshot(self._message, self.record.base_commit)
        for text in snapshot.notes:
            emit(events.Note(level="warning", text=text))
        return snapshot.commit

    @property
    def _message(self) -> str:
        """Return the message of the result commit."""
        return f"{self._spec.title}\n\nDelegation: {self._folder.id}"

    def result(self, commit: str) -> CollectedResult:
        """Return what ``commit`` changes, and write ``review.diff``."""
        self._copy(RESULT_COPY, commit, self.record.base_commit)
        write_review(self._folder, self.store, self.record.base_commit, commit)  # verifies the objects of the change
        splits = diff.splits(self.store, self.record.base_commit, commit, verified=True)
        return CollectedResult(commit, diff.stats_of(splits), sum(len(diff.hunk_ids(split)) for split in splits))

    def tree_of(self, commit: str) -> str:
        """Return the tree id of a commit."""
        return verification.tree_of(self.store, commit)

    def changed_paths(self, base: str, head: str) -> list[tuple[str, str]]:
        """Return what happened to each file that differs in two commits (``modified``), and its path."""
        return [(status, os.fsdecode(path)) for status, path in diff.changed_paths(self.store, base, head)]

    def base_files(self) -> dict[bytes, tuple[str, str]]:
        """Return path → (mode, object id) of the files of the base that the user sees."""
        hidden = self.store.hidden(self.record.base_commit)
        files = verification.require_tree(self.store, self.record.base_commit)
        return {path: entry for path, entry in files.items() if entry[0] != "160000" and path not in hidden}

    def linked(self) -> list[Path]:
        """Return the items of the checkout that the worktree links to."""
        items = self.record.items
        if items is None:
            return []
        return [items.source / os.fsdecode(item.path) for item in items.items if item.kind == "link"]

    def show_command(self, path: str) -> str:
        """Return a shell command that prints a file as it was in the base."""
        return shlex.join(["git", f"--git-dir={self.store.path}", "show", f"{self.record.base_commit}:{path}"])

    def judged(self) -> JudgedWorktree:
        """Return the worktree for the checks."""
        if self._tree is None:
            raise UnderstudyError(ErrorKind.BASE_UNAVAILABLE, "There is no worktree to check.", hint="Start it again.")
        return JudgedWorktree(self.store, self._tree, self.record, self._save)

    def _copy(self, name: str, commit: str, without: str | None) -> None:
        """Keep the objects of a commit in the delegation's folder; agents and checks can write to the store."""
        if commit != without:
            with disk_full_errors(self._folder.path):
                verification.write_copy(self.store, self._folder.path / name, commit, without)

    # -- the record ------------------------------------------------------------------------------------------

    def _save(self) -> None:
        if self._record is not None:
            durable.replace(self._record_path, msgspec.json.encode(self._record, enc_hook=os.fspath))

    def _load(self) -> None:
        self._record, self._store = load_record(self._folder)

    @property
    def record(self) -> WorktreeRecord:
        """Return the record; raise ``base_unavailable`` if the base was never recorded, as ``store`` does."""
        return self._require(self._record)

    @property
    def store(self) -> ObjectStore:
        """Return the store of the objects."""
        return self._require(self._store)

    @staticmethod
    def _require(part: _Part | None) -> _Part:
        if part is None:
            raise UnderstudyError(ErrorKind.BASE_UNAVAILABLE, "The base was never recorded.", hint="Start it again.")
        return part


def unsaved_text(folder: Folder, spec: Spec) -> dict[str | bytes, bytes]:
    """Return the unsaved text of open files when the delegation was started, by path."""
    return {path_quoting.unquote(quoted): (folder.buffers / name).read_bytes() for quoted, name in spec.buffers.items()}


class JudgedWorktree:
    """The worktree for the checks, which reset it to exactly one commit and read files by commit."""

    def __init__(self, store: ObjectStore, tree: Worktree, record: WorktreeRecord, save: Callable[[], None]) -> None:
        """Create it from a delegation's worktree; ``save`` writes the record after extra files were restored."""
        self.path = Path(record.tree)
        self._store = store
        self._tree = tree
        self._record = record
        self._save = save
        self._content = TrackedContent(store, self.path)
        self._trees = verification.VerifiedTrees(store)

    def materialise(self, commit: str) -> None:
        """Reset the worktree to exactly ``commit`` plus the extra files, which are restored if they changed.

        The files are then compared with the commit by content: git trusts the names of the objects that it writes.
        Raises ``base_unavailable`` if they differ and the objects cannot be recovered.
        """
        items = self._record.items
        self._reset(commit)
        if items is not None and extra_files.changed(items):
            self._record.items = extra_files.restore_changed(items)
            self._save()

    def _reset(self, commit: str) -> None:
        items = self._record.items
        keep = items.paths() if items is not None else []
        for attempt in (1, 2):
            self._tree.materialise(commit, keep=keep)
            differing = self._content.differing(commit, keep)
            if not differing:
                return
            if attempt == 1:
                entries = verification.require_tree(self._store, commit)
                verification.require_objects(self._store, [entries[path][1] for path in differing])
                for path in differing:
                    delete_folder(Path(os.fsdecode(os.fsencode(self.path) + b"/" + path)))
        named = path_quoting.quote(differing[0])
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"{len(differing)} files of the worktree, such as {named}, differ right after they were written.",
            hint="Another program writes to the worktree. End it, then run `understudy check` again.",
        )

    def differing(self, commit: str) -> list[str]:
        """Return the tracked files whose content, kind or executable bit differs from ``commit``."""
        keep = self._record.items.paths() if self._record.items is not None else []
        return [os.fsdecode(path) for path in self._content.differing(commit, keep)]

    def tree_of(self, commit: str) -> str:
        """Return the tree id of a commit."""
        return verification.tree_of(self._store, commit)

    def changed_paths(self, base: str, head: str) -> list[tuple[str, str]]:
        """Return status letter and surrogate-escaped path of every changed file."""
        return [(_LETTERS[status], os.fsdecode(path)) for status, path in diff.changed_paths(self._store, base, head)]

    def file_diffs(self, base: str, head: str) -> list[FileDiff]:
        """Return the difference of two commits by files and hunks."""
        return diff.file_diffs(self._store, base, head)

    def read(self, commit: str, path: str) -> bytes | None:
        """Return the content of a file in a commit."""
        # Most of the files that are asked for do not exist: they are names of configuration files.
        if self._trees.find(commit, os.fsencode(path)) is None:
            return None
        blob = diff.read_file(self._store, commit, os.fsencode(path))
        return blob[0] if blob is not None else None

    def read_many(self, commit: str, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of the files of a commit among ``paths``: of up to 512 KiB each, and 64 MiB together."""
        names = (os.fsencode(path) for path in paths)
        contents = diff.read_files(self._store, commit, names, limit=512 << 10, total=64 << 20)
        return {os.fsdecode(path): content for path, content in contents.items()}

    def paths(self, commit: str) -> list[str]:
        """Return the surrogate-escaped paths of all files of a commit."""
        return [os.fsdecode(path) for path in changes.listing(self._store, commit)]

    def compose(self, head: str, base: str, files: Mapping[str, bytes | None]) -> str:
        """Return a commit that is ``head`` with some files replaced."""
        changed = {os.fsencode(path): content for path, content in files.items()}
        return changes.write_mixed(self._store, head, base, changed)


_LETTERS = {"added": "A", "deleted": "D", "modified": "M", "renamed": "R", "mode": "M", "type": "T"}


def setup_environment(tree: Path, workspace: Path) -> dict[str, str]:
    """Return the environment of commands in a worktree: no API keys, no variables of delegators."""
    return base_environment({**proxies(), "UNDERSTUDY_WORKTREE": str(tree), "UNDERSTUDY_WORKSPACE": str(workspace)})


async def run_setup(
    argv: Sequence[str],
    tree: Path,
    env: Mapping[str, str],
    *,
    mark: str,
    timeout_seconds: float,
    limits: ProgramLimits | None = None,
) -> None:
    """Run the command; raise ``timed_out``, ``resource_limit``, or ``tool_crashed`` with the end of its output."""
    from understudy.process.programs import children  # needs asyncio, which a start does without

    program = Program(argv, tree, env, AccessProfile(Role.SETUP), mark=mark, limits=limits_of(limits))
    completed = await children.run(program, timeout_seconds=timeout_seconds, output_limit=64 * 1024)
    if completed.limit_error is not None:
        raise completed.limit_error
    if completed.timed_out or completed.code != 0:
        how = "timed out" if completed.timed_out else f"failed with exit code {completed.code}"
        # It gets the proxies as they are; a password that is cut off would not be found later.
        passwords = {f"proxy password {number}": text for number, text in enumerate(proxy_passwords(env), 1)}
        printed = (completed.stderr or completed.stdout).decode("utf-8", "replace")
        tail = Redactor(passwords).redact(printed)[-400:].strip()
        raise UnderstudyError(
            ErrorKind.TIMED_OUT if completed.timed_out else ErrorKind.TOOL_CRASHED,
            f"The setup command {argv[0]!r} {how}: {tail}",
            hint="Correct `setup` under [worktrees] in the configuration.",
        )
