"""``[relay]``: only a user's own configuration says how far agents delegate."""

from __future__ import annotations

from understudy.config.loading.loader import load
from understudy.model.delegation.spec import RelayBounds


def test_the_users_bounds_apply(user, write) -> None:
    assert load(None, trusted=False).relay == RelayBounds()
    write(user / "config.toml", '[relay]\nmax_depth = 0\nmax_usd = "0.50"\n')
    assert load(None, trusted=False).relay == RelayBounds(max_depth=0, max_usd="0.50")


def test_a_workspace_cannot_widen_them(user, workspace, write) -> None:
    write(user / "config.toml", "[relay]\nmax_delegations = 1\n")
    write(workspace / ".understudy" / "config.toml", "[relay]\nmax_delegations = 99\n")
    found = load(workspace, trusted=True)
    assert found.relay == RelayBounds(max_delegations=1)
    assert "A workspace cannot say how far agents delegate." in str(found.problems)
