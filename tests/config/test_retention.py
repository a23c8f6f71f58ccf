"""``[retention]``: defaults, overrides, and limits that make no sense."""

from __future__ import annotations

import pytest

from understudy.config.configuration import Retention
from understudy.config.loading.loader import load


def test_without_a_table_the_defaults_hold() -> None:
    assert load(None, trusted=False).retention == Retention()


def test_a_user_may_change_each_limit(user, write, lines) -> None:
    write(user / "config.toml", "[retention]\njournal_days = 7\nlog_bytes = 0\nkey_days = 0.5\n")
    found = load(None, trusted=False)
    assert lines(found) == []
    assert found.retention == Retention(journal_days=7, log_bytes=0, key_days=0.5)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("-1", "`journal_days` must not be negative."),
        ("nan", "`journal_days` is not a finite number."),
        ("inf", "`journal_days` is not a finite number."),
    ],
)
def test_invalid_limits_are_refused(user, write, lines, value: str, message: str) -> None:
    write(user / "config.toml", f"[retention]\njournal_days = {value}\n")
    found = load(None, trusted=False)
    assert lines(found) == [f"config.toml:2:16: error: {message}"]
    assert found.retention == Retention()


def test_a_workspace_cannot_say_what_a_user_keeps(user, workspace, write, lines) -> None:
    write(user / "config.toml", "[retention]\njournal_days = 7\n")
    write(workspace / ".understudy" / "config.toml", "[retention]\njournal_days = 0.001\n")
    found = load(workspace, trusted=True)
    assert found.retention == Retention(journal_days=7)
    (line,) = lines(found)
    assert "error: A workspace cannot limit what a user keeps. (Move `[retention]` to your own config.toml.)" in line
