"""``ask`` and ``summarize`` with a delegator whose server fails: who takes over, what is said, and what is counted."""

from __future__ import annotations

import msgspec
import pytest

from understudy.config import locations
from understudy.engine.queueing import start_conditions
from understudy.journal import delegation_folder, ledger
from understudy.model.config.delegators import Delegator, ModelServer
from understudy.policy import patience


def asked(served, model, *options):
    """Ask with a delegator on this model, from which one that answers takes over; return the name and the outcome."""
    name = served.on(model, fallback=[served.on("scholar")])
    return name, served.run("ask", "--json", "-t", "Why?", "src", "-d", name, *options)


@pytest.mark.parametrize(
    ("model", "requests"),
    [
        *(("429", 2), ("429_long", 1), ("quota", 1), ("401", 1), ("500", 2), ("503", 2), ("model_404", 1)),
        *(("cut", 2), ("bad_json", 2), ("reset", 2), ("empty", 1), ("html", 1), ("context", 1)),
        *(("error_midstream", 1), ("tool_call", 1)),
    ],
)
def test_the_next_delegator_answers_where_a_server_fails(served, model, requests):
    name, done = asked(served, model)
    assert done.code == 0, done.err
    envelope = done.envelope
    assert (envelope["content"], envelope["profile"], envelope["model"]) == ("Because.", "m-scholar", "scholar")
    assert f"{name} failed: " in done.err
    assert "m-scholar takes over." in done.err
    assert (served.server.times[model], served.server.times["scholar"]) == (requests, 1)
    first, second = ledger.read()
    assert first.id == second.id == envelope["id"]
    assert [(one.attempt, one.delegator, one.verdict) for one in (first, second)] == [
        (1, name, "failed"),
        (2, "m-scholar", "answered"),
    ]


@pytest.mark.parametrize(("model", "kind"), [("content_filter", "content_refused"), ("400", "bad_request")])
def test_what_another_server_would_refuse_too_is_not_asked_again(served, model, kind):
    _, done = asked(served, model)
    assert (done.code, done.envelope["error"]["kind"]) == (1, kind)
    assert served.server.times["scholar"] == 0


@pytest.mark.parametrize("model", ["500_once", "429_once"])
def test_one_hiccup_is_retried_on_the_same_server(served, model):
    name, done = asked(served, model)
    assert (done.code, done.envelope["profile"]) == (0, name)
    assert served.server.times["scholar"] == 0


def test_a_silent_server_is_not_waited_for(served):
    name, done = asked(served, "silent", "--first-event-seconds", "0.3")
    assert (done.code, done.envelope["profile"]) == (0, "m-scholar"), done.err
    assert f"{name} failed: Model server 'scripted' sent no event within 0.3 s" in done.err


def test_without_a_limit_a_server_that_others_follow_has_little_time(served, monkeypatch):
    short = msgspec.structs.replace(patience._OF_FOLLOWED_TEXT, first_event_seconds=0.3, idle_seconds=0.3)
    monkeypatch.setattr(patience, "_OF_FOLLOWED_TEXT", short)
    for model in ("silent", "stall"):
        _, done = asked(served, model)
        assert (done.code, done.envelope["profile"]) == (0, "m-scholar"), done.err
        assert served.server.times[model] == 1


def test_a_prompt_that_is_too_long_goes_to_another_model_only(served):
    (locations.user_folder() / "delegators").mkdir(parents=True, exist_ok=True)
    same = locations.user_folder() / "delegators" / "same.toml"
    same.write_text('name = "same"\nmodel_server = "scripted"\nmodel = "context"\n')
    name = served.on("context", fallback=["same"])
    done = served.run("ask", "--json", "-t", "Why?", "src", "-d", name)
    assert done.envelope["error"]["kind"] == "context_too_long"
    assert served.server.times["context"] == 1
    assert f"same is not tried: it has the same model as {name}" in done.err


def test_refused_requests_cost_nothing_so_a_limit_of_money_lets_the_next_one_answer(served):
    name = served.on("503", fallback=[served.on("scholar")], **{"limits.max_usd": "1"})
    done = served.run("ask", "--json", "-t", "Why?", "src", "-d", name)
    assert done.code == 0, done.err
    first, _ = ledger.read()
    assert (first.usage.input_tokens, first.cost_usd) == (0, None)


def test_no_server_gets_the_key_of_another_one(served, monkeypatch):
    monkeypatch.setenv("OTHER_KEY", "a-key-of-the-other-server-0123")
    (served.top / "src" / "a.py").write_text('TOKEN_OF_TESTS = ["a-key-of-the-other-server-0123"]\n')
    (locations.user_folder() / "model-servers" / "other.toml").write_text(
        f'name = "other"\nkind = "custom"\nbase_url = "{served.server.base_url}"\n'
        'api_key = { from_env = "OTHER_KEY" }\n'
    )
    first, second = served.on("503"), served.on("scholar", model_server="other")
    done = served.run("ask", "--json", "-t", "Why?", "src", "-d", first, "--fallback", second)
    assert done.envelope["profile"] == second, done.err
    prompts = [str(request.body["messages"]) for request in served.server.requests]
    assert len(prompts) == 3
    for prompt in prompts:
        assert "TOKEN_OF_TESTS" in prompt
        assert "<secret:other>" in prompt
        assert "a-key-of-the-other-server-0123" not in prompt


def test_failures_of_texts_pause_a_delegator_and_it_is_probed_with_one_request(served):
    (locations.user_folder() / "config.toml").write_text("[fallback]\noutage_pause_seconds = 3600\n")
    for _ in range(3):
        name, _ = asked(served, "503")
    before = served.server.times["503"]
    _, done = asked(served, "503")
    assert done.envelope["profile"] == "m-scholar"
    assert served.server.times["503"] == before, "it is paused"
    assert f"{name} is paused until " in done.err
    delegator = Delegator(name=name, model_server="scripted", model="503")
    server = ModelServer(name="scripted", kind="custom", base_url=served.server.base_url)
    [pause] = start_conditions.pauses(delegation_folder.state_root(), delegator, server)
    assert (pause.failure, pause.failures) == ("overload", 3)


def test_successes_between_failures_keep_an_only_delegator_from_being_paused(served):
    name = served.on("503")
    for _ in range(3):
        assert served.run("ask", "--json", "-t", "Why?", "src", "-d", name).code == 1
        served.server.answers["503"] = "Because."
        assert served.run("ask", "--json", "-t", "Why?", "src", "-d", name).code == 0
        del served.server.answers["503"]
    delegator = Delegator(name=name, model_server="scripted", model="503")
    server = ModelServer(name="scripted", kind="custom", base_url=served.server.base_url)
    assert start_conditions.pauses(delegation_folder.state_root(), delegator, server) == []


def test_agents_do_not_take_over_and_a_request_may_name_who_does(served):
    agent = locations.user_folder() / "delegators" / "agent.toml"
    agent.parent.mkdir(parents=True, exist_ok=True)
    agent.write_text('name = "agent"\ntool = "claude"\n')
    name = served.on("503", fallback=["agent", served.on("scholar")])
    done = served.run("ask", "--json", "-t", "Why?", "src", "-d", name)
    assert done.envelope["profile"] == "m-scholar", done.out
    assert f"agent does not take over from {name}: " in done.err
    refused = served.run("ask", "--json", "-t", "Why?", "src", "-d", name, "--fallback", "agent")
    assert refused.code != 0, "what a request names must be usable"
    assert served.run("ask", "--json", "-t", "Why?", "src", "-d", name, "--no-fallback").code == 1
    named = served.run("ask", "--json", "-t", "Why?", "src", "-d", name, "--fallback", "m-scholar")
    assert named.envelope["profile"] == "m-scholar"


def test_a_route_asks_its_candidates_in_order_and_leaves_out_agents(served):
    agent = locations.user_folder() / "delegators" / "agent.toml"
    agent.parent.mkdir(parents=True, exist_ok=True)
    agent.write_text('name = "agent"\ntool = "claude"\n')
    first, second = served.on("503", tags=["cheap"]), served.on("scholar", tags=["cheap"])
    served.run("routes", "add", "cheap", "agent", "tag=cheap")
    done = served.run("ask", "--json", "-t", "Why?", "src", "-d", "cheap")
    assert (done.code, done.envelope["profile"]) == (0, second), done.err
    assert f"{first} failed: " in done.err
    preview = served.run("ask", "-t", "Why?", "src", "-d", "cheap", "--preview").out
    assert preview.startswith(f"To {first}: it was chosen for this run; route cheap: candidate 2")
    assert "not agent: it runs an agent, and this is one request to a model server" in preview
