"""Kinds of model servers, and the default address of each."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class ServerKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of model server."""

    kind: str
    """The value of ``kind`` in a model server."""
    title: str
    base_url: str = ""
    """Its default address; empty: there is none."""
    protocol: str = "openai"
    needs_key: bool = False
    key_url: str | None = None
    """The page on which its users create keys."""


KINDS: Mapping[str, ServerKind] = {
    one.kind: one
    for one in (
        ServerKind(kind="ollama", title="Ollama", base_url="http://127.0.0.1:11434/v1"),
        ServerKind(kind="lmstudio", title="LM Studio", base_url="http://127.0.0.1:1234/v1"),
        ServerKind(kind="llamacpp", title="llama.cpp server", base_url="http://127.0.0.1:8080/v1"),
        ServerKind(kind="vllm", title="vLLM", base_url="http://127.0.0.1:8000/v1"),
        ServerKind(
            kind="openrouter",
            title="OpenRouter",
            base_url="https://openrouter.ai/api/v1",
            needs_key=True,
            key_url="https://openrouter.ai/keys",
        ),
        ServerKind(
            kind="deepseek",
            title="DeepSeek",
            base_url="https://api.deepseek.com/v1",
            needs_key=True,
            key_url="https://platform.deepseek.com/api_keys",
        ),
        ServerKind(
            kind="openai",
            title="OpenAI",
            base_url="https://api.openai.com/v1",
            needs_key=True,
            key_url="https://platform.openai.com/api-keys",
        ),
        ServerKind(kind="custom", title="Another server"),
    )
}
"""Every kind, in the order in which frontends list them."""
