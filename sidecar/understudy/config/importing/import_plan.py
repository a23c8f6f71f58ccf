"""Decide what an import writes: names that are free, entries without errors, and a diff.

Everything is decided before anything is written. An entry that exists with the same values is not written again, so a
second import changes nothing; one with other values is never replaced.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import msgspec

from understudy.config import locations
from understudy.config.configuration import Configuration
from understudy.config.discovery import declarations
from understudy.config.editing.edit import Editor
from understudy.config.findings import Finding, KeyPath
from understudy.config.importing import agent_delegate, agent_delegator, delegate_local, operator_config, sideagent
from understudy.config.importing.draft import Draft, Drafted, FoundKey, NotCarried, holds_secret, is_secret
from understudy.config.importing.foreign_files import Document, Syntax, read_document, setting
from understudy.config.loading.loader import load
from understudy.config.parsing import file_schema, source_file
from understudy.config.parsing.config_file import render, schema_line
from understudy.config.parsing.source_file import unusable_value
from understudy.config.validation import delegator_rules, server_rules, workspace_rules
from understudy.model.config.config_entries import ImportSource
from understudy.model.config.delegators import Delegator, ModelServer, Scope
from understudy.model.errors import ErrorKind, Location, UnderstudyError

Kind = Literal["modelServer", "delegator", "profile", "default"]
_Entry = TypeVar("_Entry", ModelServer, Delegator)
_DROPPABLE: dict[type, frozenset[str]] = {
    # Without its tool, model, server or locality, a delegator would send the work elsewhere.
    Delegator: frozenset({"display_name", "model_properties", "launch", "env", "limits", "mode", "fallback"}),
    ModelServer: frozenset({"display_name", "headers", "max_concurrent"}),
}
_EFFORT = "model_reasoning_effort"
_WHOLE = 256
"""The most fields of one entry that are left out before it is given up."""
_MOST_ROUNDS = 4
SOURCES: tuple[ImportSource, ...] = get_args(ImportSource)
_CLAUDE_BYTES = 16 * 1024 * 1024
"""The largest ``~/.claude.json``: it also holds the history of prompts of every project."""
_MOST_BYTES = 256 * 1024


@dataclass(frozen=True)
class PlannedFile:
    """A file of the user's configuration that an import writes, or would write."""

    kind: Kind
    name: str
    path: Path
    before: bytes
    after: bytes
    exists: bool = False


@dataclass(frozen=True)
class OfferedKey:
    """A key in plain text that can be stored for a model server."""

    model_server: str
    key: FoundKey


@dataclass
class ImportPlan:
    """What one import writes, and what it leaves out."""

    read: list[Path]
    files: list[PlannedFile] = field(default_factory=list)
    unchanged: list[tuple[Kind, str]] = field(default_factory=list)
    """Entries that exist with the same values."""
    not_carried: list[NotCarried] = field(default_factory=list)
    keys: list[OfferedKey] = field(default_factory=list)
    steps: list[Callable[[Editor], object]] = field(default_factory=list)
    """What writes ``files``, in this order."""

    @property
    def revision(self) -> str:
        """Return a token that changes whenever something else would be written."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(repr((str(file.path), file.before, file.after)).encode())
        return digest.hexdigest()[:16]

    def diff(self) -> str:
        """Return what is written as a unified diff, without profiles: they are kept as they are, also keys in them."""
        return "".join(line for file in self.files if file.kind != "profile" for line in _diff(file))

    def write(self, editor: Editor) -> None:
        """Write everything, each file atomically; raises what ``Editor.create`` and ``Editor.set_default`` raise."""
        for step in self.steps:
            step(editor)


def make_plan(draft: Draft, editor: Editor, scope: Scope = Scope.USER) -> ImportPlan:
    """Return what importing ``draft`` into the configuration of a scope writes.

    Raises ``untrusted_workspace`` and ``invalid_params`` for a scope that cannot be edited.
    """
    names = {drafted.entry.name: valid_name(drafted.entry.name) for drafted in draft.delegators}
    for _ in range(_MOST_ROUNDS):
        # Delegators name each other, and one that another delegator has the name of gets another name.
        copied = dataclasses.replace(draft, delegators=[dataclasses.replace(entry) for entry in draft.delegators])
        planner = _Planner(copied, editor, scope, names)
        made = planner.plan()
        if planner.names == names:
            break
        names = planner.names
    return made


class _Planner:
    def __init__(self, draft: Draft, editor: Editor, scope: Scope, expected: Mapping[str, str]) -> None:
        self.draft = draft
        self.expected = expected
        """Names of delegators in the other tool → ours, as far as they are carried over."""
        self.editor = editor
        self.scope = scope
        self.root = editor.root(scope)
        self.before: Configuration = editor.seen(scope)
        self.servers = {name: entry.model_server for name, entry in self.before.model_servers.items()}
        self.delegators = {name: entry.delegator for name, entry in self.before.delegators.items()}
        self.tools = {name: tool.definition for name, tool in self.before.tools.items() if tool.usable}
        self.result = ImportPlan(read=list(draft.read), not_carried=list(draft.dropped))
        self.names: dict[str, str] = {}
        """What ``expected`` should have been."""

    def plan(self) -> ImportPlan:
        renamed: dict[str, str] = {}
        for drafted in self.draft.servers:
            server = self._valid(drafted, ModelServer, self._check_server)
            if server is not None:
                renamed[drafted.entry.name] = self._place(drafted, server, self.servers)
        check = self._check_delegator
        for draft in self.draft.delegators:
            entry = draft.entry
            if entry.fallback is not None:
                known_names = [self.expected[name] for name in entry.fallback if name in self.expected]
                draft.entry = entry = msgspec.structs.replace(entry, fallback=known_names or None)
            if entry.model_server is not None:
                if entry.model_server not in renamed and any(
                    server.entry.name == entry.model_server for server in self.draft.servers
                ):
                    self._drop(draft.setting, "Its model server is not carried over.", draft.location)
                    continue
                server_name = renamed.get(entry.model_server, entry.model_server)
                draft.entry = msgspec.structs.replace(entry, model_server=server_name)
            draft.entry = _with_own_effort(draft.entry)
            delegator = self._valid(draft, Delegator, check)
            if delegator is None and draft.otherwise is not None:
                self._drop(draft.setting, "It is kept, listed and exported; it cannot be started here.", draft.location)
                draft.entry = draft.otherwise
                delegator = self._valid(draft, Delegator, check)
            if delegator is not None:
                self.names[entry.name] = self._place(draft, delegator, self.delegators)
        self._defaults()
        self._settings()
        return self.result

    def _check_server(self, server: ModelServer) -> Iterator[Finding]:
        yield from server_rules.check_server(server)
        if self.scope is Scope.WORKSPACE:
            yield from workspace_rules.check_workspace_server(server, self._own("model_servers", "model_server"))

    def _check_delegator(self, delegator: Delegator) -> Iterator[Finding]:
        yield from delegator_rules.check_delegator(
            delegator, around=delegator_rules.Surroundings(self.servers, self.tools)
        )
        if self.scope is Scope.WORKSPACE:
            personal = self._own("delegators", "delegator")
            yield from workspace_rules.check_workspace_delegator(delegator, personal, self.servers)

    def _own(self, group: str, declared: str) -> dict[str, Any]:
        """Return the user's own entries, which bound those of a workspace."""
        entries = getattr(self.before, group)
        return {name: getattr(entry, declared) for name, entry in entries.items() if entry.scope is Scope.USER}

    def _place(self, drafted: Drafted[_Entry], entry: _Entry, taken: dict[str, _Entry]) -> str:
        """Return the name under which ``entry`` is, or is going to be; a step writes it if it is new."""
        kind: Kind = "modelServer" if isinstance(entry, ModelServer) else "delegator"
        base = entry.name
        for number in range(1, 10_000):
            name = base if number == 1 else f"{base[:58]}-{number}"
            path = _path(self.root, kind, name)
            candidate = msgspec.structs.replace(entry, name=name)
            present = taken.get(name)
            beside = source_file.read_profile(path) if drafted.profile is not None else None
            same_profile = drafted.profile is None or (beside is not None and beside.text == drafted.profile)
            if present is not None and same_profile and _same(present, candidate, keyed=drafted.key is not None):
                if (kind, name) not in self.result.unchanged and all(file.name != name for file in self.result.files):
                    self.result.unchanged.append((kind, name))
                self._offer(drafted, present, name)
                return name
            if present is None and not path.exists() and not path.is_symlink():
                break
        else:
            raise UnderstudyError(
                ErrorKind.ALREADY_EXISTS, f"Every name like {base!r} is taken.", hint="Remove some of them."
            )
        if name != drafted.entry.name:
            title = "model server" if kind == "modelServer" else "delegator"
            why = f"The {title} is called `{name}` here"
            why += f": another `{base}` exists, and it is not replaced." if name != base else "."
            self._drop(drafted.setting, why, drafted.location)
        taken[name] = candidate
        self.result.files.append(PlannedFile(kind, name, path, b"", render(candidate)))
        if drafted.profile is not None:
            kept = drafted.profile.encode()
            self.result.files.append(PlannedFile("profile", name, source_file.profile_place(path), b"", kept))
        self.result.steps.append(functools.partial(_create, candidate, drafted.profile, self.scope))
        self._offer(drafted, candidate, name)
        return name

    def _offer(self, drafted: Drafted[_Entry], server: object, name: str) -> None:
        if drafted.key is None or not isinstance(server, ModelServer) or server.api_key is not None:
            return
        if all(key.model_server != name for key in self.result.keys):
            self.result.keys.append(OfferedKey(name, drafted.key))
            reason = f"A key in plain text is not copied. Store it: understudy servers set-key {name}"
            self._drop(drafted.key.setting, reason, drafted.key.location)

    def _valid(
        self, drafted: Drafted[_Entry], structure: type[_Entry], check: Callable[[_Entry], Iterator[Finding]]
    ) -> _Entry | None:
        """Return the entry without the fields that cannot be carried over, or None if that is not enough."""
        entry = msgspec.structs.replace(drafted.entry, name=valid_name(drafted.entry.name))
        mapping = file_schema.to_file(entry)
        for _ in range(_WHOLE):
            problem = _unwritable(mapping)
            if problem is None:
                entry = file_schema.from_file(mapping, structure)
                finding = next((candidate for candidate in check(entry) if _matters(candidate)), None)
                if finding is None:
                    return entry
                problem = (finding.path, finding.message)
            path, message = problem
            if not path or path[0] not in _DROPPABLE[structure] or not _remove(mapping, path):
                self._drop(drafted.setting, f"Not carried over: {message}", drafted.location)
                return None
            self._drop(f"{drafted.setting}: {setting(path[:2])}", message, drafted.location)
        self._drop(drafted.setting, "Too many of its settings cannot be carried over.", drafted.location)
        return None

    def _defaults(self) -> None:
        defaults: list[tuple[str | None, str, str, Location | None]] = []
        if self.draft.default is not None:
            defaults.append((None, *self.draft.default))
        defaults += [(recipe, *default) for recipe, default in sorted(self.draft.recipes.items())]
        present = self._present_defaults()
        steps: dict[str | None, str] = {}
        for recipe, theirs, name, location in defaults:
            ours = self.names.get(theirs)
            current = present.get(recipe)
            if ours is None:
                self._drop(name, "The delegator that it names is not carried over.", location)
            elif current is not None and current != ours:
                what = "default" if recipe is None else f"default of the recipe `{recipe}`"
                self._drop(name, f"{self._whose} {what} is `{current}`, and it is not replaced.", location)
            elif recipe is not None and self._names_its_delegator(recipe):
                self._drop(name, f"The recipe `{recipe}` names its delegator itself.", location)
            elif current is None:
                steps[recipe] = ours
        if not steps:
            return
        try:
            path, before, after = self.editor.preview_defaults(steps, self.scope)
        except UnderstudyError as error:
            for recipe, _, name, location in defaults:
                if recipe in steps:
                    self._drop(name, f"{error.message} {error.hint or ''}".strip(), location)
            return
        self.result.files.append(PlannedFile("default", "defaults", path, before, after, exists=path.exists()))
        for recipe, ours in steps.items():
            self.result.steps.append(
                functools.partial(Editor.set_default, delegator=ours, recipe=recipe, scope=self.scope)
            )

    @property
    def _whose(self) -> str:
        return "Your" if self.scope is Scope.USER else "The workspace's"

    def _present_defaults(self) -> dict[str | None, str | None]:
        """Return the defaults that the scope has, by recipe; those of the user do not bind a workspace."""
        present = _by_recipe(self.before)
        personal = _by_recipe(load(None, trusted=False)) if self.scope is Scope.WORKSPACE else {}
        return {recipe: name for recipe, name in present.items() if name != personal.get(recipe)}

    def _settings(self) -> None:
        """Write tables into a new ``config.toml`` of the user; one that exists is the user's alone."""
        path = self.root / locations.SINGLE[locations.FileKind.CONFIG]
        tables: dict[str, dict[str, float]] = {}
        for (table, key), (value, name) in sorted(self.draft.settings.items()):
            section = getattr(self.before, table)
            present = getattr(section, key)
            if present == value:
                continue
            if self.scope is Scope.WORKSPACE:
                reason = (
                    f"Set it in your own configuration: `{key} = {_number(value)}` below `[{table}]` in config.toml."
                )
                self._drop(name, reason, None)
            elif present != getattr(type(section)(), key):
                self._drop(name, f"Your `{key}` in `[{table}]` is {_number(present)}, and it is not replaced.", None)
            elif os.path.lexists(path):
                reason = f"Your config.toml is not changed. Add to its table `[{table}]`: {key} = {_number(value)}"
                self._drop(name, reason, None)
            else:
                tables.setdefault(table, {})[key] = value
        if tables:
            lines = [schema_line(locations.FileKind.CONFIG)]
            for table, values in tables.items():
                lines += [f"[{table}]\n", *(f"{key} = {_number(value)}\n" for key, value in values.items())]
            after = "".join(lines).encode()
            self.result.files.append(PlannedFile("default", "config", path, b"", after))
            self.result.steps.append(lambda editor: editor.create_config(after, Scope.USER))

    def _names_its_delegator(self, recipe: str) -> bool:
        entry = self.before.recipes.get(recipe)
        return entry is None or entry.delegator is not None

    def _drop(self, name: str, reason: str, location: Location | None) -> None:
        self.result.not_carried.append(NotCarried(name, reason, location))


def _with_own_effort(delegator: Delegator) -> Delegator:
    """Return a delegator with the name that its tool has for ``reasoning_effort``, as Operator calls it for all."""
    tool = declarations.tools().get(delegator.tool or "")
    properties = dict(delegator.model_properties or {})
    names = tool.own_properties if tool is not None else {}
    if "reasoning_effort" not in properties or "reasoning_effort" in names or _EFFORT not in names:
        return delegator
    effort = properties.pop("reasoning_effort")
    return msgspec.structs.replace(delegator, model_properties={_EFFORT: effort, **properties})


def _number(value: float) -> str:
    return str(int(value) if value == int(value) else value)


def _by_recipe(configuration: Configuration) -> dict[str | None, str | None]:
    present: dict[str | None, str | None] = dict(configuration.defaults.recipes.items())
    present[None] = configuration.defaults.delegator
    return present


def _create(entry: ModelServer | Delegator, profile: str | None, scope: Scope, editor: Editor) -> None:
    if isinstance(entry, ModelServer):
        editor.create(entry, scope)
    else:
        editor.create(entry, scope, profile=profile)


def valid_name(name: str) -> str:
    """Return ``name`` as one that an entry may have."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).lstrip("-._")[:64] or "imported"


def _path(root: Path, kind: Kind, name: str) -> Path:
    file = locations.FileKind.MODEL_SERVER if kind == "modelServer" else locations.FileKind.DELEGATOR
    folder, suffix = locations.PLACES[file]
    return root / folder / f"{name}{suffix}"


def _same(present: object, entry: _Entry, *, keyed: bool) -> bool:
    if keyed and isinstance(present, ModelServer) and isinstance(entry, ModelServer):
        # Its key may have been stored since the last import.
        present = msgspec.structs.replace(present, api_key=entry.api_key)
    return present == entry


def _matters(finding: Finding) -> bool:
    return finding.severity == "error" or finding.code == "secret"


def _unwritable(mapping: Mapping[str, Any]) -> tuple[KeyPath, str] | None:
    """Return the path of a value that no file may have, and why; keys of the other tool are among them."""
    unusable = unusable_value(mapping)
    if unusable is not None:
        return unusable[0], f"It {unusable[1]}."
    stack: list[tuple[KeyPath, Any]] = [((), mapping)]
    while stack:
        path, item = stack.pop()
        if item is None:
            return path, "A configuration file cannot contain null."
        if isinstance(item, dict):
            stack += [((*path, key), inner) for key, inner in item.items()]
        elif isinstance(item, list):
            stack += [((*path, number), inner) for number, inner in enumerate(item)]
        elif isinstance(item, str) and path[0] != "api_key" and path[-1] != "from_env":
            named = path[0] in {"model_properties", "headers"} and is_secret(str(path[-1]), item)
            if named or holds_secret(item):
                return path, "It may contain a key, which is not copied."
            if not _is_text(item):
                return path, "It has characters that a configuration file cannot contain."
    return None


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def _remove(mapping: dict[str, Any], path: KeyPath) -> bool:
    """Remove what ``path`` leads to: an option, a variable, a property; never a part of one."""
    head = path[0]
    inner = mapping.get(str(head))
    if len(path) > 1 and isinstance(inner, dict) and path[1] in inner:
        if path[:2] == ("launch", "command"):
            return False
        del inner[path[1]]
        if not inner:
            del mapping[str(head)]
        return True
    return mapping.pop(str(head), None) is not None


def _diff(file: PlannedFile) -> Iterator[str]:
    before = file.before.decode().splitlines(keepends=True)
    after = file.after.decode().splitlines(keepends=True)
    yield from difflib.unified_diff(before, after, str(file.path) if file.exists else "/dev/null", str(file.path))


def read_source(
    source: ImportSource, path: Path | None, workspace: Path | None, variables: Mapping[str, str], home: Path
) -> Draft:
    """Return what a tool's configuration holds: that of ``path``, else of its usual places.

    Raises ``invalid_params`` if there is none, ``config_invalid`` with the place of what is wrong in a file.
    """
    draft = Draft()
    if source == "agent-delegate":
        agent_delegate.read(_one(draft, "toml", path, _agent_delegate(variables, home)), draft, variables)
    elif source == "agent-delegator":
        places = [workspace / ".agent-delegator.json"] if workspace is not None else []
        agent_delegator.read(_one(draft, "json", path, places), draft, variables)
    elif source == "sideagent":
        # Not the project's own file: a repository must not name programs for the user's configuration.
        folder = home / ".config"
        places = [folder / "sideagent" / "config.yaml", folder / "agent-offload" / "config.yaml"]
        sideagent.read(_one(draft, "yaml", path, places), draft)
    elif source == "operator":
        places = [home / ".config" / "operator" / "config.toml"]
        operator_config.read(_one(draft, "toml", path, places), draft, variables)
    else:
        _read_delegate_local(draft, path, workspace, variables, home)
    return draft


def _agent_delegate(variables: Mapping[str, str], home: Path) -> list[Path]:
    if variables.get("AGENT_DELEGATE_CONFIG"):
        return [Path(variables["AGENT_DELEGATE_CONFIG"])]
    return [Path(variables.get("AGENT_DELEGATE_HOME") or home / ".agent-delegate") / "profiles.toml"]


def _read_delegate_local(
    draft: Draft, path: Path | None, workspace: Path | None, variables: Mapping[str, str], home: Path
) -> None:
    project = os.fspath(workspace) if workspace is not None else None
    places = [home / ".claude.json", *([workspace / ".mcp.json"] if workspace is not None else [])]
    if path is not None:
        document = _one(draft, "json", path, [])
        if not delegate_local.read(document, draft, project):
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{path} does not register delegate-local as an MCP server.",
                hint="Name a file whose `mcpServers` has it, or set its variables in the environment.",
            )
        return
    has_any = delegate_local.read_environment(variables, draft)
    for place in places:
        # A repository's own file is read by `doctor`, too.
        most = _CLAUDE_BYTES if place.name == ".claude.json" else _MOST_BYTES
        document_ = read_document(place, "json", most=most)
        if document_ is not None and delegate_local.read(document_, draft, project):
            draft.read.append(place)
            has_any = True
    if not has_any:
        raise _nothing(places)


def _one(draft: Draft, syntax: Syntax, path: Path | None, usual: list[Path]) -> Document:
    """Return the file that was named, else the first usual one that exists."""
    for place in [path] if path is not None else usual:
        most = _CLAUDE_BYTES if syntax == "json" and path is not None else _MOST_BYTES
        document = read_document(place.absolute(), syntax, most=most)
        if document is not None:
            draft.read.append(place.absolute())
            return document
    raise _nothing([path] if path is not None else usual)


def _nothing(places: list[Path]) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        f"There is nothing to import: {' and '.join(map(str, places))} "
        f"{'does' if len(places) == 1 else 'do'} not exist or {'has' if len(places) == 1 else 'have'} nothing for it.",
        hint="Name the file to import.",
        parameter="path",
    )
