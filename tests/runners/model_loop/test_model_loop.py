"""Test the tool loop on the scripted model server, in each dialect: what a model does, and what it may do wrong."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
from typing import Any

import pytest
from model_work import DONE, KEY, PROTOCOLS, call
from wait_until import until

from understudy.model.config.delegators import ProgramLimits
from understudy.model.delegation.events import AgentStarted, File, Note, ToolCall, ToolResult, UsageReport
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.model_loop.loop_source import REMOVED
from understudy.runners.runner import Outcome


def results_sent(body: dict[str, Any]) -> list[str]:
    """Return the results of calls in a request of any dialect."""
    if "input" in body:
        return [one["output"] for one in body["input"] if one["type"] == "function_call_output"]
    found = [one["content"] for one in body["messages"] if one["role"] == "tool"]
    for message in body["messages"]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        found += [one["content"] for one in blocks if one["type"] == "tool_result"]
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_model_fixes_a_file_in_turns(work, protocol):
    outcome = await work.run(
        {"thinking": "", "calls": [call("read_file", path="calc.py"), call("search_files", text="add")]},
        {"text": "A sign.", "calls": [call("edit_file", path="calc.py", old_string="a - b", new_string="a + b")]},
        {"calls": [call("run_command", command="python3 -c 'import calc; print(calc.add(1, 2))'")]},
        {"text": "The sign was wrong."},
        protocol=protocol,
    )
    assert isinstance(outcome, Outcome), outcome
    assert (work.tree / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert outcome.summary == "The sign was wrong."
    assert [(one.path, one.change) for one in work.of(File)] == [("calc.py", "modified")]
    assert [one.name for one in work.of(ToolCall)] == ["read_file", "search_files", "edit_file", "run_command"]
    assert [one.ok for one in work.of(ToolResult)] == [True] * 4
    assert [one.call_id for one in work.of(ToolCall)] == [one.call_id for one in work.of(ToolResult)]
    assert len({one.call_id for one in work.of(ToolCall)}) == 4
    assert work.results[0] == "1\tdef add(a, b):\n2\t    return a - b"
    assert work.results[3] == "3\n[Exit code 0.]"
    assert (outcome.usage.turns, outcome.usage.tool_calls) == (4, 4)
    assert outcome.usage.output_tokens == 4 * {"openai": 9}.get(protocol, 50)
    assert len(work.of(UsageReport)) == 4
    assert len(work.of(AgentStarted)) == 1, "a command is a program of the user's"
    assert [len(results_sent(body)) for body in work.requests] == [0, 2, 3, 4]
    assert "[Turn 1 of 15 is over; 14 turns are left.]" in results_sent(work.requests[1])[-1]


async def test_a_server_that_declares_auto_is_asked_once(work, own_home):
    _ = own_home
    turns = {"calls": [call("read_file", path="calc.py")]}, DONE
    outcome = await work.run(*turns, protocol="auto")
    assert isinstance(outcome, Outcome), outcome
    assert work.requests[0] == {}, "a question without content"
    assert len(work.requests) == 3
    assert ["`anthropic`" in one.text for one in work.of(Note)] == [True]
    await work.run(*turns, protocol="auto")
    assert (len(work.requests), work.of(Note)) == (2, [])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("turn", [
    {"finish": "length", "calls": [{"name": "write_file", "arguments": '{"path": "new.py", "content": "x'}]},
    {"finish": "length", "calls": [call("write_file", path="new.py", content="x = ")]},
    {"calls": [{"name": "write_file", "arguments": '{"path": "new.py", "content": "x'}]},
    {"calls": [{"name": "write_file", "arguments": '["new.py", "x"]'}]},
], ids=["cut", "cut but whole", "not JSON", "not an object"])  # fmt: skip
async def test_an_incomplete_call_is_never_executed(work, protocol, turn):
    outcome = await work.run(turn, DONE, protocol=protocol)
    assert isinstance(outcome, Outcome), outcome
    assert not (work.tree / "new.py").exists()
    assert results_sent(work.requests[1])[0].startswith("Not executed: ")
    assert '"x' not in json.dumps(work.requests[1]).replace("x = ", ""), "broken JSON goes back to no server"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_two_turns_in_a_row_that_are_cut_end_the_work(work, protocol):
    cut = {"finish": "length", "calls": [{"name": "write_file", "arguments": '{"path": "new.py", "content": "x'}]}
    read = {"calls": [call("read_file", path="calc.py")]}
    outcome = await work.run(cut, read, cut, DONE, protocol=protocol)
    assert isinstance(outcome, Outcome), outcome
    notes = [note.text for note in work.of(Note) if "output limit" in note.text]
    assert notes == [f"Turn {turn} reached the output limit, so its calls were not executed." for turn in (1, 3)]
    refused = await work.run(cut, cut, DONE, protocol=protocol)
    assert (refused.kind, len(work.requests)) == (ErrorKind.OUTPUT_TRUNCATED, 2)
    assert "max_output_tokens" in refused.hint


HOSTILE = ["../outside.txt", "/etc/passwd", "link/secret.txt", "file-link", ".git/config", "a/.GIT/x", "", ".", "a\0b",
           "~/x", "pipe", "x" * 2000]  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE)
async def test_a_path_never_leads_out(work, path):
    outside = work.tree.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret\n")
    (work.tree / "link").symlink_to(outside)
    (work.tree / "file-link").symlink_to(outside / "secret.txt")
    os.mkfifo(work.tree / "pipe")
    outcome = await work.run(
        {"calls": [
            call("read_file", path=path), call("write_file", path=path, content="taken"),
            call("edit_file", path=path, old_string="secret", new_string="taken"),
            call("search_files", text="secret"), call("list_files"),
        ]},
        DONE,
    )  # fmt: skip
    assert isinstance(outcome, Outcome), outcome
    assert [one.ok for one in work.of(ToolResult)] == [False, False, False, True, True]
    assert "secret\n" not in "".join(work.results[:3])
    assert work.results[3] == "Nothing was found."
    assert (outside / "secret.txt").read_text() == "secret\n"
    assert (work.tree / ".git" / "config").read_text() == "[core]\n"
    assert sorted(one.name for one in work.tree.parent.iterdir()) == ["outside", "tree"]
    assert ".git" not in work.results[4]


async def test_wrong_calls_are_answered(work):
    outcome = await work.run(
        {"calls": [
            call("delete_everything"), call("read_file", path=5), call("read_file"), call("read_file", path="none.py"),
            call("edit_file", path="calc.py", old_string="not there", new_string="x"),
            call("edit_file", path="calc.py", old_string="a", new_string="x"),
            call("read_file", path="calc.py", encoding="utf-8"), call("run_command", command="exit 3"),
            call("read_file", path="calc.py", start_line=99), {"name": "", "arguments": {}},
        ]},
        DONE,
    )  # fmt: skip
    assert isinstance(outcome, Outcome), outcome
    assert [one.ok for one in work.of(ToolResult)] == [False] * 10
    said = work.results
    assert "There is no tool 'delete_everything'" in said[0]
    assert "needs path" in said[2]
    assert "does not exist" in said[3]
    assert "must match exactly" in said[4]
    assert "times (lines 1, 1, 2" in said[5]
    assert said[7] == "[Exit code 3.]"


async def test_calls_that_are_out_of_all_bounds_are_answered(work):
    """A hostile model: numbers of no size, a pattern that takes hours to translate."""
    large = 10**400
    outcome = await work.run(
        {"calls": [
            call("read_file", path="calc.py", start_byte=large), call("read_file", path="calc.py", lines=large),
            call("read_file", path="calc.py", start_byte=1e300), call("run_command", command="true", seconds=large),
            call("search_files", text="a", glob="[" * 200_000),
        ]},
        DONE,
    )  # fmt: skip
    assert isinstance(outcome, Outcome), outcome
    assert [one.ok for one in work.of(ToolResult)] == [False] * 5
    assert all("is too large a number" in text for text in work.results[:4])
    assert "more than 1000 characters" in work.results[4]


async def test_a_tree_of_any_depth_is_listed_and_searched(work):
    folder = os.open(work.tree, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    try:
        await work.run({"calls": [call("list_files"), call("search_files", text="return")]}, DONE)
    finally:
        subprocess.run(["rm", "-rf", work.tree / "d"], check=True)  # Python's own functions recurse
    assert work.results == ["calc.py", "calc.py:2:     return a - b"]


async def test_the_same_call_is_executed_again(work):
    again = {"calls": [call("run_command", command="cat calc.py; echo x >> calc.py")]}
    await work.run(again, again, again, DONE)
    assert [text.count("x\n") for text in work.results] == [0, 1, 2]


async def test_a_thousand_calls_of_one_turn(work):
    outcome = await work.run({"calls": [call("read_file", path="calc.py")] * 1000}, DONE)
    assert isinstance(outcome, Outcome), outcome
    assert len(work.of(ToolCall)) == 50
    sent = results_sent(work.requests[1])
    assert len(sent) == 1000, "servers refuse a conversation in which a result is missing"
    assert sum(text.startswith("Not executed: ") for text in sent) == 950
    assert any("950 of 1000 calls" in note.text for note in work.of(Note))


async def test_large_results_are_cut_with_a_mark(work):
    (work.tree / "long.txt").write_text("".join(f"{number}\n" for number in range(100_000)))
    (work.tree / "line.txt").write_text("y" * 100_000)
    await work.run(
        {"calls": [
            call("read_file", path="long.txt"), call("read_file", path="line.txt"),
            call("read_file", path="line.txt", start_byte=90_000), call("run_command", command="yes | head -c 9000000"),
            call("search_files", text="1"), call("read_file", path="long.txt", start_line=5, lines=2),
        ]},
        DONE,
    )  # fmt: skip
    assert all(len(text) < 30_000 for text in work.results)
    assert all("NOT COMPLETE" in work.results[number] for number in (0, 1, 3, 4, 5))
    assert "continue with start_byte=24000" in work.results[1]
    assert work.results[2] == "y" * 10_000
    assert work.results[5].startswith("5\t4\n6\t5\n[")
    following = int(work.results[0].rpartition("start_line=")[2].rstrip("]"))
    assert f"\n{following - 1}\t{following - 2}\n[" in work.results[0], "no line is lost between two pieces"


async def test_a_command_that_hangs_is_ended_with_what_it_started(work):
    command = "echo begun; sleep 1000 & sleep 1000"
    await work.run({"calls": [call("run_command", command=command, seconds=1)]}, DONE)
    assert work.results[0] == "begun\n[The command was ended after 1 s; it had not finished.]"


async def test_a_process_left_behind_does_not_hold_the_command(work):
    await work.run({"calls": [call("run_command", command="echo here; sleep 1000 &")]}, DONE)
    assert work.results[0].startswith("here\n[Exit code 0.")


async def test_a_command_has_limits(work):
    await work.run({"calls": [call("run_command", command="ulimit -d; ulimit -f; ulimit -n; ulimit -c")]}, DONE)
    assert work.results[0].split("\n")[:4] == [str(4 << 20), str((256 << 20) // 512), "4096", "0"]


async def test_the_processes_of_a_command_have_limits_together(work):
    limits = ProgramLimits(max_memory_bytes=150 << 20, max_processes=30)
    hungry = "echo begun; for n in 1 2 3 4; do python3 -c 'import time; x = b\"x\" * (60 << 20); time.sleep(600)' & done; wait"
    many = "for n in $(seq 50); do sleep 600 & done; wait"
    calls = {"calls": [call("run_command", command=hungry), call("run_command", command=many)]}
    await work.run(calls, DONE, program_limits=limits)
    ended = "[ENDED: The command '/bin/sh' {}, and was ended.]"
    used = ended.format("used more than 150 MiB of memory with all its processes")
    assert work.results[0] == f"begun\n{used}"
    assert work.results[1] == ended.format("started more than 30 processes at once")
    assert [one.ok for one in work.of(ToolResult)] == [False, False]


async def test_no_command_without_trust(work):
    await work.run({"calls": [call("run_command", command="touch ran")]}, DONE, trusted=False)
    assert not (work.tree / "ran").exists()
    assert "There is no tool 'run_command'" in work.results[0]
    assert "run_command" not in json.dumps(work.requests[0]["tools"])


async def test_keys_reach_neither_the_server_nor_the_journal(work, monkeypatch):
    monkeypatch.setenv("PROVIDER_KEY", KEY)
    (work.tree / "leak.txt").write_text(KEY)
    run = call("run_command", command="cat leak.txt; env; echo $GIVEN")
    await work.run(
        {"calls": [run]}, DONE, environment={"GIVEN": "a-secret-variable"}, secrets={"GIVEN": "a-secret-variable"}
    )
    everything = json.dumps(work.requests) + str(work.events)
    assert "<secret:" in work.results[0]
    assert KEY not in everything
    assert "a-secret-variable" not in everything


async def test_files_with_secrets_stay_on_this_machine(work, monkeypatch):
    (work.tree / ".env").write_text("TOKEN=very-secret\n")
    calls = {"calls": [call("read_file", path=".env"), call("search_files", text="TOKEN")]}
    monkeypatch.setattr("understudy.config.locality.is_local", lambda *_: False)
    await work.run(calls, DONE)
    assert "not available" in work.results[0]
    assert "very-secret" not in json.dumps(work.requests)


@pytest.mark.parametrize(("asked", "made"), [(None, 15), (3, 3), (1000, 40)])
async def test_the_turns_are_limited_and_counted_down(work, asked, made):
    looking = {"calls": [call("read_file", path="calc.py")]}
    error = await work.run(looking, limits={"max_turns": asked} if asked else {})
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.BUDGET_EXHAUSTED
    assert len(work.requests) == made
    assert "ONE turn is left" in results_sent(work.requests[-1])[-1]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_long_loop_keeps_the_prefix_of_its_cache(work, protocol):
    turns = [{"thinking": "t", "calls": [call("read_file", path="calc.py")]} for _ in range(39)]
    outcome = await work.run(*turns, DONE, protocol=protocol, limits={"max_turns": 40})
    assert isinstance(outcome, Outcome), outcome
    kept = 0
    name = "input" if protocol == "responses" else "messages"
    bodies = [unmarked(body) for body in work.requests]
    for before, following in itertools.pairwise(bodies):
        after = dict(following)
        history = before.pop(name)
        kept += after.pop(name)[: len(history)] == history and before == after
    assert kept == 39


def unmarked(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body without cache marks, which are not content."""
    return json.loads(json.dumps(body).replace(', "cache_control": {"type": "ephemeral"}', ""))


async def test_limits_hold_across_turns(work):
    looking = {"calls": [call("read_file", path="calc.py")]}
    error = await work.run(looking, limits={"max_tokens": 60})
    assert error.kind is ErrorKind.BUDGET_EXHAUSTED
    assert len(work.requests) == 3, "21 tokens a turn"


async def test_each_turn_is_retried(work):
    late = {"refuse": [429, "Too many requests"]}
    outcome = await work.run(
        {"calls": [call("read_file", path="calc.py")]}, late, late, {"calls": [call("list_files")]}, late, DONE
    )
    assert isinstance(outcome, Outcome), outcome
    assert len(work.of(ToolCall)) == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_conversation_that_is_too_long_loses_its_oldest_results(work, protocol):
    (work.tree / "long.txt").write_text("z" * 9000)
    looking = {"thinking": "t", "calls": [call("read_file", path="long.txt")]}
    full = {"refuse": [400, "This model's maximum context length is 8192 tokens."]}
    outcome = await work.run(looking, looking, looking, looking, full, DONE, protocol=protocol)
    assert isinstance(outcome, Outcome), outcome
    sent = results_sent(work.requests[-1])
    assert [text == REMOVED for text in sent] == [True, True, False, False]
    if protocol == "anthropic":
        assert '"thinking"' in json.dumps(work.requests[-2]["messages"])
        assert '"thinking"' not in json.dumps(work.requests[-1]["messages"]), "they are bound to what was removed"


async def test_a_model_without_tools_answers_with_edits(work):
    refused = {"refuse": [400, "registry.ollama.ai/library/gemma:2b does not support tools"]}
    wrong = {"text": "calc.py\n<<<<<<< SEARCH\nreturn a * b\n=======\nreturn a + b\n>>>>>>> REPLACE\n"}
    right = {
        "text": "A sign.\n\n```\ncalc.py\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n>>>>>>> REPLACE\n```\n"
        "new/notes.md\n<<<<<<< SEARCH\n=======\n# Notes\n>>>>>>> REPLACE\n"
    }
    outcome = await work.run(refused, wrong, right)
    assert isinstance(outcome, Outcome), outcome
    assert "tools" not in work.requests[1]
    assert "must match exactly" in work.requests[2]["messages"][-1]["content"]
    assert (work.tree / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert (work.tree / "new" / "notes.md").read_text() == "# Notes\n"
    assert [(one.path, one.change) for one in work.of(File)] == [("calc.py", "modified"), ("new/notes.md", "added")]


@pytest.mark.parametrize(
    "text",
    [
        "calc.py\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n",
        "<<<<<<< SEARCH\n    return a - b\n=======\nx\n>>>>>>> REPLACE\n",
        "../x\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n",
        "calc.py\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n",
        "calc.py\n<<<<<<< SEARCH\na\n=======\nx\n>>>>>>> REPLACE\n",
        "ok.py\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\nnone.py\n<<<<<<< SEARCH\na\n=======\nx\n>>>>>>> REPLACE\n",
    ],
    ids=["cut", "no path", "outside", "exists", "not unique", "one of two"],
)
async def test_edits_that_do_not_fit_change_nothing(work, text):
    outcome = await work.run({"text": text}, {"text": "I cannot."}, {"text": "I cannot."})
    assert isinstance(outcome, Outcome), outcome
    assert sorted(one.name for one in work.tree.iterdir()) == [".git", "calc.py"]
    assert (work.tree / "calc.py").read_text() == "def add(a, b):\n    return a - b\n"
    assert "Nothing was changed:" in work.requests[1]["messages"][-1]["content"]


async def test_a_cancel_ends_the_command_and_keeps_the_work(work):
    waiting = work.tree / "waiting"
    running = asyncio.create_task(
        work.run(
            {"calls": [call("write_file", path="kept.py", content="x = 1\n"),
                       call("run_command", command="touch waiting; exec sleep 1000")]},
            DONE,
        )
    )  # fmt: skip
    await asyncio.to_thread(until, waiting.exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (work.tree / "kept.py").read_text() == "x = 1\n"
    assert len(work.requests) == 1


async def test_a_test_that_failed_runs_again_after_the_edit_and_passes(work):
    test = {"calls": [call("run_command", command="python3 -c 'import calc; assert calc.add(1, 2) == 3'")]}
    edit = {"calls": [call("edit_file", path="calc.py", old_string="a - b", new_string="a + b")]}
    outcome = await work.run(test, edit, test, DONE)
    assert isinstance(outcome, Outcome), outcome
    assert "AssertionError" in work.results[0]
    assert work.results[2] == "[Exit code 0.]"


async def test_every_byte_of_a_file_of_one_line_can_be_read(work):
    text = "".join(f"function f{number}(){{return {number}}};" for number in range(5000))
    (work.tree / "app.min.js").write_text(text)
    offsets = range(0, len(text), 24_000)
    outcome = await work.run(
        *({"calls": [call("read_file", path="app.min.js", start_byte=offset)]} for offset in offsets), DONE
    )
    assert isinstance(outcome, Outcome), outcome
    read = [result.split("\n[")[0] for result in work.results]
    assert "".join(read) == text
