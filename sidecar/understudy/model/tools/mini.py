"""mini-swe-agent: known, driven by a ready-made definition only."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, Install

CAPABILITIES = Capabilities(
    name="mini",
    title="mini-swe-agent",
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
    command=("mini", "--yolo", "--exit-immediately", "--task", "{prompt}"),
)
