"""opencode."""

from __future__ import annotations

from understudy.model.capabilities import (
    COMMON_FIELDS,
    TIME_LIMITS,
    USAGE_LIMITS,
    Capabilities,
    Install,
    Interactive,
    OptionValue,
    RepositoryPath,
)

CAPABILITIES = Capabilities(
    name="opencode",
    title="opencode",
    runner="understudy.runners.agent_clis.opencode:Runner",
    binaries=("opencode",),
    acp_command=("opencode", "acp"),
    install=Install(
        about="An open-source agent CLI for models of many providers.",
        command="npm install -g opencode-ai",
        login="Log in to a provider; without one, opencode sends your code to its own hosted models.",
        login_command="opencode auth login",
        url="https://opencode.ai/docs/#install",
    ),
    oldest_version="1.18.33",
    interactive=Interactive(
        command=("opencode", "{options}", "--prompt", "{prompt}"),
        model=("--model", "{model}"),
        reserved_flags=frozenset(
            {"--prompt", "-c", "--continue", "-s", "--session", "--agent", "--port", "--hostname"}
        ),
        prepare="understudy.runners.agent_clis.opencode:prepare_terminal",
    ),
    launch={
        "permission_mode": (
            OptionValue(
                value="build",
                title="Edit and run",
                description="Edits files and runs commands; where its rules say ask, such as outside, it is refused.",
            ),
            OptionValue(value="edit", title="Edit files", description="Reads and edits files, but runs no commands."),
            OptionValue(value="read-only", title="Read only", description="Reads and answers, but changes nothing."),
            OptionValue(
                value="auto",
                title="Allow everything",
                unrestricted=True,
                description="Does everything that its rules do not deny, also where they say ask.",
            ),
        ),
        "yolo": (),
        "flags": (),
        "relay": (),
        **COMMON_FIELDS,
    },
    limits=TIME_LIMITS | USAGE_LIMITS,
    properties=True,
    protocols=("openai",),
    server_needs_model=True,
    # It would send the code to its own hosted models.
    own_model=(
        r"[^/]+/.+",
        "Set `model_server`, or `model` to provider/model; `opencode models` lists those of your login.",
    ),
    sessions=True,
    repository_paths=(
        RepositoryPath(path=".opencode/", what="configuration and plugins of opencode"),
        RepositoryPath(path="opencode.json", what="configuration of opencode"),
        RepositoryPath(path="opencode.jsonc", what="configuration of opencode"),
    ),
    environment={
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_SHARE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        # Skills of other agents, in the home and in the repository.
        "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
    },
)
