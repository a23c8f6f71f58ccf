"""The built-in agent that writes tests without a model."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities

CAPABILITIES = Capabilities(
    name="ghostwriter",
    title="Ghostwriter",
    description="Built in. Records what Python code does as tests, without a model.",
    built_in=True,
    takes_model=False,
    runner="understudy.runners.agent_clis.ghostwriter:Runner",
    returns=frozenset({"tree"}),
    only_new_tests=True,
    messages="never",
)
