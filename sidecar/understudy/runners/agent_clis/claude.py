"""Claude Code, over its own two-way protocol: JSON lines on standard input and output.

    claude -p --input-format stream-json --output-format stream-json --permission-prompt-tool stdio …

The prompt is the first message, questions arrive as ``can_use_tool`` requests, and closing its input ends the run. It
may change files of the worktree without asking (``acceptEdits``). In that mode it also runs some shell commands without
asking: those that only read, and ``touch``, ``mkdir``, ``rm``, ``mv``, ``cp`` and redirections if every path is inside
the worktree and none leads to ``.git`` or to its own settings. These commands can do no more than edits can, and
nothing in the worktree reaches the user's files before the user accepts it. It asks about everything else: other
programs, paths outside, and compound commands of which one part needs a question. To be asked about each command and
edit, set ``launch.permissionMode`` to ``default``. ``tests/integration/agent_clis`` tests this list with the real CLI.

Claude Code never reads what the repository provides for it (settings, hooks, servers, a key helper, a base URL), only
the user's own settings. With a model server it does not read those either: they could set another base URL or key.

Background tasks are switched off. If one is open all the same, its result does not end the run: another turn begins
when one of them ends. What it reports as cost is computed with Anthropic's prices, so it counts with their server only.

Our environment variables that begin with CLAUDE or ANTHROPIC are passed on only if the delegator's ``env`` names them.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from understudy.model.config.delegators import Launch
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.agent_clis.launching import AgentRunner, invalid, permission_mode, refuse_flags, without_version
from understudy.runners.agent_clis.streams.claude_stream import CAPABILITIES, ClaudeStream
from understudy.runners.driver import attempt
from understudy.runners.driver.child_source import JsonLinesSource
from understudy.runners.driver.command_line import Command
from understudy.runners.runner import Task

_REDIRECTS = frozenset({"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"})
_NOT_OFFERED = "AskUserQuestion,EnterWorktree,ExitWorktree,CronCreate,ScheduleWakeup"
"""Tools that make no sense here: free-form questions, other worktrees, and scheduled wake-ups."""
_NO_KEY = "no-key"
"""A placeholder: without any key it would send the user's own login to the model server."""


class Runner(AgentRunner):
    """Drives Claude Code."""

    capabilities = CAPABILITIES

    def prepared(self, task: Task, program: Path, tree: Path, scratch: Path) -> JsonLinesSource:  # noqa: ARG002
        """Return the source for one run; raises ``permission_denied``, too: root may not bypass permissions."""
        return JsonLinesSource(task, command_for(task, program), ClaudeStream(tree))


def command_for(task: Task, program: Path) -> Command:
    """Return the command that starts ``program`` for ``task``."""
    delegator, launch, limits = task.delegator, task.delegator.launch or Launch(), task.limits
    refuse_flags(task, CAPABILITIES.reserved_flags, CAPABILITIES.flag_fields)
    if task.model_server is not None and any(flag.split("=")[0] == "--settings" for flag in launch.flags or ()):
        raise invalid(
            task,
            "names a model server and has the flag --settings",
            "Remove the flag: settings could name another server.",
        )
    mode = mode_of(task)
    argv = [str(program), "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    argv += ["--include-partial-messages", "--replay-user-messages", "--permission-prompt-tool", "stdio"]
    argv += ["--strict-mcp-config", "--setting-sources", "user" if task.model_server is None else ""]
    argv += ["--permission-mode", mode, f"--disallowedTools={_NOT_OFFERED}"]
    if delegator.model:
        argv.append(f"--model={delegator.model}")
    if task.session_id:
        argv.append(f"--resume={task.session_id}")
    if limits.max_turns is not None:
        argv.append(f"--max-turns={limits.max_turns}")
    if task.mcp_servers:
        servers = {server.name: {"command": server.argv[0], "args": server.argv[1:]} for server in task.mcp_servers}
        argv.append(f"--mcp-config={msgspec.json.encode({'mcpServers': servers}).decode()}")
        # Its server decides what the agent may do with it; so no call needs a question.
        argv += [f"--allowedTools=mcp__{server.name}" for server in task.mcp_servers]
    if limits.max_usd is not None and attempt.knows_cost(task):
        argv.append(f"--max-budget-usd={limits.max_usd}")
    environment, secrets = _server(task)
    return Command(
        argv=[*argv, *(launch.flags or [])],
        cwd=task.worktree or Path("/"),
        environment={**CAPABILITIES.environment, **environment},
        secrets=secrets,
    )


def prepare_terminal(task: Task) -> dict[str, str]:
    """Raise what ``mode_of`` raises, for a run in a terminal; it needs no variables."""
    mode_of(task)
    return {}


def mode_of(task: Task) -> str:
    """Return the permission mode; raise ``permission_denied`` for bypassing permissions as root."""
    mode = permission_mode(task, tree="acceptEdits", text="default", everything="bypassPermissions")
    boxed = {**task.environment, **(task.delegator.env or {})}.get("IS_SANDBOX")
    if mode == "bypassPermissions" and os.geteuid() == 0 and boxed != "1":
        raise UnderstudyError(
            ErrorKind.PERMISSION_DENIED,
            "Claude Code refuses to bypass permissions as root.",
            hint='Run as another user, or, in a dedicated container, set IS_SANDBOX = "1" in the delegator\'s `env`.',
        )
    return mode


def _server(task: Task) -> tuple[dict[str, str], dict[str, str]]:
    """Return the environment variables that select the task's model server, and those of them that are secret."""
    server = task.model_server
    if server is None:
        return {}, {}
    for name in _REDIRECTS & {*(task.delegator.env or {}), *task.environment}:
        raise invalid(task, f"names a model server and sets {name}", "Remove one of them.")
    environment = {"ANTHROPIC_BASE_URL": without_version(server.base_url)}
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
