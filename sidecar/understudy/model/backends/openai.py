"""Our own loop on a model server."""

from __future__ import annotations

from understudy.model.capabilities import PROMPT_FIELDS, TIME_LIMITS, USAGE_LIMITS, Capabilities

CAPABILITIES = Capabilities(
    name="openai",
    title="Model server",
    runner="understudy.runners.model_loop.loop_runner:Runner",
    launch={**PROMPT_FIELDS, "relay": ()},
    limits=TIME_LIMITS | USAGE_LIMITS,
    properties=True,
    protocols=("openai", "anthropic", "responses"),
    needs_model_server=True,
    process_in_worktree=False,
    inline_files=True,
    sessions=True,
    messages="during_turn",
)
