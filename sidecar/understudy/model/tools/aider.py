"""aider."""

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
    name="aider",
    title="aider",
    runner="understudy.runners.agent_clis.in_python.aider:Runner",
    binaries=("aider",),
    install=Install(
        about="An open-source agent that edits files of a git repository, with models of many providers.",
        command="python3 -m pip install aider-chat",
        login="Write the API key of your provider into ~/.aider.conf.yml; agents do not get it from your environment.",
        url="https://aider.chat/docs/install.html",
    ),
    oldest_version="0.86.2",
    launch={
        "permission_mode": (
            OptionValue(
                value="edit",
                title="Edit files",
                description="Edits files of the worktree without asking; runs no commands.",
            ),
            OptionValue(value="ask", title="Answer only", description="Reads and answers; edits nothing."),
            OptionValue(
                value="all",
                title="Allow everything",
                unrestricted=True,
                description="Also runs the commands that the model suggests, without asking.",
            ),
        ),
        "yolo": (),
        "flags": (),
        **COMMON_FIELDS,
    },
    limits=TIME_LIMITS | USAGE_LIMITS,
    properties=True,
    protocols=("openai",),
    server_needs_model=True,
    sessions=True,
    repository_paths=(
        RepositoryPath(path=".aider.conf.yml", what="configuration of aider"),
        RepositoryPath(path=".aider.model.settings.yml", what="models of aider"),
        RepositoryPath(path=".aider.model.metadata.json", what="models of aider"),
    ),
)
