"""Qwen Code."""

from __future__ import annotations

from understudy.model.capabilities import (
    COMMON_FIELDS,
    TIME_LIMITS,
    UNANSWERED,
    Capabilities,
    Install,
    OptionValue,
    RepositoryPath,
)

CAPABILITIES = Capabilities(
    name="qwen",
    title="Qwen Code",
    runner="understudy.runners.agent_clis.qwen:Runner",
    binaries=("qwen",),
    acp_command=("qwen", "--acp"),
    acp_servers=False,
    install=Install(
        about="The agent CLI of the Qwen models, for any OpenAI-compatible server.",
        command="npm install -g @qwen-code/qwen-code",
        login="Start it once and enter /auth.",
        login_command="qwen",
        url="https://github.com/QwenLM/qwen-code#installation",
    ),
    oldest_version="0.24.4",
    launch={
        "permission_mode": (
            OptionValue(
                value="auto-edit",
                title="Edit files",
                description="Edits files of the worktree without asking; asks before anything else.",
            ),
            OptionValue(
                value="default",
                title="Ask",
                description="Asks before it edits files or runs a command that does more than read.",
            ),
            OptionValue(
                value="plan", title="Plan only", description="Reads and plans; asks before it carries its plan out."
            ),
            OptionValue(
                value="yolo", title="Allow everything", unrestricted=True, description="Does everything without asking."
            ),
        ),
        "yolo": (),
        "unanswered": UNANSWERED,
        "flags": (),
        **COMMON_FIELDS,
    },
    limits=TIME_LIMITS | {"max_turns", "max_output_tokens", "max_tokens", "answer_seconds"},
    properties=True,
    protocols=("openai",),
    sessions=True,
    messages="after_turn",
    session_variables=("QWEN_CODE_SESSION_ID",),
    repository_paths=(
        RepositoryPath(path=".qwen/", what="configuration of Qwen Code"),
        RepositoryPath(path=".qwen/settings.json", what="settings of Qwen Code", has_hooks=True),
    ),
    environment={
        # Without it, the program is a parent that starts another process, and ends before that one does.
        "QWEN_CODE_NO_RELAUNCH": "true",
        "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
        "QWEN_DISABLE_AUTO_TITLE": "1",
    },
)
