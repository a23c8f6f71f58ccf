"""Find the installed agent CLIs and their versions.

Each program that is found is started once with its version option: in parallel, each with its own limit, in an
environment without keys. A program inside the workspace, or reached through a relative entry of ``PATH``, is never
started: opening a folder must not run its programs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy import __version__
from understudy.config.discovery import declarations
from understudy.files import durable
from understudy.files.user_file import current_folder
from understudy.model.capabilities import Capabilities
from understudy.model.config.config_entries import Problem, ToolEntry
from understudy.model.errors import UnderstudyError

PROBE_SECONDS = 10.0
"""Node programs need up to two seconds on an idle machine, and five times as much on a busy one."""

MOST_AT_ONCE = 16
"""The most programs that are asked at a time: about as many as there are built-in tools. Files can define hundreds."""

MAX_CACHE_BYTES = 64 * 1024


_NODE = Capabilities(name="node", title="Node.js", binaries=("node",))
"""Not a tool, but what most of them are installed with."""
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?(?:[-+.][0-9A-Za-z.-]+)?")


def detect(
    *,
    refresh: bool | None = False,
    workspace: Path | None = None,
    cache: Path | None = None,
    path: str | None = None,
    defined: Iterable[Capabilities] = (),
) -> list[ToolEntry]:
    """Return every known tool, found or not; takes little longer than ``PROBE_SECONDS`` for ``MOST_AT_ONCE`` of them.

    ``workspace``: no program inside it is started. ``cache``: the folder for the answers (default: the platform's);
    versions are kept there by path, time and size of the program, and asked again with ``refresh``. ``path`` replaces
    ``PATH``. ``defined`` are the tools that files define.
    """
    from concurrent.futures import ThreadPoolExecutor

    store = _Cache(cache or _cache_folder(), forget=bool(refresh))
    avoid = [*([workspace] if workspace else []), *_current_folder()]
    folders = search_path(os.environ.get("PATH", "") if path is None else path, avoid=avoid)
    look = _Look(folders, avoid, store, path)
    tools = [*declarations.tools().values(), *defined]
    with ThreadPoolExecutor(max_workers=min(len(tools), MOST_AT_ONCE), thread_name_prefix="understudy-tool") as pool:
        entries = list(pool.map(look.at, tools))
    for tool, entry in zip(tools, entries, strict=True):
        if tool.node_version and (not entry.found or is_older(entry.version, tool.oldest_version)):
            entry.problems += look.node_problem(tool)
    store.save()
    return entries


def search_path(path: str, *, avoid: Iterable[Path] = ()) -> list[Path]:
    """Return the folders of a ``PATH`` in which programs may be looked for.

    Relative and empty entries (they mean the current folder) are left out, and those inside a folder to avoid.
    """
    avoided = [os.path.realpath(folder) for folder in avoid]
    absolute = [Path(entry) for entry in path.split(os.pathsep) if entry.startswith("/")]
    allowed = [entry for entry in absolute if not any(_is_below(os.path.realpath(entry), folder) for folder in avoided)]
    return list(dict.fromkeys(allowed))


def find(binary: str, folders: Iterable[Path], *, avoid: Iterable[Path] = ()) -> Path | None:
    """Return the first executable file of this name, unless it is a link into a folder to avoid."""
    avoided = [os.path.realpath(folder) for folder in avoid]
    for folder in folders:
        candidate = folder / binary
        try:
            facts = candidate.stat()
        except OSError:
            continue
        if not stat.S_ISREG(facts.st_mode) or not os.access(candidate, os.X_OK):
            continue
        if any(_is_below(os.path.realpath(candidate), other) for other in avoided):
            continue
        return candidate
    return None


def find_tmux(path: str | None = None, *, avoid: Iterable[Path] = ()) -> str | None:
    """Return the program tmux on ``path`` (default: this process's), never one in a folder to avoid; None without."""
    avoided = list(avoid)
    program = find("tmux", search_path(path or os.environ.get("PATH", ""), avoid=avoided), avoid=avoided)
    return str(program) if program is not None else None


@dataclass(frozen=True)
class _Look:
    """One search for tools."""

    folders: list[Path]
    avoid: list[Path]
    store: _Cache
    path: str | None

    def at(self, tool: Capabilities) -> ToolEntry:
        """Return the entry of one tool; never raises."""
        entry = ToolEntry(
            name=tool.name,
            display_name=tool.title,
            description=tool.description,
            found=not tool.binaries,
            install=tool.install,
            command=list(tool.command) or None,
            runnable=tool.runner is not None,
            modes=list(tool.modes),
            problems=[],
        )
        if tool.built_in:
            entry.version = __version__
        for binary in tool.binaries:
            program = find(binary, self.folders, avoid=self.avoid)
            if program is None:
                continue
            if not tool.version_arguments:
                entry.found, entry.path = True, str(program)
                break
            answer = self.store.get(tool, program)
            if answer is None:
                answer = _ask(tool, program, self.path)
                self.store.put(tool, program, answer)
            if answer["stranger"]:
                message = f"{program} is another program of this name."
                entry.problems.append(Problem(severity="information", message=message))
                continue
            entry.found = True
            entry.path = str(program)
            entry.version = answer["version"]
            if answer["problem"]:
                hint = f"Run {binary} {' '.join(tool.version_arguments)} in a terminal to see its output."
                entry.problems.append(Problem(severity="warning", message=answer["problem"], hint=hint))
            elif is_older(entry.version, tool.oldest_version):
                message = f"{program} is version {entry.version}; Understudy supports {tool.oldest_version} and later."
                entry.problems.append(Problem(severity="warning", message=message, hint=f"Update {tool.title}."))
            break
        return entry

    def node_problem(self, tool: Capabilities) -> list[Problem]:
        """Return the problem that this machine's Node.js is too old to install a tool's newest release."""
        node = self.at(_NODE)
        if not is_older(node.version, tool.node_version):
            return []
        message = f"The newest {tool.title} needs Node.js {tool.node_version}; {node.path} is version {node.version}."
        hint = f"Install Node.js {tool.node_version} or later first: with an older one, npm takes an older release."
        return [Problem(severity="information", message=message, hint=hint)]


def is_older(version: str | None, oldest: str | None) -> bool:
    """Return whether ``version`` is before ``oldest``, by their first three numbers; false if one is unknown."""
    if version is None or oldest is None:
        return False
    return _numbers(version) < _numbers(oldest)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _ask(tool: Capabilities, program: Path, path: str | None) -> dict[str, Any]:
    """Start a program with its version option and return its output; never raises."""
    from understudy.process.call_checks import base_environment
    from understudy.process.program_spec import OWN, Program
    from understudy.process.unguarded import run_unguarded

    answer: dict[str, Any] = {"version": None, "problem": None, "stranger": False}
    try:
        environment = base_environment({"NO_COLOR": "1"} if path is None else {"NO_COLOR": "1", "PATH": path})
        completed = run_unguarded(
            Program([str(program), *tool.version_arguments], Path("/"), environment, OWN),
            timeout_seconds=PROBE_SECONDS,
            output_limit=MAX_CACHE_BYTES,
        )
    except UnderstudyError as error:
        return answer | {"problem": f"{program} cannot be started: {error.message}"}
    except OSError as error:
        return answer | {"problem": f"{program} cannot be started: {error.strerror}."}
    text = (completed.stdout + b"\n" + completed.stderr).decode("utf-8", "replace")
    if completed.timed_out:
        return answer | {"problem": f"{program} did not print its version within {PROBE_SECONDS:g} s."}
    if tool.foreign_output and re.search(tool.foreign_output, text):
        return answer | {"stranger": True}
    if tool.own_output and not re.search(tool.own_output, text):
        return answer | {"stranger": True}
    if completed.code != 0:
        return answer | {"problem": f"{program} exited with code {completed.code} when asked for its version."}
    version = _VERSION.search(text[:2000]) if tool.version_arguments != ("--help",) else None
    return answer | {"version": version[0] if version else None}


class _Cache:
    """Answers of programs, valid while the program is the same file; a damaged cache counts as empty."""

    def __init__(self, folder: Path, *, forget: bool) -> None:
        self._path = folder / "tools.json"
        self._lock = threading.Lock()
        self._changed = False
        self._entries: dict[str, Any] = {}
        if forget:
            return
        try:
            with self._path.open("rb") as file:
                read = json.loads(file.read(MAX_CACHE_BYTES))
        except (OSError, ValueError, RecursionError):
            return
        if isinstance(read, dict):
            self._entries = {key: value for key, value in read.items() if _is_answer(value)}

    def get(self, tool: Capabilities, program: Path) -> dict[str, Any] | None:
        with self._lock:
            entry = self._entries.get(_question(tool, program))
            return entry["said"] if entry is not None and entry["file"] == _facts(program) else None

    def put(self, tool: Capabilities, program: Path, answer: dict[str, Any]) -> None:
        if answer["problem"] is not None:
            return  # a failure may be temporary
        with self._lock:
            self._entries[_question(tool, program)] = {"file": _facts(program), "said": answer}
            self._changed = True

    def save(self) -> None:
        if not self._changed:
            return
        with contextlib.suppress(OSError):  # without a cache everything works, slower
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            durable.replace(self._path, json.dumps(self._entries).encode(), several_writers=True)


def _question(tool: Capabilities, program: Path) -> str:
    """Return what an answer is kept under: two tools may ask the same program differently."""
    return json.dumps([str(program), *tool.version_arguments])


def _is_answer(value: Any) -> bool:
    answer = value.get("said") if isinstance(value, dict) else None
    if not isinstance(answer, dict) or answer.keys() != {"version", "problem", "stranger"}:
        return False
    return (
        isinstance(answer["version"], str | None) and answer["problem"] is None and isinstance(answer["stranger"], bool)
    )


def _facts(program: Path) -> list[Any] | None:
    try:
        real = os.path.realpath(program)
        facts = Path(real).stat()
    except OSError:
        return None
    return [real, facts.st_mtime_ns, facts.st_size]


def _cache_folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("understudy", appauthor=False))


def _current_folder() -> list[Path]:
    """Return the current folder as one to avoid, unless it contains almost everything."""
    current, home = current_folder(), Path(os.environ.get("HOME", "/"))
    return [] if current is None or home == current or current in home.parents else [current]


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
