"""The files that hold instructions for other agents: skills, and blocks in files that the user owns.

A link is kept, and its target is written; a project's link must not lead out of the project. Files are replaced
atomically and keep their permissions. What someone edited between our markers stays, unless they force it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.config import suggestions
from understudy.files.user_file import UserFile
from understudy.integrations.agent_instructions import instruction_text, marked_block
from understudy.model.config.other_agents import InstructionChange, InstructionState, InstructionTarget
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import line_diff

MOST_BYTES = 4 * 1024 * 1024
"""An agent reads no larger file at its start."""
_MOST_FOLDERS = 9
"""What one digit of a marker can hold; no path below an agent's folder is deeper."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A place for instructions."""

    title: str
    path: Path
    skill: bool
    agent: Path | None
    """The agent's folder: if it exists, the agent is or was used here. None: only where the user names it."""
    inside: Path | None = None
    """The project that must contain the file."""

    @property
    def file(self) -> UserFile:
        """Return the file."""
        return UserFile(self.path, MOST_BYTES, self.inside)


def listed(workspace: Path | None, environment: Mapping[str, str] = os.environ) -> list[InstructionTarget]:
    """Return all places, with the state of the instructions there; those of a workspace if one is given."""
    targets = []
    for name, place in _places(workspace, environment).items():
        problem = None
        try:
            state = _state(place, _read(place))
        except UnderstudyError as error:
            state, problem = InstructionState.UNREADABLE, error.message
        exists = place.agent is not None and place.agent.is_dir()
        targets.append(
            InstructionTarget(
                name=name, title=place.title, path=str(place.path), state=state, found=exists, problem=problem
            )
        )
    return targets


def change(
    names: Sequence[str] | None,
    workspace: Path | None,
    *,
    install: bool,
    dry_run: bool,
    force: bool,
    environment: Mapping[str, str] = os.environ,
) -> list[InstructionChange]:
    """Install or remove instructions in the named places; return what was done, or with ``dry_run`` would be.

    Default: install where an agent's folder exists, remove wherever they are. A place that cannot be changed has a
    ``problem``; the others are changed. Raises ``invalid_params`` for an unknown name.
    """
    places = _places(workspace, environment)
    for name in names or ():
        if name not in places:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"There is no place for instructions {name!r}.",
                hint=suggestions.near(name, places),
            )
    chosen = [name for name in places if name in names] if names else _default(places, install=install)
    made: set[Path] = set()
    changes = [_change_one(name, places[name], made, install=install, dry_run=dry_run, force=force) for name in chosen]
    # Last, because several files may share a folder; the deepest first.
    for folder in sorted(made, key=lambda path: -len(path.parts)):
        with contextlib.suppress(OSError):  # something else is in it
            folder.rmdir()
    return changes


def _places(workspace: Path | None, environment: Mapping[str, str]) -> dict[str, _Place]:
    home = Path(environment.get("HOME") or Path.home())

    def folder(variable: str, default: str) -> Path:
        path = environment.get(variable, "")
        return Path(path) if path.startswith("/") else home / default

    claude = folder("CLAUDE_CONFIG_DIR", ".claude")
    codex = folder("CODEX_HOME", ".codex")
    opencode = folder("XDG_CONFIG_HOME", ".config") / "opencode"
    pi = folder("PI_CODING_AGENT_DIR", ".pi/agent")
    skill = Path("skills/understudy/SKILL.md")
    places = {
        "claude": _Place("Claude Code: skill", claude / skill, True, claude),
        "codex": _Place("Codex: skill", codex / skill, True, codex),
        "opencode": _Place("OpenCode: skill", opencode / skill, True, opencode),
        "pi": _Place("pi: skill", pi / skill, True, pi),
        "claude-md": _Place("Claude Code: block in your CLAUDE.md", claude / "CLAUDE.md", False, None),
        "codex-md": _Place("Codex: block in your AGENTS.md", codex / "AGENTS.md", False, None),
    }
    if workspace is not None:
        for name, file in (("project-claude-md", "CLAUDE.md"), ("project-agents-md", "AGENTS.md")):
            places[name] = _Place(f"This project: block in {file}", workspace / file, False, None, workspace)
    return places


def _default(places: Mapping[str, _Place], *, install: bool) -> list[str]:
    if install:
        return [name for name, place in places.items() if place.agent is not None and place.agent.is_dir()]
    return [name for name, place in places.items() if _is_there(place)]


def _is_there(place: _Place) -> bool:
    try:
        return _state(place, _read(place)) not in {InstructionState.ABSENT, InstructionState.FOREIGN}
    except UnderstudyError as error:
        return error.kind is not ErrorKind.PATH_ESCAPE  # nothing was ever installed there


def _state(place: _Place, content: bytes | None) -> InstructionState:
    if content is None:
        return InstructionState.ABSENT
    block = marked_block.find_file(content) if place.skill else marked_block.find(content)
    if block is None:
        return InstructionState.FOREIGN if place.skill else InstructionState.ABSENT
    if block.edited:
        return InstructionState.EDITED
    current = instruction_text.SKILL if place.skill else instruction_text.BLOCK
    return InstructionState.INSTALLED if block.body == current else InstructionState.OUTDATED


def _change_one(
    name: str, place: _Place, made: set[Path], *, install: bool, dry_run: bool, force: bool
) -> InstructionChange:
    """Change one place; add the folders that were made for a removed file to ``made``."""
    before = InstructionState.UNREADABLE
    try:
        content = _read(place)
        before = _state(place, content)
        _refuse(place, before, install=install, force=force)
        after = _installed(place, content) if install else _removed(place, content)
        if not dry_run and after != content:
            made |= _write(place, content, after)
    except (OSError, UnderstudyError) as error:
        problem = place.file.problem(error)
        return InstructionChange(name=name, path=str(place.path), before=before, after=before, problem=problem)
    diff = line_diff.of_file(str(place.path), content, after)
    return InstructionChange(
        name=name, path=str(place.path), before=before, after=_state(place, after), diff=diff, problem=None
    )


def _refuse(place: _Place, state: InstructionState, *, install: bool, force: bool) -> None:
    if state is InstructionState.FOREIGN and install:
        raise UnderstudyError(
            ErrorKind.TARGET_EXISTS,
            f"{place.path} was not written by Understudy.",
            hint="It was left as it is. Rename it to install Understudy's.",
        )
    if state is InstructionState.EDITED and not force:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"Someone has edited the instructions in {place.path}.",
            hint="They were left as they are. `--force` replaces or removes them all the same.",
        )


def _installed(place: _Place, content: bytes | None) -> bytes:
    if place.skill:
        block = marked_block.find_file(content) if content is not None else None
        made = _missing_folders(place) if block is None else block.made or 0
        return marked_block.whole_file(instruction_text.SKILL, made)
    return marked_block.insert(content, instruction_text.BLOCK, _missing_folders(place))


def _removed(place: _Place, content: bytes | None) -> bytes | None:
    if content is None or not place.skill:
        return content if content is None else marked_block.remove(content)
    return content if marked_block.find_file(content) is None else None


def _missing_folders(place: _Place) -> int:
    return place.file.missing_folders(_MOST_FOLDERS)


def _read(place: _Place) -> bytes | None:
    return place.file.read()


def _write(place: _Place, before: bytes | None, after: bytes | None) -> set[Path]:
    """Write, or remove for None, unless the file has changed since it was read; return the folders made for it then."""
    place.file.write(before, after)
    if after is not None:
        return set()
    block = (marked_block.find_file if place.skill else marked_block.find)(before or b"")
    # A link is the user's: what it names is gone, as it was before.
    number = 0 if block is None or place.path.is_symlink() else block.made or 0
    return set(list(place.path.parents)[:number])
