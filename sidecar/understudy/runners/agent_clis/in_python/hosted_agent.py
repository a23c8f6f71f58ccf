"""Start an agent in its own Python, with ``inside/host.py``, and parse what that prints.

The prompt and the key of a model server are its standard input: an environment could be read by every command that the
agent runs, also after the variable was removed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from understudy.model.capabilities import Capabilities
from understudy.model.delegation.events import Event
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.text import foreign_json
from understudy.model.wire import Wire, ready
from understudy.runners.agent_clis.in_python.litellm_errors import kind_of_exception
from understudy.runners.agent_clis.launching.installed_program import find_binaries, find_program, worktree_of
from understudy.runners.agent_clis.launching.launch_flags import invalid
from understudy.runners.agent_clis.streams.agent_failures import failure
from understudy.runners.agent_clis.streams.event_stream import EventLines
from understudy.runners.driver import driver
from understudy.runners.driver.child_source import JsonLinesSource
from understudy.runners.driver.command_line import Command
from understudy.runners.driver.source import AgentFinished
from understudy.runners.runner import Emit, Outcome, Task

HOST = Path(__file__).parent / "inside" / "host.py"
_ENVIRONMENT = {
    # Prices and limits of models come with litellm; it would download them when it starts.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # It would read a `.env` file above the folder in which it is installed.
    "LITELLM_MODE": "PRODUCTION",
}
_MOST_SCRIPT_BYTES = 4096


async def run(
    task: Task, emit: Emit, tool: Capabilities, command_for: Callable[[Task, Path, Path], Command]
) -> Outcome:
    """Run a task with ``tool`` to its end; ``command_for`` gets the task, the program, and a scratch folder.

    Kinds besides those of ``driver``: ``tool_missing``, ``config_invalid``, and those of ``litellm_errors``.
    """
    worktree_of(task, tool)
    program = find_program(task, tool)
    with tempfile.TemporaryDirectory(prefix=f"understudy-{tool.name}-", ignore_cleanup_errors=True) as scratch:
        command = command_for(task, program, Path(scratch))
        return await driver.drive(task, emit, JsonLinesSource(task, command, HostedLines(tool)))


class _Failed(Wire, tag_field="type", tag="failed", kw_only=True):
    name: str
    text: str
    status: int = 0
    retry_after: float | None = None


class HostedLines(EventLines):
    """Parses the lines of ``host.py``: those of ``event_stream``, and failures as exceptions of litellm."""

    def __init__(self, tool: Capabilities) -> None:
        """Parse the output of ``tool``."""
        super().__init__()
        self._tool = tool
        self._failures: msgspec.json.Decoder[Any] = msgspec.json.Decoder(ready(_Failed))

    def line(self, line: bytes) -> list[Event | AgentFinished] | None:
        """Parse ``line`` and return its events, None when it is not an event."""
        found = super().line(line)
        if found is not None:
            return found
        try:
            failed: _Failed = foreign_json.decode(line, self._failures.decode)
        except foreign_json.UNREADABLE:
            return None
        return [AgentFinished(error=self._failure(failed))]

    def _failure(self, failed: _Failed) -> ErrorInfo:
        resets_at = time.time() + failed.retry_after if failed.retry_after is not None else None
        kind = kind_of_exception(failed.name, failed.status, failed.text)
        if failed.name == "UnknownSession":
            return ErrorInfo(kind, failed.text, "Start it again without the earlier session.")
        if failed.name == "Unsupported":
            message = f"Understudy cannot drive this version of {self._tool.title}: {failed.text}"
            return ErrorInfo(kind, message, f"{self._tool.install_hint}, version {self._tool.oldest_version}.")
        return failure(self._tool, failed.text or failed.name, kind=kind, status=failed.status, resets_at=resets_at)


def command_for(
    task: Task, program: Path, scratch: Path, tool: Capabilities, *, mode: str, more: Mapping[str, Any]
) -> Command:
    """Return the command that starts the agent behind ``program``; raise ``config_invalid`` for what cannot apply.

    ``scratch`` is a folder for temporary files; ``more`` are fields of the request that only this agent has.
    """
    server, model = task.model_server, task.delegator.model
    properties = task.delegator.model_properties or {}
    key: str | None = None
    if server is None and properties:
        raise invalid(task, "has model properties and no model server", "Name a model server, or remove them.")
    if server is not None:
        if not model:
            raise invalid(
                task, "names a model server and no model", "Set `model` to the id that the model server lists."
            )
        model = f"openai/{model}"
        key = task.key() if task.key is not None else None
    request = {
        "prompt": task.prompt.encode("utf-8", "replace").decode(),
        "model": model,
        "server": {"baseUrl": server.base_url, "headers": dict(server.headers or {})} if server is not None else None,
        "properties": dict(properties),
        "mode": mode,
        "flags": [],
        "files": [],
        "scratch": str(scratch),
        "key": key,
        "session": task.session_id,
        **more,
    }
    return Command(
        argv=[*interpreter_of(program, tool, task), str(HOST), tool.name],
        cwd=task.worktree or Path("/"),
        stdin=json.dumps(request).encode(),
        environment={**_ENVIRONMENT, **tool.environment},
        secret_input={f"key of {server.name}": key} if server is not None and key else {},
    )


def interpreter_of(program: Path, tool: Capabilities, task: Task) -> list[str]:
    """Return the Python, with its options, that an installed script names; raise ``tool_missing`` for others.

    One that ``env`` would search is looked for as the program was: never in the worktree, nor in the current folder.
    """
    with program.open("rb") as file:
        first, second = (file.readline(_MOST_SCRIPT_BYTES).decode("utf-8", "replace") for _ in range(2))
    words = first[2:].split() if first.startswith("#!") else []
    if words == ["/bin/sh"] and second.startswith("'''exec' "):  # pip's, where the path is long or has spaces
        words = shlex.split(second.removeprefix("'''exec' ").partition(' "$0"')[0])
    if len(words) > 1 and Path(words[0]).name == "env" and _is_python(words[1]) and "/" not in words[1]:
        found = find_binaries(task, words[1:2])
        if found is None:
            raise UnderstudyError(
                ErrorKind.TOOL_MISSING,
                f"{program} runs in the {words[1]} of PATH, which was not found outside the worktree.",
                hint=f"{tool.install_hint}, in an environment of its own.",
            )
        words = [str(found), *words[2:]]
    if words and _is_python(words[0]) and _is_outside(Path(words[0]), task.worktree):
        return words
    raise UnderstudyError(
        ErrorKind.TOOL_MISSING,
        f"{program} does not name the Python that {tool.title} is installed in.",
        hint=f"{tool.install_hint}, and put its own program on PATH, not a script that starts it.",
    )


def _is_python(word: str) -> bool:
    return re.fullmatch(r"(pypy|python)[0-9.]*", Path(word).name) is not None


def _is_outside(python: Path, worktree: Path | None) -> bool:
    # The folder, not the file: the Python of an environment is a link to another one.
    folder = Path(os.path.realpath(python.parent))
    return python.is_absolute() and (worktree is None or not folder.is_relative_to(os.path.realpath(worktree)))
