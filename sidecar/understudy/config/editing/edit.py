"""Create, update and delete delegators, model servers and checks: one file each, never a file edited by hand.

A file is edited only if it is exactly what Understudy would write for its values; comments, aliases
or another order mean that the user edited it (``not_editable``, with its place). A lock is held from reading
to writing, so two processes cannot overwrite each other's edits; an outdated revision is a ``conflict``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import msgspec

from understudy.config import locations
from understudy.config.configuration import Configuration
from understudy.config.discovery import declarations
from understudy.config.editing.new_files import ready_made, tool_template
from understudy.config.findings import near, unknown_name
from understudy.config.loading.loader import load
from understudy.config.locations import SCHEMA_FOLDER, SINGLE, FileKind, schema_name
from understudy.config.parsing import config_file, file_schema, source_file
from understudy.config.parsing.config_file import is_own, render
from understudy.config.parsing.source_file import unusable_value
from understudy.config.trust.records import preserving_trust, status
from understudy.config.validation import (
    delegator_rules,
    notification_rules,
    schedule_rules,
    server_rules,
    workspace_rules,
)
from understudy.config.validation.config_sections import SECTIONS, FileContext
from understudy.files import durable
from understudy.model.config.config_entries import (
    CheckEntry,
    DelegatorEntry,
    ModelServerEntry,
    NotificationEntry,
    ScheduleEntry,
)
from understudy.model.config.delegators import NAME_PATTERN, Delegator, ModelServer, PermissionRule, Scope
from understudy.model.config.notifications import NotificationReceiver
from understudy.model.config.schedules import Schedule
from understudy.model.errors import ErrorKind, Location, UnderstudyError, top_of
from understudy.model.evidence.checks import Check

Kind = Literal["delegator", "route", "model_server", "check", "schedule", "notification"]
Thing = Delegator | ModelServer | Check | Schedule | NotificationReceiver
Entry = DelegatorEntry | ModelServerEntry | CheckEntry | ScheduleEntry | NotificationEntry

_FOLDER: dict[Kind, str] = {
    "delegator": "delegators",
    "route": "routes",
    "model_server": "model-servers",
    "check": "checks",
    "schedule": "schedules",
    "notification": "notifications",
}
_TITLE: dict[Kind, str] = {
    "delegator": "delegator",
    "route": "route",
    "model_server": "model server",
    "check": "check",
    "schedule": "schedule",
    "notification": "notification",
}
_UPDATE: dict[Kind, str] = {
    "delegator": "understudy delegators update",
    "model_server": "understudy servers update",
}
_UNKNOWN: dict[Kind, ErrorKind] = {
    "delegator": ErrorKind.UNKNOWN_DELEGATOR,
    "route": ErrorKind.UNKNOWN_DELEGATOR,
    "model_server": ErrorKind.UNKNOWN_MODEL_SERVER,
    "check": ErrorKind.UNKNOWN_CHECK,
    "schedule": ErrorKind.UNKNOWN_SCHEDULE,
    "notification": ErrorKind.UNKNOWN_NOTIFICATION,
}


class Editor:
    """Edit the configuration of one workspace and of the user.

    ``state`` is the state folder (for trust). Every method reads the files again, and returns what ``load`` returns
    after the edit.
    """

    def __init__(self, workspace: Path | None, *, state: Path) -> None:
        """Store the arguments; nothing is read yet."""
        self.workspace = workspace
        self.state = state

    @overload
    def create(self, thing: Delegator, scope: Scope, *, profile: str | None = None) -> DelegatorEntry: ...
    @overload
    def create(self, thing: ModelServer, scope: Scope) -> ModelServerEntry: ...
    @overload
    def create(self, thing: Check, scope: Scope) -> CheckEntry: ...
    @overload
    def create(self, thing: Schedule, scope: Scope) -> ScheduleEntry: ...
    @overload
    def create(self, thing: NotificationReceiver, scope: Scope) -> NotificationEntry: ...
    def create(self, thing: Thing, scope: Scope, *, profile: str | None = None) -> Entry:
        """Write a new delegator, model server or check into ``scope``; ``profile`` is kept beside a delegator.

        Raises ``already_exists``, ``config_invalid`` (with all problems), ``untrusted_workspace``,
        ``invalid_params`` (a builtin scope, no workspace), ``state_unavailable``.
        """
        kind = _kind(thing)
        _check_name(kind, thing.name)
        root = self.root(scope)
        with self._locked(root):
            before = self._load()
            self._refuse_untrusted(before, scope)
            self._refuse_taken(before, kind, thing.name, scope, root)
            self._judge(before, thing, scope)
            path = _file(root, kind, thing.name)
            beside: list[tuple[Path, bytes | None]] = []
            if kind == "delegator":
                # Also removes one that an interrupted edit left.
                beside = _profile(path, None if profile is None else (profile, render(thing)))
            self._apply(root, [*beside, (path, render(thing))])
            return self._entry(self._load(), kind, thing.name)

    @overload
    def update(self, name: str, thing: Delegator, revision: str | None = None) -> DelegatorEntry: ...
    @overload
    def update(self, name: str, thing: ModelServer, revision: str | None = None) -> ModelServerEntry: ...
    def update(self, name: str, thing: Delegator | ModelServer, revision: str | None = None) -> Entry:
        """Replace the delegator or model server ``name`` in its scope; another name in ``thing`` renames it.

        Raises what ``create`` raises, ``unknown_delegator`` or ``unknown_model_server``, ``not_editable`` with
        the place, ``conflict`` when ``revision`` is not the current one.
        """
        kind = _kind(thing)
        _check_name(kind, thing.name)
        root = self._editable(self._entry(self._load(), kind, name), kind, name).parent.parent
        with self._locked(root):
            before = self._load()
            entry = self._entry(before, kind, name)
            if isinstance(entry, DelegatorEntry) and _kind(entry.delegator) != kind:
                raise UnderstudyError(
                    ErrorKind.INVALID_PARAMS,
                    f"`{name}` is a {_TITLE[_kind(entry.delegator)]}, which cannot become a {_TITLE[kind]}.",
                    hint="Remove it, and add the other one.",
                )
            path = self._editable(entry, kind, name)
            _refuse_stale(entry, kind, name, revision)
            changes: list[tuple[Path, bytes | None]] = [(_file(root, kind, thing.name), render(thing))]
            if thing.name != name:
                self._refuse_taken(before, kind, thing.name, entry.scope, root)
                changes.append((path, None))
                if kind == "delegator":
                    kept = source_file.read_profile(path)
                    profile = (kept.text, kept.base or b"") if kept is not None else None
                    changes = [*_profile(changes[0][0], profile), *changes, *_profile(path, None)]
            self._judge(before, thing, entry.scope)
            self._apply(root, changes)
            return self._entry(self._load(), kind, thing.name)

    def add_rule(self, name: str, rule: PermissionRule) -> DelegatorEntry:
        """Let the last of the delegator's permission rules be ``rule``; raises what ``update`` raises."""
        entry = self._load().delegators.get(name)
        if entry is None:
            raise unknown_name(ErrorKind.UNKNOWN_DELEGATOR, name, self._load().delegators)
        rules = entry.delegator.permissions or []
        if rule in rules:
            return entry
        changed = msgspec.structs.replace(entry.delegator, permissions=[*rules, rule])
        return self.update(name, changed, entry.revision)

    def create_tool(self, name: str, scope: Scope, like: str | None = None) -> Path:
        """Write a commented definition of a tool into ``scope``, and return the file; the user edits it.

        ``like`` is a tool with a ready-made definition. Raises ``already_exists`` (also for a tool that Understudy
        knows), ``unknown_tool`` (``like``), ``invalid_params``, ``untrusted_workspace``, ``state_unavailable``.
        """
        if like is not None and like not in ready_made():
            raise UnderstudyError(
                ErrorKind.UNKNOWN_TOOL,
                f"There is no ready-made definition of {like!r}.",
                hint=f"There is one of {', '.join(ready_made())}; without `like`, you describe the tool yourself.",
                names=ready_made(),
            )
        if not re.fullmatch(NAME_PATTERN, name):
            raise _invalid_name("tool", name)
        root = self.root(scope)
        path = root / locations.PLACES[FileKind.TOOL][0] / f"{name}.toml"
        with self._locked(root):
            before = self._load()
            self._refuse_untrusted(before, scope)
            built_in = name in declarations.tools()
            if built_in or name in before.tools or os.path.lexists(path):
                entry = before.tools.get(name)
                raise UnderstudyError(
                    ErrorKind.ALREADY_EXISTS,
                    f"Understudy knows the tool `{name}`." if built_in else f"The tool `{name}` is already defined.",
                    hint=_another_name(name) if built_in else "Choose another name, or edit that file.",
                    location=entry.location if entry is not None else None,
                )
            self._apply(root, [(path, tool_template(name, like).encode())])
        return path

    def create_config(self, content: bytes, scope: Scope) -> Path:
        """Write ``config.toml`` of ``scope``, and return it.

        Raises ``already_exists``, ``invalid_params``, ``untrusted_workspace``, ``state_unavailable``.
        """
        root = self.root(scope)
        path = root / SINGLE[FileKind.CONFIG]
        with self._locked(root):
            self._refuse_untrusted(self._load(), scope)
            if os.path.lexists(path):
                raise UnderstudyError(
                    ErrorKind.ALREADY_EXISTS,
                    f"{path} exists, so it is not changed.",
                    hint="Edit that file.",
                    location=top_of(path),
                )
            self._apply(root, [(path, content)])
        return path

    def seen(self, scope: Scope) -> Configuration:
        """Return what an edit of ``scope`` finds; raises ``invalid_params`` and ``untrusted_workspace``."""
        self.root(scope)
        before = self._load() if scope is Scope.WORKSPACE else load(None, trusted=False)
        self._refuse_untrusted(before, scope)
        return before

    def judge(self, thing: Thing, scope: Scope) -> None:
        """Raise what ``create`` would raise for the values of ``thing``, without checking that its name is free."""
        _check_name(_kind(thing), thing.name)
        self.root(scope)
        before = self._load()
        self._refuse_untrusted(before, scope)
        self._judge(before, thing, scope)

    def set_default(self, delegator: str | None, recipe: str | None, scope: Scope) -> None:
        """Make ``delegator`` the default of ``scope`` for a recipe (``None``: for all others); ``None`` removes it.

        Raises ``unknown_delegator``, ``unknown_recipe``, ``invalid_params`` (a recipe that names its delegator, a
        scope that cannot see the delegator, no workspace), ``untrusted_workspace``, ``not_editable`` with the place
        where the user wrote the default, ``state_unavailable``.
        """
        root = self.root(scope)
        with self._locked(root):
            before = self._load()
            self._refuse_untrusted(before, scope)
            _refuse_useless_default(before, load(None, trusted=False), delegator, recipe, scope)
            written = self._reading(root, FileKind.CONFIG)
            for name, item in written.sections:
                table = item.value
                if name == "defaults" and (recipe in table.recipes if recipe else table.delegator is not None):
                    key = ("defaults", "recipes", recipe) if recipe else ("defaults", "delegator")
                    raise _hand_written_default(item.source.location(item.source.where(key, key=True)))
            path, table = self._own_defaults(root)
            _set_default(table, recipe, delegator)
            empty = table.delegator is None and not table.recipes
            if not empty or os.path.lexists(path):
                self._apply(root, [(path, None if empty else render(table))])

    def add_to_worktrees(
        self, scope: Scope, *, copy: Sequence[str] = (), link: Sequence[str] = (), setup: Sequence[str] = ()
    ) -> None:
        """Let new worktrees get these copies and links, and run this command, besides what the user has written.

        Raises ``config_invalid``, ``untrusted_workspace``, ``not_editable`` if the user edited ``worktrees.toml``.
        """
        root = self.root(scope)
        with self._locked(root):
            self._refuse_untrusted(self._load(), scope)
            path, table = self._own_worktrees(root)
            table.copy = [*dict.fromkeys([*(table.copy or ()), *copy])] or None
            table.link = [*dict.fromkeys([*(table.link or ()), *link])] or None
            table.setup = [*setup] or table.setup
            values = {name: value for name, value in msgspec.structs.asdict(table).items() if value is not None}
            for finding in SECTIONS["worktrees"].problems(values, FileContext(self.workspace, ())):
                raise UnderstudyError(ErrorKind.CONFIG_INVALID, finding.message, hint=finding.hint)
            self._apply(root, [(path, render(table))])

    def _own_worktrees(self, root: Path) -> tuple[Path, Any]:
        """Return the generated ``worktrees.toml`` of a scope; raise ``not_editable`` if the user edited it."""
        path = root / SINGLE[FileKind.WORKTREES]
        if not os.path.lexists(path):
            return path, config_file.WorktreesTable()
        reading = self._reading(root, FileKind.WORKTREES)
        for _, item in reading.sections:
            if is_own(item):
                return path, item.value
        raise UnderstudyError(
            ErrorKind.NOT_EDITABLE,
            f"{path} was edited by hand, so Understudy does not change it.",
            hint="Edit the file itself.",
            location=top_of(path),
        )

    def preview_defaults(self, changes: Mapping[str | None, str], scope: Scope) -> tuple[Path, bytes, bytes]:
        """Return ``defaults.toml`` of ``scope``, its content, and that with ``changes`` (recipe, or None → delegator).

        Nothing is written, and the delegators need not exist yet. Raises ``not_editable`` if the user edited the file.
        """
        path, table = self._own_defaults(self.root(scope))
        before = render(table) if os.path.lexists(path) else b""
        for recipe, delegator in changes.items():
            _set_default(table, recipe, delegator)
        return path, before, render(table)

    def preview(self, thing: Thing, scope: Scope) -> tuple[Path, bytes | None, bytes]:
        """Return the file of ``thing`` in ``scope``, its content if it exists, and what saving ``thing`` writes."""
        path = _file(self.root(scope), _kind(thing), thing.name)
        return path, path.read_bytes() if path.is_file() else None, render(thing)

    def delete(self, kind: Kind, name: str, revision: str | None = None) -> None:
        """Remove the delegator, model server or check called ``name``; raises what ``update`` raises."""
        root = self._editable(self._entry(self._load(), kind, name), kind, name).parent.parent
        with self._locked(root):
            entry = self._entry(self._load(), kind, name)
            path = self._editable(entry, kind, name)
            _refuse_stale(entry, kind, name, revision)
            self._apply(root, [(path, None), *(_profile(path, None) if kind == "delegator" else [])])

    def generate_name(self, tool: str, model: str = "") -> str:
        """Return an unused name for a delegator of ``tool`` and ``model``."""
        last_part = model.rpartition("/")[2]
        base = re.sub(r"[^a-z0-9._-]+", "-", f"{tool}-{last_part}".lower()).strip("-._")[:56] or "delegator"
        taken = self._load().delegators
        name, number = base, 2
        while name in taken:
            name, number = f"{base}-{number}", number + 1
        return name

    def root(self, scope: Scope) -> Path:
        """Return the folder of a scope; raises ``invalid_params`` for one that cannot be edited."""
        if scope is Scope.USER:
            return locations.user_folder()
        if scope is Scope.BUILTIN or self.workspace is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                "Entries cannot be added to the scope `builtin`."
                if scope is Scope.BUILTIN
                else "The scope `workspace` needs a workspace, and the request names none.",
                hint="Use the scope `user`, or name the workspace.",
            )
        return self.workspace / locations.WORKSPACE_FOLDER

    def _refuse_untrusted(self, before: Configuration, scope: Scope) -> None:
        if scope is Scope.WORKSPACE and not before.trusted:
            raise UnderstudyError(
                ErrorKind.UNTRUSTED_WORKSPACE,
                f"{self.workspace} is not trusted, so its configuration would have no effect.",
                hint="Run `understudy trust` there first, or use the scope `user`.",
            )

    def _load(self) -> Configuration:
        trusted = self.workspace is not None and status(self.workspace, self.state).trusted
        return load(self.workspace, trusted=trusted)

    def _entry(self, configuration: Configuration, kind: Kind, name: str) -> Entry:
        entries = _entries(configuration, kind)
        entry = entries.get(name)
        if entry is None:
            raise UnderstudyError(
                _UNKNOWN[kind],
                f"There is no {_TITLE[kind]} `{name}`.",
                hint=near(name, entries) or f"No {_TITLE[kind]} is configured.",
                names=sorted(entries),
            )
        return entry

    def _editable(self, entry: Entry, kind: Kind, name: str) -> Path:
        if isinstance(entry, DelegatorEntry):
            kind = _kind(entry.delegator)
        if not entry.editable or entry.location is None:
            builtin = entry.scope is Scope.BUILTIN
            raise UnderstudyError(
                ErrorKind.NOT_EDITABLE,
                f"The {_TITLE[kind]} `{name}` is "
                + ("built in." if builtin else "written by hand, so Understudy does not change it."),
                hint="Create one with another name." if builtin else "Edit the file itself.",
                location=entry.location,
            )
        # ``load`` made the location from this path, so scope and name find the path again.
        for layer in locations.layers(self.workspace, trusted=True):
            path = _file(layer.root, kind, name)
            if path.as_uri() == entry.location.uri:
                return path
        raise UnderstudyError(ErrorKind.INTERNAL, f"The file of {_TITLE[kind]} `{name}` is not in a known folder.")

    def _reading(self, root: Path, kind: FileKind) -> config_file.Reading:
        """Return what the one file of this kind in a scope holds."""
        layer = next(layer for layer in locations.layers(self.workspace, trusted=True) if layer.root == root)
        return config_file.read_file(layer, kind, root / SINGLE[kind])

    def _own_defaults(self, root: Path) -> tuple[Path, file_schema.DefaultsTable]:
        """Return the generated ``defaults.toml`` of a scope; raise ``not_editable`` if the user edited it."""
        path = root / SINGLE[FileKind.DEFAULTS]
        if not os.path.lexists(path):
            return path, file_schema.DefaultsTable()
        reading = self._reading(root, FileKind.DEFAULTS)
        for _, item in reading.sections:
            if is_own(item):
                return path, item.value
            raise _hand_written_default(item.source.location(None))
        raise _hand_written_default(reading.problems[0].location if reading.problems else None)

    def _refuse_taken(self, before: Configuration, kind: Kind, name: str, scope: Scope, root: Path) -> None:
        entry = _entries(before, kind).get(name)
        path = _file(root, kind, name)
        taken = entry is not None and entry.scope is scope
        # An unreadable file must not be overwritten either.
        if taken or os.path.lexists(path):
            raise UnderstudyError(
                ErrorKind.ALREADY_EXISTS,
                f"The {_TITLE[kind]} `{name}` already exists.",
                hint=f"Choose another name, or change that one: {_UPDATE[kind]} {name}"
                if kind in _UPDATE
                else "Choose another name, or edit that one.",
                location=entry.location if entry is not None and taken else None,
            )

    def _judge(self, before: Configuration, thing: Thing, scope: Scope) -> None:
        """Raise ``config_invalid`` for errors that ``load`` would report, so that nothing invalid is ever written."""
        mapping = file_schema.to_file(thing)
        unusable = unusable_value(mapping)
        if unusable is not None or _holds_null(mapping):
            where = ".".join(map(str, unusable[0])) if unusable else "A value"
            why = unusable[1] if unusable else "is null, which a TOML file cannot contain"
            raise UnderstudyError(ErrorKind.INVALID_PARAMS, f"{where} {why}.", hint="Omit it.")
        personal = load(None, trusted=False)
        shared = scope is Scope.WORKSPACE
        if isinstance(thing, Check):
            findings = list(delegator_rules.check_check(thing))
            if shared:
                own_checks = {
                    name: entry.check for name, entry in personal.check_entries.items() if entry.scope is Scope.USER
                }
                findings += workspace_rules.check_workspace_check(thing, own_checks)
        elif isinstance(thing, Schedule):
            findings = list(schedule_rules.check_schedule(thing, scope))
        elif isinstance(thing, NotificationReceiver):
            findings = list(notification_rules.check_receiver(thing, scope))
        elif isinstance(thing, ModelServer):
            findings = list(server_rules.check_server(thing))
            if shared:
                findings += workspace_rules.check_workspace_server(thing, _surroundings(personal).servers)
        else:
            around, own = _surroundings(before), _surroundings(personal)
            findings = list(delegator_rules.check_delegator(thing, around if shared else own))
            if shared:
                own_delegators = {
                    name: entry.delegator for name, entry in personal.delegators.items() if entry.scope is Scope.USER
                }
                foreign = around.tools.keys() - own.tools.keys()
                findings += workspace_rules.check_workspace_delegator(thing, own_delegators, around.servers, foreign)
        errors = [finding for finding in findings if finding.severity == "error"]
        if errors:
            message = " ".join(finding.message for finding in errors)
            raise UnderstudyError(ErrorKind.CONFIG_INVALID, message, hint=errors[0].hint)

    def _ours(self, root: Path) -> Path | None:
        """Return the workspace if it contains ``root``."""
        inside = self.workspace is not None and root.is_relative_to(self.workspace / locations.WORKSPACE_FOLDER)
        return self.workspace if inside else None

    @contextlib.contextmanager
    def _locked(self, root: Path) -> Iterator[None]:
        """Hold the lock of a scope; for a workspace, lock the workspace folder itself, so that no folder is created."""
        folder = self._ours(root)
        with _told(root):
            if folder is None:
                root.mkdir(parents=True, exist_ok=True, mode=0o700)
            with durable.folder_lock(folder or root):
                yield

    def _apply(self, root: Path, changes: list[tuple[Path, bytes | None]]) -> None:
        """Write or remove (``None``) files, each atomically, in this order, and preserve the workspace's trust.

        Before a file, the JSON Schema that its first line names is written, unless it is there.
        """
        workspace = self._ours(root)
        changes = [*_schemas(root, changes), *changes]
        folders = {path.parent for path, _ in changes}
        if workspace is None:
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(changes, mode=0o600)
            return
        for folder in folders:
            if not os.path.realpath(folder).startswith(os.path.realpath(workspace) + os.sep):
                raise UnderstudyError(
                    ErrorKind.PATH_ESCAPE,
                    f"{folder} is a link to a folder outside the workspace, so nothing was written there.",
                    hint="Replace the link with a folder.",
                )
        ignore = workspace / locations.WORKSPACE_FOLDER / ".gitignore"
        if not os.path.lexists(ignore):
            # The user's own choices in a workspace do not belong in the repository.
            changes = [(ignore, f"{locations.LOCAL_FOLDER}/\n".encode()), *changes]
        steps = [(path.relative_to(workspace).as_posix(), data) for path, data in changes]
        with preserving_trust(workspace, self.state, steps=steps):
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
            _write(changes, mode=0o644)


def _set_default(table: file_schema.DefaultsTable, recipe: str | None, delegator: str | None) -> None:
    if recipe is None:
        table.delegator = delegator
    else:
        chosen = {name: choice for name, choice in table.recipes.items() if name != recipe}
        table.recipes = dict(sorted((chosen | ({recipe: delegator} if delegator is not None else {})).items()))


def _hand_written_default(location: Location | None) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.NOT_EDITABLE,
        "This default is written by hand, so Understudy does not change it.",
        hint="Edit the file itself.",
        location=location,
    )


def _refuse_useless_default(
    seen: Configuration, personal: Configuration, delegator: str | None, recipe: str | None, scope: Scope
) -> None:
    """Raise the error for a default that could never apply."""
    if delegator is None:
        return
    if delegator not in seen.delegators:
        raise unknown_name(ErrorKind.UNKNOWN_DELEGATOR, delegator, seen.delegators)
    remote = seen.delegators[delegator].delegator.remote_agent
    if remote is not None:
        raise declarations.remote_only(delegator, remote)
    if recipe is not None and recipe not in seen.recipes:
        raise unknown_name(ErrorKind.UNKNOWN_RECIPE, recipe, seen.recipes)
    if recipe is not None and seen.recipes[recipe].delegator is not None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"The recipe {recipe!r} names its delegator itself, so a default has no effect.",
            hint="Change or remove `delegator` in the file of the recipe.",
        )
    if scope is Scope.USER and (delegator not in personal.delegators or recipe not in {None, *personal.recipes}):
        what = f"delegator {delegator!r}" if delegator not in personal.delegators else f"recipe {recipe!r}"
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"The {what} exists only in this workspace, so it cannot be part of your defaults.",
            hint="Use the scope `workspace`.",
        )


def _surroundings(configuration: Configuration) -> delegator_rules.Surroundings:
    return delegator_rules.Surroundings(
        {name: entry.model_server for name, entry in configuration.model_servers.items()},
        {name: entry.definition for name, entry in configuration.tools.items() if entry.usable},
    )


def _file(root: Path, kind: Kind, name: str) -> Path:
    return root / _FOLDER[kind] / f"{name}.toml"


def _profile(delegator: Path, profile: tuple[str, bytes] | None) -> list[tuple[Path, bytes | None]]:
    """Return the changes that keep a profile and its base beside a delegator's file, or remove those that exist."""
    places = source_file.profile_place(delegator), source_file.profile_base_place(delegator)
    if profile is None:
        return [(place, None) for place in places if os.path.lexists(place)]
    return [(places[0], profile[0].encode()), (places[1], profile[1])]


def _schemas(root: Path, changes: list[tuple[Path, bytes | None]]) -> list[tuple[Path, bytes | None]]:
    """Return the changes that put the schemas of written files, and of ``config.toml``, where first lines name them."""
    from understudy.config.reference import fields

    places = [locations.place_of(path) for path, data in changes if data is not None]
    kinds = {kind for kind, _ in filter(None, places)}
    if (root / SINGLE[FileKind.CONFIG]).exists():
        kinds.add(FileKind.CONFIG)  # written by hand, so no other moment to renew it
    needed = {root / SCHEMA_FOLDER / schema_name(kind): fields.schema_document(kind).encode() for kind in kinds}
    return [(path, data) for path, data in needed.items() if not path.is_file() or path.read_bytes() != data]


def _write(changes: list[tuple[Path, bytes | None]], *, mode: int) -> None:
    for path, data in changes:
        if data is None:
            path.unlink(missing_ok=True)
            durable.sync_folder(path.parent)
        else:
            durable.replace(path, data, mode=mode, sync=True)


@contextlib.contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Convert disk errors to typed errors."""
    try:
        yield
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        raise UnderstudyError(
            ErrorKind.DISK_FULL if full else ErrorKind.STATE_UNAVAILABLE,
            f"{folder} cannot be written: {error.strerror}.",
            hint="Free some space and try again." if full else "Make the folder writable and try again.",
        ) from error


def _kind(thing: Thing) -> Kind:
    if isinstance(thing, Check):
        return "check"
    if isinstance(thing, Schedule):
        return "schedule"
    if isinstance(thing, NotificationReceiver):
        return "notification"
    if isinstance(thing, Delegator):
        return "delegator" if thing.route is None else "route"
    return "model_server"


def _entries(configuration: Configuration, kind: Kind) -> Mapping[str, Entry]:
    match kind:
        case "delegator" | "route":
            return configuration.delegators
        case "model_server":
            return configuration.model_servers
        case "check":
            return configuration.check_entries
        case "schedule":
            return configuration.schedules
        case "notification":
            return configuration.notifications


def _check_name(kind: Kind, name: str) -> None:
    if not re.fullmatch(NAME_PATTERN, name):
        raise _invalid_name(_TITLE[kind], name)


def _invalid_name(what: str, name: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.INVALID_PARAMS, f"{name!r} cannot be the name of a {what}.", hint=delegator_rules.NAME_HINT
    )


def _refuse_stale(entry: Entry, kind: Kind, name: str, revision: str | None) -> None:
    if revision is not None and revision != entry.revision:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"The {_TITLE[kind]} `{name}` has changed since it was read.",
            hint="Read it again and repeat the change.",
            location=entry.location,
        )


def _holds_null(value: object) -> bool:
    """Return whether a value, which must not be deeply nested, contains a null."""
    if isinstance(value, dict):
        return any(_holds_null(item) for item in value.values())
    if isinstance(value, list):
        return any(_holds_null(item) for item in value)
    return value is None


def _another_name(tool: str) -> str:
    if tool not in ready_made():
        return "Choose another name."
    return f"Choose another name and begin with its definition: understudy tools new my-{tool} --like {tool}"
