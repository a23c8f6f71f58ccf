"""The documents of an editor: the files behind them, their saves, and accepts that the user can revert in them.

An editor reports what happens to its documents, in order: ``AcceptedDocuments.state_after`` at once, in any thread,
then ``reconcile`` with what it returned, in a thread that may wait. Editors that report less lose nothing but the
notice. ``begin`` and ``end``, also in such a thread, compare what an editor showed that has ended with the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from understudy.api import caller
from understudy.files import durable, user_file
from understudy.model.errors import UnderstudyError

if TYPE_CHECKING:
    from understudy.engine.review.editor_documents import EditorAccepts
    from understudy.engine.review.reconciliation import DocumentState as DocumentState  # noqa: PLC0414 - for frontends

LATER_SECONDS = 2.0
"""When to compare again if ``reconcile`` asks for it."""


def text_of(path: Path, most_bytes: int) -> str | None:
    """Return the text of a file on disk; None if it cannot be read. At most ``most_bytes`` are read."""
    try:
        return durable.read_whole(path, most_bytes).decode("utf-8", "replace")
    except (OSError, UnderstudyError):
        return None


def file_saved(path: Path, text: str | None = None) -> None:
    """Remember the content of a file that an editor saved, so that no agent is suspected of the change.

    ``text`` is the document's, if the editor sends its text. Another program may have written to the file before the
    editor's message arrived; that change is not the user's, nor is one that an editor inside a run reports.
    """
    if caller.surrounding_run() is not None:
        return
    from understudy.journal import editor_saves

    saved = user_file.overwritten(user_file.read_bytes(path), text) if text is not None else None
    editor_saves.record([path], {path: saved} if saved is not None else {})


class AcceptedDocuments:
    """The accepts that changed open documents, of all editors."""

    def __init__(self) -> None:
        """Read nothing yet."""
        self._accepts: EditorAccepts | None = None

    def state_after(
        self,
        path: Path,
        event: Literal["open", "change", "save", "close", "later"],
        documents: Callable[[], Mapping[str, str]],
    ) -> DocumentState | None:
        """Return what to compare; None if no accept changed the document.

        ``documents`` returns the documents that are open at this instant.
        """
        if self._accepts is None:
            from understudy.engine.review.editor_documents import EditorAccepts

            self._accepts = EditorAccepts()
        tokens = self._accepts.of(path)
        if not tokens:
            return None
        from understudy.engine.review.reconciliation import DocumentState

        return DocumentState(path, event, documents(), tokens)


def reconcile(state: DocumentState, *, by: str) -> bool:
    """Make hunks pending that the user reverted, and accept them again if restored; return whether to repeat."""
    from understudy.engine.review import reconciliation

    return reconciliation.reconcile(state, by=by)


def begin(*, by: str) -> None:
    """Compare what the editors of servers that have ended showed with the files on disk."""
    from understudy.engine.review import editor_documents

    _compare_with_disk(editor_documents.abandoned(), by)


def end(*, by: str) -> None:
    """Compare what the editor of this server showed with the files on disk; the session is over."""
    from understudy.engine.review import editor_documents

    _compare_with_disk(editor_documents.shown_by(editor_documents.this_process()), by)


def _compare_with_disk(documents: list[tuple[str, str]], by: str) -> None:
    if documents:
        from understudy.engine.review import reconciliation

        reconciliation.reconcile_with_disk(documents, by=by)
