"""Record what an agent changes in the user's checkout.

``begin`` commits what is on disk when the agent starts. ``collect`` commits what is there afterwards, on top of the
base, without what the user did: what was unsaved in the base, and what an editor saved meanwhile. Both use an index in
the store; the checkout, its index and its refs are only read. The ignore rules of the beginning decide what belongs to
the result, and so do the files that the base left out: they are never part of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from understudy.git.base.capture import write_base
from understudy.git.base.index import sizes_of
from understudy.git.changes import Change, Entry, commit_entries, folders_of
from understudy.git.merge import undo as undo_merge
from understudy.git.merge.undo import FileImage, UndoRecord
from understudy.git.object_store import ObjectStore
from understudy.git.objects import read_blobs, write_blob
from understudy.git.repository import Repository
from understudy.git.verification import require_tree
from understudy.git.worktree.collect import rules_of
from understudy.git.worktree.worktree import Worktree
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import quote

KEPT_BYTES = 2 * 1024 * 1024 * 1024
"""All files of a checkout together, before compression: above that, its repository must keep them."""
_LISTING_BYTES = 256 * 1024 * 1024
_NAMED = 10
"""Most files that one note names."""
_MODULE = "160000"
_FILES = frozenset({"100644", "100755"})

_Place = tuple[str, str] | None
"""Mode and object id of a path in a tree; None if it has no such path."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What was on disk when the agent started, and files that cannot be recorded."""

    commit: str
    different: list[bytes]
    """Files whose stored form is not what is on disk (Git LFS, encrypted): they cannot be part of a result."""


@dataclass(frozen=True, slots=True)
class SavedText:
    """A file when an editor, or an accept of another result, wrote it last."""

    exists: bool
    digest: str
    """SHA-256 of its content; empty if it was too large."""
    content: bytes | None
    """None if it was not kept."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The result, and what undoes it."""

    commit: str
    """The base with the agent's changes; the base itself if there are none."""
    on_disk: str
    """Everything that a result can contain, as it is on disk."""
    changes: list[Change]
    """What is on disk, before and after the agent changed it."""
    notes: list[str] = field(default_factory=list)


def begin(store: ObjectStore, repository: Repository) -> Beginning:
    """Commit what is on disk, and remember which files are not part of it. Raises the errors of ``write_base``.

    The store then has all of its objects, up to ``KEPT_BYTES``: an agent can remove the repository.
    """
    base = write_base(store, repository)
    tree = Worktree(store, repository.top)
    tree.state.parent.mkdir(exist_ok=True, mode=0o700)
    shutil.copyfile(store.base_index, tree.index)
    shutil.copystat(store.base_index, tree.index)  # its time shows git which entries it must not trust
    rules = rules_of(store, base.commit)
    tree.rules.write_bytes(rules)
    listed = store.git_output(
        "ls-files",
        "-z",
        "-o",
        f"--exclude-from={tree.rules}",
        work_tree=repository.top,
        index=tree.index,
        output_limit=64 * 1024 * 1024,
    ).split(b"\0")[:-1]
    left_out = sorted({path.rstrip(b"/") for path in listed})
    tree.state.write_text(json.dumps({"base": base.commit, "excluded": [path.hex() for path in left_out]}))
    sizes = _sizes(store, base.commit)
    if sum(sizes.values()) <= KEPT_BYTES:
        keep_objects(store, base.commit)
    return Beginning(base.commit, _stored_differently(repository.top, sizes))


def keep_objects(store: ObjectStore, commit: str) -> None:
    """Copy a commit and all of its files, but not its history, to the store."""
    listed = store.git_output(
        "rev-list", "--objects", "--no-walk", "--missing=allow-any", commit, output_limit=_LISTING_BYTES
    ).splitlines()
    names = b"".join(line.partition(b" ")[0] + b"\n" for line in listed)
    store.git_output("pack-objects", "-q", store.path / "objects" / "pack" / "pack", stdin=names)


def collect(
    store: ObjectStore,
    top: Path,
    sides: tuple[str, Beginning],
    *,
    saved: Callable[[], Mapping[bytes, Sequence[SavedText]]],
    message: str,
) -> Collected:
    """Commit the agent's changes of the checkout at ``top`` on the base; ``sides`` are the base and the beginning.

    ``saved`` returns what an editor saved of each path, oldest first. A file with a content that was saved is the
    user's. One that the agent changed after a save has the content saved last as its state before. Raises the errors of
    ``Worktree.snapshot``.
    """
    base, beginning = sides
    tree = Worktree.open(store, top)
    earlier = saved()
    final = tree.snapshot(message, beginning.commit, repair=False)
    # What is saved while the files are read must not count as the agent's, whether it was read or not.
    saves = saved()
    at_base, at_start, at_end = (require_tree(store, commit) for commit in (base, beginning.commit, final.commit))
    taken = _Taken(store, at_base, different={*beginning.different}, excluded={*tree.excluded})
    for path in sorted(at_start.keys() | at_end.keys()):
        if at_start.get(path) != at_end.get(path):
            taken.take(path, at_start.get(path), at_end.get(path), saves.get(path, ()), len(earlier.get(path, ())))
    taken.use_contents()
    commit = _commit(store, base, taken.result, message)
    return Collected(commit, final.commit, taken.changes, [*final.notes, *taken.notes()])


class _Taken:
    """Sorts out the changed paths."""

    def __init__(
        self,
        store: ObjectStore,
        base: Mapping[bytes, tuple[str, str]],
        *,
        different: Collection[bytes],
        excluded: Collection[bytes],
    ) -> None:
        self.result: dict[bytes, _Place] = {}
        """Path → what the result has there."""
        self.changes: list[Change] = []
        self._store = store
        self._base = base
        self._different = different
        self._excluded = excluded
        self._images: list[tuple[bytes, _Place, _Place]] = []
        self._of_user: list[bytes] = []
        self._mixed: list[bytes] = []
        self._unknown: list[bytes] = []
        self._left_out: list[bytes] = []

    def take(self, path: bytes, before: _Place, after: _Place, saved: Sequence[SavedText], earlier: int) -> None:
        """Decide about one path that is not as it was; ``earlier`` saves of it were made before the files were read."""
        modes = {place[0] for place in (before, after) if place is not None}
        if _MODULE in modes or path in self._different or (before is None and self._was_left_out(path)):
            self._left_out.append(path)
            return
        if saved:
            if self._is_saved(saved[max(0, earlier - 1) :], after):
                self._of_user.append(path)
                return
            last = saved[-1]
            if not last.exists:
                before = None
            elif last.content is not None:
                mode = (before or after or ("100644", ""))[0]
                before = (mode if mode in _FILES else "100644", write_blob(self._store, last.content))
            else:
                self._unknown.append(path)
            self._mixed.append(path)
        self._images.append((path, before, after))

    def use_contents(self) -> None:
        """Read the files, and merge the agent's changes into those that the base has with unsaved text."""
        identifiers = [place[1] for _, before, after in self._images for place in (before, after) if place is not None]
        identifiers += [place[1] for path, *_ in self._images if (place := self._base.get(path)) is not None]
        contents = read_blobs(self._store, identifiers)

        def entry(place: _Place) -> Entry | None:
            return None if place is None else Entry(place[0], contents[place[1]])

        for path, before, after in self._images:
            if before == after:
                continue
            self.changes.append(Change(path, entry(before), entry(after)))
            in_base = self._base.get(path)
            self.result[path] = after if in_base == before else self._merged(path, in_base, before, after, entry)

    def _merged(self, path: bytes, in_base: _Place, before: _Place, after: _Place, entry) -> _Place:  # type: ignore[no-untyped-def]  # noqa: ANN001 - the function above
        """Return the base's version with the agent's change; the agent's file if both changed the same lines."""
        if in_base is None or before is None or after is None or not {in_base[0], before[0], after[0]} <= _FILES:
            return after
        image = FileImage(
            path=quote(path), before_mode=after[0], before=after[1], after_mode=before[0], after=before[1]
        )
        try:
            changes = undo_merge.undo(self._store, UndoRecord(images=[image]), lambda _: entry(in_base))
        except UnderstudyError as error:
            if error.kind is not ErrorKind.MERGE_CONFLICT:
                raise
            if path not in self._mixed:
                self._mixed.append(path)
            return after
        merged = changes[0].after if changes else entry(in_base)
        return None if merged is None else (merged.mode, write_blob(self._store, merged.content))

    def notes(self) -> list[str]:
        """Return what the user must know about files that both changed, or that are not part of the result."""
        sentences = []
        if self._of_user:
            sentences.append(
                f"You saved {_named(self._of_user)} while the agent worked. What is there now is yours: it is not part "
                "of the result, even if the agent had changed it before, and no undo changes it."
            )
        if self._mixed:
            sentences.append(
                f"You and the agent both changed {_named(self._mixed)}. An undo restores what you saved last; if your "
                "changes are on the same lines as the agent's, the result shows them as its own."
            )
        if self._unknown:
            sentences.append(
                f"What you saved in {_named(self._unknown)} was too large to be kept. An undo restores what was there "
                "before the agent began."
            )
        if self._left_out:
            sentences.append(
                f"{_named(self._left_out)} changed, which is not part of the result, and which no undo restores: the "
                "base does not have what was there before."
            )
        return sentences

    def _was_left_out(self, path: bytes) -> bool:
        """Return whether the base left the file, or a folder around it, out."""
        return any(place in self._excluded for place in (path, *folders_of(path)))

    def _is_saved(self, saved: Sequence[SavedText], after: _Place) -> bool:
        """Return whether the file was read as one of these saves left it."""
        if after is None:
            return any(not text.exists for text in saved)
        digest = hashlib.sha256(read_blobs(self._store, [after[1]])[after[1]]).hexdigest()
        return any(text.exists and text.digest == digest for text in saved)


def _commit(store: ObjectStore, base: str, places: Mapping[bytes, _Place], message: str) -> str:
    # Removals come first: the index refuses a file where it still has a folder.
    lines = [store.removal(path) for path, place in places.items() if place is None]
    lines += [f"{place[0]} {place[1]}\t".encode() + path + b"\0" for path, place in places.items() if place is not None]
    return commit_entries(store, base, lines, message)


def _sizes(store: ObjectStore, commit: str) -> dict[bytes, int]:
    """Return path → size of the files of a commit that the checkout has."""
    hidden = store.hidden(commit)
    files = {
        path: identifier
        for path, (mode, identifier) in require_tree(store, commit).items()
        if mode in _FILES and path not in hidden
    }
    sizes = sizes_of(store, files.values())
    return {path: size for path, identifier in files.items() if (size := sizes[identifier]) is not None}


def _stored_differently(top_folder: Path, sizes: Mapping[bytes, int]) -> list[bytes]:
    """Return the files whose size on disk is not that of the commit: conversions and filters change it."""
    top = os.fsencode(top_folder) + b"/"
    paths = []
    for path, size in sizes.items():
        try:
            facts = os.lstat(top + path)
        except OSError:
            continue
        if stat.S_ISREG(facts.st_mode) and facts.st_size != size:
            paths.append(path)
    return paths


def _named(paths: list[bytes]) -> str:
    more = len(paths) - _NAMED
    return ", ".join(quote(path) for path in paths[:_NAMED]) + (f" and {more} more files" if more > 0 else "")
