"""Test which decisions on all hunks are offered, without an editor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from understudy.frontends.lsp.review import review_actions
from understudy.model.delegation.delegations import Delegation
from understudy.model.hunks import FileDiff, Hunk, HunkState


def hunk(name: str, tested: bool | None, state: HunkState = HunkState.PENDING) -> Hunk:
    return Hunk(
        id=name, old_start=1, old_lines=1, new_start=1, new_lines=1,
        state=state, conflict=False, edited=False, tested=tested,
    )  # fmt: skip


def accepts(delegation: Callable[..., Delegation], *hunks: Hunk) -> dict[str, list[dict[str, Any]]]:
    file = FileDiff(path="a.py", status="modified", binary=False, hunks=list(hunks))
    work = review_actions.OpenReview(delegation(), [file])
    offered = review_actions.on_everything(work, lambda _: None)
    return {one.title: one.params["decisions"] for one in offered if one.title.startswith("Accept")}


def test_all_verified_hunks_are_offered_if_there_are_others(delegation: Callable[..., Delegation]) -> None:
    one, other, unknown = hunk("a", True), hunk("b", False), hunk("c", None)
    accept = [{"path": "a.py", "hunk": "a", "decision": "accept"}]
    assert accepts(delegation, one, other, unknown)["Accept all verified (1 hunk)"] == accept
    assert "Accept all verified (1 hunk)" not in accepts(delegation, one)
    assert list(accepts(delegation, other, unknown)) == ["Accept all (2 hunks)"]
    decided = hunk("a", True, HunkState.ACCEPTED)
    assert list(accepts(delegation, decided, other, unknown)) == ["Accept all (2 hunks)"]
