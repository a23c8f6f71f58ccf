"""Claude Code, over its own two-way protocol: JSON lines on standard input and output.

    claude -p --input-format stream-json --output-format stream-json --permission-prompt-tool stdio …

The prompt is the first message, questions come as ``can_use_tool`` requests, the input's end is the end. Without asking
it may change files of the tree (``acceptEdits``). In that mode it lets some commands of the shell pass by its own
judgement, too: those that only read, and ``touch``, ``mkdir``, ``rm``, ``mv``, ``cp`` and a redirection where every
path is inside the tree and none leads to ``.git`` or its own settings. They do what edits may do, in a tree of which
nothing reaches the person's files undecided, so they are not made questions. Everything else is one: other programs,
paths outside, a line of several commands of which one would be. Whoever wants to be asked about each of them, and about
edits, sets ``launch.permissionMode`` to ``default``. ``tests/clis`` holds this list against the real one.

What the repository brings for Claude Code (settings, hooks, servers, a key helper, an address) is never read: only the
person's own settings are, and with a model server of Understudy's not even those, because they could name another
address or another key.

Nothing of our environment reaches it that begins with CLAUDE or ANTHROPIC, unless the delegator's ``env`` names it.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from understudy.model.delegators import Launch
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.environment import base_environment
from understudy.runners.base import Emit, Outcome, Task
from understudy.runners.clis import machinery
from understudy.runners.clis.claude_lines import ClaudeLines
from understudy.runners.clis.commands import Command
from understudy.runners.registry import ABILITIES

MODES = {
    "default": "default",
    "acceptEdits": "acceptEdits",
    "accept_edits": "acceptEdits",
    "plan": "plan",
    "dontAsk": "dontAsk",
    "bypass": "bypassPermissions",
    "bypassPermissions": "bypassPermissions",
}
"""What ``launch.permissionMode`` may say → what Claude Code calls it."""

ENVIRONMENT = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    # Its default is ten, three minutes of them, even for a refused key. Trying again later is Understudy's to decide.
    "CLAUDE_CODE_MAX_RETRIES": "2",
}
"""Set unless the delegator's ``env`` says otherwise."""

_OURS = frozenset(
    [
        *("-p", "--print", "--input-format", "--output-format", "--verbose", "--permission-prompt-tool"),
        *("--permission-prompts", "--include-partial-messages", "--replay-user-messages", "--setting-sources"),
        *("--strict-mcp-config", "-r", "--resume", "-c", "--continue", "--session-id", "--fork-session", "--bg"),
        *("--background", "-w", "--worktree", "--tmux", "--ide", "--from-pr", "--teleport", "--remote"),
        *("--no-session-persistence", "--"),
    ]
)
"""Flags that would break the conversation, or let the repository in."""
_FIELDS = {
    "--model": "model",
    "--permission-mode": "launch.permissionMode",
    "--dangerously-skip-permissions": "launch.yolo",
    "--allow-dangerously-skip-permissions": "launch.yolo",
    "--max-turns": "limits.maxTurns",
    "--max-budget-usd": "limits.maxUsd",
}
"""Flags that have a field of their own."""
_REDIRECTS = frozenset({"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"})
_NOT_OFFERED = "AskUserQuestion,EnterWorktree,ExitWorktree,CronCreate,ScheduleWakeup"
"""Tools that make no sense here: free questions, other trees, and waking up after the end."""
_NO_KEY = "no-key"
"""Without any key it would send the person's own login to the model server."""


class Runner:
    """Drives Claude Code."""

    name = "claude"
    abilities = ABILITIES["claude"]

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Hand the task over and see it through.

        Kinds besides those of ``machinery``: ``tool_missing`` (not installed, or too old), ``permission_denied`` (root
        may not bypass permissions), ``config_invalid``, and those of ``claude_lines.failure_of``.
        """
        if task.worktree is None:
            raise UnderstudyError(
                ErrorKind.ISOLATION_UNAVAILABLE,
                "Claude Code works in an isolated tree, and this delegation has none.",
                hint="Start it in a repository or a folder that can be copied.",
            )
        command = command_for(task, find(task))
        return await machinery.drive(task, emit, command, ClaudeLines(task.worktree))


def find(task: Task) -> Path:
    """Return the installed program, never one inside the tree; ``tool_missing`` when there is none."""
    from understudy.config import tools  # noqa: PLC0415 - the rest of that room is not needed

    path = {**base_environment(), **task.environment}.get("PATH", "")
    avoid = [task.worktree] if task.worktree is not None else []
    found = tools.find("claude", tools.search_path(path, avoid=avoid), avoid=avoid)
    if found is None:
        raise UnderstudyError(
            ErrorKind.TOOL_MISSING,
            "Claude Code (`claude`) was not found on PATH.",
            hint="Install it: npm install -g @anthropic-ai/claude-code; then `understudy tools`.",
        )
    return found


def command_for(task: Task, program: Path) -> Command:
    """Return how ``program`` is started for ``task``."""
    delegator, launch, limits = task.delegator, task.delegator.launch or Launch(), task.limits
    refuse_flags(task, launch.flags or [])
    mode = mode_of(task, launch)
    argv = [str(program), "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    argv += ["--include-partial-messages", "--permission-prompt-tool", "stdio", "--strict-mcp-config"]
    argv += ["--setting-sources", "user" if task.model_server is None else ""]
    argv += ["--permission-mode", mode, f"--disallowedTools={_NOT_OFFERED}"]
    if delegator.model:
        argv.append(f"--model={delegator.model}")
    if task.session_id:
        argv.append(f"--resume={task.session_id}")
    if limits.max_turns is not None:
        argv.append(f"--max-turns={limits.max_turns}")
    if limits.max_usd is not None:
        argv.append(f"--max-budget-usd={limits.max_usd}")
    environment, secrets = _server(task)
    return Command(
        argv=[*argv, *(launch.flags or [])],
        cwd=task.worktree or Path("/"),
        stdin=first_message(task.prompt),
        keep_stdin=True,
        environment={**ENVIRONMENT, **environment},
        secrets=secrets,
    )


def first_message(prompt: str) -> bytes:
    """Return the line that hands ``prompt`` over."""
    # A prompt that begins with a slash would be taken for one of its commands.
    text = prompt if not prompt.startswith("/") else f"\n{prompt}"
    text = text.encode("utf-8", "replace").decode("utf-8")
    content = [{"type": "text", "text": text}]
    return msgspec.json.encode({"type": "user", "message": {"role": "user", "content": content}}) + b"\n"


def mode_of(task: Task, launch: Launch) -> str:
    """Return the permission mode; ``config_invalid`` for an unknown one, ``permission_denied`` for root's bypass."""
    asked = launch.permission_mode
    if asked is not None and asked not in MODES:
        raise _invalid(task, f"sets `launch.permissionMode` to {asked!r}", f"Use one of: {', '.join(MODES)}.")
    mode = MODES[asked] if asked else "default" if task.recipe.returns == "text" else "acceptEdits"
    if launch.yolo:
        if asked is not None and mode != "bypassPermissions":
            raise _invalid(task, f"sets `launch.yolo` and asks for the mode {asked!r}", "Remove one of them.")
        mode = "bypassPermissions"
    boxed = {**task.environment, **(task.delegator.env or {})}.get("IS_SANDBOX")
    if mode == "bypassPermissions" and os.geteuid() == 0 and boxed != "1":
        raise UnderstudyError(
            ErrorKind.PERMISSION_DENIED,
            "Claude Code refuses to bypass permissions as root.",
            hint='Run as another user, or, in a container of its own, set IS_SANDBOX = "1" in the delegator\'s `env`.',
        )
    return mode


def refuse_flags(task: Task, flags: list[str]) -> None:
    """Raise ``config_invalid`` for flags that are the runner's own."""
    for flag in flags:
        name = flag.split("=")[0]
        if name in _FIELDS:
            raise _invalid(task, f"has the flag {name} in `launch.flags`", f"Set `{_FIELDS[name]}` instead.")
        if name in _OURS:
            raise _invalid(task, f"has the flag {name} in `launch.flags`, which Understudy sets itself", "Remove it.")
        if name == "--settings" and task.model_server is not None:
            raise _invalid(task, "names a model server and has the flag --settings", "Settings could name another.")


def _server(task: Task) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables that point it at the task's model server, and those that are secret."""
    server = task.model_server
    if server is None:
        return {}, {}
    if server.protocol != "anthropic":
        message = f"points Claude Code at {server.name!r}, which does not speak Anthropic's protocol"
        raise _invalid(task, message, 'Set protocol = "anthropic" on a server that does.')
    for name in _REDIRECTS & {*(task.delegator.env or {}), *task.environment}:
        raise _invalid(task, f"names a model server and sets {name}", "Remove one of them.")
    parts = urlsplit(server.base_url)
    # It adds /v1/messages itself.
    path = parts.path.rstrip("/").removesuffix("/v1")
    environment = {"ANTHROPIC_BASE_URL": f"{parts.scheme}://{parts.netloc}{path}"}
    if task.delegator.model:
        # Side requests would otherwise go to models that this server may not have.
        environment["ANTHROPIC_SMALL_FAST_MODEL"] = task.delegator.model
        environment["ANTHROPIC_DEFAULT_HAIKU_MODEL"] = task.delegator.model
    if server.headers:
        environment["ANTHROPIC_CUSTOM_HEADERS"] = "\n".join(f"{name}: {text}" for name, text in server.headers.items())
    key = task.key() if task.key is not None else None
    if key:
        return environment, {"ANTHROPIC_API_KEY": key}
    return {**environment, "ANTHROPIC_API_KEY": _NO_KEY}, {}


def _invalid(task: Task, what: str, hint: str) -> UnderstudyError:
    return UnderstudyError(ErrorKind.CONFIG_INVALID, f"Delegator {task.delegator.name!r} {what}.", hint=hint)
