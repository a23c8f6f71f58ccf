"""Delegations with real journals, and clients of `understudy rpc`."""

from __future__ import annotations

from journals import delegation, journal, rpc

__all__ = ["delegation", "journal", "rpc"]
