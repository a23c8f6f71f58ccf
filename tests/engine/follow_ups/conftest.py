"""Follow-ups of a result that is made once."""

from __future__ import annotations

from saved_state import made_once, tmp_path

__all__ = ["made_once", "tmp_path"]
