"""Claude Code."""

from __future__ import annotations

from understudy.model.capabilities import (
    PROMPT_FIELDS,
    TIME_LIMITS,
    USAGE_LIMITS,
    Capabilities,
    OptionValue,
    RepositoryPath,
)

CAPABILITIES = Capabilities(
    name="claude",
    title="Claude Code",
    runner="understudy.runners.agent_clis.claude:Runner",
    install_url="https://docs.claude.com/en/docs/claude-code/setup",
    binaries=("claude",),
    oldest_version="2.1.0",
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
                value="bypassPermissions", title="Allow everything", description="Does everything without asking."
            ),
        ),
        "yolo": (),
        "flags": (),
        **PROMPT_FIELDS,
    },
    limits=TIME_LIMITS | USAGE_LIMITS | {"answer_seconds"},
    protocols=("anthropic",),
    sessions=True,
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
    environment={
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        # Its default is ten retries in three minutes, even for a refused key. Understudy decides when to retry.
        "CLAUDE_CODE_MAX_RETRIES": "2",
    },
)
