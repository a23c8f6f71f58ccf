"""Register the MCP server in the configuration of clients, and remove it.

A file is replaced atomically, keeps its links and permissions, and is refused if it cannot be parsed or changed since
it was read. An uninstall takes out exactly what the install inserted, wherever that is now; where it was edited, only
our entry goes.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.config import suggestions
from understudy.config.loading import loader
from understudy.files.user_file import UserFile
from understudy.integrations.mcp_clients import receipts, shown_diff
from understudy.integrations.mcp_clients.client_table import CLIENTS, Client, Places, Server
from understudy.integrations.mcp_clients.edits import unusable
from understudy.integrations.mcp_clients.json_entries import JsonTable
from understudy.integrations.mcp_clients.toml_entries import TomlTable
from understudy.model.config.other_agents import McpClient, McpClientChange, RegistrationState
from understudy.model.errors import ErrorKind, UnderstudyError

DEFAULT_ENTRY = "understudy"
MOST_BYTES = 64 * 1024 * 1024
"""Claude Code keeps the history of all projects in the same file."""
_MOST_FOLDERS = 9
_ENTRY = re.compile(r"[A-Za-z0-9_-]{1,32}")
"""What every client accepts: Claude Code puts it into the names of tools, and TOML takes it without quotes."""
_VARIABLES = {
    "UNDERSTUDY_CONFIG": None,
    "UNDERSTUDY_STATE": None,
    "XDG_CONFIG_HOME": ".config",
    "XDG_STATE_HOME": ".local/state",
    "XDG_DATA_HOME": ".local/share",
}
"""Variables that decide which configuration, state and keys Understudy uses, and their defaults below the home."""


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
                hint="Use up to 32 letters, digits, hyphens and underscores.",
                parameter="entry",
            )
        return self.entry or DEFAULT_ENTRY


@dataclass(frozen=True, slots=True)
class _Target:
    """The configuration of one client."""

    client: Client
    file: UserFile
    table: JsonTable | TomlTable
    wanted: dict[str, Any]

    def others(self, text: str) -> dict[str, Any]:
        """Return everything but our entry, and but its table if that has nothing else."""
        found = dict(self.table.everything(text))
        servers = {key: value for key, value in found.pop(self.table.container, {}).items() if key != self.table.name}
        return {**found, self.table.container: servers} if servers else found


def listed(workspace: Path | None, wanted: Wanted, environment: Mapping[str, str] = os.environ) -> list[McpClient]:
    """Return all clients with the state of our entry; those of a workspace if one is given."""
    found = []
    for where in (None, workspace) if workspace is not None else (None,):
        for name, target in _targets(where, wanted, environment).items():
            problem = None
            try:
                state = _state(target, _text(target, target.file.read()))
            except UnderstudyError as error:
                state, problem = RegistrationState.UNREADABLE, error.message
            found.append(
                McpClient(
                    name=name,
                    title=target.client.title,
                    path=str(target.file.path),
                    state=state,
                    found=target.client.folder(Places(environment)).is_dir(),
                    workspace=where is not None,
                    problem=problem,
                )
            )
    return found


def change(
    names: Sequence[str] | None,
    workspace: Path | None,
    wanted: Wanted,
    *,
    install: bool,
    dry_run: bool,
    revision: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> tuple[list[McpClientChange], str]:
    """Register or remove the server in the named clients; return what was done, and the revision of what was decided.

    A file that cannot be changed has a ``problem``; the others are changed. Raises ``invalid_params`` for an unknown
    name, ``conflict`` if ``revision`` is not that of what would be done now.
    """
    targets = _targets(workspace, wanted, environment)
    for name in names or ():
        if name not in targets:
            raise _unknown(name, targets)
    chosen = list(dict.fromkeys(names)) if names else _default(targets, environment, install=install)
    plans = [_plan(name, targets[name], install=install) for name in chosen]
    found = _revision(plans)
    if revision is not None and revision != found:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            "A configuration has changed since it was shown.",
            hint="Look at the changes again: use `dryRun`.",
        )
    return [plan.change if dry_run or plan.change.problem else _done(plan) for plan in plans], found


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is written into one file."""

    target: _Target
    change: McpClientChange
    before: bytes | None = None
    after: bytes | None = None
    receipt: receipts.Receipt | None = None
    """What is kept after an install."""
    folders: int = 0
    """How many folders go with the file."""


def _plan(name: str, target: _Target, *, install: bool) -> _Plan:
    state = RegistrationState.UNREADABLE
    made = McpClientChange(name=name, title=target.client.title, path=str(target.file.path), before=state, after=state)
    try:
        before = target.file.read()
        text = _text(target, before)
        state = made.before = made.after = _state(target, text)
        _require_ours(target, state)
        if (install and state is RegistrationState.REGISTERED) or (not install and state is RegistrationState.ABSENT):
            return _Plan(target, made, before, before)
        plan = _installed(target, made, before, text) if install else _removed(target, made, before, text)
        _require_writable(target, before)
    except (OSError, UnderstudyError) as error:
        made.problem = target.file.problem(error)
        return _Plan(target, made)
    old, new = ((one or b"").decode("utf-8", "replace") for one in (plan.before, plan.after))
    path = made.path
    made.diff = shown_diff.unified(
        old,
        new,
        "/dev/null" if before is None else path,
        "/dev/null" if plan.after is None else path,
        target.wanted,
        _program_of(target.table.read(text)),
    )
    made.after = RegistrationState.REGISTERED if install else RegistrationState.ABSENT
    made.next = target.client.next if install else None
    return plan


def _installed(target: _Target, made: McpClientChange, before: bytes | None, text: str) -> _Plan:
    entry = target.wanted
    receipt = receipts.read(target.file.target(), target.table.name)
    folders, file = target.file.missing_folders(_MOST_FOLDERS), before is None
    if made.before is RegistrationState.OUTDATED:
        # What the user or the client added stays.
        entry = _merged(target.table.read(text), entry)
        text, file, folders = _without(target, text, receipt)
    inserted = target.table.insert(text, entry)
    kept = receipts.Receipt(
        path=str(target.file.target()),
        insertion=inserted.insertion,
        entry=inserted.entry,
        container=inserted.container,
        file=file,
        folders=folders,
    )
    return _Plan(target, made, before, _encoded(target, inserted.text), kept)


def _removed(target: _Target, made: McpClientChange, before: bytes | None, text: str) -> _Plan:
    left, file, folders = _without(target, text, receipts.read(target.file.target(), target.table.name))
    return _Plan(target, made, before, None if file else left.encode(), folders=folders)


def _without(target: _Target, text: str, receipt: receipts.Receipt | None) -> tuple[str, bool, int]:
    """Return the text without our entry; whether the file was made for it and is empty now; its folders then."""
    start = target.table.start_of(text)
    others = target.others(text)
    cut: str | None = None
    if receipt is not None and start is not None:
        first = start - receipt.entry
        end = first + len(receipt.insertion)
        if first >= 0 and text[first:end] == receipt.insertion:
            cut = text[:first] + text[end:]
    for candidate in (cut, target.table.remove(text, with_table=receipt is not None and receipt.container)):
        if candidate is not None and _is_without(target, candidate, others):
            empty = candidate.strip("\ufeff \t\r\n") in {"", "{}"} or candidate.split() == ["{", "}"]
            if receipt is not None and receipt.file and empty and not others:
                return "", True, receipt.folders
            return candidate, False, 0
    raise unusable(text, start or 0, f"the entry `{target.table.name}` cannot be removed.", "Remove it in an editor.")


def _is_without(target: _Target, text: str, others: Any) -> bool:
    try:
        return target.table.read(text) is None and target.others(text) == others
    except UnderstudyError:
        return False


def _done(plan: _Plan) -> McpClientChange:
    """Write what was planned."""
    made, target = plan.change, plan.target
    if plan.before == plan.after:
        return made
    path = target.file.target()
    try:
        if plan.receipt is not None:
            receipts.write(plan.receipt, path, target.table.name)
        target.file.write(plan.before, plan.after)
    except (OSError, UnderstudyError) as error:
        made.after, made.diff, made.next, made.problem = made.before, "", None, target.file.problem(error)
        return made
    if plan.receipt is None:
        receipts.forget(path, target.table.name)
    if plan.after is None and not target.file.path.is_symlink():
        for folder in list(target.file.path.parents)[: plan.folders]:
            with contextlib.suppress(OSError):  # something else is in it
                folder.rmdir()
    return made


def _targets(workspace: Path | None, wanted: Wanted, environment: Mapping[str, str]) -> dict[str, _Target]:
    places, name = Places(environment), wanted.name
    server = _server(wanted, environment, shared=workspace is not None)
    found = {}
    for key, client in CLIENTS.items():
        if workspace is None:
            file = UserFile(client.file(places), MOST_BYTES, new_mode=0o600 if client.private else 0o644)
        elif client.workspace_file is not None:
            file = UserFile(workspace / client.workspace_file, MOST_BYTES, workspace)
        else:
            continue
        table = (
            TomlTable(client.container, name)
            if client.format == "toml"
            else JsonTable(client.container, name, client.format == "jsonc")
        )
        found[key] = _Target(client, file, table, client.entry(server))
    return found


def _server(wanted: Wanted, environment: Mapping[str, str], *, shared: bool) -> Server:
    """Return how to start our server; ``shared``: on any machine that has the workspace."""
    arguments = ["mcp", *(part for one in wanted.tool_sets for part in ("--tools", one))]
    if shared:
        return Server("understudy", tuple(arguments), {})
    home = Path(environment.get("HOME") or Path.home())
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
    command, *more = _program(environment)
    return Server(command, (*more, *arguments), variables, tuple(sorted(keys)))


def _program(environment: Mapping[str, str]) -> list[str]:
    """Return how to start this Understudy: editors do not have the PATH of a terminal, so with its whole path."""
    own = Path(sys.executable).with_name("understudy")
    named = shutil.which("understudy", path=environment.get("PATH"))
    if named is not None and os.path.realpath(named) == os.path.realpath(own):
        return [os.path.abspath(named)]  # noqa: PTH100 - a link stays: it outlives an update
    return [str(own)] if own.exists() else [sys.executable, "-m", "understudy"]


def _default(targets: Mapping[str, _Target], environment: Mapping[str, str], *, install: bool) -> list[str]:
    if install:
        return [name for name, target in targets.items() if target.client.folder(Places(environment)).is_dir()]
    return [name for name, target in targets.items() if _is_there(target)]


def _is_there(target: _Target) -> bool:
    try:
        state = _state(target, _text(target, target.file.read()))
    except UnderstudyError:
        return False
    return state in {RegistrationState.REGISTERED, RegistrationState.OUTDATED}


def _state(target: _Target, text: str) -> RegistrationState:
    try:
        entry = target.table.read(text)
    except UnderstudyError as error:
        raise _named(target, error) from None
    if entry is None:
        return RegistrationState.ABSENT
    if not _starts_understudy(entry):
        return RegistrationState.FOREIGN
    return RegistrationState.REGISTERED if _merged(entry, target.wanted) == entry else RegistrationState.OUTDATED


def _merged(entry: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with our values, and with everything else that is in it."""
    found = dict(entry)
    for key, value in wanted.items():
        old = found.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            found[key] = {**old, **value}
        elif key == "env_vars" and isinstance(old, list):
            found[key] = old + [one for one in value if one not in old]
        else:
            found[key] = value
    return found


def _starts_understudy(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    words = [Path(word).name for word in _words(entry)]
    return any(pair == ("understudy", "mcp") for pair in itertools.pairwise(words))


def _program_of(entry: Any) -> list[Any]:
    """Return what an entry starts, without variables: their values may be secret."""
    if not isinstance(entry, dict):
        return []
    return [one for one in _words(entry) if "=" not in one]


def _words(entry: Mapping[str, Any]) -> list[str]:
    parts: list[Any] = []
    for key in ("command", "args"):
        value = entry.get(key)
        parts += value if isinstance(value, list) else [value]
    return [one for one in parts if isinstance(one, str)]


def _text(target: _Target, content: bytes | None) -> str:
    try:
        return (content or b"").decode()
    except UnicodeDecodeError as error:
        text = (content or b"")[: error.start].decode()
        raise _named(target, unusable(text, len(text), "it is not UTF-8.")) from None


def _encoded(target: _Target, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{target.file.path} cannot contain the path of this program, which is not UTF-8.",
            hint="Install Understudy in a folder with an ordinary name.",
        ) from None


def _named(target: _Target, error: UnderstudyError) -> UnderstudyError:
    return UnderstudyError(error.kind, f"{target.file.path}: {error.message}", hint=error.hint)


def _require_ours(target: _Target, state: RegistrationState) -> None:
    if state is RegistrationState.FOREIGN:
        raise UnderstudyError(
            ErrorKind.TARGET_EXISTS,
            f"{target.file.path}: the entry `{target.table.name}` does not start Understudy.",
            hint="It was left as it is. Rename it, or choose another name with `--name`.",
        )


def _require_writable(target: _Target, before: bytes | None) -> None:
    """Raise ``permission_denied`` before the user is asked."""
    path = target.file.target()
    if before is not None and (not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK)):
        raise UnderstudyError(
            ErrorKind.PERMISSION_DENIED, f"{target.file.path} is read-only.", hint="Make it writable, then try again."
        )


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
        hint=suggestions.near(name, targets),
        parameter="names",
    )


def _revision(plans: Sequence[_Plan]) -> str:
    digest = hashlib.sha256()
    for plan in plans:
        digest.update(repr((plan.change.path, plan.before, plan.after, plan.change.problem)).encode())
    return digest.hexdigest()[:16]
