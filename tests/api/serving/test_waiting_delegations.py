"""A process that serves clients starts what schedules have due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.api.serving import waiting_delegations
from understudy.engine.queueing import schedule_runs
from understudy.journal import delegation_folder
from understudy.model.wire import timestamp


@pytest.fixture
def caller(tmp_path, own_home, monkeypatch):
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(own_home / "config" / "understudy"))
    return TerminalCaller(tmp_path)


def test_what_is_due_is_started_and_a_refusal_is_kept(caller, tmp_path):
    waiting_delegations._serve_schedules()  # without a schedule, nothing is read
    schedule = {"name": "often", "cron": "* * * * *", "workspace": str(tmp_path), "recipe": "nothing"}
    method_table.call("schedules/create", {"schedule": schedule}, caller)
    root = delegation_folder.state_root()
    kept = schedule_runs.record(root, "often")
    kept.handled = timestamp(datetime.now(UTC) - timedelta(minutes=2), "seconds")
    schedule_runs._save(root, "often", kept)
    waiting_delegations._serve_schedules()
    [entry] = method_table.call("schedules/list", {}, caller).schedules
    [run] = entry.state.runs
    assert run.error.kind == "unknown_recipe"
