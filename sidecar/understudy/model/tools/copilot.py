"""GitHub Copilot CLI."""

from __future__ import annotations

from understudy.model.capabilities import COMMON_FIELDS, TIME_LIMITS, Capabilities, Install, OptionValue, RepositoryPath

CAPABILITIES = Capabilities(
    name="copilot",
    title="GitHub Copilot CLI",
    runner="understudy.runners.agent_clis.copilot:Runner",
    binaries=("copilot",),
    acp_command=("copilot", "--acp", "--no-auto-update"),
    install=Install(
        about="The agent CLI of GitHub, for subscribers of GitHub Copilot.",
        command="npm install -g @github/copilot",
        login="Start it once and enter /login.",
        login_command="copilot",
        url="https://docs.github.com/en/copilot/how-tos/set-up/install-copilot-cli",
    ),
    oldest_version="1.0.102",
    launch={
        "permission_mode": (
            OptionValue(
                value="write",
                title="Edit files",
                description="Edits files of the worktree; commands and everything else fail.",
            ),
            OptionValue(
                value="allow-all-tools",
                unrestricted=True,
                title="Edit and run",
                description="Uses all tools without asking; other folders and web addresses fail.",
            ),
            OptionValue(
                value="read-only", title="Read only", description="Reads and answers; edits and commands fail."
            ),
            OptionValue(
                value="allow-all",
                title="Allow everything",
                unrestricted=True,
                description="Uses all tools, folders and web addresses without asking.",
            ),
        ),
        "yolo": (),
        "flags": (),
        "relay": (),
        **COMMON_FIELDS,
    },
    limits=TIME_LIMITS,
    own_properties={
        "model_reasoning_effort": "How much the model thinks: none, minimal, low, medium, high, xhigh or max.",
        "contextWindow": "The tokens that the model of a model server can read.",
        "maxTokens": "The tokens that the model of a model server may write in one answer.",
    },
    protocols=("openai", "anthropic", "responses"),
    server_needs_model=True,
    sessions=True,
    repository_paths=(
        RepositoryPath(path=".github/agents/", what="agent definitions of GitHub Copilot"),
        RepositoryPath(path=".github/copilot/", what="settings of GitHub Copilot"),
        RepositoryPath(path=".github/extensions/", what="extensions of GitHub Copilot"),
        RepositoryPath(path=".github/hooks/", what="hooks of GitHub Copilot"),
        RepositoryPath(path=".github/lsp.json", what="language servers of GitHub Copilot"),
        RepositoryPath(path=".github/mcp.json", what="MCP servers of GitHub Copilot"),
        RepositoryPath(path=".github/skills/", what="skills of GitHub Copilot"),
        RepositoryPath(path=".mcp.json", what="MCP servers of GitHub Copilot"),
    ),
    environment={"COPILOT_AUTO_UPDATE": "false"},
)
