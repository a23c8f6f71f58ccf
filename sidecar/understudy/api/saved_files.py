"""Report what the user's editor saved."""

from __future__ import annotations

from pathlib import Path


def file_saved(path: Path, text: str | None = None) -> None:
    """Remember the content of a file that an editor saved, so that no agent is suspected of the change.

    ``text`` is the document's, if the editor sends its text. Another program may have written to the file before the
    editor's message arrived; that change is not the user's.
    """
    from understudy.engine import text_encoding
    from understudy.journal import editor_saves

    saved = text_encoding.overwritten(text_encoding.read_bytes(path), text) if text is not None else None
    editor_saves.record([path], {path: saved} if saved is not None else {})
