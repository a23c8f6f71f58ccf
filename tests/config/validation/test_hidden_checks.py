"""Hidden checks belong to the user: a workspace can neither declare nor replace one."""

from __future__ import annotations

from understudy.config.validation.delegator_rules import check_check
from understudy.config.validation.workspace_rules import check_workspace_check
from understudy.model.evidence.checks import Check

HIDDEN = Check(name="secret", argv=["true"], hidden=True, files=["tests/test_secret.py"])


def test_a_workspace_declares_no_hidden_check():
    assert [finding.path for finding in check_workspace_check(HIDDEN, {})] == [("hidden",), ("files",)]
    assert not list(check_workspace_check(Check(name="plain", argv=["true"]), {"secret": HIDDEN}))


def test_a_workspace_replaces_no_hidden_check():
    [finding] = check_workspace_check(Check(name="secret", argv=["true"]), {"secret": HIDDEN})
    assert finding.path == ("name",)


def test_files_need_a_hidden_check_and_stay_inside_the_folder():
    assert not list(check_check(HIDDEN))
    [visible] = check_check(Check(name="plain", argv=["true"], files=["a"]))
    assert (visible.path, visible.code) == (("files",), "no_effect")
    found = [
        f.path for f in check_check(Check(name="s", argv=["true"], hidden=True, files=["../a", "/etc/passwd", "ok"]))
    ]
    assert found == [("files", 0), ("files", 1)]
