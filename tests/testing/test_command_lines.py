"""The scripted workers as users start them: by their command lines."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from wait_until import until

from understudy import testing
from understudy.testing import agent
from understudy.testing import model_server as scripted

SIDECAR = Path(testing.__file__).parents[2]
ENV = {
    "PATH": "/usr/bin:/bin",
    "PYTHONPATH": str(SIDECAR),
    "PYTHONDONTWRITEBYTECODE": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
    "HOME": "/nonexistent",
    "GIT_AUTHOR_NAME": "T",
    "GIT_AUTHOR_EMAIL": "t@example.invalid",
    "GIT_COMMITTER_NAME": "T",
    "GIT_COMMITTER_EMAIL": "t@example.invalid",
}


def play(tree: Path, *arguments: str, prompt: str = "") -> tuple[int, list[dict]]:
    done = subprocess.run(
        [sys.executable, "-m", "understudy.testing.agent", *arguments],
        cwd=tree,
        env=ENV,
        input=prompt,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "delegations-of-others" / "tree"
    (folder / "tests").mkdir(parents=True)
    (folder / "greeting.py").write_text("def greet(name):\n    return 'Hello, ' + name\n")
    (folder / "tests/test_old.py").write_text("def test_old():\n    assert True\n")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        subprocess.run(["git", *command], cwd=folder, env=ENV, check=True)
    return folder


def status(tree: Path) -> set[str]:
    done = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], cwd=tree, env=ENV, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines())


NEW = "?? tests/test_greeting_scripted.py"


@pytest.mark.parametrize(
    ("scenario", "code", "changes"),
    [
        ("no_change", 0, set()),
        ("liar", 0, {NEW}),
        ("swallow", 0, {NEW}),
        ("skipped", 0, {NEW}),
        ("failing", 0, {NEW}),
        ("deletes_tests", 0, {NEW, " D tests/test_old.py"}),
        ("edits_code", 0, {NEW, " M greeting.py"}),
        ("edits_conftest", 0, {NEW, "?? conftest.py"}),
        ("plants_ignored", 0, {NEW}),
        ("other_branch", 0, set()),
        ("exit1", 1, {NEW}),
    ],
)
def test_what_lying_agents_leave(tree, scenario, code, changes):
    exit_code, events = play(tree, scenario, prompt="Please test greeting.py.")
    assert (exit_code, status(tree)) == (code, changes)
    assert events[-1] == {"type": "result", "ok": True}


def test_forging_a_journal(tmp_path):
    journal = tmp_path / "delegations/20260101-000000-aaaaa/events.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text('{"seq":1}\n')
    tree = tmp_path / "trees/repo/1"
    tree.mkdir(parents=True)
    (tree / "a.py").touch()
    assert play(tree, "forges_journal")[0] == 0
    assert json.loads(journal.read_text().splitlines()[-1])["verdict"] == "verified"


def test_a_scenario_of_ones_own(tree, tmp_path):
    script = tmp_path / "script.toml"
    script.write_text(
        '[[steps]]\nwrite = "tests/test_@STEM@.py"\ntext = "import @MODULE@\\n"\n[[steps]]\nsay = "Done."\n[[steps]]\nresult = true\n'
    )
    code, events = play(tree, str(script), "--file", "greeting.py")
    assert code == 0
    assert [event["type"] for event in events] == ["file", "text", "result"]
    assert (tree / "tests/test_greeting.py").read_text() == "import greeting\n"
    assert play(tree, "no-such-scenario")[0] == 1


def test_every_scenario_is_documented():
    for name in agent.SCENARIOS:
        assert f"    {name} " in (agent.__doc__ or ""), name
    assert all(scenario.__doc__ for scenario in scripted.SCENARIOS.values())


def test_the_server_from_its_command_line(tmp_path):
    answers = tmp_path / "answers.json"
    answers.write_text('{"haiku": "Autumn"}')
    port_file = tmp_path / "port"
    command = [
        sys.executable,
        "-m",
        "understudy.testing.model_server",
        "--port-file",
        str(port_file),
        "--answers",
        str(answers),
    ]
    with subprocess.Popen(command, env=ENV, stdout=subprocess.DEVNULL) as process:
        try:
            until(port_file.exists)
            url = f"http://127.0.0.1:{port_file.read_text()}/v1/chat/completions"
            answer = httpx.post(url, json={"model": "haiku", "messages": []}, trust_env=False)
            assert answer.json()["choices"][0]["message"]["content"] == "Autumn"
        finally:
            process.terminate()


def test_a_closed_server_leaves_no_thread(tmp_path):
    import threading

    before = threading.active_count()
    with scripted.ModelServer() as server:
        body = {"model": "good", "stream": True}
        assert "[DONE]" in httpx.post(f"{server.base_url}/chat/completions", json=body, trust_env=False).text
        assert server.requests[0].body["model"] == "good"
    until(lambda: threading.active_count() == before)
