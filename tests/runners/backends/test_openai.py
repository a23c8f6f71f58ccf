"""Test the HTTP backend on the scripted model server: every ending has its error kind, in time and within bounds."""

import asyncio
import threading
import time
import tracemalloc
from datetime import datetime
from pathlib import Path

import agent_model_server as scripted
import pytest
from msgspec import structs
from wait_until import until

from understudy.model.config.delegators import AppliesTo, Delegator, Limits, ModelServer, Price, Recipe, Scope
from understudy.model.delegation.events import Event, File, Note, Text, Thinking, UsageReport
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.driver.source import THREAD
from understudy.runners.model_loop.loop_runner import Runner
from understudy.runners.runner import Outcome, Task

UNCOUNTED = {"no_usage", "mad_usage", "no_done", "done_only", "no_stream_options"}
KEY = "sk-test-SECRET/SECRET+SECRET1234567"
PATIENT = Limits(total_seconds=60, idle_seconds=60, first_event_seconds=60)
"""For servers that end by themselves: on a busy machine, each answer may take seconds."""


@pytest.fixture(scope="module")
def server():
    with scripted.ModelServer(
        answers={"fenced": "```python\nx = 1\n```\n", "open fence": "```python\nx = 1\n"}
    ) as running:
        yield running


def a_recipe(name="ask", returns="text") -> Recipe:
    return Recipe(name=name, title=name, returns=returns, applies_to=AppliesTo(on=["file"]), scope=Scope.BUILTIN)


def a_task(server, model: str, tmp_path: Path, **more) -> Task:
    limits = more.pop("limits", PATIENT)
    entry = more.pop("model_server", None) or ModelServer(name="scripted", kind="custom", base_url=server.base_url)
    values = {
        "delegation_id": "d1",
        "recipe": a_recipe(),
        "prompt": "What is this?",
        "prompt_file": tmp_path / "prompt.md",
        "worktree": None,
        "delegator": Delegator(name="cheap", model=model, model_server="scripted"),
        "model_server": entry,
        "limits": limits,
        "key": lambda: KEY,
    }
    return Task(**(values | more))


async def ask(task: Task, backoff: float = 0.01) -> tuple[Outcome | UnderstudyError, list[Event]]:
    events: list[Event] = []
    runner = Runner(backoff_seconds=backoff)
    try:
        return await runner.run(task, events.append), events
    except UnderstudyError as error:
        return error, events


def texts(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


@pytest.mark.parametrize(
    "model",
    [
        *("good", "no_done", "done_only", "not_streamed", "odd_chunks", "crlf", "bom", "split", "slow_headers"),
        *("usage_on_finish", "usage_on_delta", "no_usage", "mad_usage", "reasoning", "thinking", "no_stream_options"),
        *("zero_events", "error_first", "429_once", "429_ms", "429_proxy", "500_once", "refuse_once"),
    ],
)
async def test_answers_arrive_whole(server, tmp_path, model):
    server.times.clear()
    outcome, events = await ask(a_task(server, model, tmp_path))
    assert isinstance(outcome, Outcome), outcome
    assert outcome.text == scripted.TEXT
    assert texts(events) == scripted.TEXT
    retried = [event for event in events if isinstance(event, Note)]
    assert len(retried) == (
        1
        if model in {"zero_events", "error_first", "429_once", "429_ms", "429_proxy", "500_once", "refuse_once"}
        else 0
    )
    report = [event for event in events if isinstance(event, UsageReport)][-1]
    assert outcome.estimated == report.estimated == (model in UNCOUNTED)
    if not outcome.estimated:
        assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (12, 9)
        assert (outcome.usage.cache_read_tokens, outcome.usage.reasoning_tokens, outcome.usage.turns) == (4, 3, 1)
    else:
        assert 0 < outcome.usage.output_tokens < 100
    thoughts = "".join(event.text for event in events if isinstance(event, Thinking))
    assert thoughts == ("Let me think." if model in {"reasoning", "thinking"} else "")


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("cut", "stream_truncated"),
        ("cut_json", "stream_truncated"),
        ("cut_clean", "stream_truncated"),
        ("reset", "stream_truncated"),
        ("zero_forever", "stream_truncated"),
        ("stall", "stalled"),
        ("comments", "stalled"),
        ("slow_loris", "stalled"),
        ("silent", "stalled"),
        ("silent_comments", "stalled"),
        ("error_midstream", "overloaded"),
        ("error_200", "overloaded"),
        ("empty", "empty_output"),
        ("length", "output_truncated"),
        ("content_filter", "content_refused"),
        ("refusal", "content_refused"),
        ("tool_call", "malformed_output"),
        ("401", "auth_failed"),
        ("403", "auth_failed"),
        ("404", "bad_request"),
        ("400", "bad_request"),
        ("422", "bad_request"),
        ("408", "timed_out"),
        ("409", "overloaded"),
        ("413", "context_too_long"),
        ("500", "overloaded"),
        ("500_text", "overloaded"),
        ("503", "overloaded"),
        ("529", "overloaded"),
        ("429", "rate_limited"),
        ("429_no_retry", "rate_limited"),
        ("429_long", "rate_limited"),
        ("quota", "quota_exhausted"),
        ("context", "context_too_long"),
        ("model_404", "model_not_found"),
        ("unknown-model", "model_not_found"),
        ("html", "malformed_output"),
        ("redirect", "connection_failed"),
        ("gzip", "malformed_output"),
        ("endless_line", "malformed_output"),
        ("endless_events", "malformed_output"),
        ("endless_thinking", "malformed_output"),
        ("huge_header", "malformed_output"),
        ("bad_utf8", "malformed_output"),
        ("bad_json", "malformed_output"),
        ("deep_json", "malformed_output"),
    ],
)
async def test_every_fault_is_its_own_kind(server, tmp_path, model, kind):
    server.times.clear()
    limits = PATIENT
    if model in {"stall", "comments"}:
        limits = structs.replace(limits, idle_seconds=0.4)
    elif model in {"slow_loris", "silent", "silent_comments"}:
        limits = structs.replace(limits, first_event_seconds=1)
    error, _ = await ask(a_task(server, model, tmp_path, limits=limits))
    assert isinstance(error, UnderstudyError), error
    assert error.kind == kind
    assert "SECRET" not in f"{error.message} {error.hint}"
    assert len(error.message) < 600
    retried = {"zero_forever", "408", "409", "429", "500", "500_text", "503", "529"}
    broken = {"cut", "cut_json", "cut_clean", "reset", "bad_json", "deep_json"} | {
        "endless_events",
        "endless_thinking",
    }
    expected = 3 if model in retried else 2 if model in broken else 1
    # The server may count a request after the client gave it up.
    await asyncio.to_thread(until, lambda: server.times[model] >= expected)
    assert server.times[model] == expected


async def test_a_total_limit_ends_pauses_and_streams_alike(server, tmp_path):
    for model in ("slow_loris", "slow", "500"):
        limits = Limits(total_seconds=0.3, first_event_seconds=30, idle_seconds=30)
        error, _ = await ask(a_task(server, model, tmp_path, limits=limits), backoff=30.0)
        assert isinstance(error, UnderstudyError)
        assert (error.kind, "total_seconds" in error.message) == (ErrorKind.TIMED_OUT, True)


async def test_what_follows_the_end_is_not_waited_for_long(server, tmp_path, monkeypatch):
    monkeypatch.setattr("understudy.runners.backends.exchange.AFTER_END_SECONDS", 0.2)
    outcome, _ = await ask(a_task(server, "hang_after_finish", tmp_path))
    assert isinstance(outcome, Outcome)  # waiting for the rest would reach a limit


async def test_an_endless_line_takes_no_memory(server, tmp_path):
    tracemalloc.start()
    try:
        error, _ = await ask(a_task(server, "endless_line", tmp_path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(error, UnderstudyError)
    assert peak < 12 << 20


async def test_a_healthy_stream_beside_hostile_ones(server, tmp_path):
    before = len(server.requests)
    hostile = [
        asyncio.create_task(ask(a_task(server, model, tmp_path)))
        for model in ["endless_events", "slow_loris", "comments", "endless_thinking"] * 3
    ]
    await asyncio.to_thread(until, lambda: len(server.requests) >= before + len(hostile), "all were asked")
    outcome, _ = await ask(a_task(server, "good", tmp_path))
    assert isinstance(outcome, Outcome), outcome
    assert not all(task.done() for task in hostile)
    for task in hostile:
        task.cancel()
    await asyncio.gather(*hostile, return_exceptions=True)


@pytest.mark.parametrize("model", ["stall", "silent"])
async def test_cancelling_closes_the_connection(server, tmp_path, model):
    task = asyncio.create_task(ask(a_task(server, model, tmp_path, limits=Limits())))
    seen = len(server.requests)
    while len(server.requests) == seen:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(until, lambda: not any(one.name == THREAD for one in threading.enumerate()))


async def test_the_key_is_in_the_header_and_nowhere_else(server, tmp_path):
    del server.requests[:]
    outcome, events = await ask(a_task(server, "echo_key", tmp_path))
    request = server.requests[-1]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in str(request.body) + request.path
    assert request.headers["accept-encoding"] == "identity"
    assert isinstance(outcome, Outcome)
    assert "SECRET" not in f"{outcome} {texts(events)}"
    assert "secret:" in texts(events)


async def test_limits_on_tokens_and_money(server, tmp_path):
    for limits, kind in (
        (Limits(max_output_tokens=5), "budget_exhausted"),
        (Limits(max_tokens=20), "budget_exhausted"),
        (Limits(max_tokens=10_000, max_output_tokens=100), None),
    ):
        outcome, _ = await ask(a_task(server, "good", tmp_path, limits=limits))
        assert (outcome.kind if isinstance(outcome, UnderstudyError) else None) == kind
    assert server.requests[-1].body["max_tokens"] == 100
    error, _ = await ask(a_task(server, "endless_events", tmp_path, limits=Limits(max_tokens=50_000)))
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.BUDGET_EXHAUSTED
    _, events = await ask(a_task(server, "good", tmp_path, limits=Limits(max_usd="1.00")))
    assert any("max_usd" in event.text for event in events if isinstance(event, Note))


async def test_local_means_this_machine(server, tmp_path, monkeypatch):
    local = Delegator(name="home", model="good", model_server="s", locality="local")
    for url in (
        "http://192.0.2.7:9/v1",
        "http://example.invalid/v1",
        "http://0.0.0.0:1/v1",
        "http://169.254.169.254/v1",
    ):
        entry = ModelServer(name="s", kind="custom", base_url=url)
        error, _ = await ask(a_task(server, "good", tmp_path, delegator=local, model_server=entry))
        assert isinstance(error, UnderstudyError)
        assert error.kind in {ErrorKind.SECRET_WITHHELD, ErrorKind.CONNECTION_FAILED}
    # A proxy from the environment would be another host.
    monkeypatch.setenv("http_proxy", "http://192.0.2.7:9")
    monkeypatch.setenv("HTTP_PROXY", "http://192.0.2.7:9")
    for host in ("127.0.0.1", "localhost"):
        entry = ModelServer(name="s", kind="custom", base_url=f"http://{host}:{server.port}/v1", locality="local")
        outcome, _ = await ask(a_task(server, "good", tmp_path, delegator=local, model_server=entry))
        assert isinstance(outcome, Outcome), outcome
    assert server.requests[-1].headers["host"] == f"localhost:{server.port}"


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/v1", "127.0.0.1", "http://user:pw@127.0.0.1/v1", "http://", "http://[::1/v1"]
)
async def test_unusable_addresses_are_refused(server, tmp_path, url):
    error, _ = await ask(
        a_task(server, "good", tmp_path, model_server=ModelServer(name="s", kind="custom", base_url=url))
    )
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.CONFIG_INVALID
    assert "pw" not in error.message


async def test_a_key_that_is_no_key_is_not_shown(server, tmp_path):
    error, _ = await ask(a_task(server, "good", tmp_path, key=lambda: "sk-test\nX-Injected: SECRET"))
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.AUTH_FAILED
    assert "SECRET" not in error.message


async def test_nobody_listens(server, tmp_path):
    entry = ModelServer(name="s", kind="custom", base_url="http://127.0.0.1:9/v1")
    error, events = await ask(a_task(server, "good", tmp_path, model_server=entry))
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.CONNECTION_FAILED
    assert sum(isinstance(event, Note) for event in events) == 2
    assert not any(isinstance(event, UsageReport) for event in events), "nothing was sent"


@pytest.mark.parametrize(("model", "counted"), [("401", False), ("context", False), ("500", False), ("cut", True)])
async def test_tokens_are_estimated_only_if_a_model_may_have_read_them(server, tmp_path, model, counted):
    _, events = await ask(a_task(server, model, tmp_path))
    assert any(isinstance(event, UsageReport) for event in events) == counted


async def test_a_file_recipe_writes_its_target(server, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    task = a_task(server, "fenced", tmp_path, recipe=a_recipe("write", "file"), worktree=tree, target="src/x.py")
    outcome, events = await ask(task)
    assert isinstance(outcome, Outcome), outcome
    assert outcome.text == "x = 1\n"
    assert (tree / "src/x.py").read_text() == "x = 1\n"
    assert [event.path for event in events if isinstance(event, File)] == ["src/x.py"]
    system = server.requests[-1].body["messages"][0]
    assert system["role"] == "system"
    assert "src/x.py" in system["content"]
    error, _ = await ask(
        structs.replace(task, delegator=Delegator(name="c", model="open fence", model_server="s"), target="y.py")
    )
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.MALFORMED_OUTPUT
    assert not (tree / "y.py").exists()
    (tree / "out").symlink_to(tmp_path)
    error, _ = await ask(structs.replace(task, target="out/evil.py"))
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.PATH_ESCAPE
    assert not (tmp_path / "evil.py").exists()


async def test_nothing_is_sent_that_was_not_asked_for(server, tmp_path):
    delegator = Delegator(name="c", model="good", model_server="s", model_properties={"temperature": 0})
    await ask(a_task(server, "good", tmp_path, delegator=delegator))
    body = server.requests[-1].body
    assert set(body) == {"model", "messages", "stream", "stream_options", "temperature"}
    assert body["messages"] == [{"role": "user", "content": "What is this?"}]


async def test_a_failure_says_when_to_retry_and_what_it_affects(server, tmp_path):
    before = time.time()
    error, _ = await ask(a_task(server, "429_long", tmp_path))
    assert isinstance(error, UnderstudyError)
    assert error.scope == "account"
    assert datetime.fromisoformat(error.retry_at or "").timestamp() >= before + 120
    info = error.info()
    assert (info.retry_at, info.scope) == (error.retry_at, error.scope)


async def test_the_cost_and_its_source_are_reported_with_the_usage(server, tmp_path):
    for more, cost, source in (
        ({}, None, "unknown"),
        ({"locality": "local"}, "0", "local"),
        ({"prices": {"go": Price(input="0", output="1000000")}}, None, "configured"),
    ):
        entry = ModelServer(name="scripted", kind="custom", base_url=server.base_url, **more)
        outcome, events = await ask(a_task(server, "good", tmp_path, model_server=entry))
        assert isinstance(outcome, Outcome)
        report = [event for event in events if isinstance(event, UsageReport)][-1]
        assert report.cost_source == source
        expected = str(report.output_tokens) if source == "configured" else cost
        assert report.cost_usd == outcome.cost_usd == expected
