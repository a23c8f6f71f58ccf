"""How a run ends without tests."""

from __future__ import annotations


class Stop(Exception):  # noqa: N818 - how a run ends, not an error
    """Ends the run; the fields are those of the ``result`` event's error."""

    def __init__(self, kind: str, message: str, hint: str) -> None:
        """Store the error of the ``result`` event."""
        super().__init__(message)
        self.error = {"kind": kind, "message": message, "hint": hint}
