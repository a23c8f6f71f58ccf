"""An equal call attaches to work that runs or has just ended, says so, and never gets what it does not want."""

from __future__ import annotations

import pytest

from understudy.api.serving import base_digest
from understudy.frontends.mcp.tools import tool_functions

CALL = {"task": "Write done.txt", "delegator": "patient"}
FAILS = "import json; print(json.dumps({'type': 'result', 'text': 'Out of credit.', 'ok': False}), flush=True)"
TASKS = [{"task": f"Task {number}", "delegator": "patient"} for number in range(2)]


async def test_an_equal_call_attaches_to_what_runs_and_another_one_does_not(stage, direct) -> None:
    async with direct() as tools:
        first = await tools("start", **CALL)
        assert "attached" not in first
        same = await tools("start", **CALL)
        assert (same["id"], same["attached"]) == (first["id"], True)
        assert same["next"] == "wait, or the same call with `again`: true to start it once more"
        assert "finished_seconds_ago" not in same
        other = await tools("start", **CALL, files=["calc.py"])
        again = await tools("start", **CALL, again=True)
        assert len({first["id"], other["id"], again["id"]}) == 3
        for one in (other, again):
            assert (await tools("cancel", id=one["id"]))["verdict"] == "cancelled"
        stage.go()
        await tools.until(first["id"], "finished")


async def test_a_client_that_begins_again_gets_a_result_of_the_last_minutes(stage, direct, monkeypatch) -> None:
    stage.go()
    async with direct() as tools:
        first = await tools("start", **CALL)
        await tools.until(first["id"], "finished")
    async with direct() as tools:
        done = await tools("start", **CALL)
        assert (done["status"], done["id"], done["attached"]) == ("finished", first["id"], True)
        assert 0 <= done["finished_seconds_ago"] < tool_functions.ATTACH_SECONDS
        assert done["next"].startswith("diff, or the same call with `again`: true")
        monkeypatch.setattr(tool_functions, "ATTACH_SECONDS", 0.0)
        second = await tools("start", **CALL)
        assert second["id"] != first["id"]
        assert "attached" not in second
        await tools.until(second["id"], "finished")
    assert stage.starts == 2


def decide(stage, identifier: str, decision: str) -> None:
    stage.call("delegations/decide", id=identifier, decisions=[{"decision": decision}])


ENDS = {
    "accepted": lambda stage, identifier: (decide(stage, identifier, "accept"), (stage.top / "done.txt").unlink()),
    "rejected": lambda stage, identifier: decide(stage, identifier, "reject"),
    "discarded": lambda stage, identifier: stage.call("delegations/discard", id=identifier),
    "a changed file": lambda stage, _: (stage.top / "calc.py").write_text("def add(a, b):\n    return b + a\n"),
    "a new file": lambda stage, _: (stage.top / "new.py").touch(),
    "a named file that git ignores": lambda stage, _: (stage.top / "ignored.txt").write_text("other"),
}


async def test_decided_work_and_work_on_other_files_is_not_attached_to(stage, direct) -> None:
    (stage.top / ".git" / "info" / "exclude").write_text("ignored.txt\n")
    (stage.top / "ignored.txt").write_text("text")
    call = {**CALL, "context_files": ["ignored.txt"]}
    stage.go()
    async with direct() as tools:
        last = await tools("start", **call)
        await tools.until(last["id"], "finished")
        for reason, end in ENDS.items():
            end(stage, last["id"])
            following = await tools("start", **call)
            assert following["id"] != last["id"], reason
            assert "attached" not in following, reason
            await tools.until(following["id"], "finished")
            assert (await tools("start", **call))["id"] == following["id"], reason
            last = following


async def test_failed_and_cancelled_work_is_done_again(stage, direct) -> None:
    stage.delegator("failing", FAILS)
    async with direct() as tools:
        seen = set()
        for _ in range(3):
            failed = await tools("start", task="x", delegator="failing")
            assert (await tools.until(failed["id"], "finished"))["verdict"] == "failed"
            seen.add(failed["id"])
        assert len(seen) == 3
        stopped = await tools("start", **CALL)
        assert (await tools("cancel", id=stopped["id"]))["verdict"] == "cancelled"
        stage.go()
        started = await tools("start", **CALL)
        assert started["id"] != stopped["id"]
        await tools.until(started["id"], "finished")


async def test_running_work_on_other_files_is_not_attached_to(stage, direct) -> None:
    async with direct() as tools:
        first = await tools("start", **CALL)
        (stage.top / "calc.py").write_text("def add(a, b):\n    return b + a\n")
        second = await tools("start", **CALL)
        assert second["id"] != first["id"]
        stage.go()
        for one in (first, second):
            await tools.until(one["id"], "finished")


async def test_a_group_is_started_once_and_waited_for(stage, direct) -> None:
    async with direct() as tools:
        group = await tools("batch", tasks=TASKS, max_tokens=100_000)
        assert [one["title"] for one in group["results"]] == ["Task 0", "Task 1"]
        same = await tools("batch", tasks=TASKS, max_tokens=100_000)
        assert (same["id"], same["attached"]) == (group["id"], True)
        stage.go()
        done = await tools.until(group["id"], "finished")
        assert (done["finished"], done["of"]) == (2, 2)
        assert (await tools("batch", tasks=TASKS, max_tokens=100_000))["finished_seconds_ago"] >= 0
        for one in done["results"]:
            decide(stage, one["id"], "reject")
        again = await tools("batch", tasks=TASKS, max_tokens=100_000)
        assert again["id"] != group["id"]
        await tools.until(again["id"], "finished")
    assert stage.starts == 4


async def test_a_group_with_a_member_that_failed_is_done_again(stage, direct) -> None:
    stage.delegator("failing", FAILS)
    tasks = [TASKS[0], {**TASKS[1], "delegator": "failing"}]
    stage.go()
    async with direct() as tools:
        group = await tools("batch", tasks=tasks)
        await tools.until(group["id"], "finished")
        again = await tools("batch", tasks=tasks)
        assert again["id"] != group["id"]
        await tools.until(again["id"], "finished")


async def test_an_answer_that_an_earlier_call_asked_for_is_marked(stage, direct) -> None:
    stage.go()
    question = {"question": "What is it?", "files": ["calc.py"], "delegator": "patient"}
    async with direct() as tools:
        first = await tools.done("ask", **question)
        second = await tools.done("ask", **question)
        assert (second["id"], second["attached"]) == (first["id"], True)
        assert "again" in second["next"]
        (stage.top / "calc.py").write_text("")
        third = await tools.done("ask", **question)
        assert third["id"] != first["id"]


@pytest.mark.parametrize("only_files", [True, False])
def test_the_digest_of_a_workspace_without_git(tmp_path, own_home, only_files) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "log.txt").write_text("one")
    (folder / "unnamed.txt").write_text("one")

    def digest() -> str:
        return base_digest.of(folder, [(folder / "log.txt").as_uri()], only_files_without_git=only_files)

    first = digest()
    assert digest() == first
    (folder / "unnamed.txt").write_text("three")
    second = digest()
    assert (second == first) == only_files
    (folder / "log.txt").write_text("three")
    assert digest() != second
    assert not list((own_home / "state" / "understudy" / "queue").glob("snapshots/*"))


def test_the_digest_of_what_cannot_be_read_is_one(tmp_path, own_home) -> None:
    assert base_digest.of(
        tmp_path / "gone", ["https://example.invalid/x", "file:///gone"], only_files_without_git=False
    )
