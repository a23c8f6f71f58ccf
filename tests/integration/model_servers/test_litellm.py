"""Ask and work through LiteLLM's proxy, which translates between the dialects, in front of the scripted model server."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest
from agent_model_server import TEXT, ModelServer
from cached_installs import once, python_environment

from understudy.model.config.delegators import Limits
from understudy.model.delegation.events import Event, File, Text

pytestmark = pytest.mark.heavy

LOCKED = Path(__file__).parent / "requirements-litellm.txt"
KEY = "sk-test-SECRET1234567"
START_SECONDS = 180
PROTOCOLS = ("openai", "anthropic", "responses")
CHAT = {"openai": "chat", "anthropic": "chat", "responses": "bridged"}
"""The route that asks the upstream for chat completions, whatever was asked for."""
ROUTES = [*CHAT.items(), *((protocol, "claude") for protocol in PROTOCOLS)]
FIXED = "def add(a, b):\n    return a + b\n"
EDIT = {
    "calls": [{"name": "edit_file", "arguments": {"path": "calc.py", "old_string": "a - b", "new_string": "a + b"}}]
}
FIXER = [{"calls": [{"name": "read_file", "arguments": {"path": "calc.py"}}]}, EDIT, {"text": "Done."}]
ANSWERS = {"fixer": {"loop": FIXER}} | {
    f"late_{name}": {"loop": [EDIT, {"scenario": name}]} for name in ("cut", "stall", "error_midstream")
}


class LiteLLM:
    """A running proxy, and the scripted server behind it."""

    def __init__(self, process: psutil.Popen, port: int, upstream: ModelServer) -> None:
        self.process, self.upstream = process, upstream
        self.base_url = f"http://127.0.0.1:{port}/v1"


def configuration(upstream: ModelServer, dead: int) -> str:
    """Return the proxy's configuration; JSON is YAML, too."""
    top = f"http://127.0.0.1:{upstream.port}"
    routes = {
        "chat/*": {"model": "hosted_vllm/*", "api_base": f"{top}/v1"},
        "bridged/*": {"model": "deepseek/*", "api_base": f"{top}/v1"},
        "claude/*": {"model": "anthropic/*", "api_base": top},
        "dead": {"model": "hosted_vllm/dead", "api_base": f"http://127.0.0.1:{dead}/v1"},
    }
    models = [
        {"model_name": name, "litellm_params": {**route, "api_key": "sk-upstream"}} for name, route in routes.items()
    ]
    return json.dumps(
        {
            "model_list": models,
            "litellm_settings": {"num_retries": 0, "telemetry": False},
            "general_settings": {"master_key": KEY, "sse_keepalive_ping_interval_seconds": 0.5},
            "router_settings": {"num_retries": 0, "disable_cooldowns": True},
        }
    )


@pytest.fixture(scope="module")
def environment() -> Path:
    found = once("litellm", LOCKED.read_bytes(), lambda folder: python_environment(folder, LOCKED))
    if isinstance(found, str):
        pytest.skip(f"LiteLLM cannot be installed: {found}")
    return found / "environment"


@pytest.fixture(scope="module")
def running(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiteLLM]:
    folder = tmp_path_factory.mktemp("litellm")
    with (
        ModelServer(answers=ANSWERS) as upstream,
        # The proxy takes over a socket that listens already: a request waits until it serves.
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.socket() as dead,
        (folder / "log").open("wb") as log,
    ):
        dead.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        (folder / "config.yaml").write_text(configuration(upstream, dead.getsockname()[1]))
        process = psutil.Popen(
            [str(environment / "bin/python"), "-m", "uvicorn", "litellm.proxy.proxy_server:app", "--fd",
             str(listening.fileno())],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "CONFIG_FILE_PATH": str(folder / "config.yaml"),
                 "LITELLM_LOCAL_MODEL_COST_MAP": "True"},  # else it asks for prices in the network
            pass_fds=(listening.fileno(),),
            stdout=log,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            with urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=START_SECONDS) as answer:
                assert answer.status == 200
            yield LiteLLM(process, port, upstream)
        finally:
            process.kill()  # ending it gently waits for answers that never end
            process.wait(20)


@pytest.fixture
def litellm(running: LiteLLM) -> LiteLLM:
    running.upstream.times.clear()
    running.upstream.requests.clear()
    return running


@pytest.mark.parametrize(("protocol", "route"), ROUTES)
def test_an_answer_arrives_whole_with_its_usage(litellm, person, protocol, route):
    asked = person.ask(litellm.base_url, f"{route}/good", protocol)
    assert (asked.kind, asked.envelope.get("content")) == ("answered", TEXT), asked.envelope
    assert asked.entry.usage.input_tokens > 0
    assert asked.entry.usage.output_tokens > 0


@pytest.mark.parametrize(("protocol", "route"), ROUTES)
def test_tools_are_called_until_the_file_is_right(litellm, person, protocol, route):
    worked = person.work(litellm.base_url, f"{route}/fixer", protocol)
    assert (worked.kind, worked.source) == ("finished", FIXED), worked.end
    assert (worked.end.usage.turns, worked.end.usage.tool_calls) == (3, 2)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("CHAT/401", "auth_failed"),
        ("CHAT/429", "rate_limited"),
        ("CHAT/500", "overloaded"),
        ("CHAT/context", "context_too_long"),
        ("CHAT/model_404", "model_not_found"),
        ("dead", "overloaded"),
        ("nothing-of-the-kind", "model_not_found"),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_fault_is_its_own_kind(litellm, person, protocol, model, kind):
    asked = person.ask(litellm.base_url, model.replace("CHAT", CHAT[protocol]), protocol)
    assert asked.kind == kind, asked.envelope["error"]["message"]
    assert asked.envelope["error"]["hint"]


@pytest.mark.parametrize("model", ["cut", "error_midstream"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_that_its_upstream_cut_is_not_an_answer(litellm, person, protocol, model):
    worked = person.work(litellm.base_url, f"{CHAT[protocol]}/late_{model}", protocol)
    assert worked.kind in {"stream_truncated", "overloaded", "connection_failed"}, worked.end
    assert worked.source == FIXED, "what was done before is kept, byte for byte"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_signs_of_life_of_the_proxy_are_not_progress(litellm, person, protocol):
    limits = Limits(total_seconds=60, idle_seconds=3, first_event_seconds=3)
    worked = person.work(litellm.base_url, f"{CHAT[protocol]}/silent", protocol, limits=limits)
    assert worked.kind in {"stalled", "timed_out"}, worked.end
    assert not worked.of(Text)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_wrong_key_is_refused(litellm, person, protocol, monkeypatch):
    monkeypatch.setenv("UNDERSTUDY_TEST_KEY", "sk-test-OTHER7654321")
    assert person.ask(litellm.base_url, f"{CHAT[protocol]}/good", protocol).kind == "auth_failed"
    assert litellm.upstream.requests == []


def test_a_proxy_killed_in_the_middle_truncates(litellm, person):
    edited: list[Event] = []

    def kill(event: Event) -> None:
        if isinstance(event, File):
            edited.append(event)
        elif isinstance(event, Text) and edited:
            litellm.process.kill()

    worked = person.work(litellm.base_url, "chat/late_stall", watch=kill)
    assert (worked.kind, worked.source) == ("stream_truncated", FIXED), worked.end
