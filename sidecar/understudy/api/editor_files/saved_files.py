"""The files behind an editor's documents: what they contain, and that the editor saved them."""

from __future__ import annotations

from pathlib import Path

from understudy.api import inside_runs
from understudy.model.errors import UnderstudyError


def text_of(path: Path, most_bytes: int) -> str | None:
    """Return the text of a file on disk; None if it cannot be read. At most ``most_bytes`` are read."""
    from understudy.files import durable

    try:
        return durable.read_whole(path, most_bytes).decode("utf-8", "replace")
    except (OSError, UnderstudyError):
        return None


def file_saved(path: Path, text: str | None = None) -> None:
    """Remember the content of a file that an editor saved, so that no agent is suspected of the change.

    ``text`` is the document's, if the editor sends its text. Another program may have written to the file before the
    editor's message arrived; that change is not the user's, nor is one that an editor inside a run reports.
    """
    if inside_runs.surrounding_run() is not None:
        return
    from understudy.files import user_file
    from understudy.journal import editor_saves

    saved = user_file.overwritten(user_file.read_bytes(path), text) if text is not None else None
    editor_saves.record([path], {path: saved} if saved is not None else {})
