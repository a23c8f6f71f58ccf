"""Codex CLI."""

from __future__ import annotations

from understudy.model.capabilities import (
    COMMON_FIELDS,
    TIME_LIMITS,
    UNANSWERED,
    Capabilities,
    Install,
    Interactive,
    OptionValue,
    RepositoryPath,
)

_WRITES = ("--sandbox", "workspace-write")

CAPABILITIES = Capabilities(
    name="codex",
    title="Codex CLI",
    runner="understudy.runners.agent_clis.codex:Runner",
    binaries=("codex",),
    acp_command=("codex-acp",),
    install=Install(
        about="The agent CLI of OpenAI.",
        command="npm install -g @openai/codex",
        login="Log in with a ChatGPT account or an API key.",
        login_command="codex login",
        url="https://github.com/openai/codex#quickstart",
    ),
    oldest_version="0.169.0",
    interactive=Interactive(
        command=(
            *("codex", "-c", "check_for_update_on_startup=false", "-c", "analytics.enabled=false"),
            # It asks nothing about the folder then, and reads no configuration of the repository.
            *("-c", 'projects={"{worktree}"={trust_level="untrusted"}}', "{options}", "--", "{prompt}"),
        ),
        model=("--model", "{model}"),
        yolo=("--dangerously-bypass-approvals-and-sandbox",),
        permission_modes={
            "on-request": ("--ask-for-approval", "on-request", *_WRITES),
            "untrusted": ("--ask-for-approval", "untrusted", *_WRITES),
            "never": ("--ask-for-approval", "never", *_WRITES),
            "danger-full-access": ("--dangerously-bypass-approvals-and-sandbox",),
        },
        default_mode="on-request",
        reserved_flags=frozenset({"-C", "--cd", "--remote", "--"}),
    ),
    launch={
        "permission_mode": (
            OptionValue(
                value="on-request",
                title="Edit files",
                description="Edits and runs commands inside its sandbox; asks when it wants to leave it.",
            ),
            OptionValue(
                value="untrusted",
                title="Ask",
                description="Asks before every command that it does not know to be harmless.",
            ),
            OptionValue(
                value="never", title="Never ask", description="Works inside its sandbox; what that forbids fails."
            ),
            OptionValue(value="read-only", title="Read only", description="Reads and answers, but changes nothing."),
            OptionValue(
                value="danger-full-access",
                title="Allow everything",
                unrestricted=True,
                description="Does everything without asking, and without its sandbox.",
            ),
        ),
        "yolo": (),
        "unanswered": UNANSWERED,
        "flags": (),
        "relay": (),
        **COMMON_FIELDS,
    },
    limits=TIME_LIMITS | {"max_turns", "max_output_tokens", "max_tokens", "answer_seconds"},
    own_properties={
        "model_reasoning_effort": "How much the model thinks before it answers.",
        "model_reasoning_summary": "How much of its thoughts it shows.",
        "model_verbosity": "How long its answers are.",
        "service_tier": "How fast its requests are served, where the account has a choice.",
    },
    protocols=("responses",),
    sessions=True,
    messages="during_turn",
    session_variables=("CODEX_SESSION_ID", "CODEX_THREAD_ID"),
    repository_paths=(RepositoryPath(path=".codex/", what="configuration of Codex"),),
)
