"""Describe fields and names in Markdown, from the declarations and the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from understudy.api.config_language.known_names import Known, tool_title
from understudy.api.config_language.toml_scanner import Path
from understudy.config.discovery import declarations
from understudy.config.reference.fields import FieldShape, Names
from understudy.model.config.config_entries import Problem

_KINDS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "table": "a table",
}
_TITLES: dict[Names, str] = {
    "tools": "tool",
    "model_servers": "model server",
    "delegators": "delegator",
    "recipes": "recipe",
    "checks": "check",
    "models": "model",
}


def at(root: FieldShape, path: Path) -> FieldShape | None:
    """Return the shape of the value at a path; None if the path is unknown."""
    shape: FieldShape | None = root
    for step in path:
        if shape is None:
            return None
        shape = shape.at(step)
    return shape


def of_kinds(shape: FieldShape) -> str:
    """Return the types of value that a field accepts, as text."""
    if shape.names is not None:
        return f"name of a {_TITLES[shape.names]}"
    if shape.items is not None and shape.items.names is not None:
        return f"names of {_TITLES[shape.items.names]}s"
    return " or ".join(_KINDS[kind] for kind in shape.kinds) or "anything"


def of_field(name: str, shape: FieldShape, path: Path) -> str:
    """Return the description of a field: its meaning, values, default, and the tools that support it."""
    lines = [f"**`{name}`**: {of_kinds(shape)}{', required' if shape.required else ''}"] if name else []
    if shape.doc:
        lines.append(shape.doc)
    if shape.allowed:
        lines.append("One of " + ", ".join(f"`{_literal(value)}`" for value in shape.allowed) + ".")
    usual = shape.usual or (shape.items.usual if shape.items else ())
    if usual:
        lines.append("For example " + ", ".join(f"`{value}`" for value in usual[:8]) + ".")
    if shape.default is not None:
        lines.append(f"Default: `{_literal(shape.default)}`.")
    if shape.above is not None:
        lines.append(f"Greater than {shape.above}.")
    elif shape.least is not None:
        lines.append(f"At least {shape.least}.")
    if len(path) >= 2 and path[-2] in {"launch", "launch_config"}:
        known = declarations.tools().values()
        tools = [f"`{tool.name}`" for tool in known if any(name in one.launch for one in tool.in_each_mode())]
        own = ["Understudy's own loop"] if any(name in one.launch for one in declarations.backends().values()) else []
        lines.append(f"Supported by {', '.join([*tools, *own])}.")
    return "\n\n".join(lines)


def of_name(kind: Names, name: str, known: Known) -> str:
    """Return the description of the item with this name; empty if there is none."""
    loaded = known.configuration
    if kind == "delegators" and name in loaded.delegators:
        return _paragraphs(_delegator(name, known))
    if kind == "model_servers" and name in loaded.model_servers:
        return _paragraphs(_server(name, known))
    if kind == "recipes" and name in loaded.recipes:
        recipe = loaded.recipes[name]
        lines = [f"**Recipe `{name}`**: {recipe.title}", f"Returns `{recipe.returns}`. Scope: {recipe.scope}."]
        if recipe.delegator:
            lines.append(f"Delegator: `{recipe.delegator}`.")
        return _paragraphs(lines)
    if kind == "checks" and name in loaded.checks:
        check = loaded.checks[name]
        argv = " ".join(argument if argument and " " not in argument else repr(argument) for argument in check.argv)
        users = [recipe.name for recipe in loaded.recipes.values() if name in (recipe.checks or [])]
        lines = [f"**Check `{name}`**{'' if check.required else ' (not required)'}", f"Runs `{argv}`."]
        return _paragraphs([*lines, *_used("recipe", users)])
    if kind == "tools" and name in known.tools:
        users = [entry.delegator.name for entry in loaded.delegators.values() if entry.delegator.tool == name]
        return _paragraphs([f"**Tool `{name}`**: {tool_title(name, known)}", *_used("delegator", users)])
    return ""


def _delegator(name: str, known: Known) -> Iterator[str]:
    loaded = known.configuration
    entry = loaded.delegators[name]
    delegator = entry.delegator
    yield f"**Delegator `{name}`**" + (f": {delegator.display_name}" if delegator.display_name else "")
    runs = tool_title(delegator.tool, known) if delegator.tool else "Understudy's own loop"
    server = f" on the model server `{delegator.model_server}`" if delegator.model_server else ""
    model = f", model `{delegator.model}`" if delegator.model else ""
    yield f"{runs}{server}{model}. Scope: {entry.scope}."
    running, queued = known.counts.get(name, (0, 0))
    busy = f", {running} running, {queued} waiting" if running or queued else ""
    yield ("Ready" if entry.state.ready else "**Not ready**") + busy + "."
    yield from _problems(entry.state.problems)
    defaults = [] if loaded.defaults.delegator != name else ["all recipes without another default"]
    defaults += [f"`{recipe}`" for recipe, who in loaded.defaults.recipes.items() if who == name]
    if defaults:
        yield f"Default for {', '.join(defaults)}."
    yield from _used("recipe", [recipe.name for recipe in loaded.recipes.values() if recipe.delegator == name])


def _server(name: str, known: Known) -> Iterator[str]:
    loaded = known.configuration
    entry = loaded.model_servers[name]
    server = entry.model_server
    yield f"**Model server `{name}`**" + (f": {server.display_name}" if server.display_name else "")
    spoken = " and ".join(f"`{word}`" for word in declarations.protocols_of(server))
    yield f"`{server.kind}` at {server.base_url}, speaks {spoken}. Scope: {entry.scope}."
    if any(problem.severity == "error" for problem in entry.state.problems):
        yield "**Not usable**."
    yield from _problems(entry.state.problems)
    models = known.models.get(name, ())
    if models:
        more = f" and {len(models) - 10} more" if len(models) > 10 else ""
        yield f"Models: {', '.join(f'`{model}`' for model in models[:10])}{more}."
    users = [one.delegator.name for one in loaded.delegators.values() if one.delegator.model_server == name]
    yield from _used("delegator", users)


def _problems(problems: Iterable[Problem]) -> Iterator[str]:
    found = list(problems)
    if found:
        yield "\n".join(f"- {problem.severity}: {problem.message}" for problem in found[:10])


def _used(what: str, users: list[str]) -> Iterator[str]:
    if users:
        names = ", ".join(f"`{user}`" for user in sorted(users)[:20])
        yield f"Used by the {what}{'s' if len(users) > 1 else ''} {names}."


def _literal(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _paragraphs(lines: Iterable[str]) -> str:
    return "\n\n".join(lines)
