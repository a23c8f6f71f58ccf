"""Delegations with real journals, and clients of `understudy rpc`."""

from __future__ import annotations

from journals import journal, rpc

__all__ = ["journal", "rpc"]
