"""Read the report of an agent in a terminal: ``.understudy-run/done.md`` in its worktree.

The prompt asks for a rename, which is atomic. Some agents write the file in place instead, so it counts once two looks
in a row found the same text. It is a claim of the agent: checks decide what the result is worth.
"""

from __future__ import annotations

from pathlib import Path

from understudy.files import nofollow
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.terminals import DONE_FILE

MOST_BYTES = 64 * 1024
MOST_EMPTY_LOOKS = 10
"""How often in a row the file may be empty: its writer may not have come further."""


class DoneFile:
    """The report of one attempt."""

    def __init__(self, tree: Path, subject: str) -> None:
        """Expect the report in ``tree``; ``subject`` names the agent in messages."""
        self._tree = tree
        self._subject = subject
        self._before: bytes | None = None
        self._empty = 0

    def look(self, *, last: bool = False) -> str | None:
        """Return the report once it is complete; ``last``: its writer has ended, so it is complete now.

        Raises ``malformed_output`` for a link, anything else that is not a regular file, and a file that is too long;
        ``empty_output`` for an empty one.
        """
        try:
            content = nofollow.read(self._tree, DONE_FILE, MOST_BYTES)
        except UnderstudyError as error:
            raise UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"The report of {self._subject[:1].lower() + self._subject[1:]} was not read: {error.message}",
                hint="Partial work is kept. Ask for a short text file.",
            ) from error
        if content is None:
            self._before = None
            return None
        if not content.strip():
            self._empty += 1
            if last or self._empty > MOST_EMPTY_LOOKS:
                raise UnderstudyError(
                    ErrorKind.EMPTY_OUTPUT,
                    f"{self._subject} wrote an empty report to {DONE_FILE}.",
                    hint="Partial work is kept. Retry, and watch it with `understudy attach`.",
                )
            return None
        before, self._before = self._before, content
        return content.decode("utf-8", "replace").strip() if last or before == content else None
