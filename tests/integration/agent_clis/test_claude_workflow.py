"""Test a whole workflow with a real Claude Code: start, question, answer from another process, decisions, reply."""

import json
import os
import subprocess
import sys
import time

import pytest
from agent_model_server.messages_scenarios import SCRIPTS

from understudy import testing

pytestmark = pytest.mark.heavy


def understudy(*arguments, env, cwd):
    return subprocess.run(
        [sys.executable, "-m", "understudy", *arguments],
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
        stdin=subprocess.DEVNULL,
    )


def get(identifier, env, cwd):
    done = understudy("show", identifier, "--json", env=env, cwd=cwd)
    assert done.returncode in {0, 1, 2, 3, 4}, done.stderr
    return json.loads(done.stdout)


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")


@pytest.fixture
def project(lab):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC", "CLAUDE"))}
    environment |= {
        "PATH": f"{lab.programs}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.dirname(testing.__file__))),
        "SCRIPTED_KEY": "test-key-of-nobody",
    }
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        subprocess.run(["git", *command], cwd=lab.tree, env=environment, check=True)
    configuration = os.path.join(os.environ["XDG_CONFIG_HOME"], "understudy")
    os.makedirs(configuration)
    with open(os.path.join(configuration, "config.toml"), "w", encoding="utf-8") as file:
        file.write(f"""
[[model_servers]]
name = "scripted"
kind = "custom"
base_url = "{lab.url("product")}/v1"
protocols = ["anthropic"]
api_key = {{ from_env = "SCRIPTED_KEY" }}

[[delegators]]
name = "claude"
tool = "claude"
model_server = "scripted"
model = "claude-sonnet-4-5"
""")
    return environment


@pytest.mark.parametrize(("option", "made"), [("allow_once", True), ("reject_once", False)])
def test_a_question_is_answered_from_another_process(lab, project, option, made):
    lab.server.answers = {"product": {"turns": SCRIPTS["shell"]}}
    started = understudy(
        *("start", "implement", "greeting.py", "--task", "Do it.", "-d", "claude", "--trust", "--detach", "--json"),
        env=project,
        cwd=lab.tree,
    )
    assert started.returncode == 0, started.stderr
    identifier = json.loads(started.stdout)["id"]

    def waiting():
        found = get(identifier, project, lab.tree)
        assert found["state"] != "finished", found
        return found if found["state"] == "waiting" else None

    asked = until(waiting)["waitingFor"]
    assert asked["title"].startswith("Run python3 -c")
    answered = understudy("answer", identifier, option, env=project, cwd=lab.tree)
    assert answered.returncode == 0, answered.stderr
    ended = until(lambda: (one := get(identifier, project, lab.tree))["state"] == "finished" and one)
    assert ended["verdict"] == ("unverified" if made else "no_changes"), ended
    assert [file["path"] for file in ended["result"]["files"]] == (["asked.txt"] if made else [])
    assert not ended["costKnown"], "its figure is true with its vendor's server only"
    assert ended["usage"]["inputTokens"] == 2600
    assert {request.headers.get("x-api-key") for request in lab.server.requests} == {"test-key-of-nobody"}
    assert not (lab.tree / "asked.txt").exists()


REASON = "The bass clef is wrong for this voice."
LINES = [f"line {number}" for number in range(60)]


def edit(line, into):
    return {"name": "Edit", "input": {"file_path": "{cwd}/score.txt", "old_string": line, "new_string": into}}


def recorded_claude(lab, folder):
    """Install a program that records its arguments and then executes the real one."""
    folder.mkdir()
    program, said = folder / "claude", folder / "arguments"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" "" >> "{said}"\nexec "{lab.programs}/claude" "$@"\n')
    program.chmod(0o755)
    return said


def hunks_of(identifier, env, cwd):
    """Return the hunks of a result's only file with the lines that they remove and add."""
    done = understudy("diff", identifier, "--json", env=env, cwd=cwd)
    assert done.returncode == 0, done.stderr
    (file,) = json.loads(done.stdout)["files"]
    assert file["path"] == "score.txt"
    shown = understudy("diff", identifier, env=env, cwd=cwd).stdout.splitlines()
    changed = [line for line in shown if line[:1] in {"-", "+"} and line[:3] not in {"---", "+++"}]
    return file["hunks"], changed


@pytest.mark.smoke
def test_a_result_is_decided_on_and_the_reply_resumes_the_session(lab, project, tmp_path):
    said = recorded_claude(lab, tmp_path / "recorded")
    project = project | {"PATH": f"{said.parent}:{project['PATH']}"}
    score = lab.tree / "score.txt"
    score.write_text("\n".join(LINES) + "\n")
    edits = [edit("line 5\n", "FIVE\n"), edit("line 25\n", "TWENTY-FIVE\n"), edit("line 45\n", "FORTY-FIVE\n")]
    read = {"name": "Read", "input": {"file_path": "{cwd}/score.txt"}}
    turns = [{"text": "Let me look.", "tools": [read]}, {"tools": edits}, {"text": "Three bars are new."}]
    lab.server.answers = {"product": {"turns": turns}}
    arguments = ("implement", "score.txt", "--task", "Make three bars new.", "-d", "claude", "--trust")
    started = understudy("start", *arguments, "--detach", "--json", env=project, cwd=lab.tree)
    assert started.returncode == 0, started.stderr
    first = json.loads(started.stdout)["id"]
    ended = until(lambda: (one := get(first, project, lab.tree))["state"] == "finished" and one)
    assert ended["verdict"] == "unverified", ended
    session = ended["attempts"][-1]["sessionId"]
    assert "--resume" not in said.read_text()
    (one, two, _), changed = hunks_of(first, project, lab.tree)
    assert changed == ["-line 5", "+FIVE", "-line 25", "+TWENTY-FIVE", "-line 45", "+FORTY-FIVE"]

    accepted = understudy("accept", first, f"score.txt:{one['id']}", env=project, cwd=lab.tree)
    assert accepted.returncode == 0, accepted.stderr
    rejected = understudy("reject", first, f"score.txt:{two['id']}", "--reason", REASON, env=project, cwd=lab.tree)
    assert rejected.returncode == 0, rejected.stderr
    wanted = ["FIVE" if line == "line 5" else line for line in LINES]
    assert score.read_text().splitlines() == wanted
    score.write_text("mine\n" + score.read_text())

    # The reply changes no file: its result shows only the hunks that were pending.
    before = len(lab.server.requests)
    lab.server.answers = {"product": {"turns": [{"text": "The clef is a treble clef now."}]}}
    replied = understudy("reply", first, "Use the treble clef.", "--detach", "--json", env=project, cwd=lab.tree)
    assert replied.returncode == 0, replied.stderr
    second = json.loads(replied.stdout)["id"]
    ended = until(lambda: (one := get(second, project, lab.tree))["state"] == "finished" and one)
    assert ended["parentId"] == first
    assert ended.get("error") is None
    assert ended["attempts"][-1]["sessionId"] == session
    assert f"--resume={session}" in said.read_text().splitlines()
    (left,), changed = hunks_of(second, project, lab.tree)
    assert changed == ["-line 45", "+FORTY-FIVE"]
    assert left["state"] == "pending"
    states = [hunk["state"] for hunk in hunks_of(first, project, lab.tree)[0]]
    assert states == ["accepted", "rejected", "superseded"]

    sent = [request.body for request in lab.server.requests[before:] if (request.body or {}).get("tools")]
    earlier, last = sent[-1]["messages"][:-1], sent[-1]["messages"][-1]
    told = json.dumps(earlier)
    for words in ("Make three bars new.", "Let me look.", "Three bars are new.", "TWENTY-FIVE"):
        assert words in told, words
    prompt = "\n".join(block["text"] for block in last["content"] if block["type"] == "text")
    assert last["role"] == "user"
    turned_down = prompt[prompt.index("## Rejected") : prompt.index("## Not decided yet")]
    assert "-line 25" in turned_down
    assert "+TWENTY-FIVE" in turned_down
    assert REASON in turned_down
    assert "FORTY-FIVE" not in turned_down
    assert "+FIVE" not in prompt
    assert "Use the treble clef." in prompt[prompt.index("# What is asked for now") :]

    # The next one changes a file: its result has the pending hunk and the new one.
    lab.server.answers = {
        "product": {"turns": [{"tools": [read]}, {"tools": [edit("line 58\n", "LAST\n")]}, {"text": "."}]}
    }
    replied = understudy("reply", second, "And the end.", "--detach", "--json", env=project, cwd=lab.tree)
    third = json.loads(replied.stdout)["id"]
    ended = until(lambda: (one := get(third, project, lab.tree))["state"] == "finished" and one)
    assert ended["attempts"][-1]["sessionId"] == session
    assert hunks_of(third, project, lab.tree)[1] == ["-line 45", "+FORTY-FIVE", "-line 58", "+LAST"]
    merged = understudy("accept", third, "--all", env=project, cwd=lab.tree)
    assert merged.returncode == 0, merged.stderr
    replaced = {"line 5": "FIVE", "line 45": "FORTY-FIVE", "line 58": "LAST"}
    assert score.read_text().splitlines() == ["mine", *(replaced.get(line, line) for line in LINES)]
