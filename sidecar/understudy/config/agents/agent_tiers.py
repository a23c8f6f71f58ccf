"""Find agents in their three tiers: of the workspace, of the user, built in; the nearer one wins."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from understudy.config import locations
from understudy.config.agents.agent_file import Kind, read_agent
from understudy.config.findings import LocatedFinding
from understudy.config.parsing.source_file import Source, read
from understudy.config.suggestions import close
from understudy.model.config.config_entries import AgentEntry
from understudy.model.config.delegators import Scope
from understudy.model.errors import ErrorKind, UnderstudyError

CLAUDE_FOLDER = ".claude"
MAX_AGENTS = 1000
"""The most files of one folder that are read."""
_MAX_DEPTH = 4


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
