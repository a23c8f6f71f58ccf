"""Test our own loop on servers with Anthropic's Messages and OpenAI's Responses, as the scripted server speaks them."""

from __future__ import annotations

import agent_model_server as scripted
import pytest

from understudy.model.config.delegators import AppliesTo, Delegator, Limits, ModelServer, Recipe, Scope
from understudy.model.delegation.events import Text, Thinking, UsageReport
from understudy.model.errors import UnderstudyError
from understudy.runners.backends.server_test import probe
from understudy.runners.model_loop.loop_runner import Runner
from understudy.runners.runner import Task

KEY = "sk-test-0123456789"
PROTOCOLS = ["anthropic", "responses"]


@pytest.fixture(scope="module")
def server():
    with scripted.ModelServer() as running:
        yield running


def declared(server, scenario: str, protocol: str) -> ModelServer:
    base = f"{server.base_url.removesuffix('/v1')}/s/{scenario}/v1"
    return ModelServer(name="scripted", kind="custom", base_url=base, protocols=[protocol])


async def ask(server, tmp_path, scenario: str, protocol: str, **more):
    task = Task(
        delegation_id="d1",
        recipe=Recipe(name="ask", title="Ask", returns="text", applies_to=AppliesTo(on=["file"]), scope=Scope.BUILTIN),
        prompt="What is this?",
        prompt_file=tmp_path / "prompt.md",
        worktree=None,
        delegator=Delegator(name="cheap", model="scripted", model_server="scripted"),
        model_server=declared(server, scenario, protocol),
        limits=Limits(total_seconds=60, idle_seconds=60, first_event_seconds=60, **more),
        key=lambda: KEY,
    )
    events = []
    try:
        return await Runner(backoff_seconds=0.01).run(task, events.append), events
    except UnderstudyError as error:
        return error, events


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_answer_arrives_whole_with_its_usage(server, tmp_path, protocol):
    outcome, events = await ask(server, tmp_path, "good", protocol, max_output_tokens=300)
    assert outcome.text == scripted.TEXT
    assert "".join(one.text for one in events if isinstance(one, Text)) == scripted.TEXT
    [usage] = [one for one in events if isinstance(one, UsageReport)]
    assert not usage.estimated
    assert usage.cache_read_tokens == 200
    assert usage.input_tokens == {"anthropic": 1300, "responses": 1200}[protocol]
    request = server.requests[-1]
    assert request.body["max_tokens" if protocol == "anthropic" else "max_output_tokens"] == 300
    assert KEY in request.headers["x-api-key" if protocol == "anthropic" else "authorization"]
    assert ("store" in request.body) == (protocol == "responses"), "it is asked not to keep the conversation"


async def test_thoughts_are_events_of_their_own(server, tmp_path):
    outcome, events = await ask(server, tmp_path, "reasoning", "anthropic")
    assert "".join(one.text for one in events if isinstance(one, Thinking)) == "Let me think."
    assert outcome.text == scripted.TEXT


@pytest.mark.parametrize(
    ("scenario", "kind"),
    [("401", "auth_failed"), ("429", "rate_limited"), ("500", "overloaded"), ("529", "overloaded"),
     ("context", "context_too_long"), ("404", "model_not_found"), ("empty", "empty_output"),
     ("cut", "stream_truncated")],
)  # fmt: skip
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_every_fault_is_its_own_kind(server, tmp_path, scenario, kind, protocol):
    error, _ = await ask(server, tmp_path, scenario, protocol)
    assert isinstance(error, UnderstudyError), error
    assert error.kind == kind, error.message
    assert error.hint
    assert KEY not in error.message


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_connection_test_asks_in_the_words_of_the_protocol(server, protocol):
    found = probe(declared(server, "good", protocol), model="scripted", key=lambda: KEY, round_trip=True)
    trip = next(step for step in found.steps if step.name == "round_trip")
    assert trip.ok, found
