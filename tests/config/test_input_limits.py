"""``[input]``: what is sent at most; a workspace may only ask for less."""

from __future__ import annotations

import pytest

from understudy.config.loading.loader import load
from understudy.model.config.delegators import InputLimits


def test_nothing_is_limited_beyond_the_defaults_unless_configured(loaded):
    assert loaded().input == InputLimits()


@pytest.mark.parametrize(
    "given",
    [
        ("max_bytes = 9_000_000", "", 9_000_000),
        ("max_bytes = 9_000_000", "max_bytes = 5_000_000", 5_000_000),
        ("max_bytes = 1000", "max_bytes = 1001", 1000),
        ("", "max_bytes = 3_000_001", 3_000_000),
        ("", "max_bytes = 1000", 1000),
        ("max_bytes = 0", "", 3_000_000),
        ("max_bytes = -1", "max_bytes = 10", 10),
    ],
)
def test_a_workspace_only_lowers(user, workspace, write, given):
    own, project, used = given
    write(user / "config.toml", f"[input]\n{own}\n")
    write(workspace / ".understudy" / "config.toml", f"[input]\n{project}\n")
    found = load(workspace, trusted=True)
    assert found.input.max_bytes == used
    told = " ".join(problem.message for problem in found.problems)
    assert ("a workspace may only ask for less" in told) == (project.endswith(("1001", "3_000_001")))
    assert ("must be at least 1" in told) == own.endswith(("= 0", "-1"))


@pytest.mark.parametrize("name", ["max_file_bytes", "max_tokens"])
def test_each_limit_is_merged(user, workspace, write, name):
    write(user / "config.toml", f"[input]\n{name} = 20\n")
    write(workspace / ".understudy" / "config.toml", f"[input]\n{name} = 10\n")
    assert getattr(load(workspace, trusted=False).input, name) == 20
    assert getattr(load(workspace, trusted=True).input, name) == 10
