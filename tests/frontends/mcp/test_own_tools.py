"""`understudy mcp` as the official client meets it, at its default time-outs."""

from __future__ import annotations

import pytest
from mcp_types import Implementation

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])


@ERAS
async def test_work_is_started_followed_read_and_decided(stage, connect, mode) -> None:
    (stage.config / "config.toml").write_text("[mcp]\ndecide = true\n")
    async with connect(mode=mode, client_info=Implementation(name="probe", version="1.2")) as tools:
        begun = await tools("start", task="Write done.txt", delegator="patient")
        assert (begun["status"], begun["next"]) == ("running", "wait")
        waited = await tools("wait", id=begun["id"], timeout_seconds=0)
        assert (waited["status"], waited["id"], waited["next"]) == ("running", begun["id"], "wait")
        assert (await tools("show", id=begun["id"]))["status"] == "running"
        stage.go()
        done = await tools.until(begun["id"], "finished")
        assert (done["verdict"], done["next"], done["pending"]) == ("unverified", "diff", 1)
        assert done["files"] == [{"path": "done.txt", "status": "added", "added": 1, "removed": 0}]
        assert "no required check ran" in done["meaning"]
        patch = await tools.text("diff", id=begun["id"])
        assert patch.startswith("diff --git a/done.txt b/done.txt\n")
        assert "\n+done\n" in patch
        assert await tools.text("diff", id=begun["id"], files=["done.txt"]) == patch
        assert (await tools.error("diff", id=begun["id"], files=["other"]))["names"] == ["done.txt"]
        assert "# Unverified" in await tools.text("evidence", id=begun["id"])
        assert not (stage.top / "done.txt").exists()
        decided = await tools("decide", id=begun["id"], decision="accept")
        assert (decided["decided"], decided["conflicts"]) == (1, [])
    assert (stage.top / "done.txt").read_text() == "done\n"
    asked_by = stage.call("delegations/get", id=begun["id"]).asked_by
    assert (asked_by.frontend, asked_by.client) == ("mcp", "probe 1.2")
    assert asked_by.pid is not None
    [line] = stage.call("ledger/read").lines
    assert line.entry.asked_by == asked_by


async def test_a_result_is_sent_back_once(stage, direct) -> None:
    stage.go()
    async with direct() as tools:
        first = await tools("start", task="Write done.txt", delegator="patient")
        await tools.until(first["id"], "finished")
        second = await tools("reply", id=first["id"], text="Better, please.")
        assert second["id"] != first["id"]
        same = await tools("reply", id=first["id"], text="Better, please.")
        assert same["id"] == second["id"]
        await tools.until(second["id"], "finished")


async def test_decide_is_off_unless_the_user_allows_it(stage, direct) -> None:
    (stage.top / ".understudy").mkdir()
    (stage.top / ".understudy" / "config.toml").write_text("[mcp]\ndecide = true\n")
    async with direct() as tools:
        names = [tool.name for tool in (await tools.client.list_tools()).tools]
        assert "decide" not in names
        refused = await tools.error("decide", id="x", decision="accept")
        assert refused["kind"] == "permission_denied"
        assert "understudy review" in refused["hint"]


async def test_an_untrusted_workspace_runs_nothing(stage, direct) -> None:
    stage.call("workspace/trust", workspace=str(stage.top), trusted=False)
    async with direct() as tools:
        refused = await tools.error("start", task="Write done.txt", delegator="patient")
        assert refused["kind"] == "untrusted_workspace"
        assert f"understudy trust {stage.top}" in refused["hint"]
        assert "understudy trust" in (await tools("list_delegators"))["untrusted"]
    assert stage.starts == 0


async def test_mistakes_are_answers_that_say_what_to_do(stage, direct) -> None:
    async with direct() as tools:
        assert (await tools.error("strat"))["names"] == ["start"]
        wrong = await tools.error("start", task="x", speed=3)
        assert (wrong["kind"], "again" in wrong["hint"]) == ("invalid_params", True)
        assert (await tools.error("start", task="x", delegator="patiend"))["names"] == ["patient"]
        assert (await tools.error("wait", id="zzzzz"))["kind"] == "unknown_delegation"
        assert (await tools.error("wait", id="zzzzz", timeout_seconds=46))["kind"] == "invalid_params"
        listed = await tools("list_delegators")
        assert [one["name"] for one in listed["delegators"]] == ["patient"]
        assert {"implement", "tests", "ask"} <= listed["recipes"].keys()
