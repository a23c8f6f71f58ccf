"""pi."""

from __future__ import annotations

from understudy.model.capabilities import (
    COMMON_FIELDS,
    TIME_LIMITS,
    USAGE_LIMITS,
    Capabilities,
    Install,
    OptionValue,
    RepositoryPath,
)

CAPABILITIES = Capabilities(
    name="pi",
    title="pi",
    runner="understudy.runners.agent_clis.pi:Runner",
    binaries=("pi",),
    install=Install(
        about="A small open-source agent CLI for models of many providers.",
        command="npm install -g --ignore-scripts @earendil-works/pi-coding-agent",
        login="Start it once and enter /login.",
        login_command="pi",
        url="https://github.com/earendil-works/pi",
    ),
    own_output=r"^\s*v?\d+\.\d+\.\d+",
    oldest_version="0.73.1",
    launch={
        "permission_mode": (
            OptionValue(
                value="all-tools",
                title="Allow everything",
                unrestricted=True,
                description="Does everything without asking: pi has no permissions.",
            ),
            OptionValue(
                value="read-only",
                title="Read only",
                description="Gets only the tools that read, find and list files.",
            ),
        ),
        "yolo": (),
        "flags": (),
        **COMMON_FIELDS,
    },
    limits=TIME_LIMITS | USAGE_LIMITS,
    own_properties={
        "thinking": "How much the model thinks: off, minimal, low, medium, high or xhigh.",
        "contextWindow": "The tokens that the model of a model server can read; 128000 unless set.",
        "maxTokens": "The tokens that the model of a model server may write in one answer; 16384 unless set.",
    },
    protocols=("openai", "anthropic", "responses"),
    server_needs_model=True,
    sessions=True,
    messages="during_turn",
    repository_paths=(
        RepositoryPath(path=".pi/", what="configuration of pi"),
        RepositoryPath(path=".agents/skills/", what="skills of pi"),
    ),
    environment={
        # No downloads, version checks or telemetry when it starts; requests to models are not affected.
        "PI_OFFLINE": "1",
        "PI_TELEMETRY": "0",
    },
)
