"""Read one agent or skill."""

from __future__ import annotations

import re
from typing import Literal

from understudy.config.agents.yaml_header import Header, read_header
from understudy.config.findings import LocatedFinding
from understudy.config.parsing.source_file import Source
from understudy.model.config.agent_entries import AGENT_NAME_PATTERN, AgentEntry, IgnoredField
from understudy.model.config.delegators import Scope

Kind = Literal["agent", "skill"]

_HONOURED: dict[Kind, frozenset[str]] = {
    "agent": frozenset({"name", "description", "model", "tools", "disallowedTools"}),
    "skill": frozenset({"name", "description", "model"}),
}

_REASONS = {
    "allowed-tools": "It lets Claude Code use tools without asking; here the delegator's permissions decide.",
    "background": "A delegation always runs in the background.",
    "color": "Understudy does not colour agents.",
    "effort": "Set a model property of the delegator instead: --set KEY=VALUE.",
    "hooks": "Commands of an agent file are never run.",
    "isolation": "The delegator decides whether the agent works in a worktree.",
    "maxTurns": "Set a limit instead: --limit max_turns=N.",
    "mcpServers": "Servers of an agent file are never started.",
    "memory": "A delegation starts without memory.",
    "permissionMode": "The delegator's permissions decide: --permission-mode.",
    "skills": "Name one agent or skill for a delegation.",
}
"""Why a field of Claude Code has no effect; any other field is unknown."""

_CLAUDE_ONLY = frozenset(
    [
        *("agent", "argument-hint", "arguments", "context", "disable-model-invocation", "initialPrompt", "license"),
        *("metadata", "paths", "shell", "user-invocable", "version", "when_to_use", "compatibility"),
    ]
)
_TOOL = re.compile(r"\*|[A-Za-z][A-Za-z0-9_.:*-]*(?:\([^()]*\))?")
_MOST_TOOLS = 200
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@\[\]+-]{0,199}")


def read_agent(
    source: Source, kind: Kind, default_name: str, scope: Scope
) -> tuple[AgentEntry | None, list[LocatedFinding]]:
    """Return the agent in a file and the remarks about it, or None and the problems that prevent it."""
    header, problems = read_header(source)
    if header is None:
        return None, problems
    name = _text(header, source, "name", problems) or default_name
    if not re.match(AGENT_NAME_PATTERN, name):
        message = f"`{name[:64]}` is not a name of an agent."
        hint = "Use up to 64 letters, digits, dots, hyphens and underscores."
        problems.append(source.problem(message, hint=hint, at=header.places.get("name")))
    if not header.body:
        hint = "Write the instructions below the front matter."
        problems.append(source.problem("It has no instructions.", hint=hint, code="missing"))
    model = _text(header, source, "model", problems)
    if model is not None and not _MODEL.fullmatch(model):
        problems.append(source.problem("`model` is not the ID of a model.", at=header.places["model"]))
    lists = dict.fromkeys(("tools", "disallowedTools"))
    if kind == "agent":
        lists = {name: _tools(header, source, name, problems) for name in lists}
    entry = AgentEntry(
        name=name,
        description=_text(header, source, "description", problems) or "",
        kind=kind,
        scope=scope,
        location=source.location(),
        model=None if model in {None, "inherit"} else model,
        tools=lists["tools"],
        disallowed_tools=lists["disallowedTools"],
        honoured=[name for name in header.values if name in _HONOURED[kind]],
        ignored=[
            IgnoredField(name=name, reason=_reason(name)) for name in header.values if name not in _HONOURED[kind]
        ],
        problems=[problem.plain() for problem in problems],
        prompt=header.body,
    )
    broken = any(problem.severity == "error" for problem in problems)
    return None if broken else entry, problems


def _reason(name: str) -> str:
    if name in _CLAUDE_ONLY:
        return "It has a meaning in Claude Code only."
    return _REASONS.get(name, "It is unknown.")


def _text(header: Header, source: Source, name: str, problems: list[LocatedFinding]) -> str | None:
    if name not in header.values:
        return None
    value = header.values[name]
    if isinstance(value, str):
        return value.strip()
    at = header.places[name]
    problems.append(source.problem(f"`{name}` must be a text.", at=at, code="wrong_type"))
    return None


def _tools(header: Header, source: Source, name: str, problems: list[LocatedFinding]) -> list[str] | None:
    """Return a list of tools: a YAML list, or names with commas between them; None for all tools."""
    if name not in header.values:
        return None
    value, at = header.values[name], header.places[name]
    if isinstance(value, str):
        # A comma inside of parentheses does not separate: Bash(git add, git commit).
        value = [tool.strip() for tool in re.split(r",(?![^()]*\))", value) if tool.strip()]
    if value is None:
        # An empty restriction could mean everything or nothing.
        message, hint = f"`{name}` must name tools.", "Name tools with commas between them, or leave the field out."
        problems.append(source.problem(message, hint=hint, at=at, code="wrong_type"))
        return None
    wrong = next((tool for tool in value if not _TOOL.fullmatch(tool)), None)
    if wrong is not None or len(value) > _MOST_TOOLS:
        message = (
            f"`{wrong[:64]}` is not the name of a tool." if wrong is not None else f"More than {_MOST_TOOLS} tools."
        )
        problems.append(source.problem(message, at=at, code="value"))
        return None
    if value == ["*"] and name == "tools":
        return None
    return list(dict.fromkeys(value))
