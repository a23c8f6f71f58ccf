"""Test how a permission question is described."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.model.delegation.delegations import PermissionRequest
from understudy.model.text.delegation_text import describe_request


def asked(detail: str = "", **fields: Any) -> PermissionRequest:
    return PermissionRequest(
        request_id="q", attempt=1, title="Run it", detail=detail, options=[], deadline_action="y", **fields
    )


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (asked("It needs this."), "It needs this."),
        (asked(kind="execute"), "Runs a command"),
        (
            asked("Why it asks: no rule\ncommand: rm -rf build\n", kind="execute", command="rm -rf build"),
            "Runs: rm -rf build\nWhy it asks: no rule",
        ),
        (asked(kind="edit", paths=["a.py", "b.py"]), "Changes: a.py, b.py"),
        (asked("path: a.py", kind="read", paths=["a.py"]), "Reads: a.py"),
        (asked(kind="edit"), "Changes files"),
        (asked(kind="fetch", command="curl x"), "Accesses the network\nRuns: curl x"),
        (asked(command="make", paths=["x"]), "Runs: make\nFiles: x"),
    ],
)
def test_the_effect_comes_first_and_is_not_repeated(request_: PermissionRequest, text: str) -> None:
    assert describe_request(request_) == text
