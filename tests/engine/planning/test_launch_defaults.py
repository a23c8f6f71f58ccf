"""Test ``[launch]``: it fills what a delegator leaves open, only where the tool has it, and never gives a repository more."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from understudy.config.discovery import declarations
from understudy.config.validation import start_options
from understudy.model.config.delegators import Delegator, Launch, Scope

ALL = Launch(permission_mode="plan", unanswered="allow", prompt_prefix="p", prompt_suffix="s")


def applied(
    defaults: Launch, tool: str, own: Launch | None = None, scope: Scope = Scope.USER, mode: Any = None
) -> Launch | None:
    delegator = Delegator(name="d", tool=tool, launch=own, mode=mode)
    supported = declarations.require_capabilities(delegator, None)
    return start_options.with_launch_defaults(defaults, delegator, scope, supported)[0].launch


@pytest.mark.parametrize(
    ("defaults", "tool", "own", "launch"),
    [
        (ALL, "claude", None, ALL),
        (ALL, "claude", Launch(prompt_prefix="own"), msgspec.structs.replace(ALL, prompt_prefix="own")),
        (ALL, "claude", Launch(yolo=True), Launch(yolo=True, unanswered="allow", prompt_prefix="p", prompt_suffix="s")),
        (Launch(yolo=True), "claude", Launch(permission_mode="plan"), Launch(permission_mode="plan")),
        (Launch(yolo=True), "claude", Launch(yolo=False), Launch(yolo=False)),
        # opencode has no mode "plan", and asks nothing.
        (ALL, "opencode", None, Launch(prompt_prefix="p", prompt_suffix="s")),
        (Launch(yolo=True), "ghostwriter", None, None),
    ],
)
def test_a_default_fills_what_is_open_where_the_tool_has_it(
    defaults: Launch, tool: str, own: Launch | None, launch: Launch | None
) -> None:
    assert applied(defaults, tool, own) == launch


def test_a_mode_that_no_one_can_check_is_no_default() -> None:
    assert applied(ALL, "opencode", mode="acp") == Launch(unanswered="allow", prompt_prefix="p", prompt_suffix="s")


def test_a_repositorys_delegator_gets_no_permissions() -> None:
    given = Launch(yolo=True, unanswered="allow", prompt_prefix="p")
    assert applied(given, "claude", scope=Scope.WORKSPACE) == Launch(prompt_prefix="p")
    assert applied(Launch(unanswered="stop"), "claude", scope=Scope.WORKSPACE) == Launch(unanswered="stop")


BOTH = Launch(branch="x/{id}", use_worktree=False)


@pytest.mark.parametrize(
    ("defaults", "own", "launch"),
    [
        (BOTH, None, Launch(use_worktree=False)),
        (BOTH, Launch(branch="y/{id}"), Launch(branch="y/{id}")),
        (BOTH, Launch(use_worktree=True), Launch(branch="x/{id}", use_worktree=True)),
        (Launch(branch="x/{id}"), Launch(use_worktree=False), Launch(use_worktree=False)),
    ],
)
def test_no_default_is_a_branch_for_a_result_that_is_never_verified(
    defaults: Launch, own: Launch | None, launch: Launch
) -> None:
    assert applied(defaults, "claude", own) == launch


def test_only_the_users_own_delegators_work_in_the_checkout_by_default() -> None:
    assert applied(BOTH, "claude", scope=Scope.WORKSPACE) == Launch(branch="x/{id}")
    assert applied(BOTH, "ghostwriter") is None


def test_it_reaches_the_program_and_is_said(project: Any) -> None:
    program = "import pathlib, sys; pathlib.Path('p.txt').write_text(sys.stdin.read())"
    project.delegator("echo", sys.executable, "-c", program, output="text")
    (project.config / "config.toml").write_text('[launch]\nprompt_suffix = "Use short words."\n')
    done = project.run("implement", "calc.py", delegator="echo", task="x")
    assert project.call("delegations/file", id=done.id, path="p.txt", side="result").text.endswith("Use short words.")
    reasons = [getattr(event, "reason", "") for event in project.events(done.id)]
    assert any("from [launch]: prompt_suffix" in reason for reason in reasons)


def test_defaults_are_those_of_the_mode_that_the_request_names(project: Any) -> None:
    (project.config / "config.toml").write_text(
        '[launch]\nuse_worktree = false\nwithout_tmux = "headless"\n'
        '[[delegators]]\nname = "terminal"\ntool = "claude"\n'
    )

    def reason(**launch: Any) -> str:
        found = project.call(
            "delegations/preview", recipe="implement", delegator="terminal", task="x",
            workspace=str(project.top), launch=launch,
        )  # fmt: skip
        return str(found.explain.reason)

    assert "from [launch]: use_worktree" in reason()
    assert "from [launch]: without_tmux" in reason(mode="tmux"), "a pane has no checkout of the user"
