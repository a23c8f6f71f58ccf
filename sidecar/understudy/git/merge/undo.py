"""Compute the changes that undo an accept: a three-way merge that keeps the user's later edits."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from understudy.files import durable
from understudy.git.changes import OTHER, Change, Entry, Reader, Selection
from understudy.git.diff import Split, line_splits
from understudy.git.merge.hunk_merge import Removals, makes_room, plan
from understudy.git.merge.line_edits import edits_of, merge_edits, split_lines
from understudy.git.object_store import ObjectStore
from understudy.git.objects import object_id, read_blobs, write_blob, write_flat_tree, write_object
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import quote, unquote
from understudy.model.wire import Wire

_FILES = frozenset({"100644", "100755"})


class FileImage(Wire, kw_only=True):
    """One file before and after an accept: wire path (``path_quoting.quote``), modes and blobs of the store."""

    path: str
    before_mode: str | None = None
    before: str | None = None
    after_mode: str | None = None
    after: str | None = None
    source: str | None = None
    """For a file that the accept renamed: its path before."""
    permissions: int | None = None
    """The permission bits of a file that the accept removed, or replaced by something else."""
    extended: dict[str, bytes] | None = None
    """Its extended attributes; the names are quoted like paths."""


class UndoRecord(Wire, kw_only=True):
    """The data for ``undo``, which msgspec converts to JSON and back. The blobs are in the store."""

    images: list[FileImage]


def record(store: ObjectStore, changes: Iterable[Change], *, verified: Container[str] = ()) -> UndoRecord:
    """Save both images of each change to the store, for ``undo``. Call it before ``FileTransaction.apply``.

    ``verified``: blobs that are in the store itself, undamaged.
    """
    images = []
    changes = list(changes)
    few = sum(change.before is not None for change in changes) <= durable.FEW_FILES
    with store.writing():
        for change in changes:
            image = FileImage(path=quote(change.path), permissions=change.permissions)
            if change.extended is not None:
                image.extended = {quote(name): value for name, value in change.extended.items()}
            image.source = quote(change.source) if change.source is not None else None
            if change.before is not None:
                image.before_mode, image.before = change.before.mode, _write(store, change.before, sync=few)
            if change.after is not None:
                identifier = object_id("blob", change.after.content, store.object_format)
                image.after_mode = change.after.mode
                image.after = identifier if identifier in verified else _write(store, change.after)
            images.append(image)
    if not few:
        with store.writing():
            descriptor = os.open(store.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                durable.sync_file_system(descriptor)
            finally:
                os.close(descriptor)
    return UndoRecord(images=images)


def _write(store: ObjectStore, entry: Entry, *, sync: bool = False) -> str:
    return write_object(store.path, "blob", entry.content, store.object_format, sync=sync)


def part(
    store: ObjectStore,
    commits: tuple[str, str],
    undo_record: UndoRecord,
    accepted: Selection,
    undone: Selection,
    *,
    difference: list[Split] | None = None,
) -> UndoRecord:
    """Return the record that undoes only some hunks of an accept: ``undone``, of the hunks ``accepted``.

    ``commits``: the base and the result, whose hunks these are; ``difference``: their file splits, if known. The
    record has images only of files that differ.
    """
    contents = read_blobs(store, [image.before for image in undo_record.images if image.before])
    before = {unquote(image.path): _entry(image.before_mode, image.before, contents) for image in undo_record.images}
    kept: Selection = {
        path: (accepted.get(path) or set()) - (hunks or set()) for path, hunks in undone.items() if path in before
    }
    with_them, without = (
        {
            change.path: change.after
            for change in plan(
                store, *commits, {path: selection[path] for path in kept}, before.get, difference=difference
            ).changes
        }
        for selection in (accepted, kept)
    )
    partial = record(
        store,
        [
            Change(path, without.get(path, before.get(path)), after)
            for path, after in with_them.items()
            if without.get(path, before.get(path)) != after
        ],
    )
    images = {image.path: image for image in undo_record.images}
    for image in partial.images:
        if (whole := images.get(image.path)) is not None:
            image.source, image.permissions, image.extended = whole.source, whole.permissions, whole.extended
    return partial


def undo(store: ObjectStore, undo_record: UndoRecord, read_now: Reader) -> list[Change]:
    """Return the changes that undo an accept, by a three-way merge that keeps the user's later edits.

    Raises ``merge_conflict`` when a later edit overlaps; ``names`` lists the files, and nothing must be changed.
    """
    images = undo_record.images
    contents = read_blobs(store, [blob for image in images for blob in (image.before, image.after) if blob])
    changes, refused, texts = [], [], []
    renamed = {image.source: unquote(image.path) for image in images if image.source is not None}
    leaving = Removals(unquote(image.path) for image in images if image.before is None)
    returning = Removals(unquote(image.path) for image in images if image.after is None)
    for image in images:
        path = unquote(image.path)
        before = _entry(image.before_mode, image.before, contents)
        after = _entry(image.after_mode, image.after, contents)
        now = read_now(path)
        # One of the two states may have a file where the other has a folder; then the folder counts as absent.
        if now is not None and now.mode == OTHER and makes_room(path, now, leaving if after is None else returning):
            now = None
        if now == after:
            extended = None
            if image.extended is not None:
                extended = {unquote(name): value for name, value in image.extended.items()}
            changes.append(Change(path, now, before, renamed.get(image.path), image.permissions, extended))
        elif now == before:
            continue
        elif (
            before is not None
            and after is not None
            and now is not None
            and {before.mode, after.mode, now.mode} <= _FILES
        ):
            texts.append((path, before, after, now))
        else:
            refused.append(image.path)
    for (path, _, _, now), merged in zip(texts, _merge_back(store, texts), strict=True):
        if merged is None:
            refused.append(quote(path))
        elif merged != now:
            changes.append(Change(path, now, merged))
    if refused:
        raise UnderstudyError(
            ErrorKind.MERGE_CONFLICT,
            f"Your later changes to {refused[0]}"
            + (f" and {len(refused) - 1} more files" if len(refused) > 1 else "")
            + " overlap the accepted changes, so nothing was undone.",
            hint="Revert the accepted changes by hand, or undo your own edits first.",
            names=refused,
        )
    # A file gets its old name back with all that belongs to it, unless the user has removed it since.
    there = {change.path for change in changes if change.before is not None}
    changes = [change if change.source in there else replace(change, source=None) for change in changes]
    return sorted(changes, key=lambda change: change.path)


def _merge_back(store: ObjectStore, texts: list[tuple[bytes, Entry, Entry, Entry]]) -> list[Entry | None]:
    """Merge each reverted change (after → before) into the current file, with one call of git for all."""
    if not texts:
        return []
    sides: list[list[tuple[bytes, str, str]]] = [[], [], []]
    for number, (_, *entries) in enumerate(texts):
        before, after, now = entries
        for side, entry in zip(sides, (after, before, now), strict=True):
            side.append((b"%08d" % number, "100644", write_blob(store, entry.content)))
    trees = [write_flat_tree(store, side) for side in sides]
    back = line_splits(store, trees[0], trees[1])
    since = line_splits(store, trees[0], trees[2])
    merged: list[Entry | None] = []
    for number, (_, before, after, now) in enumerate(texts):
        name = b"%08d" % number
        chosen = edits_of(back[name].ranges, back[name].added) if name in back else []
        user = edits_of(since[name].ranges, since[name].added) if name in since else []
        binary = any(b"\0" in entry.content[:8000] for entry in (before, after, now))  # git's own rule for binary files
        content, conflicts = merge_edits(split_lines(after.content), chosen, user)
        mode = before.mode if now.mode == after.mode else now.mode
        merged.append(None if conflicts or (binary and chosen and user) else Entry(mode, content))
    return merged


def _entry(mode: str | None, blob: str | None, contents: Mapping[str, bytes]) -> Entry | None:
    return None if mode is None or blob is None else Entry(mode, contents[blob])
