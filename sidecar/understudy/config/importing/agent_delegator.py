"""Read ``.agent-delegator.json`` of agent-delegator: agents in an order, and models for kinds of work."""

from __future__ import annotations

from understudy.config.discovery import declarations
from understudy.config.importing.draft import Draft, Drafted, Table
from understudy.config.importing.foreign_files import Document
from understudy.model.config.delegators import Delegator

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
_REASONS = {
    "routing_matrix": "Each recipe has one default delegator: understudy delegators default",
    "worktree_ttl_hours": "Set `keep_days` below [worktrees] in config.toml; only what is decided is removed.",
    "cooldown": "A delegation does not go on to another delegator by itself.",
    "cooldown_minutes": "A delegation does not go on to another delegator by itself.",
    "disable_dashboard": "Understudy has no dashboard server.",
    "agents": "Commands for a shell are never carried over. Define the tool: understudy tools new",
    "logical_models": "A delegator has one model; a delegation does not go on to another one by itself.",
    "rate_limit_patterns": "Limits are known from the typed errors of a tool or server.",
}


def read(document: Document, draft: Draft) -> None:
    """Add the agents and preferred models to ``draft``."""
    top = Table(document, draft, (), document.values)
    made: set[str] = set()

    def add(tool: str, model: str, setting: str, key: str, table: Table) -> str | None:
        known = declarations.tools().get(tool)
        if known is None or known.runner is None or known.built_in or "command" in known.launch:
            draft.drop(setting, f"There is no agent CLI `{tool}` that Understudy can drive.", table.location(key))
            return None
        name = f"{tool}-{model}" if model else tool
        if name not in made:
            made.add(name)
            draft.delegators.append(Drafted(Delegator(name=name, tool=tool, model=model), setting, table.location(key)))
        return name

    for number, tool in enumerate(top.texts("provider_priority") or ()):
        name = add(tool, "", f"provider_priority[{number}]", "provider_priority", top)
        if name is not None and draft.default is None:
            draft.default = (name, "provider_priority", top.location("provider_priority"))
    preferred = top.table("preferred_models")
    for work in preferred.values if preferred is not None else ():
        chosen = preferred.text(work) if preferred is not None else None
        if preferred is None or chosen is None:
            continue
        tool, found, model = chosen.partition(":")
        if not found:
            preferred.drop(work, "A logical model has no counterpart; name one as TOOL:MODEL.")
            continue
        name = add(tool, model, preferred.name(work), work, preferred)
        recipe = _RECIPES.get(work)
        if name is not None and recipe is None:
            preferred.drop(work, "There is no recipe for this kind of work; its delegator is carried over.")
        elif name is not None and recipe is not None:
            draft.recipes.setdefault(recipe, (name, preferred.name(work), preferred.location(work)))
    for key, reason in _REASONS.items():
        top.drop(key, reason)
    top.end()
