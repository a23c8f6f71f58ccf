"""Test the commands that take a group, with real delegations."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import forked
import pytest
from wait_until import until

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.frontends.cli.calls import exit_codes

Understudy = Callable[..., list[dict]]


@pytest.fixture
def understudy(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Understudy:
    """Run commands with ``--json`` in a trusted repository whose delegator waits for a file ``go``."""
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(own_home / "config" / "understudy"))
    folder = own_home / "config" / "understudy" / "delegators"
    folder.mkdir(parents=True)
    code = (
        f"import pathlib, time\nwhile not pathlib.Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.02)\nprint(1)"
    )
    (folder / "patient.toml").write_text(
        f'name = "patient"\ntool = "generic"\n[launch]\noutput = "text"\ncommand = {json.dumps([sys.executable, "-c", code])}\n'
    )
    top = tmp_path / "project"
    top.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=top, check=True)
    method_table.call("workspace/trust", {"workspace": str(top), "trusted": True}, TerminalCaller(top))

    def run(*arguments: str, code: int = 0) -> list[dict]:
        done = forked.run(
            [*arguments, "--json"],
            cwd=top,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    return run


def start(understudy: Understudy, group: str) -> str:
    return understudy("start", "ask", "-t", "x", "-d", "patient", "--detach", "--group", group)[0]["id"]


def test_waiting_for_a_group_includes_members_that_join_meanwhile(understudy: Understudy, tmp_path: Path) -> None:
    group = understudy("groups", "create")[0]["id"]
    first = start(understudy, group)
    found: list[dict] = []
    waiting = threading.Thread(target=lambda: found.extend(understudy("wait", "--group", group)))
    waiting.start()
    late = start(understudy, group)
    (tmp_path / "go").touch()
    waiting.join(120)
    assert [(one["id"], one["state"], one["verdict"]) for one in found] == [
        (identifier, "finished", "answered") for identifier in (first, late)
    ]


def test_cancelling_a_group_cancels_each_member_once(understudy: Understudy) -> None:
    group = understudy("groups", "create")[0]["id"]
    members = [start(understudy, group) for _ in range(2)]
    alone = start(understudy, understudy("groups", "create")[0]["id"])
    ended = understudy("cancel", members[1], alone, "--group", group)
    assert [one["id"] for one in ended] == [members[1], alone, members[0]]
    assert {one["verdict"] for one in ended} == {"cancelled"}


def test_a_batch_prints_one_result_for_each_task_in_order(understudy: Understudy, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    lines = [json.dumps({"recipe": "ask", "task": f"task {number}", "delegator": "patient"}) for number in range(3)]
    (tmp_path / "project" / "tasks.jsonl").write_text("\n".join(lines))
    done = understudy("batch", "tasks.jsonl", "--budget-tokens", "1000000")
    assert [(one["title"], one["verdict"]) for one in done] == [(f"task {number}", "answered") for number in range(3)]
    [group] = understudy("groups", "show", done[0]["groupId"])
    assert group["delegations"] == [one["id"] for one in done]
    assert group["budget"] == {"maxTokens": 1000000}
    assert understudy("groups", "show", group["id"], "--watch") == done
    assert understudy("groups", "show", group["id"][-5:]) == [group]
    assert len(understudy("list", "--group", group["id"][-5:])[0]["delegations"]) == 3
    empty = understudy("groups", "create", "--kind", "compare")[0]["id"]
    [listed] = understudy("groups", "list")
    assert [(one["group"]["id"], one.get("title"), one["states"]) for one in listed["groups"]] == [
        (empty, None, {}),
        (group["id"], "task 0", {"answered": 3}),
    ]
    [newest] = understudy("groups", "list", "--limit", "1")[0]["groups"]
    assert newest["group"]["id"] == empty


def test_ctrl_c_cancels_a_batch_and_prints_what_there_is(understudy: Understudy, tmp_path: Path) -> None:
    lines = [json.dumps({"recipe": "ask", "task": f"task {number}", "delegator": "patient"}) for number in range(3)]
    (tmp_path / "project" / "tasks.jsonl").write_text("\n".join(lines))
    command = ["batch", "tasks.jsonl", "--json"]
    with forked.Forked(command, cwd=tmp_path / "project", stdout=subprocess.PIPE, text=True) as batch:
        try:
            # All at work: the command has started them all, and follows them.
            until(lambda: [one["state"] for one in understudy("list")[0]["delegations"]] == ["running"] * 3)
            batch.send_signal(signal.SIGINT)
            printed, _ = batch.communicate(timeout=120)
        finally:
            batch.kill()
    found = [json.loads(line) for line in printed.splitlines()]
    assert [(one["title"], one["state"], one["verdict"]) for one in found] == [
        (f"task {number}", "finished", "cancelled") for number in range(3)
    ]
    assert batch.returncode == exit_codes.Exit.CANCELLED
    [group] = understudy("groups", "show", found[0]["groupId"])
    assert group["delegations"] == [one["id"] for one in found], "the order of the file"


def test_ctrl_c_while_a_batch_starts_cancels_what_had_started(
    understudy: Understudy, tmp_path: Path, own_home: Path
) -> None:
    lines = [json.dumps({"recipe": "ask", "task": f"task {number}", "delegator": "patient"}) for number in range(16)]
    (tmp_path / "project" / "tasks.jsonl").write_text("\n".join(lines))
    command = ["batch", "tasks.jsonl", "--json"]
    with forked.Forked(
        command,
        cwd=tmp_path / "project",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as batch:
        try:
            # The request creates them one after the other: this is its beginning.
            until(lambda: any((own_home / "state" / "understudy" / "delegations").glob("*/events.jsonl")))
            os.killpg(batch.pid, signal.SIGINT)  # to all programs in the foreground, as a terminal does
            printed, said = batch.communicate(timeout=120)
        finally:
            batch.kill()
    assert "Cancelling; partial work is kept" in said
    found = [json.loads(line) for line in printed.splitlines()]
    assert [(one["title"], one["verdict"]) for one in found] == [(f"task {n}", "cancelled") for n in range(16)]
    assert batch.returncode == exit_codes.Exit.CANCELLED


def test_an_error_in_a_batch_has_its_line_and_starts_nothing(understudy: Understudy, tmp_path: Path) -> None:
    lines = [{"recipe": "ask", "task": "x", "delegator": "patient"}, {"recipe": "ask", "task": "x", "delegator": "p"}]
    (tmp_path / "project" / "tasks.jsonl").write_text("\n".join(map(json.dumps, lines)))
    [wrong] = understudy("batch", "tasks.jsonl", code=8)
    assert wrong["error"]["kind"] == "unknown_delegator"
    assert wrong["error"]["location"]["range"]["start"]["line"] == 1
    assert understudy("list")[0]["delegations"] == []


def test_one_start_for_each_file_and_each_delegator_is_a_group(understudy: Understudy, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    folder = next(path.parent for path in tmp_path.rglob("patient.toml"))
    (folder / "other.toml").write_text((folder / "patient.toml").read_text().replace("patient", "other"))
    for name in ("a.py", "b.py"):
        (tmp_path / "project" / name).write_text("")
    done = understudy("start", "ask", "a.py", "b.py", "--each", "-t", "x", "-d", "patient", "-d", "other")
    assert [one["delegator"] for one in done] == ["patient", "other"] * 2
    assert len({one["groupId"] for one in done}) == 1
    assert [one["title"] for one in done] == ["x (a.py)", "x (a.py)", "x (b.py)", "x (b.py)"]
    [wrong] = understudy("preview", "ask", "-t", "x", "-d", "patient", "-d", "other", code=2)
    assert "one delegator" in wrong["error"]["message"]


def test_a_comparison_prints_the_answers(understudy: Understudy, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    folder = next(path.parent for path in tmp_path.rglob("patient.toml"))
    (folder / "other.toml").write_text((folder / "patient.toml").read_text().replace("patient", "other"))
    command = ["start", "ask", "-t", "x", "-d", "patient", "-d", "other"]
    done = forked.run(command, cwd=tmp_path / "project", capture_output=True, text=True, timeout=60, check=True)
    answers = [lines.splitlines() for lines in done.stdout.split("\n\n")[1:]]
    assert [(head.split()[0], text) for head, text in answers] == [("patient", "1"), ("other", "1")]


def test_a_delegation_that_has_finished_is_not_said_to_be_cancelled_now(understudy: Understudy, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    done = understudy("start", "ask", "-t", "x", "-d", "patient")[0]["id"]
    text = forked.run(["cancel", done], capture_output=True, text=True, timeout=60, check=True).stdout
    assert text == f"{done}  answered, had finished already\n"


def test_a_paused_queue_is_reported_where_nothing_starts_because_of_it(understudy: Understudy, tmp_path: Path) -> None:
    def printed(*arguments: str, code: int = 0) -> str:
        done = forked.run(
            [*arguments],
            cwd=tmp_path / "project",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    understudy("queue", "pause")
    said, waiting = printed("start", "ask", "-t", "x", "-d", "patient", "--detach").splitlines()[::-1]
    assert said == "The queue is paused, so nothing starts; continue with: understudy queue resume"
    assert "1 queued; the queue is paused (understudy queue resume)" in printed("status")
    assert "The queue is paused." in printed("doctor", code=1)
    ended = understudy("cancel", waiting)[0]
    assert ended["error"]["message"] == "The delegation was cancelled before it started."
    understudy("queue", "resume")
    assert "is paused" not in printed("status")
