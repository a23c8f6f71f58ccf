"""Write changes into the user's files: all or nothing, and never over a byte that somebody saved meanwhile.

A journal is on disk before anything changes. Each file is made beside its place and exchanged with what is there in one
step of the file system; what came out must be what the change was computed from, else everything goes back. Whatever
happens at any instant, ``recover`` leaves all before or all after. Only files change: never the index, HEAD, a ref.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from understudy.git.merge import Change, Entry, Reader
from understudy.git.store import Store
from understudy.model.wire import Wire


class Image(Wire, kw_only=True):
    """One file before and after an exchange: wire path (``names.quote``), modes and blobs of the store."""

    path: str
    before_mode: str | None = None
    before: str | None = None
    after_mode: str | None = None
    after: str | None = None


class UndoRecord(Wire, kw_only=True):
    """What ``undo`` needs; msgspec turns it into JSON and back. The blobs are in the store."""

    images: list[Image]


class Exchange:
    """One all-or-nothing change of files below ``top``.

    ::

        with Exchange(top, journal) as exchange:
            exchange.apply(plan.changes)  # the files are new now
            ...                           # whatever else must succeed, e.g. the editor's applyEdit
            exchange.commit()             # without it, leaving the block rolls everything back

    ``journal`` is a path in an existing folder of Understudy's own (the delegation's), one per workspace at a time is
    wise; it exists from ``apply`` until ``commit`` or the roll-back is complete. A roll-back gives way to whatever the
    user saved in the meantime.
    """

    def __init__(self, top: Path, journal: Path) -> None:
        """Nothing happens yet."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Return itself."""
        raise NotImplementedError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Roll back unless committed."""
        raise NotImplementedError

    def apply(self, changes: Iterable[Change]) -> None:
        """Put the changes in place; on any error everything is as before.

        Errors: ``apply_conflict`` (a file is not what it was merged with, or is being written), ``path_escape`` (a link
        on the way, a refused name), ``permission_denied``, ``store_full``, ``conflict`` (the journal exists:
        ``recover`` it first).
        """
        raise NotImplementedError

    def commit(self) -> None:
        """Make it final (durable when this returns) and clean up."""
        raise NotImplementedError


def recover(journal: Path) -> Literal["nothing", "before", "after"]:
    """Finish what a killed process left: all before, or, when it was committed, all after. May be repeated."""
    raise NotImplementedError


def read_entry(top: Path, path: bytes) -> Entry | None:
    """Return what lies at ``path`` below ``top`` on disk, without following any link; a ``Reader`` with ``partial``.

    Something that is neither file nor link, or lies behind a link or a file, has the mode ``merge.OTHER``.
    ``file_too_large`` above ``diff.FILE_BYTES`` × 4; ``permission_denied`` when it cannot be read.
    """
    raise NotImplementedError


def record(store: Store, changes: Iterable[Change]) -> UndoRecord:
    """Keep both images of each change in the store, for ``undo``. Call it before ``Exchange.apply``."""
    raise NotImplementedError


def undo(store: Store, undo_record: UndoRecord, read_now: Reader) -> list[Change]:
    """Return the changes that take an accept back, merged three-way: later edits of the user stay. Apply them next.

    Errors: ``apply_conflict`` when a later edit overlaps (nothing is to be changed then); ``names`` lists the files.
    """
    raise NotImplementedError
