"""Read ``.agent-delegator.json`` of agent-delegator: agents in an order, and models for kinds of work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from understudy.config.discovery import declarations
from understudy.config.importing.draft import Draft, Drafted, Table, reasons
from understudy.config.importing.foreign_files import Document
from understudy.config.validation import delegator_rules
from understudy.model.config.delegators import MOST_FALLBACKS, Delegator, Launch
from understudy.model.errors import Location

_RECIPES = {
    "implementation": "implement",
    "code_review": "review",
    "review": "review",
    "testing": "tests",
    "tests": "tests",
    "documentation": "docs",
    "debugging": "fix",
    "bug_fix": "fix",
}


_SHIPPED = {
    "federated-sonnet": ["claude:claude-sonnet-4-6", "copilot:claude-sonnet-4.6"],
    "federated-coding": [
        "opencode:opencode-go/deepseek-v4-pro",
        "opencode:opencode-go/minimax-m2.7",
        "opencode:opencode-go/deepseek-v4-flash",
        "claude:claude-sonnet-4-6",
        "opencode:opencode/minimax-m2.5-free",
        "opencode:opencode/gpt-5-nano",
        "codex:gpt-4o-mini",
    ],
    "federated-free": [
        "opencode:opencode-go/deepseek-v4-flash",
        "opencode:opencode/minimax-m2.5-free",
        "opencode:opencode/gpt-5-nano",
        "copilot:gpt-4o-mini",
        "antigravity:gemini-3.1-flash",
    ],
}
"""The logical models of agent-delegator 0.4.0, each with what it tries in order as ``TOOL:MODEL``."""

PRIORITY = "AGENT_DELEGATOR_PROVIDER_PRIORITY"


def read(document: Document, draft: Draft, variables: Mapping[str, str]) -> None:
    """Add the agents and preferred models to ``draft``; each default gets those after it as its fallbacks."""
    draft.drop_variables(variables, reasons("agent-delegator-variables"))
    top = Table(document, draft, (), document.values)
    tools, setting = top.texts("provider_priority") or [], "provider_priority"
    if variables.get(PRIORITY):
        tools, setting = [word.strip() for word in variables[PRIORITY].split(",") if word.strip()], PRIORITY
    agents = _Agents(top, _logical_models(top))
    order = [
        agents.add(tool, "", f"{setting}[{number}]", "provider_priority", top) for number, tool in enumerate(tools)
    ]
    named = _distinct(order)
    for recipe, chain, name, location in agents.preferred_chains():
        draft.recipes.setdefault(recipe, (chain[0], name, location))
        agents.take_over(chain[0], chain[1:], name)
    if named:
        draft.default = (named[0], setting, top.location("provider_priority"))
        agents.take_over(named[0], named, setting)
    for name in _distinct(name for name, _, __ in draft.recipes.values()):
        if name not in named[:1]:
            agents.take_over(name, named, setting)
    _pauses(top, draft)
    for key, reason in reasons("agent-delegator").items():
        top.drop(key, reason)
    top.end()


def _logical_models(top: Table) -> dict[str, list[str]]:
    """Return each logical model with what it tries: those of the file, and those that agent-delegator ships."""
    table = top.table("logical_models")
    models = dict(_SHIPPED)
    for name, declared in table.named() if table is not None else ():
        models[name] = declared.texts("providers") or []
        declared.any("display")
        declared.end()
    return models


class _Agents:
    """The delegators of one file."""

    def __init__(self, top: Table, logical: Mapping[str, list[str]]) -> None:
        self._draft = top.draft
        self._logical = logical
        self._preferred = top.table("preferred_models")
        self._made: dict[str, Drafted[Delegator]] = {}
        self._models: dict[str, list[str]] = {}
        for chosen in self._preferred.values.values() if self._preferred is not None else ():
            for provider in self._providers(chosen) if isinstance(chosen, str) else ():
                tool, _, model = provider.partition(":")
                self._models.setdefault(tool, []).append(model)

    def _providers(self, chosen: str) -> list[str]:
        return self._logical.get(chosen, [chosen])

    def add(self, tool: str, model: str, setting: str, key: str, table: Table) -> str | None:
        """Add the delegator of a tool and a model unless it is there; return its name, None if it cannot be driven."""
        location = table.location(key)
        declared = declarations.tools().get(tool)
        if declared is not None and declared.runner is None and declared.command:
            command = Delegator(name=tool, tool="generic", launch=Launch(command=list(declared.command)))
            return self._add(command, setting, location).name
        if declared is None or declared.runner is None or declared.built_in or "command" in declared.launch:
            self._draft.drop(setting, f"Understudy cannot drive an agent CLI `{tool}`.", location)
            return None
        if not model and not delegator_rules.has_own_model(model, declared):
            # The file may name one that works for some kind of work.
            usable = (word for word in self._models.get(tool, ()) if delegator_rules.has_own_model(word, declared))
            model = next(usable, "")
            if not model:
                command_line = f"understudy delegators add {tool} --tool {tool} --model PROVIDER/MODEL"
                reason = f"{declared.title} needs a model with its provider, and the file names none. Add it: "
                self._draft.drop(setting, reason + command_line, location)
                return None
        name = f"{tool}-{model.rpartition('/')[2]}" if model else tool
        if name in self._made and self._made[name].entry.model != model:
            name = f"{tool}-{model.replace('/', '-')}"
        return self._add(Delegator(name=name, tool=tool, model=model), setting, location).name

    def _add(self, delegator: Delegator, setting: str, location: Location) -> Delegator:
        if delegator.name not in self._made:
            self._made[delegator.name] = Drafted(delegator, setting, location)
            self._draft.delegators.append(self._made[delegator.name])
        return delegator

    def take_over(self, name: str, others: Iterable[str], setting: str) -> None:
        """Let others take over from a delegator, after those that do already."""
        drafted = self._made[name]
        chain = [other for other in _distinct([*(drafted.entry.fallback or ()), *others]) if other != name]
        drafted.entry = msgspec.structs.replace(drafted.entry, fallback=chain[:MOST_FALLBACKS] or None)
        for left in chain[MOST_FALLBACKS:]:
            self._draft.drop(setting, f"At most {MOST_FALLBACKS} can take over from `{name}`: not `{left}`.", None)

    def preferred_chains(self) -> Iterator[tuple[str, list[str], str, Location]]:
        """Yield each recipe of ``preferred_models`` with its delegators in order, its setting and its place."""
        preferred = self._preferred
        for work in preferred.values if preferred is not None else ():
            chosen = preferred.text(work) if preferred is not None else None
            if preferred is None or chosen is None:
                continue
            name = preferred.name(work)
            providers = self._providers(chosen)
            if providers == [chosen] and ":" not in chosen:
                preferred.drop(work, "The file has no logical model of this name. Name one as TOOL:MODEL.")
                continue
            recipe = _RECIPES.get(work)
            if recipe is None and chosen in self._logical:
                preferred.drop(work, "No recipe does this kind of work.")
                continue
            added = [self.add(*provider.partition(":")[::2], name, work, preferred) for provider in providers]
            chain = _distinct(added)
            if recipe is None and chain:
                preferred.drop(work, "No recipe does this kind of work; its delegator is carried over.")
            elif recipe is not None and chain:
                yield recipe, chain, name, preferred.location(work)


def _distinct(names: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name is not None))


def _pause(minutes: float | None, name: str, draft: Draft) -> None:
    """Add the length of the first pause, whatever failed."""
    draft.set("fallback", "pause_minutes", minutes, name)
    draft.set("fallback", "outage_pause_seconds", None if minutes is None else minutes * 60, name)


def _pauses(top: Table, draft: Draft) -> None:
    """Add when agents pause, and how long worktrees are kept."""
    cooldown, hours = top.table("cooldown"), top.number("worktree_ttl_hours")
    if cooldown is not None:
        draft.set("fallback", "failures", cooldown.whole("failure_threshold"), cooldown.name("failure_threshold"))
        _pause(cooldown.number("base_minutes"), cooldown.name("base_minutes"), draft)
        draft.set("fallback", "longest_pause_minutes", cooldown.number("max_minutes"), cooldown.name("max_minutes"))
        cooldown.end()
    _pause(top.number("cooldown_minutes"), "cooldown_minutes", draft)
    draft.set("worktrees", "keep_days", None if hours is None else hours / 24, "worktree_ttl_hours")
