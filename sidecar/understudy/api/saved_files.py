"""Report what the user's editor saved."""

from __future__ import annotations

from pathlib import Path


def file_saved(path: Path) -> None:
    """Remember the content of a file that an editor saved, so that no agent is suspected of the change."""
    from understudy.journal import editor_saves

    editor_saves.record([path])
