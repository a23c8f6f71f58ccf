"""Register the MCP server with the commands of its clients, and remove it.

Where a client has no command, the entry is a snippet for its file: a missing file is created with it, and removed again
while it is exactly what was written; an existing file is never changed.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from understudy.config import findings
from understudy.config.loading import loader
from understudy.files.user_file import UserFile
from understudy.integrations.mcp_clients.client_table import CLIENTS, Client, Commands, Places, Server
from understudy.model.config.other_agents import McpClient, McpClientChange, RegistrationState
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import sanitize
from understudy.process.call_checks import is_allowed
from understudy.process.program_spec import OWN, Program
from understudy.process.unguarded import run_unguarded

_Result = TypeVar("_Result")
DEFAULT_ENTRY = "understudy"
MOST_BYTES = 4 * 1024 * 1024
_ENTRY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,31}")
"""What every client accepts: Claude Code puts it into the names of tools, and it is not an option of a command."""
_DELEGATE_LOCAL = ("--tools", "delegate-local")
_STARTS_US = re.compile(r"(?:^|[/ ])understudy mcp(?: |$)")
_VARIABLES = {
    "UNDERSTUDY_CONFIG": None,
    "UNDERSTUDY_STATE": None,
    "XDG_CONFIG_HOME": ".config",
    "XDG_STATE_HOME": ".local/state",
    "XDG_DATA_HOME": ".local/share",
}
"""Variables that decide which configuration, state and keys Understudy uses, and their defaults below the home."""


COMMAND_SECONDS = 60.0
"""How long one command may take: some start all their servers for a list, or unpack themselves first."""
_MOST_OUTPUT_BYTES = 1024 * 1024
_MOST_SHOWN = 500
"""How many characters of the output of a failed command an error shows."""
_NO_ENTRY = re.compile(r"no mcp server named|server \S+ not found", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is registered."""

    entry: str | None = None
    tool_sets: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of the entry. Errors: ``invalid_params``."""
        if self.entry is not None and not _ENTRY.fullmatch(self.entry):
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{self.entry!r} cannot be the name of an MCP server.",
                hint="Use up to 32 letters, digits, hyphens and underscores; no hyphen first.",
                parameter="entry",
            )
        return self.entry or DEFAULT_ENTRY


@dataclass(frozen=True, slots=True)
class _Target:
    """One client, and where the entry belongs."""

    name: str
    client: Client
    file: UserFile
    program: ClientProgram | None
    """None: the entry is in the file."""
    entry: str
    server: Server

    @property
    def found(self) -> bool:
        """Whether the client is here."""
        return self.file.path.parent.is_dir() if self.program is None else self.program.found

    @property
    def lister(self) -> ClientProgram | None:
        """The program that shows the entry; None if it is read from the file."""
        return self.program if self.program is not None and self.program.commands.show else None

    def state(self) -> RegistrationState:
        """Return the state of the entry. Errors: those of running the client, and of reading the file."""
        if self.lister is None:
            return self._state_in_file()
        started = self.lister.started()
        return RegistrationState.ABSENT if started is None else self._state_of(started)

    def _state_in_file(self) -> RegistrationState:
        text = (self.file.read() or b"").decode("utf-8", "replace")
        try:
            entry = self._parsed(text)[self.client.container][self.entry]
        except KeyError:
            return RegistrationState.ABSENT
        except (ValueError, TypeError, RecursionError):  # comments, for example
            return RegistrationState.UNKNOWN if self.entry in text else RegistrationState.ABSENT
        parts = [entry.get("command"), entry.get("args")] if isinstance(entry, dict) else []
        words = itertools.chain.from_iterable(part if isinstance(part, list) else [part] for part in parts if part)
        return self._state_of(" ".join(map(str, words)))

    def _state_of(self, started: str) -> RegistrationState:
        if started == " ".join(self.server.command):
            return RegistrationState.REGISTERED
        return RegistrationState.OUTDATED if _STARTS_US.search(started) else RegistrationState.FOREIGN

    def _parsed(self, text: str) -> Any:
        if self.file.path.suffix == ".toml":
            return tomllib.loads(text)
        return json.loads(text.removeprefix("\ufeff")) if text.strip() else {}

    def snippet(self, *, new: bool) -> str:
        """Return the entry in its table; for a ``new`` file, all of its content."""
        content = {
            **(self.client.new_file if new else {}),
            self.client.container: {self.entry: self.client.entry(self.server)},
        }
        return tomli_w.dumps(content) if self.file.path.suffix == ".toml" else json.dumps(content, indent=2) + "\n"

    def written(self) -> set[bytes]:
        """Return what an install may have written into a file, with and without further tools."""
        start = self.server.command.index("mcp") + 1
        commands = (self.server.command, self.server.command[:start], (*self.server.command[:start], *_DELEGATE_LOCAL))
        return {
            replace(self, server=replace(self.server, command=command)).snippet(new=True).encode()
            for command in commands
        }


def listed(workspace: Path | None, request: Wanted, environment: Mapping[str, str] = os.environ) -> list[McpClient]:
    """Return all clients with the state of our entry; those of a workspace if one is given."""

    def look(target: _Target) -> McpClient:
        state, problem, is_found = RegistrationState.ABSENT, None, target.found
        try:
            if is_found or target.lister is None:
                state = target.state()
        except UnderstudyError as error:
            state, problem = RegistrationState.UNKNOWN, target.file.problem(error)
        return McpClient(
            name=target.name,
            title=target.client.title,
            path=str(target.file.path),
            state=state,
            found=is_found,
            workspace=target.file.inside is not None,
            problem=problem,
        )

    places = (None, workspace) if workspace is not None else (None,)
    return _each(look, [target for place in places for target in _targets(place, request, environment).values()])


def change(
    names: Sequence[str] | None,
    workspace: Path | None,
    request: Wanted,
    *,
    install: bool,
    dry_run: bool,
    environment: Mapping[str, str] = os.environ,
) -> list[McpClientChange]:
    """Register or remove the server in the named clients; return what was done, or with ``dry_run`` would be.

    Default: all that are here. A client that cannot be changed has a ``problem``; the others are changed. Raises
    ``invalid_params`` for an unknown name.
    """
    targets = _targets(workspace, request, environment)
    for name in names or ():
        if name not in targets:
            raise _unknown(name, targets)
    chosen = [
        target
        for name, target in targets.items()
        if (name in names if names else target.found or (not install and target.lister is None))
    ]
    changes = _each(lambda target: _change_one(target, install=install, dry_run=dry_run), chosen)
    return [made for made in changes if names or install or made.before is not RegistrationState.ABSENT]


def _each(function: Callable[[_Target], _Result], targets: Sequence[_Target]) -> list[_Result]:
    """Apply a function at once to all targets: most wait for a program."""
    with ThreadPoolExecutor(max_workers=len(CLIENTS)) as pool:
        return list(pool.map(function, targets))


def _change_one(target: _Target, *, install: bool, dry_run: bool) -> McpClientChange:
    unknown, content = RegistrationState.UNKNOWN, None
    made = McpClientChange(
        name=target.name, title=target.client.title, path=str(target.file.path), before=unknown, after=unknown
    )
    try:
        made.before = made.after = target.state()
        _require_ours(target, made.before)
        if made.before is (RegistrationState.REGISTERED if install else RegistrationState.ABSENT):
            return made
        if install:
            made.next = target.client.next(target.server)
        if target.program is not None and (install or target.program.commands.remove):
            made.commands = _planned_commands(target, target.program, made.before, install=install)
        else:
            content = target.file.read()
            _plan_file(target, made, content, install=install)
        if made.commands or made.writes:
            made.after = RegistrationState.REGISTERED if install else RegistrationState.ABSENT
            if not dry_run:
                _do(target, made, content)
    except (OSError, UnderstudyError) as error:
        made.after = unknown if made.commands or made.writes else made.before
        made.next, made.problem = None, target.file.problem(error)
    return made


def _require_ours(target: _Target, state: RegistrationState) -> None:
    if state is RegistrationState.FOREIGN:
        raise UnderstudyError(
            ErrorKind.TARGET_EXISTS,
            f"The entry `{target.entry}` does not start Understudy.",
            hint=f"It was left as it is. Rename it in {target.file.path}, or choose another name with `--name`.",
        )


def _planned_commands(
    target: _Target, program: ClientProgram, before: RegistrationState, *, install: bool
) -> list[list[str]]:
    commands = program.commands
    planned = [program.argv(commands.remove)] if commands.remove and before is not RegistrationState.ABSENT else []
    return [*planned, program.argv(commands.add(target.entry, target.server))] if install else planned


def _plan_file(target: _Target, made: McpClientChange, content: bytes | None, *, install: bool) -> None:
    place = f"`{target.client.container}` in {made.path}"
    if install:
        made.writes = content is None
        made.snippet = target.snippet(new=made.writes)
        if content is not None:
            made.next = f"Put this entry into {place}. {made.next or ''}".rstrip()
    elif content in target.written():
        made.writes = True
    else:
        made.next = f"Remove the entry `{target.entry}` from {place}."


def _do(target: _Target, made: McpClientChange, content: bytes | None) -> None:
    """Do what was planned, and check that it is done. Errors: ``tool_no_result`` if it is not."""
    if made.writes:
        target.file.write(content, made.snippet.encode() or None)
    if target.program is not None:
        for argv in made.commands:
            target.program.run(argv)
    state = target.state()
    if state not in {made.after, RegistrationState.UNKNOWN}:
        raise UnderstudyError(
            ErrorKind.TOOL_NO_RESULT,
            f"{target.client.title} reported no error, but the entry `{target.entry}` is {state}.",
            hint=f"Look into {made.path}, and into other profiles and settings of the client.",
        )
    made.after = state


def _targets(workspace: Path | None, request: Wanted, environment: Mapping[str, str]) -> dict[str, _Target]:
    server = _server(request, environment, shared=workspace is not None)
    places, targets = Places(environment), {}
    for name, client in CLIENTS.items():
        program = None
        if workspace is None:
            file = UserFile(client.file(places), MOST_BYTES)
            if client.commands is not None:
                program = ClientProgram(client.commands, request.name, file.path, environment)
        elif client.workspace_file is not None:
            # Its commands would run in the workspace, which may not be trusted.
            file = UserFile(workspace / client.workspace_file, MOST_BYTES, workspace)
        else:
            continue
        targets[name] = _Target(name, client, file, program, request.name, server)
    return targets


def _server(request: Wanted, environment: Mapping[str, str], *, shared: bool) -> Server:
    """Return how to start our server; ``shared``: on any machine that has the workspace."""
    arguments = ["mcp", *(part for tool_set in request.tool_sets for part in ("--tools", tool_set))]
    if shared:
        return Server(("understudy", *arguments))
    home = Places(environment).home
    variables = {
        name: value
        for name, default in _VARIABLES.items()
        if (value := environment.get(name)) and (default is None or Path(value) != home / default)
    }
    keys = {
        entry.model_server.api_key.from_env
        for entry in loader.load(None, trusted=False).model_servers.values()
        if entry.model_server.api_key is not None and entry.model_server.api_key.from_env
    }
    return Server((*_program(environment), *arguments), variables, tuple(sorted(keys)))


def _program(environment: Mapping[str, str]) -> list[str]:
    """Return how to start this Understudy: editors do not have the PATH of a terminal, so with its whole path."""
    installed = Path(sys.executable).with_name("understudy")
    named = shutil.which("understudy", path=environment.get("PATH"))
    if named is not None and os.path.realpath(named) == os.path.realpath(installed):
        return [os.path.abspath(named)]  # noqa: PTH100 - a link stays: it outlives an update
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "understudy"]


def _unknown(name: str, targets: Mapping[str, _Target]) -> UnderstudyError:
    if name in CLIENTS:
        return UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{CLIENTS[name].title} has no configuration of its own in a workspace.",
            hint="Leave `--workspace` out.",
            parameter="names",
        )
    return UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        f"There is no MCP client {name!r}.",
        hint=findings.near(name, targets),
        parameter="names",
    )


@dataclass(frozen=True, slots=True)
class ClientProgram:
    """The program of a client, for one entry."""

    commands: Commands
    entry: str
    file: Path
    """Where the entry is, for messages."""
    environment: Mapping[str, str]

    @property
    def found(self) -> bool:
        """Whether the program is on PATH."""
        return shutil.which(self.commands.program, path=self.environment.get("PATH")) is not None

    def argv(self, arguments: Sequence[str]) -> list[str]:
        """Return a command line; ``NAME`` stands for the entry."""
        return [self.commands.program, *(self.entry if part == "NAME" else part for part in arguments)]

    def run(self, argv: Sequence[str]) -> str:
        """Run a command of the client and return what it printed, sanitised.

        Errors: ``tool_missing``, ``permission_denied``, ``timed_out``, ``tool_crashed`` with its output.
        """
        text, problem = self._run(argv)
        if problem is not None:
            raise problem
        return text

    def started(self) -> str | None:
        """Return what the entry starts, empty if it is a server of another kind; None without an entry."""
        text, problem = self._run(self.argv(self.commands.show))
        if problem is not None:
            if _NO_ENTRY.search(text):
                return None
            raise problem
        name = re.escape(self.entry)
        # Claude Code, Codex and Copilot CLI print lines of one entry; Gemini CLI and Qwen Code a line for each.
        match = re.search(
            rf"^\s*command: (.*)(?:\n\s*args: (.*))?$|^\W*{name}: (.*) \(stdio\)", text, re.IGNORECASE | re.MULTILINE
        )
        if match is not None:
            return " ".join(part.strip() for part in match.groups() if part)
        return "" if re.search(rf"^\W*{name}(?:: .*|:?)$", text, re.MULTILINE) else None

    def _run(self, argv: Sequence[str]) -> tuple[str, UnderstudyError | None]:
        variables = self.commands.variables
        passed = {name: value for name, value in self.environment.items() if is_allowed(name) or name in variables}
        # In no project: a client would read the configuration of the current one, and might run what it names.
        program = Program(argv, Path("/"), {**passed, "NO_COLOR": "1"}, OWN)
        completed = run_unguarded(program, timeout_seconds=COMMAND_SECONDS, output_limit=_MOST_OUTPUT_BYTES)
        text = sanitize.sanitize((completed.stdout + b"\n" + completed.stderr).decode("utf-8", "replace"))
        if completed.code == 0 and not completed.timed_out:
            return text, None
        shown = sanitize.one_line((completed.stderr.strip() or completed.stdout).decode("utf-8", "replace"))[
            -_MOST_SHOWN:
        ]
        end = (
            f"did not end within {COMMAND_SECONDS:g} s"
            if completed.timed_out
            else f"exited with code {completed.code}"
            if completed.code is not None
            else f"was ended by signal {completed.signal}"
        )
        kind = ErrorKind.TIMED_OUT if completed.timed_out else ErrorKind.TOOL_CRASHED
        message = f"`{shlex.join(argv)}` {end}{f': {shown}' if shown else ''}".rstrip(".") + "."
        return text, UnderstudyError(kind, message, hint=f"Run it in a terminal, or change the entry in {self.file}.")
