"""The tools that a model gets: their declarations, and the execution of its calls.

A call is executed however often it was made before: after an edit, the same command is another question. A call whose
arguments are incomplete is never executed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.model.config.config_entries import may_change
from understudy.model.config.delegators import ProgramLimits
from understudy.model.confinement import Confinement, Sandbox
from understudy.model.delegation.events import Event, File
from understudy.model.errors import UnderstudyError
from understudy.process.program_spec import AccessProfile, Program, Role, TreeLimits, memory_of_machine
from understudy.process.programs import children
from understudy.runners.backends.content.tool_calls import RequestedCall, ToolSpec
from understudy.runners.model_loop import edit_blocks
from understudy.runners.model_loop.edit_blocks import EditBlock
from understudy.runners.model_loop.file_tools import FileTools, ToolError
from understudy.runners.runner import Relay

DEFAULT_SECONDS = 120.0
MAX_SECONDS = 600.0
OUTPUT_BYTES = 24_000
"""The last bytes of the output that are kept."""
_MEMORY_BYTES = 8 << 30
_PROCESSES = 512
_FILE_BYTES = 256 << 20
_EACH_PROCESS = {"DATA": 4 << 30, "NOFILE": 4096}
FILE_TOOL_SECONDS = 60.0
"""Reading and searching take this long at most."""
_MOST = 2**53
"""The largest number that every JSON library keeps exactly; a larger one counts nothing here."""


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """How a command ended, as the model gets it."""

    text: str
    ok: bool
    sandbox: Sandbox


async def run_command(
    command: str,
    *,
    tree: Path,
    environment: dict[str, str],
    mark: str,
    seconds: float,
    confinement: Confinement,
    limits: ProgramLimits,
) -> CommandResult:
    """Run ``command`` with ``sh`` in ``tree`` for at most ``seconds``; everything that it started ends with it."""
    program = Program(
        ["/bin/sh", "-c", command],  # the model's command is one argument
        tree,
        environment,
        AccessProfile(Role.COMMAND),
        mark=mark,
        join_output=True,  # as in a terminal
        confinement=confinement,
        limits=TreeLimits(
            limits.max_memory_bytes or min(_MEMORY_BYTES, memory_of_machine() // 2),
            limits.max_processes or _PROCESSES,
            limits.max_file_bytes or _FILE_BYTES,
            {**_EACH_PROCESS, "CPU": int(seconds * 2) + 10},
        ),
    )
    completed = await children.run(program, timeout_seconds=seconds, output_limit=OUTPUT_BYTES)
    output = completed.stdout.decode("utf-8", "replace")
    lost = completed.stdout_bytes - len(completed.stdout)
    if lost > 0:
        output = f"[NOT COMPLETE: the first {lost} bytes of the output were left out …]\n{output}"
    if completed.timed_out:
        ending = f"The command was ended after {seconds:g} s; it had not finished."
    elif completed.limit_error is not None:
        ending = f"ENDED: {completed.limit_error.message}"
    elif completed.signal is not None:
        ending = f"The command was killed by signal {completed.signal}."
    else:
        ending = f"Exit code {completed.code}."
    if completed.leftovers and completed.limit_error is None:
        ending += f" {completed.leftovers} processes that it left running were ended."
    separator = "" if not output or output.endswith("\n") else "\n"
    return CommandResult(
        text=f"{output}{separator}[{ending}]",
        ok=completed.code == 0 and not completed.timed_out and completed.limit_error is None,
        sandbox=completed.sandbox,
    )


def seconds_of(asked: object) -> float:
    """Return the time limit for a command, of what the model asked for."""
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not asked > 0:
        return DEFAULT_SECONDS
    return float(min(asked, MAX_SECONDS))


def environment_for(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment of a command: nothing may wait for a person or open a pager."""
    quiet = {"GIT_TERMINAL_PROMPT": "0", "PAGER": "cat", "GIT_PAGER": "cat", "CI": "1", "TERM": "dumb"}
    return {**environment, **quiet, "PYTHONDONTWRITEBYTECODE": "1"}


def _spec(name: str, description: str, required: Sequence[str], **properties: Mapping[str, Any]) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return ToolSpec(name=name, description=description, parameters=schema)


def _text(description: str) -> Mapping[str, Any]:
    return {"type": "string", "description": description}


def _number(description: str) -> Mapping[str, Any]:
    return {"type": "integer", "description": description}


_PATH = _text("Path relative to the root of the repository.")


FILE_TOOLS = (
    _spec(
        "read_file",
        "Read a file. Lines are shown as NUMBER<TAB>TEXT; the numbers are not part of the file.",
        ["path"],
        path=_PATH,
        start_line=_number("First line, from 1."),
        lines=_number("How many lines."),
        start_byte=_number("Read bytes from this offset instead, for very long lines."),
    ),
    _spec("list_files", "List all files below a folder.", [], path=_text("Folder; absent: the whole repository.")),
    _spec(
        "search_files",
        "Find the lines that contain a text (not a regular expression).",
        ["text"],
        text=_text("The text, upper and lower case as in the files."),
        path=_text("Only below this folder."),
        glob=_text("Only files of this name or path, such as *.py."),
    ),
    _spec(
        "edit_file",
        "Replace one place in a file. old_string must be in the file exactly once.",
        ["path", "old_string", "new_string"],
        path=_PATH,
        old_string=_text("The exact text to replace, with enough of its surroundings to be unique."),
        new_string=_text("The text to put there."),
    ),
    _spec(
        "write_file",
        "Create a file, or replace its whole content.",
        ["path", "content"],
        path=_PATH,
        content=_text("The complete content."),
    ),
)


RUN_COMMAND = _spec(
    "run_command",
    "Run a command with sh in the root of the repository. No one can answer its questions.",
    ["command"],
    command=_text("The command."),
    seconds=_number(f"Time limit; {DEFAULT_SECONDS:g} unless given, at most {MAX_SECONDS:g}."),
)


@dataclass
class Toolbox:
    """The tools on one worktree."""

    tree: Path
    files: FileTools
    environment: Mapping[str, str] | None
    """The environment of commands; None: no commands may be run."""
    mark: str
    """The delegation's id, by which its processes are found."""
    confinement: Confinement = Confinement.NAMESPACE
    limits: ProgramLimits = field(default_factory=ProgramLimits)
    """The limits of commands."""
    sandbox: Sandbox | None = None
    """The isolation of the last command."""
    relay: Relay | None = None
    """What else the model may do."""
    only: frozenset[str] | None = None
    """The only tools besides those of ``relay``; None: all."""
    changed: set[str] = field(default_factory=set)
    """Files that were written."""
    touched: bool = False
    """Whether something may have changed since this was last set to False."""

    @property
    def offered(self) -> list[ToolSpec]:
        """The tools as the model is to know them."""
        every = [*FILE_TOOLS, *([RUN_COMMAND] if self.environment is not None else [])]
        usable = [tool for tool in every if self.may(tool.name)]
        relayed = self.relay.tools if self.relay is not None else ()
        return usable + [
            ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters) for tool in relayed
        ]

    def may(self, name: str) -> bool:
        """Return whether the model may use one of the loop's own tools."""
        return self.only is None or name in self.only

    @property
    def may_change(self) -> bool:
        """Return whether the model may change files, with calls or with edits as text."""
        return self.only is None or may_change(self.only)

    def apply(self, blocks: Sequence[EditBlock]) -> list[Event]:
        """Make the changes that an answer shows as text; raise ``ToolError`` without making any."""
        if not self.may("write_file") and any(not block.old for block in blocks):
            raise ToolError("You may only edit files that exist, not create any.")
        changes = edit_blocks.apply(self.files, list(blocks))
        self.changed.update(path for path, _ in changes)
        return [File(path=path, change=change) for path, change in changes]

    def seconds(self, call: RequestedCall) -> float:
        """Return how long a call may take."""
        if call.name != RUN_COMMAND.name:
            return FILE_TOOL_SECONDS
        return seconds_of(call.arguments.get("seconds"))

    async def execute(self, call: RequestedCall) -> tuple[str, bool, list[Event]]:
        """Execute a call; return the text for the model, whether it succeeded, and the events of changed files."""
        if call.problem is not None:
            return f"Not executed: {call.problem}. Make the call again.", False, []
        spec = next((tool for tool in self.offered if tool.name == call.name), None)
        if spec is None:
            names = ", ".join(tool.name for tool in self.offered)
            return f"There is no tool {call.name[:80]!r}. The tools are: {names}.", False, []
        if self._is_relayed(call.name) and self.relay is not None:
            text, ok = await self.relay.call(call.name, call.arguments)
            return text, ok, []
        try:
            arguments = _checked(spec, call.arguments)
            if spec is RUN_COMMAND:
                return await self._run(arguments)
            if spec.name in {"edit_file", "write_file"}:
                # Not in a thread, which a cancel could not stop: nothing is written after the end.
                return self._on_files(spec.name, arguments)
            async with asyncio.timeout(FILE_TOOL_SECONDS):
                return await asyncio.to_thread(self._on_files, spec.name, arguments)
        except ToolError as error:
            return str(error), False, []
        except TimeoutError:
            return f"{spec.name} took more than {FILE_TOOL_SECONDS:g} s and was given up.", False, []
        except UnderstudyError as error:
            return f"{error.message} {error.hint or ''}".strip(), False, []
        except OSError as error:
            return f"{spec.name} failed: {error.strerror or error}.", False, []

    def _is_relayed(self, name: str) -> bool:
        return self.relay is not None and any(tool.name == name for tool in self.relay.tools)

    def _on_files(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool, list[Event]]:
        if name == "read_file":
            return self.files.read(**arguments), True, []
        if name == "list_files":
            return self.files.listing(**arguments), True, []
        if name == "search_files":
            return self.files.search(**arguments), True, []
        answer, change = (self.files.edit if name == "edit_file" else self.files.write)(**arguments)
        path = arguments["path"].removeprefix("./")
        self.changed.add(path)
        self.touched = True
        return answer, True, [File(path=path, change=change)]

    async def _run(self, arguments: dict[str, Any]) -> tuple[str, bool, list[Event]]:
        self.touched = True
        result = await run_command(
            arguments["command"],
            tree=self.tree,
            environment=environment_for(dict(self.environment or {})),
            mark=self.mark,
            seconds=seconds_of(arguments.get("seconds")),
            confinement=self.confinement,
            limits=self.limits,
        )
        self.sandbox = result.sandbox
        return result.text, result.ok, []


def _checked(spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a tool knows; raise ``ToolError`` for a wrong type or a missing one."""
    properties: Mapping[str, Any] = spec.parameters["properties"]
    checked: dict[str, Any] = {}
    for name, value in arguments.items():
        if name not in properties:
            raise ToolError(f"{spec.name} has no argument {name[:80]!r}; it has {', '.join(properties)}.")
        if value is None and name not in spec.parameters["required"]:
            continue  # as some models leave an argument out
        expected = str if properties[name]["type"] == "string" else int
        if expected is int and isinstance(value, float) and value.is_integer():
            value = int(value)  # noqa: PLW2901 - JSON has one type for numbers
        if not isinstance(value, expected) or isinstance(value, bool):
            raise ToolError(f"{spec.name}: {name} must be {'a text' if expected is str else 'a whole number'}.")
        if isinstance(value, int) and abs(value) > _MOST:
            raise ToolError(f"{spec.name}: {name} is too large a number.")
        checked[name] = value
    missing = [name for name in spec.parameters["required"] if name not in checked]
    if missing:
        raise ToolError(f"{spec.name} needs {' and '.join(missing)}.")
    if spec is RUN_COMMAND and "\0" in checked["command"]:
        raise ToolError("A command cannot contain a NUL character.")
    return checked
