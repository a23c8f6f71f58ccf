"""How long Understudy keeps files of delegations in the state folder: ``[retention]`` of ``config.toml``.

The list is closed. Worktrees have their own limits under ``[worktrees]``; the ledger is never removed.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class RetentionTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """``[retention]``: how long files of finished delegations are kept; in a user's own configuration only.

    Days count from the last event; 0 sets no limit. When all files of a kind take more bytes than allowed, the oldest
    are removed first. Files of a delegation that runs, waits, has pending hunks or is needed by a reply are kept.
    """

    journal_days: float | None = None
    """Days to keep the journal of a delegation and everything else in its folder, once its worktree is removed."""
    journal_bytes: int | None = None
    """Bytes that the folders of all delegations may take together."""
    prompt_days: float | None = None
    """Days to keep prompts and unsaved editor texts."""
    prompt_bytes: int | None = None
    """Bytes that all prompts and unsaved editor texts may take together."""
    log_days: float | None = None
    """Days to keep the raw output of agents, workers and checks."""
    log_bytes: int | None = None
    """Bytes that all raw output may take together."""
    key_days: float | None = None
    """Days during which an idempotency key returns the delegation that it started."""
    group_days: float | None = None
    """Days to keep a group after its last delegation is removed."""


class Retention(msgspec.Struct, frozen=True):
    """The limits in force."""

    journal_days: float = 90.0
    journal_bytes: int = 2_000_000_000
    prompt_days: float = 30.0
    prompt_bytes: int = 500_000_000
    log_days: float = 14.0
    log_bytes: int = 1_000_000_000
    key_days: float = 1.0
    group_days: float = 90.0


def invalid_fields(table: RetentionTable) -> Iterator[str]:
    """Return the fields with a negative value; the decoder refuses infinity and NaN."""
    for name, value in msgspec.structs.asdict(table).items():
        if value is not None and value < 0:
            yield name
