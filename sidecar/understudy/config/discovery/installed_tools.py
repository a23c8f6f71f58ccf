"""Which agent CLIs there are, and which of them this machine has.

Looking means starting each found program once with its version option: in parallel, each with its
own limit, in an environment without keys, and never a program that lies in the workspace or is
reached through a relative entry of ``PATH``: opening a folder must not run what is in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import threading
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.model.delegators import Problem, ToolEntry
from understudy.model.errors import UnderstudyError

PROBE_SECONDS = 10.0
"""Node programs need up to two seconds on an idle machine, and five times as much on a busy one."""

MAX_CACHE_BYTES = 64 * 1024


@dataclass(frozen=True)
class Tool:
    """An agent CLI as its makers ship it."""

    name: str
    title: str
    binaries: tuple[str, ...] = ()
    """Names under which it is installed, the usual one first; none: it comes with Understudy."""
    version: tuple[str, ...] = ("--version",)
    modes: tuple[str, ...] = ("headless",)
    """How it can be driven (``tools/list`` shows them whether there is a runner yet or not)."""
    not_when: str | None = None
    """What another program of the same name says of itself (a pattern)."""
    only_when: str | None = None
    """What the program must say of itself, where its name is a common word."""


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool("ghostwriter", "Ghostwriter (built in)"),
        Tool("generic", "Any command"),
        Tool("claude", "Claude Code", ("claude",)),
        Tool("codex", "Codex CLI", ("codex",)),
        Tool("opencode", "opencode", ("opencode",), modes=("headless", "acp")),
        Tool("gemini", "Gemini CLI", ("gemini",), modes=("headless", "acp")),
        Tool("qwen", "Qwen Code", ("qwen",), modes=("headless", "acp")),
        Tool("copilot", "GitHub Copilot CLI", ("copilot",), modes=("headless", "acp")),
        Tool("cursor", "Cursor CLI", ("cursor-agent",)),
        Tool("aider", "aider", ("aider",)),
        Tool("pi", "pi", ("pi",), only_when=r"^\s*v?\d+\.\d+\.\d+"),
        # mini has no version option; its help names it.
        Tool("mini", "mini-swe-agent", ("mini",), ("--help",), only_when=r"(?i)mini-swe-agent|mini_swe_agent"),
        # A database migration tool of the same name answers "goose version: v3…".
        Tool("goose", "goose", ("goose",), not_when=r"goose version"),
        Tool("crush", "Crush", ("crush",)),
    )
}
"""Every agent CLI that Understudy knows, by the name a delegator's ``tool`` uses."""

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?(?:[-+.][0-9A-Za-z.-]+)?")


def detect(
    *,
    refresh: bool | None = False,
    runnable: Container[str] = (),
    workspace: Path | None = None,
    cache: Path | None = None,
    path: str | None = None,
) -> list[ToolEntry]:
    """Return every known tool, found or not; takes at most ``PROBE_SECONDS`` and a little.

    ``runnable``: the tools that have a runner. ``workspace``: no program inside it is started.
    ``cache``: the folder for what was found (default: the platform's); versions are kept there by
    path, time and size of the program, and asked again with ``refresh``. ``path``: instead of ``PATH``.
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only when tools are looked for

    store = _Cache(cache or _cache_folder(), forget=bool(refresh))
    avoid = [*([workspace] if workspace else []), *_current_folder()]
    folders = search_path(os.environ.get("PATH", "") if path is None else path, avoid=avoid)
    look = _Look(folders, avoid, store, runnable, path)
    with ThreadPoolExecutor(max_workers=len(TOOLS), thread_name_prefix="understudy-tool") as pool:
        entries = list(pool.map(look.at, TOOLS.values()))
    store.save()
    return entries


def search_path(path: str, *, avoid: Iterable[Path] = ()) -> list[Path]:
    """Return the folders of a ``PATH`` in which programs may be looked for.

    Not relative and empty entries (they mean the current folder), and none that lies in a folder to avoid.
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


@dataclass(frozen=True)
class _Look:
    """One round of looking."""

    folders: list[Path]
    avoid: list[Path]
    store: _Cache
    runnable: Container[str]
    path: str | None

    def at(self, tool: Tool) -> ToolEntry:
        """Return what there is of one tool; never raises."""
        entry = ToolEntry(
            name=tool.name,
            display_name=tool.title,
            found=not tool.binaries,
            runnable=tool.name in self.runnable,
            modes=list(tool.modes),
            problems=[],
        )
        if tool.name == "ghostwriter":
            from understudy import __version__  # noqa: PLC0415 - a name of the package itself

            entry.version = __version__
        for binary in tool.binaries:
            program = find(binary, self.folders, avoid=self.avoid)
            if program is None:
                continue
            said = self.store.get(program)
            if said is None:
                said = _ask(tool, program, self.path)
                self.store.put(program, said)
            if said["stranger"]:
                message = f"{program} is another program of this name."
                entry.problems.append(Problem(severity="information", message=message))
                continue
            entry.found = True
            entry.path = str(program)
            entry.version = said["version"]
            if said["problem"]:
                hint = f"Run {binary} {' '.join(tool.version)} in a terminal to see what it says."
                entry.problems.append(Problem(severity="warning", message=said["problem"], hint=hint))
            break
        return entry


def _ask(tool: Tool, program: Path, path: str | None) -> dict[str, Any]:
    """Start a program with its version option and say what came out; never raises."""
    from understudy.process.environment import base_environment  # noqa: PLC0415
    from understudy.process.short import run_short  # noqa: PLC0415 - only when tools are looked for

    said: dict[str, Any] = {"version": None, "problem": None, "stranger": False}
    try:
        done = run_short(
            [str(program), *tool.version],
            cwd=Path("/"),
            env=base_environment({"NO_COLOR": "1"} if path is None else {"NO_COLOR": "1", "PATH": path}),
            timeout_seconds=PROBE_SECONDS,
            output_limit=MAX_CACHE_BYTES,
        )
    except UnderstudyError as error:
        return said | {"problem": f"{program} cannot be started: {error.message}"}
    except OSError as error:
        return said | {"problem": f"{program} cannot be started: {error.strerror}."}
    text = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")
    if done.timed_out:
        return said | {"problem": f"{program} did not tell its version within {PROBE_SECONDS:g} s."}
    if tool.not_when and re.search(tool.not_when, text):
        return said | {"stranger": True}
    if tool.only_when and not re.search(tool.only_when, text):
        return said | {"stranger": True}
    if done.code != 0:
        return said | {"problem": f"{program} ended with code {done.code} when asked for its version."}
    version = _VERSION.search(text[:2000]) if tool.version == ("--version",) else None
    return said | {"version": version[0] if version else None}


class _Cache:
    """What programs said, kept as long as the program is the same file; a broken cache is an empty one."""

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

    def get(self, program: Path) -> dict[str, Any] | None:
        with self._lock:
            entry = self._entries.get(str(program))
            return entry["said"] if entry is not None and entry["file"] == _facts(program) else None

    def put(self, program: Path, said: dict[str, Any]) -> None:
        if said["problem"] is not None:
            return  # what failed may work the next time
        with self._lock:
            self._entries[str(program)] = {"file": _facts(program), "said": said}
            self._changed = True

    def save(self) -> None:
        if not self._changed:
            return
        temporary = self._path.with_name(f".tools.{os.getpid()}.{threading.get_ident()}")
        with contextlib.suppress(OSError):  # without a cache everything works, slower
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary.write_text(json.dumps(self._entries), encoding="utf-8")
            temporary.replace(self._path)


def _is_answer(value: Any) -> bool:
    said = value.get("said") if isinstance(value, dict) else None
    if not isinstance(said, dict) or said.keys() != {"version", "problem", "stranger"}:
        return False
    return isinstance(said["version"], str | None) and said["problem"] is None and isinstance(said["stranger"], bool)


def _facts(program: Path) -> list[Any] | None:
    try:
        real = os.path.realpath(program)
        facts = Path(real).stat()
    except OSError:
        return None
    return [real, facts.st_mtime_ns, facts.st_size]


def _cache_folder() -> Path:
    import platformdirs  # noqa: PLC0415 - only when tools are looked for

    return Path(platformdirs.user_cache_dir("understudy", appauthor=False))


def _current_folder() -> list[Path]:
    """Return the current folder as one to avoid, unless it is so high up that everything lies in it."""
    try:
        current = Path.cwd()
    except OSError:
        return []
    home = Path(os.environ.get("HOME", "/"))
    return [] if home == current or current in home.parents else [current]


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
