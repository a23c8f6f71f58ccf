"""The configuration as it was read last, for as long as its files are the same.

A process that answers many requests reads its files once, and a command reads one file instead of all of them and of
the modules that check them. What is kept is used again only if every file and folder that went into it is as it was, by
inode, size, both times and mode, and if they were old enough when they were read that a later change cannot have the
same times. Trust is not kept: the caller checks it each time, and each answer has a file of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from understudy import __version__
from understudy.config import locality, locations
from understudy.files import durable
from understudy.journal import state_folder
from understudy.model.config.config_entries import DelegatorEntry, ModelServerEntry, Problem
from understudy.model.config.delegators import Delegator, InputLimits, Launch, Limits, Scope
from understudy.model.config.recipes import Recipe
from understudy.model.errors import UnderstudyError

if TYPE_CHECKING:
    from understudy.model.config.tool_definitions import ToolDefinition

SETTLED_SECONDS = 0.1
"""The clock of a file system is this coarse, or finer: what changed less long ago may change again unseen."""
MOST_KEPT = 16
"""Workspaces, in memory."""
MOST_FILES = 64
_LARGEST = 4 << 20
_PROGRAM = (".", "builtin", "builtin/recipes", "builtin/delegators", "parsing", "validation", "../model/config")
"""The folders of the code and files that decide what a configuration means."""


class KeptDefaults(msgspec.Struct, frozen=True):
    """The fields of ``config.Defaults``."""

    delegator: str | None
    recipes: dict[str, str]
    scope: Scope | None


class Kept(msgspec.Struct, frozen=True):
    """What planning a text request uses of a ``config.Configuration``."""

    delegators: dict[str, DelegatorEntry]
    model_servers: dict[str, ModelServerEntry]
    recipes: dict[str, Recipe]
    tools: msgspec.Raw
    """Those that files define, by name; text requests use none."""
    defaults: KeptDefaults
    launch: Launch
    limits: Limits
    input: InputLimits
    problems: list[Problem]
    missing: list[Problem]
    sessions: list[tuple[str, str]]
    """The tools that may ask, each with a variable of its sessions."""

    def definition_of(self, delegator: Delegator) -> ToolDefinition | None:
        """Return the definition of a delegator's tool; None for a tool that no file defines."""
        if delegator.tool is None:
            return None
        from understudy.model.config.tool_definitions import ToolDefinition as Definition

        return msgspec.json.decode(self.tools, type=dict[str, Definition]).get(delegator.tool)


class _File(msgspec.Struct, frozen=True):
    stamp: str
    kept: msgspec.Raw


class _Entry(msgspec.Struct, frozen=True):
    kept: Kept
    stamp: str
    until: float
    """Entries limited to this machine were judged by what the resolver said, which is as old as they are."""


class Stamps(msgspec.Struct, frozen=True):
    """What the files of a configuration looked like."""

    facts: list[Any]
    newest: float
    """The latest time of a change (``time.time``)."""

    @property
    def settled(self) -> bool:
        """Whether another change would be noticed."""
        return self.newest < time.time() - SETTLED_SECONDS

    @property
    def digest(self) -> str:
        """Return a text that differs when the files do."""
        return hashlib.sha256(msgspec.json.encode(self.facts)).hexdigest()


_kept: dict[tuple[Path | None, bool], _Entry] = {}
_lock = threading.Lock()


def load(workspace: Path | None, *, trusted: bool) -> Kept:
    """Return what ``config.load`` returns, as far as a text request needs it; the caller must not change it."""
    key = workspace, trusted
    entry = _kept.get(key)
    now = stamps(workspace, trusted=trusted)
    stamp = now.digest
    if entry is not None and entry.stamp == stamp and entry.until > time.monotonic():
        return entry.kept
    until = time.monotonic() + locality.KEPT_SECONDS
    # Which other names are local does not depend on the files alone.
    kept = None if locality.has_resolved() else _from_disk(key, stamp)
    if kept is None:
        kept = _read(workspace, trusted=trusted)
        if now.settled and not locality.has_resolved():
            _to_disk(key, stamp, kept)
    with _lock:
        _kept.pop(key, None)
        if now.settled:
            while len(_kept) >= MOST_KEPT:
                del _kept[next(iter(_kept))]
            # A change since the stamps were taken is newer than they are, so the next request notices it.
            _kept[key] = _Entry(kept, stamp, until)
    return kept


def _read(workspace: Path | None, *, trusted: bool) -> Kept:
    from understudy.config.discovery import declarations
    from understudy.config.loading import loader  # most text requests start without it

    found = loader.load(workspace, trusted=trusted)
    defaults = found.defaults
    return Kept(
        delegators=found.delegators,
        model_servers=found.model_servers,
        recipes=found.recipes,
        tools=msgspec.Raw(msgspec.json.encode({name: tool.definition for name, tool in found.tools.items()})),
        defaults=KeptDefaults(defaults.delegator, dict(defaults.recipes), defaults.scope),
        launch=found.launch,
        limits=found.limits,
        input=found.input,
        problems=found.problems,
        missing=found.missing,
        sessions=[(tool.name, name) for tool in declarations.tools().values() for name in tool.session_variables],
    )


# -- on disk


def _from_disk(key: tuple[Path | None, bool], stamp: str) -> Kept | None:
    try:
        file = msgspec.json.decode(durable.read_whole(_path_of(key), _LARGEST), type=_File)
        return msgspec.json.decode(file.kept, type=Kept) if file.stamp == stamp else None
    except (OSError, msgspec.MsgspecError, UnderstudyError):  # none yet, or that of another version
        return None


def _to_disk(key: tuple[Path | None, bool], stamp: str, kept: Kept) -> None:
    with contextlib.suppress(OSError, UnderstudyError, UnicodeEncodeError):  # the next process reads the files again
        path = _path_of(key)
        path.parent.mkdir(mode=durable.PRIVATE_FOLDER, exist_ok=True)
        data = msgspec.json.encode(_File(stamp, msgspec.Raw(msgspec.json.encode(kept))))
        durable.replace(path, data, several_writers=True)
        files = [(one.stat().st_mtime, one) for one in path.parent.iterdir()]
        for _, old in sorted(files)[:-MOST_FILES]:
            old.unlink()


def _path_of(key: tuple[Path | None, bool]) -> Path:
    workspace, trusted = key
    name = os.fsencode(f"{workspace}\0{trusted}\0{locations.user_folder()}")
    return state_folder.state_root() / "configurations" / f"{hashlib.sha256(name).hexdigest()[:32]}.json"


# -- what the files look like


def stamps(workspace: Path | None, *, trusted: bool) -> Stamps:
    """Return what the files look like that ``config.load`` would read now; opens none of them."""
    facts: list[Any] = [*_program()]
    newest = 0.0
    places = [] if workspace is None else [os.fspath(workspace / locations.WORKSPACE_FOLDER)]
    for layer in locations.layers(workspace, trusted=trusted):
        if layer.scope is Scope.BUILTIN:
            continue
        root = os.fspath(layer.root)
        places += [root, *(f"{root}/{name}" for name in locations.SINGLE.values())]
        for name, suffix in locations.PLACES.values():
            folder = f"{root}/{name}"
            places.append(folder)
            if os.path.isdir(folder):  # noqa: PTH112 - the cheaper call
                places += map(os.fspath, locations.names_in(Path(folder), suffix))
    for place in places:
        newest = max(newest, _look(place, facts))
    return Stamps(facts, newest)


def _look(path: str, facts: list[Any]) -> float:
    """Add what ``path`` looks like, and what a link there leads to; return the time of its last change."""
    facts.append(path.encode("utf-8", "surrogateescape"))
    newest = 0.0
    for follow in (False, True):
        try:
            found = os.stat(path, follow_symlinks=follow)  # noqa: PTH116 - the cheaper call
        except OSError as error:
            facts.append(error.errno)
            break
        facts.append(_facts_of(found))
        newest = max(newest, found.st_mtime, found.st_ctime)
        if not stat.S_ISLNK(found.st_mode):
            break
    return newest


def _facts_of(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


_program_facts: list[Any] = []


def _program() -> list[Any]:
    """Return what tells this version of the program from others; it does not change while it runs."""
    if not _program_facts:
        here = os.path.dirname(locations.__file__)  # noqa: PTH120 - the cheaper call
        found: list[Any] = [__version__]
        for folder in _PROGRAM:
            with contextlib.suppress(OSError), os.scandir(f"{here}/{folder}") as entries:
                for entry in sorted(entries, key=lambda one: one.name):
                    if entry.is_file():
                        facts = entry.stat()
                        found.append((entry.name, facts.st_size, facts.st_mtime_ns))
        _program_facts.extend(found)
    return _program_facts
