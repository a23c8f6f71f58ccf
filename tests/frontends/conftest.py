"""Delegations with real journals, clients of `understudy rpc`, and workers that are forked."""

from __future__ import annotations

import forked
import pytest
from journals import delegation, journal, rpc

from understudy.process import unguarded

__all__ = ["delegation", "journal", "rpc"]


@pytest.fixture(autouse=True)
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork workers, which are started cold elsewhere: in `tests/engine`, and in the heavy tests."""
    monkeypatch.setattr(unguarded, "start_detached", forked.start_detached)
