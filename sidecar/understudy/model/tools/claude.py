"""Claude Code."""

from __future__ import annotations

from understudy.model.capabilities import (
    COMMON_FIELDS,
    TIME_LIMITS,
    UNANSWERED,
    USAGE_LIMITS,
    Capabilities,
    CostAddress,
    Install,
    Interactive,
    OptionValue,
    RepositoryPath,
)
from understudy.model.relay.relay_tools import SERVER

CAPABILITIES = Capabilities(
    name="claude",
    title="Claude Code",
    runner="understudy.runners.agent_clis.claude:Runner",
    install=Install(
        about="The agent CLI of Anthropic.",
        command="npm install -g @anthropic-ai/claude-code",
        login="Start it once and follow the login, with a Claude account or an API key.",
        login_command="claude",
        url="https://docs.claude.com/en/docs/claude-code/setup",
    ),
    binaries=("claude",),
    acp_command=("claude-agent-acp",),
    oldest_version="2.1.0",
    interactive=Interactive(
        command=("claude", "--strict-mcp-config", "--setting-sources=user", "{options}", "--", "{prompt}"),
        model=("--model={model}",),
        yolo=("--permission-mode=bypassPermissions",),
        relay=("--mcp-config={mcpConfig}", f"--allowedTools=mcp__{SERVER}"),
        permission_modes={
            mode: (f"--permission-mode={mode}",) for mode in ("acceptEdits", "default", "bypassPermissions")
        },
        default_mode="acceptEdits",
        reserved_flags=frozenset(
            [
                *("-p", "--print", "--setting-sources", "--strict-mcp-config", "-w", "--worktree", "--tmux", "--bg"),
                *("--background", "--ide", "--remote", "--teleport", "--"),
            ]
        ),
        prepare="understudy.runners.agent_clis.claude:prepare_terminal",
    ),
    launch={
        "permission_mode": (
            OptionValue(
                value="acceptEdits",
                title="Edit files",
                description="Edits without asking; asks before anything else.",
            ),
            OptionValue(value="default", title="Ask", description="Asks before it edits or runs anything."),
            OptionValue(value="dontAsk", title="Never ask", description="Denies what was not allowed in advance."),
            OptionValue(value="plan", title="Plan only", description="Reads and plans, but changes nothing."),
            OptionValue(
                value="bypassPermissions",
                title="Allow everything",
                unrestricted=True,
                description="Does everything without asking.",
            ),
        ),
        "yolo": (),
        "unanswered": UNANSWERED,
        "flags": (),
        "relay": (),
        **COMMON_FIELDS,
    },
    limits=TIME_LIMITS | USAGE_LIMITS | {"answer_seconds"},
    protocols=("anthropic",),
    sessions=True,
    messages="during_turn",
    session_variables=("CLAUDE_SESSION_ID", "CLAUDE_CODE_SESSION_ID"),
    repository_paths=(
        RepositoryPath(path=".claude/agents/", what="agent definitions of Claude Code"),
        RepositoryPath(path=".claude/commands/", what="commands of Claude Code"),
        RepositoryPath(path=".claude/hooks/", what="hook scripts of Claude Code"),
        RepositoryPath(path=".claude/plugins/", what="plugins of Claude Code"),
        RepositoryPath(path=".claude/skills/", what="skills of Claude Code"),
        RepositoryPath(path=".claude/settings.json", what="settings of Claude Code", has_hooks=True),
        RepositoryPath(path=".claude/settings.local.json", what="settings of Claude Code", has_hooks=True),
    ),
    cost_address=CostAddress(
        variable="ANTHROPIC_BASE_URL", host="api.anthropic.com", settings=("CLAUDE_CONFIG_DIR", ".claude")
    ),
    environment={
        # With background tasks, it reports a result, and works on when one of them ends.
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        # Its default is ten retries in three minutes, even for a refused key. Understudy decides when to retry.
        "CLAUDE_CODE_MAX_RETRIES": "2",
    },
)
