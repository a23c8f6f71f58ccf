"""Merge the files of all layers into one configuration, with every problem found in them.

``load`` never raises for the content of a file: a part that cannot be used becomes a ``Problem`` with its
place, and every other part works. A delegator or model server that can be read but not used is
listed with its problems and is not ready, so that a request that names it fails with the reason.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from understudy.config import locations
from understudy.config.configuration import Configuration, Defaults, DefinedTool
from understudy.config.discovery import declarations
from understudy.config.findings import Finding, KeyPath, LocatedFinding, close, near
from understudy.config.locations import LOCAL_FOLDER, PLACES, FileKind, Layer, place_of
from understudy.config.parsing import config_file, file_schema
from understudy.config.parsing.config_file import REPLACEABLE, Item, Reading, is_own, revision
from understudy.config.validation import (
    delegator_rules,
    notification_rules,
    schedule_rules,
    server_rules,
    tool_rules,
    workspace_rules,
)
from understudy.config.validation.config_sections import SECTIONS, FileContext, Who
from understudy.config.validation.delegator_rules import Surroundings
from understudy.model.config.config_entries import (
    CheckEntry,
    CheckState,
    DelegatorEntry,
    EntryState,
    ModelServerEntry,
    NotificationEntry,
    NotificationState,
    Problem,
    ScheduleEntry,
    ScheduleState,
    ServerState,
)
from understudy.model.config.delegators import Recipe, Scope
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.evidence.checks import Check

CHOOSE_DEFAULT = "Choose another default: understudy delegators default NAME"


def load(workspace: Path | None, *, trusted: bool) -> Configuration:
    """Return the configuration of ``workspace`` (``None``: only the user's own); never raises for a file's content.

    Files of an untrusted workspace are not read.
    """
    files = readings(workspace, trusted=trusted)
    return Loader(workspace, files, trusted=trusted).run()


def readings(workspace: Path | None, *, trusted: bool) -> list[Reading]:
    """Return every file, read and decoded, the lowest layer first."""
    return [
        reading
        for layer in locations.layers(workspace, trusted=trusted)
        for reading in (
            [shipped.fresh() for shipped in _shipped(layer)] if layer.scope is Scope.BUILTIN else _read(layer)
        )
    ]


def _read(layer: Layer) -> list[Reading]:
    read = [config_file.read_file(layer, kind, path) for kind, path in config_file.files(layer)]
    full = [kind for kind in PLACES if sum(reading.kind is kind for reading in read) == locations.MAX_FILES]
    return [*read, *(reading for kind in full for reading in config_file.left_out(layer, kind))]


_shipped = functools.cache(_read)
"""The files of the program do not change while it runs."""


class Loader:
    """Check and merge files, the lowest layer first; modifies the readings it is given."""

    def __init__(self, workspace: Path | None, files: Iterable[Reading], *, trusted: bool) -> None:
        """Take the arguments of ``load`` and the result of ``readings``."""
        self.workspace = workspace
        self.trusted = trusted
        self.problems: list[LocatedFinding] = []
        self.missing: list[LocatedFinding] = []
        self.broken: set[tuple[str, str]] = set()
        self.delegators: list[Item] = []
        self.servers: list[Item] = []
        self.checks: list[Item] = []
        self.schedules: list[Item] = []
        self.notifications: list[Item] = []
        self.recipes: list[Item] = []
        self.tools: list[Item] = []
        self.sections: dict[str, list[Item]] = {name: [] for name in file_schema.TABLES}
        for reading in files:
            self.delegators += reading.delegators
            self.servers += reading.servers
            self.checks += reading.checks
            self.schedules += reading.schedules
            self.notifications += reading.notifications
            self.recipes += reading.recipes
            self.tools += reading.tools
            self.problems += reading.problems
            self.missing += reading.missing
            self.broken |= reading.broken
            for name, item in reading.sections:
                self.sections[name].append(item)

    def remarks(self) -> list[LocatedFinding]:
        """Return all findings in the files."""
        self.run()
        return self.problems

    def run(self) -> Configuration:
        """Return the configuration."""
        for items in (self.delegators, self.servers, self.checks, self.schedules, self.notifications):
            self._find_twice(items)
        servers = self._judge_servers()
        tools = self._judge_tools()
        self._judge_delegators(servers, tools)
        for item in self.checks:
            self._note(item, delegator_rules.check_check(item.value))
            if item.layer.scope is Scope.WORKSPACE:
                self._note(
                    item, workspace_rules.check_workspace_check(item.value, self._values(self.checks, Scope.USER))
                )
        for item in self.schedules:
            self._note(item, schedule_rules.check_schedule(item.value, item.layer.scope))
        for item in self.notifications:
            self._note(item, notification_rules.check_receiver(item.value, item.layer.scope))
        delegators = _winners(self.delegators, lambda item: item.value.name)
        check_items = _winners(self.checks, lambda item: item.value.name)
        checks = {name: item.value for name, item in check_items.items() if item.usable}
        for item in self.recipes:
            for finding in _recipe_findings(item.value, delegators, checks):
                field_name, number = finding.path[0], finding.path[-1]
                name = item.value.checks[number] if field_name == "checks" else item.value.delegator
                self._note(item, [self._broken(finding, "checks" if field_name == "checks" else "delegators", name)])
        recipes = _winners(self.recipes, lambda item: item.value.name)
        defaults = self._defaults(delegators, recipes)
        modes = _permission_modes(item.value for item in tools.values() if item.usable)
        sections = {name: self._section(name, modes) for name in SECTIONS}
        for items in (
            self.delegators,
            self.servers,
            self.checks,
            self.schedules,
            self.notifications,
            self.recipes,
            self.tools,
            *self.sections.values(),
        ):
            self.problems += [problem for item in items for problem in item.problems]
        if self.workspace is not None and not self.trusted and (self.workspace / locations.WORKSPACE_FOLDER).is_dir():
            message = "The workspace is not trusted, so its .understudy folder is not read."
            self.problems.append(
                LocatedFinding(severity="information", message=message, hint="Run `understudy trust`.")
            )
        return Configuration(
            workspace=self.workspace,
            trusted=self.trusted,
            delegators={name: _delegator_entry(item, defaults, tools) for name, item in sorted(delegators.items())},
            model_servers={name: _server_entry(item) for name, item in sorted(servers.items())},
            checks=checks,
            check_entries={name: _check_entry(item) for name, item in sorted(check_items.items())},
            schedules={item.value.name: _schedule_entry(item) for item in _of_the_user(self.schedules)},
            notifications={item.value.name: _notification_entry(item) for item in _of_the_user(self.notifications)},
            recipes={name: item.value for name, item in recipes.items() if item.usable},
            tools={name: _defined_tool(item) for name, item in sorted(tools.items())},
            defaults=defaults,
            problems=plain(self.problems),
            missing=plain(self._missing()),
            **sections,
        )

    def _missing(self) -> list[LocatedFinding]:
        sections = [item for name, items in self.sections.items() if name not in REPLACEABLE for item in items]
        judged = [problem for item in (*self.checks, *sections) for problem in item.problems]
        return [problem for problem in (*self.missing, *judged) if problem.severity == "error"]

    # Judging

    def _note(self, item: Item, findings: Iterable[Finding]) -> None:
        for finding in findings:
            item.note(finding)

    def _find_twice(self, items: list[Item]) -> None:
        """Report a name that occurs twice in a layer at both places; the first is kept, and is not ready."""
        seen: dict[tuple[Path, str], Item] = {}
        kept: list[Item] = []
        for item in items:
            first = seen.setdefault((item.layer.root, item.value.name), item)
            if first is item:
                kept.append(item)
                continue
            for item_of_pair, other in ((first, item), (item, first)):
                place = f"{other.source.path}:{other.source.where((*other.path, 'name')).start.line + 1}"
                message = f"The name `{item.value.name}` is also given in {place}."
                item_of_pair.note(Finding(("name",), message, "Keep one.", code="duplicate"))
            self.problems += item.problems
        items[:] = kept

    def _judge_servers(self) -> dict[str, Item]:
        own_servers = self._values(self.servers, Scope.USER)
        for item in self.servers:
            self._note(item, server_rules.check_server(item.value))
            if item.layer.scope is Scope.WORKSPACE:
                self._note(item, workspace_rules.check_workspace_server(item.value, own_servers))
        return _winners(self.servers, lambda item: item.value.name)

    def _judge_tools(self) -> dict[str, Item]:
        own_tools = self._values(self.tools, Scope.USER)
        for item in self.tools:
            self._note(item, tool_rules.check_tool(item.value))
            if item.layer.scope is Scope.WORKSPACE:
                self._note(item, workspace_rules.check_workspace_tool(item.value, own_tools))
        # The name of a tool that Understudy knows always means that one.
        return {
            name: item
            for name, item in _winners(self.tools, lambda item: item.value.name).items()
            if name not in declarations.tools()
        }

    def _judge_delegators(self, servers: dict[str, Item], tools: dict[str, Item]) -> None:
        own_delegators = self._values(self.delegators, Scope.USER)
        everywhere = {name: item.value for name, item in servers.items()}
        broken = {("model_server", name) for name, item in servers.items() if not item.usable}
        broken |= {("tool", name) for name, item in tools.items() if not item.usable}
        # A user's own delegator always uses the user's own server and tool: a repository cannot replace them.
        personal = self._values(self.servers, Scope.USER)
        defined = {name: item.value for name, item in tools.items()}
        own_tools = {name: item.value for name, item in tools.items() if item.layer.scope is Scope.USER}
        for item in self.delegators:
            if item.layer.scope is Scope.WORKSPACE:
                around = Surroundings(everywhere, defined)
            else:
                around = Surroundings(personal, own_tools)
            for finding in delegator_rules.check_delegator(item.value, around):
                kind, name = (
                    ("tools", item.value.tool)
                    if finding.path == ("tool",)
                    else ("model_servers", item.value.model_server)
                )
                item.note(self._broken(finding, kind, name))
            self._check_fallback(item)
            self._check_route(item)
            if item.layer.scope is Scope.WORKSPACE:
                foreign = defined.keys() - own_tools.keys()
                self._note(
                    item, workspace_rules.check_workspace_delegator(item.value, own_delegators, everywhere, foreign)
                )
            for field in ("model_server", "tool"):
                name = getattr(item.value, field)
                if (field, name) in broken:
                    message = f"The {field.replace('_', ' ')} `{name}` has errors."
                    item.note(Finding((field,), message, "See the problems of that entry."))

    def _check_fallback(self, item: Item) -> None:
        """Find names in a delegator's fallbacks that do not exist where it may look for them, and other mistakes."""
        names = item.value.fallback
        if names is None:
            return
        of_user = item.layer.scope is not Scope.WORKSPACE
        allowed = [
            candidate.value.name
            for candidate in self.delegators
            if not of_user or candidate.layer.scope is not Scope.WORKSPACE
        ]
        self._note(item, delegator_rules.check_fallback(names, item.value.name))
        for number, name in enumerate(names):
            if name not in allowed:
                item.note(self._broken(_unknown(("fallback", number), "delegator", name, allowed), "delegators", name))
            elif any(
                candidate.value.name == name and candidate.value.remote_agent is not None
                for candidate in self.delegators
            ):
                message = f"`{name}` stands for an agent on another service, so it cannot take over."
                item.note(delegator_rules.no_effect(("fallback", number), message))

    def _check_route(self, item: Item) -> None:
        """Find names in a route that do not exist where it may look for them, or that are routes themselves."""
        route = item.value.route
        if route is None:
            return
        seen = {
            candidate.value.name: candidate.value
            for candidate in self.delegators
            if item.layer.scope is Scope.WORKSPACE or candidate.layer.scope is not Scope.WORKSPACE
        }
        for number, candidate in enumerate(route.candidates):
            name = candidate if isinstance(candidate, str) else candidate.delegator
            path: KeyPath = ("candidates", number)
            if name is not None and name not in seen:
                item.note(self._broken(_unknown(path, "delegator", name, seen), "delegators", name))
            elif name is not None and seen[name].route is not None:
                item.note(Finding(path, f"`{name}` is a route itself.", "Name its delegators."))

    def _broken(self, finding: Finding, kind: str, name: str | None) -> Finding:
        """Return the finding about an unknown name, or another one if the name exists but has errors."""
        if finding.code != "unknown_name" or name is None or (kind, name) not in self.broken:
            return finding
        message = f"The {kind.removesuffix('s').replace('_', ' ')} `{name}` has errors."
        return Finding(finding.path, message, "See the problems of that entry.", key=finding.key)

    def _values(self, items: list[Item], scope: Scope) -> dict[str, Any]:
        return {item.value.name: item.value for item in items if item.layer.scope is scope}

    # Merging

    def _defaults(self, delegators: Mapping[str, Item], recipes: Mapping[str, Item]) -> Defaults:
        merged = Defaults()
        for item in self.sections["defaults"]:
            table: file_schema.DefaultsTable = item.value
            named = [
                (("delegator",), table.delegator),
                *((("recipes", key), name) for key, name in table.recipes.items()),
            ]
            for path, name in named:
                if name is not None and name not in delegators:
                    finding = _unknown(path, "delegator", name, delegators)
                    if item.whole and not finding.names:  # chosen in a frontend
                        finding = msgspec.structs.replace(finding, hint=CHOOSE_DEFAULT)
                    item.note(self._broken(finding, "delegators", name))
            for recipe in table.recipes:
                if recipe not in recipes:
                    finding = msgspec.structs.replace(
                        _unknown(("recipes", recipe), "recipe", recipe, recipes), key=True
                    )
                    item.note(self._broken(finding, "recipes", recipe))
            if table.delegator is not None:
                merged = msgspec.structs.replace(merged, delegator=table.delegator, scope=item.layer.scope)
            merged = msgspec.structs.replace(merged, recipes={**merged.recipes, **table.recipes})
        return merged

    def _section(self, name: str, permission_modes: Collection[str]) -> Any:
        """Merge what the files say in a section, field by field; a field with an error changes nothing."""
        section = SECTIONS[name]
        merged: dict[str, Any] = {}
        chosen: dict[str, Any] = {}
        """The values of the file that a frontend wrote, which is read first in its layer."""
        defaults = section.structure()
        for item in self.sections[name]:
            foreign = item.layer.scope is Scope.WORKSPACE
            if foreign and section.who is Who.USER:
                item.note(Finding((), section.refusal, f"Move `[{name}]` to your own config.toml."))
                continue
            values = {key: value for key, value in msgspec.structs.asdict(item.value).items() if value is not None}
            problems = list(section.problems(values, FileContext(item.layer.inside, permission_modes)))
            wrong = {problem.path[0] for problem in problems}
            for key, value in values.items():
                if key in wrong:
                    continue
                default = getattr(defaults, key)
                before = merged.get(key, section.applies().get(key) if default is None else default)
                refused = section.refused(key, value, before)
                if foreign and refused is not None:
                    problems.append(refused)
                elif key in section.adds and (item.whole or chosen):
                    merged[key] = [*dict.fromkeys([*(merged if item.whole else chosen).get(key, ()), *value])]
                else:
                    merged[key] = value
            if item.whole:
                chosen = values
            self._note(item, problems)
        return section.structure(**merged)


def _permission_modes(defined: Iterable[ToolDefinition]) -> set[str]:
    tools = [*declarations.tools().values(), *(tool.capabilities() for tool in defined)]
    return {mode.value for tool in tools for mode in tool.launch.get("permission_mode", ())}


def _winners(items: Iterable[Item], name: Callable[[Item], str]) -> dict[str, Item]:
    """Return the last item of each name: later layers override earlier ones, with a finding.

    An item with errors overrides nothing: a repository cannot disable the user's configuration.
    """
    winners: dict[str, Item] = {}
    for item in items:
        hidden = winners.get(name(item))
        if hidden is not None and not item.usable:
            continue
        if (
            hidden is not None
            and hidden.layer.scope is not Scope.BUILTIN
            and hidden.layer.scope is not item.layer.scope
        ):
            message = f"This overrides `{name(item)}` in {hidden.source.path}."
            item.note(Finding((), message, severity="information", code="overrides"))
        winners[name(item)] = item
    return winners


def _defined_tool(item: Item) -> DefinedTool:
    return DefinedTool(item.value, item.layer.scope, item.source.location(), plain(item.problems))


def _delegator_entry(item: Item, defaults: Defaults, tools: Mapping[str, Item]) -> DelegatorEntry:
    name = item.value.tool or ""
    built_in = declarations.tools().get(name)
    tool = built_in or (tools[name].value if name in tools else None)
    return DelegatorEntry(
        delegator=item.value,
        **_origin(item),
        tool_display_name=tool.title if tool is not None else None,
        follows_instructions=built_in is None or built_in.follows_instructions,
        is_default=defaults.delegator == item.value.name,
        default_for=sorted(recipe for recipe, name in defaults.recipes.items() if name == item.value.name),
        state=EntryState(ready=item.usable, problems=plain(item.problems), running=0, queued=0),
    )


def _server_entry(item: Item) -> ModelServerEntry:
    return ModelServerEntry(model_server=item.value, **_origin(item), state=ServerState(problems=plain(item.problems)))


def _check_entry(item: Item) -> CheckEntry:
    return CheckEntry(check=item.value, **_origin(item), state=CheckState(problems=plain(item.problems)))


def _schedule_entry(item: Item) -> ScheduleEntry:
    return ScheduleEntry(schedule=item.value, **_origin(item), state=ScheduleState(problems=plain(item.problems)))


def _notification_entry(item: Item) -> NotificationEntry:
    return NotificationEntry(
        receiver=item.value, **_origin(item), state=NotificationState(problems=plain(item.problems))
    )


def _of_the_user(items: list[Item]) -> list[Item]:
    """Return what the user configured, by name."""
    return sorted((item for item in items if item.layer.scope is Scope.USER), key=lambda item: item.value.name)


def _origin(item: Item) -> dict[str, Any]:
    """Return the fields of an entry about the file that it is from."""
    shipped = item.layer.scope is Scope.BUILTIN
    return {
        "scope": item.layer.scope,
        "revision": revision(item.source.data if item.whole else msgspec.json.encode(item.value)),
        "editable": not shipped and is_own(item),
        "location": None if shipped else item.source.location(None if item.whole else item.source.where(item.path)),
    }


def _recipe_findings(recipe: Recipe, delegators: Mapping[str, Item], checks: Mapping[str, Check]) -> Iterator[Finding]:
    if recipe.delegator is not None and recipe.delegator not in delegators:
        yield _unknown(("delegator",), "delegator", recipe.delegator, delegators)
    for number, name in enumerate(recipe.checks or []):
        if name not in checks:
            finding = _unknown(("checks", number), "check", name, checks)
            yield msgspec.structs.replace(finding, hint=finding.hint or "Add it: understudy checks add")
    for number, glob in enumerate(recipe.writes or []):
        if not delegator_rules.is_inside(glob):
            yield Finding(("writes", number), "`writes` accepts only patterns of paths inside the workspace.")


def _unknown(path: KeyPath, what: str, name: str, known: Iterable[str]) -> Finding:
    names = list(known)
    message = f"There is no {what} `{name}`."
    return Finding(path, message, near(name, names), code="unknown_name", names=close(name, names))


def plain(remarks: Iterable[LocatedFinding]) -> list[Problem]:
    """Return the problems as wire structures."""
    return [remark.plain() for remark in remarks]


@dataclass(frozen=True)
class Snapshot:
    """The configuration files at one moment, for checking one of them with another text."""

    configuration: Configuration
    readings: tuple[Reading, ...]

    def remarks(self, path: Path, data: bytes) -> list[LocatedFinding]:
        """Return what ``load`` would report for ``path`` with the content ``data``, by place; starts and reads nothing.

        A file of an untrusted workspace is checked too, because the user has it open. Names that it uses may be
        defined in files that are not read, so an unknown name is not an error there.
        """
        place = place_of(path)
        if place is None:
            return []
        kind, layer = place
        draft = config_file.read_text(layer, kind, path, data)
        others = [reading.fresh() for reading in self.readings if not _same(reading, draft)]
        loader = Loader(
            self.configuration.workspace,
            sorted([*others, draft], key=_order),
            trusted=self.configuration.trusted,
        )
        uri = path.as_uri()
        remarks = [remark for remark in loader.remarks() if remark.location is not None and remark.location.uri == uri]
        if layer.scope is Scope.WORKSPACE and not self.configuration.trusted:
            remarks = [_doubtful(remark) if remark.code == "unknown_name" else remark for remark in remarks]
        return sorted(_once(remarks), key=_position)


def snapshot(workspace: Path | None, *, trusted: bool) -> Snapshot:
    """Return the configuration of ``workspace`` with its files; arguments as for ``load``."""
    files = readings(workspace, trusted=trusted)
    kept = tuple(reading.fresh() for reading in files)
    configuration = Loader(workspace, files, trusted=trusted).run()
    return Snapshot(configuration, kept)


_KINDS = list(FileKind)


def _order(reading: Reading) -> tuple[int, int, str]:
    """Return a key that sorts readings in the order in which ``load`` finds them."""
    return _rank(reading.layer), _KINDS.index(reading.kind), reading.path.name


def _rank(layer: Layer) -> int:
    if layer.scope is Scope.WORKSPACE:
        return 3 if layer.root.name == LOCAL_FOLDER else 2
    return 1 if layer.scope is Scope.USER else 0


def _same(reading: Reading, other: Reading) -> bool:
    if reading.path == other.path:
        return True
    # The same file under another path.
    alike = (
        reading.kind is other.kind and reading.layer.scope is other.layer.scope and reading.path.name == other.path.name
    )
    return alike and os.path.realpath(reading.path) == os.path.realpath(other.path)


def _doubtful(remark: LocatedFinding) -> LocatedFinding:
    why = "The workspace is not trusted, so the files beside this one are not read."
    hint = f"{remark.hint} {why}" if remark.hint else why
    return msgspec.structs.replace(remark, severity="information", hint=hint)


def _once(remarks: Iterable[LocatedFinding]) -> list[LocatedFinding]:
    unique = {(remark.message, remark.severity, str(remark.location)): remark for remark in remarks}
    return list(unique.values())


def _position(remark: LocatedFinding) -> tuple[int, int, str]:
    start = remark.location.range.start if remark.location else None
    return (start.line, start.character, remark.message) if start else (0, 0, remark.message)
