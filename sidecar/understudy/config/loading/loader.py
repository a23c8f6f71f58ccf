"""Merge the files of all layers into one configuration, with every problem found in them.

``load`` never raises for the content of a file: a part that cannot be used becomes a ``Problem`` with its
place, and every other part works. A delegator or model server that can be read but not used is
listed with its problems and is not ready, so that a request that names it fails with the reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from understudy.config import locations
from understudy.config.configuration import Configuration, Defaults, DefinedTool, Worktrees
from understudy.config.discovery import declarations
from understudy.config.fallback import Fallback
from understudy.config.fallback import invalid_fields as invalid_fallback
from understudy.config.findings import Finding, KeyPath, LocatedFinding
from understudy.config.loading.rendering import is_own, revision
from understudy.config.locations import Layer
from understudy.config.parsing import config_file, file_schema
from understudy.config.parsing.config_file import REPLACEABLE, Item, Reading
from understudy.config.retention import Retention, invalid_fields
from understudy.config.suggestions import close, near
from understudy.config.validation import delegator_rules, server_rules, tool_rules, workspace_rules
from understudy.config.validation.delegator_rules import Surroundings
from understudy.model.config import result_branch
from understudy.model.config.config_entries import (
    CheckEntry,
    CheckState,
    DelegatorEntry,
    EntryState,
    ModelServerEntry,
    Problem,
    ServerState,
)
from understudy.model.config.delegators import INPUT_BYTES, INPUT_FILE_BYTES, InputLimits, Launch, Limits, Scope
from understudy.model.config.evidence_bounds import LEAST_EXECUTED, LEAST_KILLED, Evidence
from understudy.model.config.recipes import Recipe
from understudy.model.evidence.checks import Check
from understudy.model.relay.relay_bounds import RelayBounds

if TYPE_CHECKING:
    from understudy.config.parsing.file_schema import RelayTable

INPUT_DEFAULTS = {"max_file_bytes": INPUT_FILE_BYTES, "max_bytes": INPUT_BYTES}
"""What applies unless the user configures something else; a workspace may only lower it."""
CHOOSE_DEFAULT = "Choose another default: understudy delegators default NAME"


LEAST = {"least_killed": LEAST_KILLED, "least_executed": LEAST_EXECUTED}
"""Shares that a workspace may raise but not lower, with their defaults."""


def load(workspace: Path | None, *, trusted: bool) -> Configuration:
    """Return the configuration of ``workspace`` (``None``: only the user's own); never raises for a file's content.

    Files of an untrusted workspace are not read.
    """
    found = readings(workspace, trusted=trusted)
    return Loader(workspace, found, trusted=trusted).run()


def readings(workspace: Path | None, *, trusted: bool) -> list[Reading]:
    """Return every file, read and decoded, the lowest layer first."""
    return [
        one
        for layer in locations.layers(workspace, trusted=trusted)
        for one in ([shipped.fresh() for shipped in _shipped(layer)] if layer.scope is Scope.BUILTIN else _read(layer))
    ]


def _read(layer: Layer) -> list[Reading]:
    return [config_file.read_file(layer, kind, path) for kind, path in config_file.files(layer)]


_shipped = functools.cache(_read)
"""The files of the program do not change while it runs."""


class Loader:
    """Check and merge files, the lowest layer first; modifies the readings it is given."""

    def __init__(self, workspace: Path | None, found: Iterable[Reading], *, trusted: bool) -> None:
        """Take the arguments of ``load`` and the result of ``readings``."""
        self.workspace = workspace
        self.trusted = trusted
        self.problems: list[LocatedFinding] = []
        self.missing: list[LocatedFinding] = []
        self.broken: set[tuple[str, str]] = set()
        self.delegators: list[Item] = []
        self.servers: list[Item] = []
        self.checks: list[Item] = []
        self.recipes: list[Item] = []
        self.tools: list[Item] = []
        self.sections: dict[str, list[Item]] = {name: [] for name in file_schema.SECTIONS}
        for one in found:
            self.delegators += one.delegators
            self.servers += one.servers
            self.checks += one.checks
            self.recipes += one.recipes
            self.tools += one.tools
            self.problems += one.problems
            self.missing += one.missing
            self.broken |= one.broken
            for name, item in one.sections:
                self.sections[name].append(item)

    def remarks(self) -> list[LocatedFinding]:
        """Return all findings in the files."""
        self.run()
        return self.problems

    def run(self) -> Configuration:
        """Return the configuration."""
        for items in (self.delegators, self.servers, self.checks):
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
        delegators = _winners(self.delegators, lambda item: item.value.name)
        check_items = _winners(self.checks, lambda item: item.value.name)
        checks = {name: item.value for name, item in check_items.items() if item.usable}
        for item in self.recipes:
            for finding in _recipe_findings(item.value, delegators, checks):
                field_name, number = finding.path[0], finding.path[-1]
                name = item.value.checks[number] if field_name == "checks" else item.value.delegator
                self._note(item, [self._broken(finding, "checks" if field_name == "checks" else "delegators", name)])
        recipes = _winners(self.recipes, lambda item: item.value.name)
        limits, slots = self._limits()
        defaults = self._defaults(delegators, recipes)
        worktrees = self._worktrees()
        launch = self._launch(tools)
        retention = self._retention()
        evidence = self._evidence()
        input_limits = self._input()
        mcp_decide = self._mcp_decide()
        fallback = self._fallback()
        relay = self._relay()
        python = self._python()
        for items in (
            self.delegators,
            self.servers,
            self.checks,
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
            recipes={name: item.value for name, item in recipes.items() if item.usable},
            tools={name: _defined_tool(item) for name, item in sorted(tools.items())},
            defaults=defaults,
            launch=launch,
            limits=limits,
            slots=slots,
            worktrees=worktrees,
            retention=retention,
            evidence=evidence,
            input=input_limits,
            mcp_decide=mcp_decide,
            fallback=fallback,
            relay=relay,
            python=python,
            problems=plain(self.problems),
            missing=plain(self._missing()),
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
            for one, other in ((first, item), (item, first)):
                place = f"{other.source.path}:{other.source.where((*other.path, 'name')).start.line + 1}"
                message = f"The name `{item.value.name}` is also given in {place}."
                one.note(Finding(("name",), message, "Keep one.", code="duplicate"))
            self.problems += item.problems
        items[:] = kept

    def _judge_servers(self) -> dict[str, Item]:
        own = self._values(self.servers, Scope.USER)
        for item in self.servers:
            self._note(item, server_rules.check_server(item.value))
            if item.layer.scope is Scope.WORKSPACE:
                self._note(item, workspace_rules.check_workspace_server(item.value, own))
        return _winners(self.servers, lambda item: item.value.name)

    def _judge_tools(self) -> dict[str, Item]:
        own = self._values(self.tools, Scope.USER)
        for item in self.tools:
            self._note(item, tool_rules.check_tool(item.value))
            if item.layer.scope is Scope.WORKSPACE:
                self._note(item, workspace_rules.check_workspace_tool(item.value, own))
        # The name of a tool that Understudy knows always means that one.
        return {
            name: item
            for name, item in _winners(self.tools, lambda item: item.value.name).items()
            if name not in declarations.tools()
        }

    def _judge_delegators(self, servers: dict[str, Item], tools: dict[str, Item]) -> None:
        own = self._values(self.delegators, Scope.USER)
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
            for one in delegator_rules.check_delegator(item.value, around):
                kind, name = (
                    ("tools", item.value.tool) if one.path == ("tool",) else ("model_servers", item.value.model_server)
                )
                item.note(self._broken(one, kind, name))
            self._check_fallback(item)
            if item.layer.scope is Scope.WORKSPACE:
                foreign = defined.keys() - own_tools.keys()
                self._note(item, workspace_rules.check_workspace_delegator(item.value, own, everywhere, foreign))
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
        own = item.layer.scope is not Scope.WORKSPACE
        known = [one.value.name for one in self.delegators if not own or one.layer.scope is not Scope.WORKSPACE]
        self._note(item, delegator_rules.check_fallback(names, item.value.name))
        for number, name in enumerate(names):
            if name not in known:
                item.note(self._broken(_unknown(("fallback", number), "delegator", name, known), "delegators", name))
            elif any(one.value.name == name and one.value.remote_agent is not None for one in self.delegators):
                message = f"`{name}` stands for an agent on another service, so it cannot take over."
                item.note(delegator_rules.no_effect(("fallback", number), message))

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

    def _launch(self, tools: Mapping[str, Item]) -> Launch:
        merged: dict[str, Any] = {}
        known = [*declarations.tools().values(), *(item.value.capabilities() for item in tools.values() if item.usable)]
        modes = {mode.value for tool in known for mode in tool.launch.get("permission_mode", ())}
        for item in self.sections["launch"]:
            if item.layer.scope is Scope.WORKSPACE:
                message = "A workspace cannot say how your delegators are started."
                item.note(Finding((), message, "Move `[launch]` to your own config.toml."))
                continue
            if item.value.yolo and item.value.permission_mode is not None:
                message = "`permission_mode` has no effect beside `yolo`."
                item.note(Finding(("permission_mode",), message, "Remove one of them.", code="no_effect"))
            if (asked := item.value.permission_mode) is not None and asked not in modes:
                message = f"No tool has the permission mode `{asked}`."
                names = close(asked, modes)
                item.note(Finding(("permission_mode",), message, near(asked, modes), code="not_allowed", names=names))
            branch = item.value.branch
            if branch is not None and (reason := result_branch.why_invalid(branch)) is not None:
                item.note(delegator_rules.branch_finding(("branch",), reason))
            if item.usable:
                merged |= _given(item.value)
        return Launch(**merged)

    def _limits(self) -> tuple[Limits, int | None]:
        """Merge the limits: a workspace may set and tighten them, but never loosen the user's limits."""
        merged: dict[str, Any] = {}
        for item in self.sections["limits"]:
            given = {name: getattr(item.value, name) for name in (*Limits.__struct_fields__, "slots")}
            limits = Limits(**{name: value for name, value in given.items() if name != "slots"})
            findings = list(delegator_rules.check_limits(limits))
            if given["slots"] is not None and given["slots"] < 1:
                findings.append(Finding(("slots",), "`slots` must be at least 1."))
            self._note(item, findings)
            wrong = {finding.path[0] for finding in findings}
            for name, value in given.items():
                if value is None or name in wrong:
                    continue
                before = merged.get(name)
                if before is not None and item.layer.scope is Scope.WORKSPACE and float(value) > float(before):
                    message = f"`{name}` is above your own limit of {before}, which applies."
                    item.note(Finding((name,), message, severity="warning"))
                    continue
                merged[name] = value
        slots = merged.pop("slots", None)
        return Limits(**merged), slots

    def _worktrees(self) -> Worktrees:
        merged = Worktrees()
        for item in self.sections["worktrees"]:
            table: file_schema.WorktreesTable = item.value
            for name in ("copy", "link"):
                for number, path in enumerate(getattr(table, name) or []):
                    if not delegator_rules.is_inside(path):
                        message = f"`{name}` accepts only paths inside the workspace."
                        item.note(
                            Finding((name, number), message, "Use a relative path without `..` that is not in .git.")
                        )
            if table.setup is not None and any("\0" in argument for argument in table.setup):
                item.note(Finding(("setup",), "An argument contains a NUL byte."))
            if table.setup_timeout_seconds is not None and table.setup_timeout_seconds <= 0:
                item.note(Finding(("setup_timeout_seconds",), "`setup_timeout_seconds` must be above zero."))
            for name in ("keep_days", "keep_bytes"):
                kept = getattr(table, name)
                if kept is not None and item.layer.scope is Scope.WORKSPACE:
                    message = (
                        f"`{name}` is allowed only in your own configuration: it controls the removal of worktrees."
                    )
                    item.note(Finding((name,), message, "Move it to your own config.toml."))
                elif kept is not None and kept < 0:
                    item.note(Finding((name,), f"`{name}` must not be negative."))
            if item.usable:
                merged = msgspec.structs.replace(merged, **_given(table))
        return merged

    def _retention(self) -> Retention:
        merged = Retention()
        for item in self.sections["retention"]:
            if item.layer.scope is Scope.WORKSPACE:
                item.note(
                    Finding(
                        (), "A workspace cannot limit what a user keeps.", "Move `[retention]` to your own config.toml."
                    )
                )
                continue
            for name in invalid_fields(item.value):
                item.note(Finding((name,), f"`{name}` must be zero or a positive number."))
            if item.usable:
                merged = msgspec.structs.replace(merged, **_given(item.value))
        return merged

    def _mcp_decide(self) -> bool:
        allowed = False
        for item in self.sections["mcp"]:
            if item.layer.scope is Scope.WORKSPACE:
                message = "A workspace cannot allow agents to decide."
                item.note(Finding((), message, "Move `[mcp]` to your own config.toml."))
            elif item.usable and item.value.decide is not None:
                allowed = item.value.decide
        return allowed

    def _fallback(self) -> Fallback:
        merged = Fallback()
        for item in self.sections["fallback"]:
            if item.layer.scope is Scope.WORKSPACE:
                message = "A workspace cannot say when your delegators take over from each other."
                item.note(Finding((), message, "Move `[fallback]` to your own config.toml."))
                continue
            for name in invalid_fallback(item.value):
                item.note(Finding((name,), f"`{name}` must be above zero."))
            if item.usable:
                merged = msgspec.structs.replace(merged, **_given(item.value))
        return merged

    def _relay(self) -> RelayBounds:
        merged: dict[str, Any] = {}
        for item in self.sections["relay"]:
            if item.layer.scope is Scope.WORKSPACE:
                message = "A workspace cannot say how far agents delegate."
                item.note(Finding((), message, "Move `[relay]` to your own config.toml."))
                continue
            self._note(item, check_relay(item.value))
            if item.usable:
                merged |= _given(item.value)
        return RelayBounds(**merged)

    def _evidence(self) -> Evidence:
        """Merge what a result must show: a workspace may ask for more, but never for less than the user."""
        merged: dict[str, Any] = {}
        for item in self.sections["evidence"]:
            given = {name: getattr(item.value, name) for name in Evidence.__struct_fields__}
            findings = list(check_evidence(item.value))
            self._note(item, findings)
            wrong = {finding.path[0] for finding in findings}
            for name, value in given.items():
                if value is None or name in wrong:
                    continue
                own = merged.get(name, LEAST.get(name))
                if item.layer.scope is Scope.WORKSPACE and name in LEAST and value < own:
                    message = f"`{name}` is below {own:g}, which applies: a workspace may only ask for more."
                    item.note(Finding((name,), message, severity="warning"))
                    continue
                merged[name] = value
        return Evidence(**merged)

    def _input(self) -> InputLimits:
        """Merge what is sent at most: a workspace may ask for less, but never for more than the user."""
        merged: dict[str, int] = {}
        for item in self.sections["input"]:
            for name in InputLimits.__struct_fields__:
                value = getattr(item.value, name)
                own = merged.get(name, INPUT_DEFAULTS.get(name))
                if value is None:
                    continue
                if value < 1:
                    item.note(Finding((name,), f"`{name}` must be at least 1."))
                elif item.layer.scope is Scope.WORKSPACE and own is not None and value > own:
                    message = f"`{name}` is above {own}, which applies: a workspace may only ask for less."
                    item.note(Finding((name,), message, severity="warning"))
                else:
                    merged[name] = value
        return InputLimits(**merged)

    def _python(self) -> str | None:
        python: str | None = None
        for item in self.sections["environment"]:
            if item.value.python is None:
                continue
            given = Path(item.value.python)
            if "\0" in item.value.python or not item.value.python:
                item.note(Finding(("python",), "`python` is not a path."))
            elif given.is_absolute():
                python = str(given)
            elif item.layer.inside is not None:
                python = str(item.layer.inside / given)
            else:
                item.note(
                    Finding(
                        ("python",),
                        "`python` must be an absolute path here.",
                        "Only a workspace may use a relative path.",
                    )
                )
        return python


def _winners(items: Iterable[Item], name: Callable[[Item], str]) -> dict[str, Item]:
    """Return the last item of each name: later layers override earlier ones, with a finding.

    An item with errors overrides nothing: a repository cannot disable the user's configuration.
    """
    found: dict[str, Item] = {}
    for item in items:
        hidden = found.get(name(item))
        if hidden is not None and not item.usable:
            continue
        if (
            hidden is not None
            and hidden.layer.scope is not Scope.BUILTIN
            and hidden.layer.scope is not item.layer.scope
        ):
            message = f"This overrides `{name(item)}` in {hidden.source.path}."
            item.note(Finding((), message, severity="information", code="overrides"))
        found[name(item)] = item
    return found


def _given(table: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a table that the file sets."""
    return {name: value for name, value in msgspec.structs.asdict(table).items() if value is not None}


def _defined_tool(item: Item) -> DefinedTool:
    return DefinedTool(item.value, item.layer.scope, item.source.location(), plain(item.problems))


def _delegator_entry(item: Item, defaults: Defaults, tools: Mapping[str, Item]) -> DelegatorEntry:
    name = item.value.tool or ""
    known = declarations.tools().get(name)
    tool = known or (tools[name].value if name in tools else None)
    return DelegatorEntry(
        delegator=item.value,
        scope=item.layer.scope,
        revision=_revision(item),
        editable=_editable(item),
        location=_location(item),
        tool_display_name=tool.title if tool is not None else None,
        follows_instructions=known is None or known.follows_instructions,
        is_default=defaults.delegator == item.value.name,
        default_for=sorted(recipe for recipe, name in defaults.recipes.items() if name == item.value.name),
        state=EntryState(ready=item.usable, problems=plain(item.problems), running=0, queued=0),
    )


def _server_entry(item: Item) -> ModelServerEntry:
    return ModelServerEntry(
        model_server=item.value,
        scope=item.layer.scope,
        revision=_revision(item),
        editable=_editable(item),
        location=_location(item),
        state=ServerState(problems=plain(item.problems)),
    )


def _check_entry(item: Item) -> CheckEntry:
    return CheckEntry(
        check=item.value,
        scope=item.layer.scope,
        revision=_revision(item),
        editable=_editable(item),
        location=_location(item),
        state=CheckState(problems=plain(item.problems)),
    )


def _revision(item: Item) -> str:
    return revision(item.source.data if item.whole else msgspec.json.encode(item.value))


def _editable(item: Item) -> bool:
    return item.layer.scope is not Scope.BUILTIN and is_own(item)


def _location(item: Item) -> Any:
    if item.layer.scope is Scope.BUILTIN:
        return None
    return item.source.location(None if item.whole else item.source.where(item.path))


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


def check_relay(table: RelayTable) -> Iterator[Finding]:
    """Find numbers that make no sense."""
    for name in ("max_depth", "max_delegations"):
        value = getattr(table, name)
        if value is not None and value < 0:
            yield Finding((name,), f"`{name}` must not be negative.")
    yield from delegator_rules.check_limits(Limits(max_tokens=table.max_tokens, max_usd=table.max_usd))


def check_evidence(table: Any) -> Iterator[Finding]:
    """Find values of the table ``[evidence]`` that make no sense."""
    for name in LEAST:
        value = getattr(table, name)
        if value is not None and not 0 <= value <= 1:
            yield Finding((name,), f"`{name}` must be a share from 0 to 1.", "Write 30 % as 0.3.")
    if table.max_mutants is not None and not 1 <= table.max_mutants <= 1000:
        yield Finding(("max_mutants",), "`max_mutants` must be from 1 to 1000.")
    if table.max_copies is not None and not 1 <= table.max_copies <= 64:
        yield Finding(("max_copies",), "`max_copies` must be from 1 to 64.")
    if table.mutation_seconds is not None and table.mutation_seconds <= 0:
        yield Finding(("mutation_seconds",), "`mutation_seconds` must be above zero.")
