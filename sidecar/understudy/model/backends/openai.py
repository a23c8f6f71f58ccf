"""Our own loop on a server with OpenAI's chat completions."""

from __future__ import annotations

from understudy.model.capabilities import PROMPT_FIELDS, TIME_LIMITS, USAGE_LIMITS, Capabilities

CAPABILITIES = Capabilities(
    name="openai",
    title="Chat completions",
    runner="understudy.runners.backends.openai:Runner",
    launch=PROMPT_FIELDS,
    limits=(TIME_LIMITS | USAGE_LIMITS) - {"max_turns"},
    properties=True,
    protocols=("openai",),
    needs_model_server=True,
    tree_recipes=frozenset({"tests"}),
    process_in_worktree=False,
    inline_files=True,
)
