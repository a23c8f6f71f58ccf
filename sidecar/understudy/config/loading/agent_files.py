"""Read agents and skills: Markdown files with YAML front matter, in the formats of Claude Code.

They are in three tiers: of the workspace, of the user, built in; the nearer one wins. They are read when a request
names or lists them, not with the rest of the configuration: few requests need them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from understudy.config import locations
from understudy.config.findings import LocatedFinding, close
from understudy.config.parsing.file_syntax import YAML_NULL, Refused, compose_yaml, point
from understudy.config.parsing.source_file import Source, read
from understudy.model.config.config_entries import AGENT_NAME_PATTERN, AgentEntry, IgnoredField
from understudy.model.config.delegators import Scope
from understudy.model.errors import ErrorKind, Range, UnderstudyError

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
MAX_HEADER_BYTES = 32 * 1024
"""The largest front matter; a long description has a few kilobytes."""
MAX_NODES = 1000
MAX_NESTING = 12
_HEADER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_OPENING = re.compile(r"\A\ufeff?---[ \t]*\r?\n")
_FIELD = re.compile(r"^([A-Za-z][A-Za-z0-9_-]*):[ \t]+([^\s\"'\[{|>&*!#].*?)[ \t]*\r?$", re.MULTILINE)
CLAUDE_FOLDER = ".claude"
MAX_AGENTS = 1000
"""The most files of one folder that are read."""
_MAX_DEPTH = 4


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


@dataclass
class Header:
    """The fields of a front matter, and the text below it."""

    values: dict[str, str | list[str] | None] = field(default_factory=dict)
    """Field → its text, its list of texts, or None for any other value."""
    places: dict[str, Range] = field(default_factory=dict)
    body: str = ""


def read_header(source: Source) -> tuple[Header | None, list[LocatedFinding]]:
    """Return the front matter of a file, or ``None`` and the problem that prevents it; never raises."""
    try:
        text = source.data.decode()
    except UnicodeDecodeError as error:
        return None, [source.not_utf8(error)]
    match = _HEADER.match(text)
    if match is None:
        message = "It has no front matter."
        if _OPENING.match(text):
            message = "The front matter has no closing ---."
        hint = "An agent begins with YAML between two lines of ---."
        return None, [source.problem(message, hint=hint, code="syntax")]
    header, remarks = Header(body=text[match.end() :].replace("\r\n", "\n").strip()), []
    try:
        try:
            _fill(header, match[1])
        except Refused as refused:
            # Claude Code reads such lines, and most published agents have one: `description: Use it for: this`.
            quoted = _FIELD.sub(lambda line: f"{line[1]}: {json.dumps(line[2])}", match[1])
            try:
                _fill(header, quoted)
            except Refused:
                raise refused from None
            message = f"{refused.message} The rest of the line is taken as the value."
            at = point(refused.line + 1, refused.column)
            hint = "Put the value in quotation marks."
            remarks.append(source.problem(message, hint=hint, at=at, severity="warning", code="syntax"))
    except Refused as refused:
        at = point(refused.line + 1, refused.column)
        hint = "Correct the YAML between the lines of ---; put text with `: ` or ` #` in quotation marks."
        return None, [source.problem(refused.message, hint=hint, at=at, code="syntax")]
    return header, remarks


def _fill(header: Header, text: str) -> None:
    """Read the fields; raise ``Refused`` with a place, counted from the first line of the YAML."""
    import yaml  # here, because few requests need it

    header.values.clear()
    header.places.clear()
    if len(text.encode()) > MAX_HEADER_BYTES:
        raise Refused(f"The front matter is larger than {MAX_HEADER_BYTES // 1024} KiB.")
    root = compose_yaml(text, most_nodes=MAX_NODES, most_levels=MAX_NESTING)
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise Refused("The front matter is not a list of `field: value`.", root.start_mark.line)
    for key, value in root.value:
        line, column = key.start_mark.line, key.start_mark.column
        if not isinstance(key, yaml.ScalarNode):
            raise Refused("The name of a field is not a text.", line, column)
        if key.value in header.values:
            raise Refused(f"The field `{key.value[:64]}` occurs twice.", line, column)
        header.values[key.value] = _plain(yaml, value)
        header.places[key.value] = point(line + 1, column)


def _plain(yaml: Any, node: Any) -> str | list[str] | None:
    if isinstance(node, yaml.ScalarNode):
        return None if node.tag == YAML_NULL else str(node.value)
    if isinstance(node, yaml.SequenceNode) and all(isinstance(item, yaml.ScalarNode) for item in node.value):
        return [str(item.value) for item in node.value]
    return None


@dataclass(frozen=True)
class _Place:
    scope: Scope
    kind: Kind
    folder: Path
    inside: Path | None
    """The workspace that must contain the files."""


@dataclass
class Agents:
    """All agents that a delegation may name."""

    entries: dict[str, AgentEntry] = field(default_factory=dict)
    problems: list[LocatedFinding] = field(default_factory=list)
    """Of files that cannot be used, and remarks about others."""
    broken: dict[str, LocatedFinding] = field(default_factory=dict)
    """Name → why the file that would win cannot be used."""
    untrusted: bool = False
    """Whether the workspace has agents that are not read because it is not trusted."""

    def require(self, name: str) -> AgentEntry:
        """Return the agent; raise ``config_invalid`` if its file is broken, ``invalid_params`` if there is none."""
        if (wrong := self.broken.get(name)) is not None:
            raise UnderstudyError(
                ErrorKind.CONFIG_INVALID,
                f"The file of the agent {name!r} cannot be used: {wrong.message}",
                hint=wrong.hint or "Correct the file.",
                location=wrong.location,
            )
        if name in self.entries:
            return self.entries[name]
        names = close(name, self.entries)
        hint = f"Did you mean {names[0]!r}?" if names else "List the agents: understudy agents"
        if self.untrusted:
            hint = "The agents of a workspace are read once you trust it: understudy trust ."
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"There is no agent {name!r}.",
            hint=hint,
            names=names or sorted(self.entries)[:20] or None,
            parameter="agent",
        )


def agents_of(workspace: Path | None, *, trusted: bool) -> Agents:
    """Return the agents of a workspace; never raises for the content of a file.

    Files of an untrusted workspace are not read.
    """
    agents = Agents()
    for place in _places(workspace if trusted else None):
        for path, name in _files(place):
            _add(agents, place, path, name)
    if workspace is not None and not trusted:
        agents.untrusted = any(place.folder.is_dir() for place in _places(workspace) if place.inside is not None)
        if agents.untrusted:
            message = "The workspace is not trusted, so its agents are not read."
            hint = "Run `understudy trust`."
            agents.problems.append(LocatedFinding(severity="information", message=message, hint=hint))
    agents.entries = dict(sorted(agents.entries.items()))
    return agents


def _places(workspace: Path | None) -> Iterator[_Place]:
    """Yield the folders, the nearest first. Trust covers those of a workspace."""
    if workspace is not None:
        folder = workspace / locations.WORKSPACE_FOLDER
        yield _Place(Scope.WORKSPACE, "agent", folder / locations.LOCAL_FOLDER / "agents", workspace)
        yield _Place(Scope.WORKSPACE, "agent", folder / "agents", workspace)
        yield _Place(Scope.WORKSPACE, "agent", workspace / CLAUDE_FOLDER / "agents", workspace)
        yield _Place(Scope.WORKSPACE, "skill", workspace / CLAUDE_FOLDER / "skills", workspace)
    claude_path = os.environ.get("CLAUDE_CONFIG_DIR")
    claude = Path(claude_path).absolute() if claude_path else Path.home() / CLAUDE_FOLDER
    yield _Place(Scope.USER, "agent", locations.user_folder() / "agents", None)
    yield _Place(Scope.USER, "agent", claude / "agents", None)
    yield _Place(Scope.USER, "skill", claude / "skills", None)
    yield _Place(Scope.BUILTIN, "agent", locations.BUILTIN / "agents", None)


def _files(place: _Place) -> Iterator[tuple[Path, str]]:
    """Yield the files of a folder, each with the name that it has unless its front matter gives another."""
    number = 0
    if place.kind == "skill":
        for folder in locations.names_in(place.folder, ""):
            if (folder / "SKILL.md").is_file():
                yield folder / "SKILL.md", folder.name
        return
    # Claude Code reads folders below this one, too; a link to a folder is not followed.
    for top, below, names in os.walk(place.folder):
        below.sort()
        if len(Path(top).relative_to(place.folder).parts) >= _MAX_DEPTH:
            below.clear()
        for name in sorted(names):
            if name.endswith(".md") and not name.startswith("."):
                number += 1
                if number > MAX_AGENTS:
                    return
                yield Path(top, name), name.removesuffix(".md")


def _add(agents: Agents, place: _Place, path: Path, default_name: str) -> None:
    source, problems = read(path, inside=place.inside)
    entry = None
    if source is not None:
        entry, more = read_agent(source, place.kind, default_name, place.scope)
        problems = [*problems, *more]
    agents.problems += problems
    name = entry.name if entry is not None else default_name
    winner = agents.entries.get(name)
    if winner is not None:
        winner.hides.append(Source(path, b"").location())
    elif entry is not None:
        agents.entries[name] = entry
    else:
        wrong = next((problem for problem in problems if problem.severity == "error"), None)
        if wrong is not None:
            agents.broken.setdefault(name, wrong)
