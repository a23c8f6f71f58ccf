"""Where the work happens: Understudy's own git store, the base commit in it, and the tree the agent works in.

``<state>/trees/<repository>/<n>/`` holds ``store.git`` (Understudy's, never discovered, always named
explicitly), the tree itself under the workspace's own folder name, and ``lease`` (the delegation that has it).
A tree an agent has worked in is never handed on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from understudy.engine import leases
from understudy.git import base as git_base
from understudy.git import bootstrap, call, diff, names, repository, tree
from understudy.git.faults import point
from understudy.git.store import Store
from understudy.git.tree import Tree
from understudy.journal import disk
from understudy.journal import store as journal_store
from understudy.model import events
from understudy.model.delegations import Delegation, FileStat
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.events import Event
from understudy.model.spec import Origin, Spec
from understudy.model.wire import ready
from understudy.process.environment import base_environment
from understudy.runners import treefiles


class Record(msgspec.Struct):
    """``ground.json`` in the delegation's folder: how a later process finds the ground again."""

    root: str
    tree: str
    base_commit: str
    items: bootstrap.Items | None = None
    start: str | None = None
    """The commit that the tree is made of, where it is not the base (a follow-up)."""
    parent: str | None = None
    """What an exported commit stands on: HEAD when the base was written, or the revision asked for."""


@dataclass(frozen=True)
class Kept:
    """What is in the tree, as a commit."""

    commit: str
    files: list[FileStat]
    hunks: int


class Ground:
    """One delegation's ground. Its methods block; they run beside the event loop."""

    def __init__(self, folder: journal_store.Folder, spec: Spec, state: Path) -> None:
        """Make nothing yet."""
        self._folder = folder
        self._spec = spec
        self._state = state
        self._workspace = Path(spec.workspace)
        self._record_path = folder.path / "ground.json"
        self._record: Record | None = None
        self._store: Store | None = None
        self._tree: Tree | None = None

    # -- making it -------------------------------------------------------------------------------------------

    def make_base(self, emit: Callable[[Event], None]) -> None:
        """Write the base, exactly what the person sees, unless an earlier worker of this delegation has."""
        if self._record_path.exists():
            self._load()
            return
        from understudy.engine import settling  # noqa: PLC0415 - it needs this module

        emit(events.Phase(text="Recording what you see"))
        settling.settle_workspace(self._workspace)
        if self._spec.origin is not None:
            self._go_on(self._spec.origin, emit)
            return
        kind = self._spec.params.base or "seen"
        found = repository.locate(self._workspace)
        root = self._claim(found)
        point("place claimed")
        self._store = Store.create(root / "store.git", found)
        buffers: dict[str | bytes, bytes] = {
            names.unquote(quoted): (self._folder.buffers / name).read_bytes()
            for quoted, name in self._spec.buffers.items()
        }
        base = git_base.write_base(self._store, found, kind=kind, buffers=buffers)
        kept = found.head_commit if kind == "seen" else base.commit
        git_base.pin(found, self._folder.id, kept or "")
        point("base pinned")
        self._record = Record(str(root), str(root / _tree_name(self._workspace)), base.commit, parent=kept)
        self._save()
        emit(events.Base(commit=base.commit, files=base.files, left_out=base.left_out))
        for text in base.notes:
            emit(events.Note(level="warning", text=text))

    def make_tree(self, emit: Callable[[Event], None]) -> None:
        """Check the base out into a tree with a git directory of its own, and bring along what is declared.

        A tree that is there already was left by a worker of this delegation that died before any agent started.
        """
        record, _ = self._known()
        began = time.monotonic()
        if os.path.lexists(record.tree):
            Tree(self._known()[1], Path(record.tree)).remove(self._state / "trash")
        self._tree = self._check_out(record.start or record.base_commit)
        self._save()
        for text in [*self._tree.notes, *(record.items.notes if record.items is not None else ())]:
            emit(events.Note(level="warning", text=text))
        emit(events.Worktree(path=record.tree, seconds=round(time.monotonic() - began, 3)))

    def reopen(self, delegation: Delegation) -> None:
        """Find the ground of a delegation that ended; raise ``base_unavailable`` when it was removed."""
        if not self._record_path.exists():
            raise UnderstudyError(
                ErrorKind.BASE_UNAVAILABLE,
                f"{delegation.id} never had a tree.",
                hint="Start it again; what happened is in `understudy show`.",
            )
        self._load()
        record, store = self._known()
        leases.refuse_other(Path(record.root), delegation.id)
        if Path(record.tree).is_dir():
            self._tree = Tree.open(store, Path(record.tree))
        else:
            self._tree = self._check_out(delegation.head or record.base_commit)
            self._save()

    def _check_out(self, commit: str) -> Tree:
        """Make the tree of a commit with its bootstrap, and note what was brought in."""
        record, store = self._known()
        made = tree.create_tree(store, commit, Path(record.tree))
        record.items = bootstrap.apply(
            made,
            repository.locate(self._workspace),
            copy=self._spec.bootstrap.copy,
            link=self._spec.bootstrap.link,
        )
        return made

    # -- using it --------------------------------------------------------------------------------------------

    @property
    def has_tree(self) -> bool:
        """Tell whether the tree was made."""
        return self._tree is not None

    @property
    def tree_path(self) -> Path:
        """Return the tree's folder."""
        return Path(self._known()[0].tree)

    @property
    def base_commit(self) -> str:
        """Return the base."""
        return self._known()[0].base_commit

    def environment(self) -> dict[str, str]:
        """Return the environment of commands configured for the tree: no key, no delegator's variable."""
        return base_environment(
            {"UNDERSTUDY_WORKTREE": str(self.tree_path), "UNDERSTUDY_WORKSPACE": str(self._workspace)}
        )

    def read_base(self, path: str) -> bytes | None:
        """Return a file of the base."""
        record, store = self._known()
        found = diff.read_file(store, record.base_commit, os.fsencode(path))
        return found[0] if found is not None else None

    def write_target(self, path: str, text: str) -> None:
        """Write the text of a recipe that returns a file, unless the agent changed that file itself."""
        before = self.read_base(path)
        file = self.tree_path.joinpath(*treefiles.safe_parts(path))
        now = file.read_bytes() if file.is_file() and not file.is_symlink() else None
        if now == before:
            treefiles.write_over(self.tree_path, path, text.encode("utf-8"))

    def keep(self, emit: Callable[[Event], None]) -> Kept:
        """Make what is in the tree a commit, and write ``review.diff``."""
        record, store = self._known()
        tree = self._tree
        if tree is None:
            raise UnderstudyError(ErrorKind.BASE_UNAVAILABLE, "There is no tree to keep.", hint="Start it again.")
        snapshot = tree.snapshot(f"{self._spec.title}\n\nDelegation: {self._folder.id}", record.base_commit)
        for text in snapshot.notes:
            emit(events.Note(level="warning", text=text))
        write_review(self._folder, store, record.base_commit, snapshot.commit)
        hunks = sum(len(file.hunks) for file in diff.file_diffs(store, record.base_commit, snapshot.commit))
        return Kept(snapshot.commit, diff.stats(store, record.base_commit, snapshot.commit), hunks)

    def tree_of(self, commit: str) -> str:
        """Return the tree id of a commit."""
        return tree_of(self._known()[1], commit)

    def judged(self) -> Judged:
        """Return the tree as the checks use it."""
        record, store = self._known()
        if self._tree is None:
            raise UnderstudyError(ErrorKind.BASE_UNAVAILABLE, "There is no tree to check.", hint="Start it again.")
        return Judged(store, self._tree, record, self._save)

    # -- being stopped ---------------------------------------------------------------------------------------

    @staticmethod
    def abort() -> None:
        """End the git process that runs now, and refuse new ones until ``resume``."""
        call.abort()

    @staticmethod
    def resume() -> None:
        """Allow git again, to keep the partial work."""
        call.resume()

    # -- finding it again ------------------------------------------------------------------------------------

    def _claim(self, found: repository.Repository) -> Path:
        claim = tree.claim_tree_path(self._state / "trees", tree.repository_key(found))
        try:
            leases.add(claim.path, self._folder.id)
        finally:
            claim.release()
        return claim.path

    def _go_on(self, origin: Origin, emit: Callable[[Event], None]) -> None:
        """Start from another delegation: its base again in a tree of its own, or its tree and what is undecided."""
        from understudy.engine import followup  # noqa: PLC0415 - most delegations begin by themselves

        found = repository.locate(self._workspace)
        if origin.kind == "retry":
            made = followup.same_base(origin, lambda: self._claim(found), _tree_name(self._workspace))
        else:
            buffers: dict[str | bytes, bytes] = {
                names.unquote(quoted): (self._folder.buffers / name).read_bytes()
                for quoted, name in self._spec.buffers.items()
            }
            made = followup.next_base(origin, self._folder.id, found, buffers, self._state)
        self._record, self._store = made.record, made.store
        git_base.pin(found, self._folder.id, made.record.parent or "")
        point("follow-up pinned")
        self._save()
        emit(made.base)
        for text in made.notes:
            emit(events.Note(level="warning", text=text))

    def _save(self) -> None:
        if self._record is not None:
            temporary = self._record_path.with_suffix(".tmp")
            temporary.write_bytes(msgspec.json.encode(self._record, enc_hook=os.fspath))
            temporary.chmod(0o600)
            temporary.replace(self._record_path)

    def _load(self) -> None:
        self._record, self._store = load(self._folder)

    def _known(self) -> tuple[Record, Store]:
        if self._record is None or self._store is None:
            raise UnderstudyError(ErrorKind.BASE_UNAVAILABLE, "The base was not recorded.", hint="Start it again.")
        return self._record, self._store


class Judged:
    """The tree as the checks use it: made exactly one commit, read by commit."""

    def __init__(self, store: Store, tree: Tree, record: Record, save: Callable[[], None]) -> None:
        """Take what the ground knows; ``save`` writes the record after a bootstrap item was made anew."""
        self.path = Path(record.tree)
        self._store = store
        self._tree = tree
        self._record = record
        self._save = save

    def materialise(self, commit: str) -> None:
        """Make the tree exactly ``commit`` plus the bootstrap, the latter made anew where it was changed."""
        items = self._record.items
        self._tree.materialise(commit, keep=items.paths() if items is not None else ())
        if items is not None and bootstrap.changed(items):
            self._record.items = bootstrap.renew(items)
            self._save()

    def tree_of(self, commit: str) -> str:
        """Return the tree id of a commit."""
        return tree_of(self._store, commit)

    def changed_paths(self, base: str, head: str) -> list[tuple[str, str]]:
        """Return status letter and surrogate-escaped path of every changed file."""
        return [(_LETTERS[status], os.fsdecode(path)) for status, path in diff.changed_paths(self._store, base, head)]

    def read(self, commit: str, path: str) -> bytes | None:
        """Return a file of a commit."""
        found = diff.read_file(self._store, commit, os.fsencode(path))
        return found[0] if found is not None else None


_RECORD_BYTES = 16 * 1024 * 1024


def read_record(folder: journal_store.Folder) -> Record:
    """Return a delegation's record; raise ``base_unavailable`` when there is none."""
    try:
        data = disk.read_whole(folder.path / "ground.json", _RECORD_BYTES)
        return msgspec.json.decode(data, type=ready(Record), dec_hook=lambda kind, value: kind(value))
    except (OSError, msgspec.DecodeError):
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"{folder.id} has no tree.",
            hint="Recipes that answer with text have none; else see what happened with `understudy show`.",
        ) from None


def load(folder: journal_store.Folder) -> tuple[Record, Store]:
    """Return a delegation's ground as it was recorded; raise ``base_unavailable`` when there is none any more."""
    record = read_record(folder)
    root = Path(record.root) / "store.git"
    reference = leases.removed(Path(record.root))
    if reference is not None or not root.is_dir():
        back = f"Bring it back: understudy restore {reference}; the" if reference else "The"
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"The tree of {folder.id} was removed.",
            hint=f"{back} change as text is in {folder.review}.",
        )
    return record, Store.open(root)


def write_review(folder: journal_store.Folder, objects: Store, base: str, head: str) -> None:
    """Write ``review.diff`` anew."""
    temporary = folder.review.with_suffix(".tmp")
    temporary.write_bytes(review_text(folder, objects, base, head))
    temporary.chmod(0o600)
    temporary.replace(folder.review)


def review_text(folder: journal_store.Folder, objects: Store, base: str, head: str) -> bytes:
    """Return what ``review.diff`` says: a patch, below lines that tell a reader what to do with it.

    Git and patch(1) pass over what is above the first file. Nothing where nothing changed.
    """
    patch = diff.unified(objects, base, head)
    title = " ".join(journal_store.read_spec(folder).title.split())
    lines = (f"# {title} ({folder.id})", *_REVIEW_HEAD)
    return b"".join(line.encode("utf-8", "replace") + b"\n" for line in lines) + patch if patch else b""


_REVIEW_HEAD = (
    "# Your editor's code actions on a change below accept it, reject it, or send the work back.",
    '# To say why, write lines that begin with "> " below the change. Such lines here, above the first file,',
    "# are about the whole work, and those right below a line with diff --git are about that file.",
    "",
)


_LETTERS = {"added": "A", "deleted": "D", "modified": "M", "renamed": "R", "mode": "M", "type": "T"}


def tree_of(store: Store, commit: str) -> str:
    """Return the tree id of a commit."""
    return store.git("rev-parse", "--verify", "--end-of-options", commit + "^{tree}").decode().split()[-1]


def _tree_name(workspace: Path) -> str:
    # The folder's own name: tools show it, and some projects' tests depend on it. Everything else is spelled plainly.
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in workspace.name).strip(".-")
    return name if name and name not in {"store.git", "lease"} else "tree"
