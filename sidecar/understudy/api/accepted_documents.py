"""Accepts in documents that are open in an editor, where the user can revert them.

An editor reports what happens to its documents, in order: ``AcceptedDocuments.look`` at once, in any thread, then
``reconcile`` with what it returned, in a thread that may wait. Editors that report less lose nothing but the notice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from understudy.engine.review.editor_accepts import EditorAccepts
    from understudy.engine.review.reconciliation import Look as Look  # noqa: PLC0414 - for frontends

LATER_SECONDS = 2.0
"""When to look again if ``reconcile`` asks for it."""


class AcceptedDocuments:
    """The accepts that changed open documents, of all editors."""

    def __init__(self) -> None:
        """Read nothing yet."""
        self._accepts: EditorAccepts | None = None

    def look(
        self,
        path: Path,
        occasion: Literal["open", "change", "save", "close", "later"],
        documents: Callable[[], Mapping[str, str]],
    ) -> Look | None:
        """Return what to compare; None if no accept changed the document.

        ``documents`` returns the documents that are open at this instant.
        """
        if self._accepts is None:
            from understudy.engine.review.editor_accepts import EditorAccepts

            self._accepts = EditorAccepts()
        tokens = self._accepts.of(path)
        if not tokens:
            return None
        from understudy.engine.review.reconciliation import Look

        return Look(path, occasion, documents(), tokens)


def reconcile(look: Look, *, by: str) -> bool:
    """Make hunks pending that the user reverted, and accept them again if they returned; return whether to repeat."""
    from understudy.engine.review import reconciliation

    return reconciliation.reconcile(look, by=by)
