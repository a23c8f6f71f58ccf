"""Kinds of model servers, the default address of each, and which of them run on this machine."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import msgspec

from understudy.config import locality

CONNECT_SECONDS = 0.2
"""A loopback connection is accepted or refused within a millisecond."""
ANSWER_SECONDS = 2.0
"""Listing models reads a folder; a server that is loading a model may need a moment."""
TOTAL_SECONDS = 4.0
"""A server that sends its answer slowly is given up after this."""
MAX_ANSWER_BYTES = 512 * 1024
MAX_MODELS = 500


class ServerKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of model server."""

    kind: str
    """The value of ``kind`` in a model server."""
    title: str
    base_url: str = ""
    """Its default address; empty: there is none."""
    protocols: tuple[str, ...] = ("openai",)
    """The first is the preferred one. Only what the server's documentation names for this address."""
    local: bool = False
    """Whether it usually runs on the user's own machine."""
    needs_key: bool = False
    key_variable: str | None = None
    """The environment variable in which its documentation expects the key."""
    key_url: str | None = None
    """The page on which its users create keys."""


_ALL = ("openai", "anthropic", "responses")


def _on_this_machine(kind: str, title: str, port: int, key_variable: str | None = None) -> ServerKind:
    url = f"http://127.0.0.1:{port}/v1"
    return ServerKind(kind=kind, title=title, base_url=url, protocols=_ALL, local=True, key_variable=key_variable)


def _hosted(
    kind: str, title: str, base_url: str, protocols: tuple[str, ...], *, key_variable: str, key_url: str
) -> ServerKind:
    return ServerKind(
        kind=kind,
        title=title,
        base_url=base_url,
        protocols=protocols,
        needs_key=True,
        key_variable=key_variable,
        key_url=key_url,
    )


KINDS: Mapping[str, ServerKind] = {
    one.kind: one
    for one in (
        _on_this_machine("ollama", "Ollama", 11434),
        _on_this_machine("lmstudio", "LM Studio", 1234),
        _on_this_machine("llamacpp", "llama.cpp server", 8080),
        _on_this_machine("vllm", "vLLM", 8000),
        # A proxy: its models may run anywhere, and it asks for a key only where one is configured.
        _on_this_machine("litellm", "LiteLLM proxy", 4000, "LITELLM_API_KEY"),
        _hosted(
            "openrouter",
            "OpenRouter",
            "https://openrouter.ai/api/v1",
            _ALL,
            key_variable="OPENROUTER_API_KEY",
            key_url="https://openrouter.ai/keys",
        ),
        _hosted(
            "groq",
            "Groq",
            "https://api.groq.com/openai/v1",
            ("openai", "responses"),
            key_variable="GROQ_API_KEY",
            key_url="https://console.groq.com/keys",
        ),
        _hosted(
            "cerebras",
            "Cerebras",
            "https://api.cerebras.ai/v1",
            ("openai",),
            key_variable="CEREBRAS_API_KEY",
            key_url="https://cloud.cerebras.ai",
        ),
        _hosted(
            "together",
            "Together AI",
            "https://api.together.ai/v1",
            ("openai",),
            key_variable="TOGETHER_API_KEY",
            key_url="https://api.together.ai/settings/api-keys",
        ),
        _hosted(
            "fireworks",
            "Fireworks AI",
            "https://api.fireworks.ai/inference/v1",
            _ALL,
            key_variable="FIREWORKS_API_KEY",
            key_url="https://app.fireworks.ai/settings/users/api-keys",
        ),
        _hosted(
            "hyperbolic",
            "Hyperbolic",
            "https://api.hyperbolic.xyz/v1",
            ("openai",),
            key_variable="HYPERBOLIC_API_KEY",
            key_url="https://app.hyperbolic.ai/settings",
        ),
        _hosted(
            "deepseek",
            "DeepSeek",
            "https://api.deepseek.com/v1",
            ("openai",),  # Anthropic's is at another address: https://api.deepseek.com/anthropic
            key_variable="DEEPSEEK_API_KEY",
            key_url="https://platform.deepseek.com/api_keys",
        ),
        _hosted(
            "openai",
            "OpenAI",
            "https://api.openai.com/v1",
            ("openai", "responses"),
            key_variable="OPENAI_API_KEY",
            key_url="https://platform.openai.com/api-keys",
        ),
        _hosted(
            "anthropic",
            "Anthropic",
            "https://api.anthropic.com/v1",
            ("anthropic",),
            key_variable="ANTHROPIC_API_KEY",
            key_url="https://platform.claude.com/settings/keys",
        ),
        _hosted(
            "google",
            "Google Gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            ("openai",),
            key_variable="GEMINI_API_KEY",
            key_url="https://aistudio.google.com/apikey",
        ),
        ServerKind(kind="custom", title="Another server"),
    )
}
"""Every kind, in the order in which frontends list them."""


def running(kinds: Iterable[ServerKind] = tuple(KINDS.values())) -> Mapping[str, list[str]]:
    """Return the kinds whose default address on this machine answers now, with the models that each lists.

    Takes at most a few seconds.
    """
    from concurrent.futures import ThreadPoolExecutor

    local = [kind for kind in kinds if urlsplit(kind.base_url).hostname in locality.LOOPBACK]
    with ThreadPoolExecutor(max_workers=max(1, len(local)), thread_name_prefix="understudy-server") as pool:
        answers = pool.map(lambda kind: _models(kind.base_url), local)
        return {kind.kind: models for kind, models in zip(local, answers, strict=True) if models is not None}


def _models(base_url: str) -> list[str] | None:
    """Return the models that the server at a loopback address lists, ``None`` when there is no model server."""
    parts = urlsplit(base_url)
    import http.client  # here, because most requests need only the presets

    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 80, timeout=CONNECT_SECONDS)
    watch: threading.Timer | None = None
    try:
        connection.connect()
        connection.sock.settimeout(ANSWER_SECONDS)
        watch = threading.Timer(TOTAL_SECONDS, _hang_up, [connection.sock])
        watch.daemon = True
        watch.start()
        connection.request("GET", f"{parts.path.rstrip('/')}/models", headers={"Accept": "application/json"})
        response = connection.getresponse()
        body = response.read(MAX_ANSWER_BYTES) if response.status == http.HTTPStatus.OK else b""
        listed = json.loads(body)["data"]
        return [item["id"] for item in listed if isinstance(item["id"], str)][:MAX_MODELS]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError):
        return None
    finally:
        if watch is not None:
            watch.cancel()
        connection.close()


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
