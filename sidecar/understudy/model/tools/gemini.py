"""Gemini CLI."""

from __future__ import annotations

from understudy.model.capabilities import COMMON_FIELDS, TIME_LIMITS, Capabilities, Install, OptionValue, RepositoryPath

CAPABILITIES = Capabilities(
    name="gemini",
    title="Gemini CLI",
    runner="understudy.runners.agent_clis.gemini:Runner",
    binaries=("gemini",),
    acp_command=("gemini", "--acp"),
    acp_servers=False,
    install=Install(
        about="The agent CLI of Google.",
        command="npm install -g @google/gemini-cli",
        login="Start it once and choose how to log in: a Google account or an API key.",
        login_command="gemini",
        url="https://github.com/google-gemini/gemini-cli#-installation",
    ),
    oldest_version="0.61.0",
    launch={
        "permission_mode": (
            OptionValue(
                value="auto_edit",
                title="Edit files",
                description="Edits files of the worktree and fetches web pages, but runs no commands.",
            ),
            OptionValue(value="default", title="Read only", description="Reads and answers, but changes nothing."),
            OptionValue(
                value="yolo",
                title="Allow everything",
                unrestricted=True,
                description="Uses all tools without asking, except what the user's own policies forbid.",
            ),
        ),
        "yolo": (),
        "flags": (),
        **COMMON_FIELDS,
    },
    limits=TIME_LIMITS,
    own_properties={
        "temperature": "How varied its answers are, from 0 to 2.",
        "maxTokens": "The tokens that the model may write in one answer.",
    },
    protocols=("gemini",),
    server_needs_model=True,
    sessions=True,
    session_variables=("GEMINI_SESSION_ID",),
    repository_paths=(
        RepositoryPath(path=".gemini/", what="configuration of Gemini CLI"),
        RepositoryPath(path=".gemini/settings.json", what="settings of Gemini CLI", has_hooks=True),
        RepositoryPath(path=".agents/skills/", what="skills of Gemini CLI"),
    ),
    environment={
        # Without it, the program is a parent that ignores signals and starts another process.
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_TELEMETRY_ENABLED": "false",
        "NO_BROWSER": "true",
    },
)
