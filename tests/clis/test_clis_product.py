"""The whole product with a real Claude Code: started, asked, answered from another process, verified in the tree."""

import json
import os
import subprocess
import sys
import time

import pytest

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
base_url = "{lab.url("shell")}/v1"
protocol = "anthropic"
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
    assert ended["costKnown"]
    assert ended["usage"]["inputTokens"] == 2600
    assert {request.headers.get("x-api-key") for request in lab.server.requests} == {"test-key-of-nobody"}
    assert not (lab.tree / "asked.txt").exists()
