"""Read ``.agent-delegator.json`` of agent-delegator: agents in an order, and models for kinds of work."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from understudy.config.discovery import declarations
from understudy.config.importing.draft import Draft, Drafted, Table, reasons
from understudy.config.importing.foreign_files import Document
from understudy.config.validation import delegator_rules
from understudy.model.config.delegators import MOST_FALLBACKS, Delegator

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


PRIORITY = "AGENT_DELEGATOR_PROVIDER_PRIORITY"


def read(document: Document, draft: Draft, variables: Mapping[str, str]) -> None:
    """Add the agents and preferred models to ``draft``; the first agent gets the others as its fallbacks."""
    draft.drop_variables(variables, reasons("agent-delegator-variables"))
    top = Table(document, draft, (), document.values)
    made: set[str] = set()
    preferred = top.table("preferred_models")
    models: dict[str, list[str]] = {}
    for chosen in preferred.values.values() if preferred is not None else ():
        tool_name, _, model_name = chosen.partition(":") if isinstance(chosen, str) else ("", "", "")
        models.setdefault(tool_name, []).append(model_name)

    def add(tool: str, model: str, setting: str, key: str, table: Table) -> str | None:
        declared = declarations.tools().get(tool)
        if declared is None or declared.runner is None or declared.built_in or "command" in declared.launch:
            draft.drop(setting, f"There is no agent CLI `{tool}` that Understudy can drive.", table.location(key))
            return None
        if not model and not delegator_rules.has_own_model(model, declared):
            # The file may name one that works for some kind of work.
            usable = (word for word in models.get(tool, ()) if delegator_rules.has_own_model(word, declared))
            model = next(usable, "")
            if not model:
                command = f"understudy delegators add {tool} --tool {tool} --model PROVIDER/MODEL"
                reason = f"{declared.title} needs a model with its provider, and the file names none. Add it: {command}"
                draft.drop(setting, reason, table.location(key))
                return None
        name = f"{tool}-{model}" if model else tool
        if name not in made:
            made.add(name)
            draft.delegators.append(Drafted(Delegator(name=name, tool=tool, model=model), setting, table.location(key)))
        return name

    tools, setting = top.texts("provider_priority") or [], "provider_priority"
    if variables.get(PRIORITY):
        tools, setting = [word.strip() for word in variables[PRIORITY].split(",") if word.strip()], PRIORITY
    order = [add(tool, "", f"{setting}[{number}]", "provider_priority", top) for number, tool in enumerate(tools)]
    named = list(dict.fromkeys(name for name in order if name is not None))
    if named:
        draft.default = (named[0], setting, top.location("provider_priority"))
    if named[1:]:
        first = next(drafted for drafted in draft.delegators if drafted.entry.name == named[0])
        first.entry = msgspec.structs.replace(first.entry, fallback=named[1 : MOST_FALLBACKS + 1])
        for left in named[MOST_FALLBACKS + 1 :]:
            draft.drop(setting, f"At most {MOST_FALLBACKS} can take over, so `{left}` does not.", None)
    for work in preferred.values if preferred is not None else ():
        chosen = preferred.text(work) if preferred is not None else None
        if preferred is None or chosen is None:
            continue
        tool, separator, model = chosen.partition(":")
        if not separator:
            reason = (
                "A logical model has no counterpart: name one as TOOL:MODEL, and those that take over in `fallback`."
            )
            preferred.drop(work, reason)
            continue
        name = add(tool, model, preferred.name(work), work, preferred)
        recipe = _RECIPES.get(work)
        if name is not None and recipe is None:
            preferred.drop(work, "There is no recipe for this kind of work; its delegator is carried over.")
        elif name is not None and recipe is not None:
            draft.recipes.setdefault(recipe, (name, preferred.name(work), preferred.location(work)))
    for key, reason in reasons("agent-delegator").items():
        top.drop(key, reason)
    top.end()
