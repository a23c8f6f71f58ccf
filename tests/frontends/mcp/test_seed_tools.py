"""The tools of claude-code-delegate-local: the same names and parameters, and no key among them."""

from __future__ import annotations

import json

import pytest
from agent_model_server import ModelServer

KEY = "sk-canary-4711"


@pytest.fixture
def agents(stage):
    folder = stage.top / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "coder.md").write_text("---\nname: coder\ndescription: Writes code.\n---\nWrite code.\n")
    stage.trust()


@pytest.fixture
def server(stage):
    calls = [{"name": "write_file", "arguments": {"path": "made.txt", "content": "made\n"}}]
    with ModelServer(answers={"small": {"loop": [{"calls": calls}, {"text": "Made it."}]}}) as running:
        for folder, text in (
            ("model-servers", f'name = "local"\nkind = "custom"\nbase_url = "{running.base_url}"\n'),
            ("delegators", 'name = "local"\nmodel_server = "local"\nmodel = "other"\n'),
        ):
            (stage.config / folder).mkdir(parents=True, exist_ok=True)
            (stage.config / folder / "local.toml").write_text(text)
        yield running


async def test_an_agent_does_a_task(stage, agents, direct) -> None:
    stage.go()
    async with direct("delegate-local") as tools:
        [agent] = [one for one in (await tools("list_local_agents"))["agents"] if one["name"] == "coder"]
        assert agent["description"] == "Writes code."
        assert agent["path"] == str(stage.top / ".claude" / "agents" / "coder.md")
        done = await tools.done("delegate_to_local_agent", agent_name="coder", task="Write done.txt", workdir=".")
        assert (done["success"], done["status"], done["verdict"]) == (True, "finished", "unverified")
        assert (done["agent_name"], done["final_response"]) == ("coder", "All done.")
        assert done["files"][0]["path"] == "done.txt"
        assert done["agent_source"] == str(stage.top / ".claude" / "agents" / "coder.md")
        assert (done["bash_calls"], done["bash_failures"], "last_bash_exit" in done) == (0, 0, False)
        same = await tools.done(
            "delegate_to_local_agent", agent_name="coder", task="Write done.txt", workdir=str(stage.top)
        )
        assert same["id"] == done["id"]
        wrong = await tools.error("delegate_to_local_agent", agent_name="codr", task="x")
        assert (wrong["kind"], wrong["names"]) == ("invalid_params", ["coder"])
    assert stage.starts == 1


async def test_a_batch_has_its_results_in_order(stage, agents, direct) -> None:
    stage.go()
    tasks = [{"agent_name": "coder", "task": f"Task {number}"} for number in range(2)]
    async with direct() as tools:
        done = await tools.done("delegate_batch", tasks=tasks)
        assert (done["success"], done["batch_size"], done["successes"], done["failures"]) == (True, 2, 2, 0)
        assert [(one["task_index"], one["title"]) for one in done["results"]] == [(0, "Task 0"), (1, "Task 1")]
        assert done["elapsed_s"] >= max(one["elapsed_s"] for one in done["results"])


async def test_a_provider_is_a_configured_server(stage, agents, server, direct) -> None:
    task = {"model": "small", "agent_name": "coder", "task": "Make made.txt", "max_turns": 5}
    async with direct() as tools:
        done = await tools.done("delegate_to_provider", provider_url=f"{server.base_url}/chat/completions", **task)
        assert (done["success"], done["model"], done["delegator"]) == (True, "small", "local")
        assert done["files"][0]["path"] == "made.txt"
        assert done["tool_calls"] == 1
        status = await tools("local_backend_status")
        assert [one["url"] for one in status["servers"]] == [server.base_url]
        unknown = await tools.error("delegate_to_provider", provider_url="http://127.0.0.1:9/v1", **task)
        assert (unknown["kind"], unknown["names"]) == ("unknown_model_server", [server.base_url])


async def test_a_reviewer_is_not_asked_for_a_change(stage, agents, server, direct) -> None:
    (stage.top / ".claude" / "agents" / "security.md").write_text(
        "---\nname: security\ndescription: Reviews.\ntools: Read, Grep, Bash\n---\nLook for injections.\n"
    )
    stage.trust()
    runs = [{"name": "run_command", "arguments": {"command": command}} for command in ("true", "exit 3")]
    server.answers["reviewer"] = {"loop": [{"calls": runs}, {"text": "calc.py:2 trusts its input."}]}
    task = {"agent_name": "security", "task": "Review calc.py", "model": "reviewer", "max_turns": 7}
    async with direct() as tools:
        done = await tools.done("delegate_to_provider", provider_url=server.base_url, **task)
    assert (done["success"], done["final_response"]) == (True, "calc.py:2 trusts its input.")
    assert (done["max_turns"], done["cache_hit_pct"] >= 0) == (7, True)
    assert (done["bash_calls"], done["bash_failures"], done["last_bash_exit"]) == (2, 1, 3)
    sent = json.dumps(server.requests[0].body["messages"])
    assert "change nothing" in sent
    assert "Make the change that is described below" not in sent


@pytest.mark.parametrize("key", [KEY, {"from_env": "OTHER_KEY"}, {"from_env": KEY, "x": 1}, 7])
async def test_a_key_is_refused_and_not_repeated(stage, agents, server, direct, key) -> None:
    task = {"model": "small", "agent_name": "coder", "task": "x", "provider_url": server.base_url}
    async with direct() as tools:
        found = await tools.raw("delegate_to_provider", **task, api_key=key)
    text = found.content[0].text
    assert found.is_error
    assert json.loads(text)["error"]["kind"] == "secret_withheld"
    assert KEY not in text
    assert server.requests == []
    assert stage.call("delegations/list").delegations == []
