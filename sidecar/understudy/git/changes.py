"""File entries, changes and hunk selections, shared by merging, writing and exporting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

OTHER = "040000"
"""Mode of an ``Entry`` for anything that is neither file nor link (a folder, a pipe), or is behind a link or a file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or link: git's mode (``100644``, ``100755``, ``120000``, or ``OTHER``) and its bytes (a link's target)."""

    mode: str
    content: bytes
    holds: tuple[bytes, ...] = field(default=(), compare=False)
    """For a folder: the paths of its files, links and other entries, and of empty folders with a slash."""


Reader = Callable[[bytes], Entry | None]
"""Path inside the workspace → its entry, or None if it does not exist. Must not follow links."""


Selection = Mapping[bytes, set[str] | None]
"""Path of a ``FileDiff`` (``path_quoting.unquote``) → ids of its hunks, or None for all of them."""


def folders_of(path: bytes) -> list[bytes]:
    """Return the parent folders of a path, the highest first."""
    parts = path.split(b"/")[:-1]
    return [b"/".join(parts[: number + 1]) for number in range(len(parts))]


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one file: ``before`` is what it was merged with, and must be unchanged when it is written."""

    path: bytes
    before: Entry | None
    after: Entry | None
    source: bytes | None = None
    """For a new file that is another one under a new name: its path, which the same changes remove."""
    permissions: int | None = None
    """The permission bits of a regular file that is removed, or that comes back; None: not known."""
    extended: Mapping[bytes, bytes] | None = None
    """Its extended attributes; None: not known."""
