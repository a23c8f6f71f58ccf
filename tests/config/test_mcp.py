"""``[mcp]``: only a user's own configuration lets agents decide."""

from __future__ import annotations

import pytest

from understudy.config.loading.loader import load


@pytest.mark.parametrize(("text", "allowed"), [("", False), ("[mcp]\n", False), ("[mcp]\ndecide = true\n", True)])
def test_agents_decide_only_if_the_user_says_so(user, write, text: str, allowed: bool) -> None:
    write(user / "config.toml", text)
    assert load(None, trusted=False).mcp.decide is allowed


def test_a_workspace_cannot_allow_it(workspace, write) -> None:
    write(workspace / ".understudy" / "config.toml", "[mcp]\ndecide = true\n")
    found = load(workspace, trusted=True)
    assert not found.mcp.decide
    assert "A workspace cannot allow agents to decide." in str(found.problems)
