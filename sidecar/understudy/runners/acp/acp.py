"""Any agent that speaks the Agent Client Protocol (ACP), as a delegator with ``mode = "acp"``.

    opencode acp        a known tool, with the ``acp_command`` of its declaration
    some-agent --acp    any other one: the tool ``generic``, with ``launch.command``

The agent works in the worktree with its own tools and its own login. No file system and no terminal is
offered: the worktree is local, and some agents cannot create a file through a client. Its questions become permission
requests. ``launch.permissionMode`` is one of the modes that the agent offers, by id or name, and ``model`` one of its
models; what it does not offer is refused with what it does. ``launch.yolo`` allows all that it asks.

The protocol's messages are those of its Python SDK (``agent-client-protocol``), an extra: it brings pydantic, whose
models take half a second to import, so it is imported only when such a delegator runs. The SDK's connection is not
used. It starts a task for each message without a bound on their number, reads lines of any length, drops what is not
JSON, and ends its read loop on a message that is not an object. ``JsonLinesSource`` has bounds for all of these, and it
is where processes, redaction, logs, limits and cancelling already are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from understudy.config.discovery import declarations
from understudy.model.capabilities import Capabilities
from understudy.model.config.delegators import Launch
from understudy.model.text import lazy_packages
from understudy.runners.agent_clis.launching import find_program, own_settings_restored, worktree_of
from understudy.runners.driver import command_line, driver
from understudy.runners.driver.child_source import JsonLinesSource
from understudy.runners.driver.command_line import Command
from understudy.runners.runner import Emit, Outcome, Task

_PACKAGES = frozenset({"acp", "pydantic", "pydantic_core"})


class Runner:
    """Drives any agent over ACP."""

    capabilities = Capabilities(name="acp", title="Agent Client Protocol")
    """Only its name: what an agent supports depends on the agent (see ``declarations.capabilities_of``)."""

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Run the task to its end.

        Kinds besides those of ``driver``: ``tool_missing`` (the agent, or the SDK), ``config_invalid`` (a model or a
        mode that the agent does not offer), and those of ``acp_messages``.
        """
        tool = declarations.require_capabilities(task.delegator, task.model_server)
        tree = worktree_of(task, tool)
        try:
            from understudy.runners.acp.acp_stream import AcpStream, Session
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in _PACKAGES:
                raise
            what = f"Delegator {task.delegator.name!r} is driven over the Agent Client Protocol, which needs"
            raise lazy_packages.ACP.missing(what) from None
        launch = task.delegator.launch or Launch()
        in_command = any("{model}" in word for word in launch.command or [])
        servers = [
            {"name": server.name, "command": server.argv[0], "args": server.argv[1:], "env": []}
            for server in task.mcp_servers
        ]
        session = Session(
            model=None if in_command else task.delegator.model or None,
            mode=launch.permission_mode,
            allows_everything=bool(launch.yolo),
            resumes=task.session_id,
            servers=servers,
        )
        with _command(task, tool, launch) as command, own_settings_restored(task, tool, tree, emit) as watched:
            stream = AcpStream(tree, tool, session)
            return await driver.drive(task, watched, JsonLinesSource(task, command, stream))


@contextmanager
def _command(task: Task, tool: Capabilities, launch: Launch) -> Iterator[Command]:
    """Yield the command that starts the agent; the prompt is delivered by the protocol."""
    if launch.command:
        declared_tool = declarations.started_by(task.delegator)
        with command_line.prepared(task, launch.command, "stdin") as command:
            yield command if declared_tool is None else replace(command, environment=declared_tool.environment)
        return
    argv = [str(find_program(task, tool)), *tool.acp_command[1:], *(launch.flags or [])]
    assert task.worktree is not None  # noqa: S101 - Runner.run has refused it
    yield Command(argv=argv, cwd=task.worktree, environment=tool.environment)
