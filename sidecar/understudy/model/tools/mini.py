"""mini-swe-agent."""

from __future__ import annotations

from understudy.model.capabilities import COMMON_FIELDS, TIME_LIMITS, USAGE_LIMITS, Capabilities, Install

CAPABILITIES = Capabilities(
    name="mini",
    title="mini-swe-agent",
    runner="understudy.runners.agent_clis.in_python.mini:Runner",
    binaries=("mini",),
    install=Install(
        about="A small open-source agent that works with shell commands only.",
        command="python3 -m pip install mini-swe-agent mcp",
        login="Choose a model and save its API key.",
        login_command="mini-extra config setup",
        url="https://mini-swe-agent.com/latest/quickstart/",
    ),
    # It has no version option, but its help contains its name.
    version_arguments=("--help",),
    own_output=r"(?i)mini-swe-agent|mini_swe_agent",
    oldest_version="2.4.6",
    launch=COMMON_FIELDS,
    limits=TIME_LIMITS | USAGE_LIMITS,
    properties=True,
    protocols=("openai",),
    server_needs_model=True,
    sessions=True,
)
