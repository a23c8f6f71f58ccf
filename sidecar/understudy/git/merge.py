"""Merge chosen hunks of a result into what the user sees now, in memory.

Three sides decide, on bytes: the base, the base with the chosen hunks (the *partial result*), and what the user sees at
this moment. Nothing is written: ``plan`` says what would have to change, ``apply`` changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from understudy.git.names import flagged as _flagged
from understudy.git.store import Store

OTHER = "040000"
"""Mode of an ``Entry`` that stands for whatever is neither file nor link (a folder, a pipe), or that lies behind a link."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or link: git's mode (``100644``, ``100755``, ``120000``, or ``OTHER``) and its bytes (a link's target)."""

    mode: str
    content: bytes


Reader = Callable[[bytes], Entry | None]
"""Path inside the workspace → what is there, or None when nothing is. Must not follow links."""

Selection = Mapping[bytes, set[str] | None]
"""Path of a ``FileDiff`` (``names.unquote``) → ids of its hunks, or None for all of them."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one file: ``before`` is what it was merged with, and must still be there when it is written."""

    path: bytes
    before: Entry | None
    after: Entry | None


@dataclass(frozen=True, slots=True)
class HunkConflict:
    """A hunk that does not merge, and its three sides; None where that side has no file.

    For a hunk of lines the sides are those lines (``yours``: the lines that stand there now); for a hunk that is a whole
    file, they are contents.
    """

    path: bytes
    hunk: str
    base: bytes | None
    result: bytes | None
    yours: bytes | None


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What to write (files that come out as they are now do not appear), what it contains, and what it does not."""

    changes: tuple[Change, ...]
    merged: Mapping[bytes, tuple[str, ...]]
    """Path of the ``FileDiff`` → ids of the hunks that are in ``changes`` or already in the user's file."""
    conflicts: tuple[HunkConflict, ...]


def plan(store: Store, base: str, head: str, selection: Selection, read_now: Reader) -> MergePlan:
    """Merge the selected hunks of ``base``..``head`` into what ``read_now`` says.

    A hunk that does not merge is left out while the others of its file still merge without it. Only the selected files
    are read. A rename is one hunk of the new path and makes two changes.

    Errors: ``invalid_params`` (no such file or hunk), ``base_unavailable``, ``file_too_large``.
    """
    raise NotImplementedError


def flagged(paths: Iterable[bytes]) -> dict[bytes, str]:
    """Return those paths whose change deserves a second look before it is accepted, with the reason."""
    return {path: reason for path in paths if (reason := _flagged(path)) is not None}
