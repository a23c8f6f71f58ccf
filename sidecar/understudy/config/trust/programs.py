"""Find the tracked programs of a workspace that Understudy starts: a pull or an accepted change can replace them.

Programs that git does not track are left out: the user made them, and makes them again (an environment, a build).

A program without a folder (``pytest``, or ``python3`` after ``#!/usr/bin/env``) is searched on ``PATH``, which may name
folders of the workspace. The answer must not depend on the terminal or editor that asks, so the usual ones are looked
at (``ON_PATH``), whatever ``PATH`` is. In those of an environment, every program counts: which of them an agent, a
check or Understudy itself starts by its name depends on what is installed elsewhere.
"""

from __future__ import annotations

import os
import posixpath
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from understudy.config.configuration import Configuration
from understudy.config.discovery import declarations
from understudy.process.executables import expand_home

INTERPRETERS = tuple(f"{folder}/bin/{name}" for folder in (".venv", "venv") for name in ("python", "python3"))
"""The interpreters that are used without being configured."""

STARTUP_FILES = (
    "pyvenv.cfg",
    *(f"lib/python*/site-packages/{name}" for name in ("*.pth", "sitecustomize.py", "usercustomize.py")),
)
"""What such an interpreter obeys or executes whenever it starts, in its environment."""

ENVIRONMENTS = (".venv/bin", "venv/bin", "node_modules/.bin", "vendor/bin")
"""Folders of installed programs. Checks have them on ``PATH``, and so has an editor that was started in one."""

ON_PATH = (*ENVIRONMENTS, "bin", ".bin", "scripts", "tools")
"""Folders of a workspace that are commonly on ``PATH``."""

UNCONFIGURED = ("cargo", "git", "go", "hatch", "pdm", "poetry", "python", "python3", "tmux", "uv")
"""Programs that Understudy starts by their name without being told to, besides the agent CLIs."""

_RUNS_A_SCRIPT = re.compile(
    r"(python|pypy|ruby|perl|node|php|lua)[0-9.]*|bash|dash|deno|fish|ksh|bun|pwsh|Rscript|sh|zsh"
)
"""Programs whose first argument is a script."""
_MAX_INDEX_BYTES = 256 * 1024 * 1024
_MAX_POINTER_BYTES = 4096
_FIRST_LINE_BYTES = 4096
_DEEPEST = 4
"""The interpreter of a script may be a script; the kernel follows as many."""


def tracked_programs(root: Path, configuration: Configuration) -> list[str]:
    """Return the tracked programs that the configuration starts, relative to the workspace ``root``."""
    index = _index(root)
    if index == b"":
        return []
    started = dict.fromkeys(
        [
            *INTERPRETERS,
            *_startup_files(root),
            *_configured(root, configuration),
            *(f"{place}/{name}" for name in _unconfigured() for place in ON_PATH if place not in ENVIRONMENTS),
            *_in_environments(root, index),
        ]
    )
    names = [name for name in started if os.path.lexists(root / name)]
    names += [path for path in _interpreters(root, names) if path not in started]
    # git knows a file behind a link to a folder by its real path only.
    names = list(dict.fromkeys([*names, *(real for name in names if (real := _real(root, name)) is not None)]))
    return [name for name in names if _is_tracked(name, index)]


def _startup_files(root: Path) -> Iterator[str]:
    for environment in (".venv", "venv"):
        for pattern in STARTUP_FILES:
            yield from sorted(str(path.relative_to(root)) for path in (root / environment).glob(pattern))


def _unconfigured() -> Iterator[str]:
    yield from UNCONFIGURED
    for tool in declarations.tools().values():
        yield from tool.binaries


def _in_environments(root: Path, index: bytes | None) -> Iterator[str]:
    for folder in ENVIRONMENTS:
        # One search instead of one for each program: few repositories track an environment.
        if _is_tracked(f"{folder}/", index, whole=False):
            yield from sorted(str(path.relative_to(root)) for path in (root / folder).glob("*") if not path.is_dir())


def _configured(root: Path, configuration: Configuration) -> Iterator[str]:
    commands = [(check.argv, check.cwd) for check in configuration.checks.values()]
    commands.append((configuration.worktrees.setup, None))
    launches = [entry.delegator.launch for entry in configuration.delegators.values()]
    agents = [launch.command for launch in launches if launch is not None and launch.command]
    for tool in (defined.definition for defined in configuration.tools.values()):
        agents += [tool.command, *([tool.program, *more] for more in tool.added_arguments())]
    commands += [(argv, None) for argv in agents]
    # An agent's script may come after options or another program (`env`, `uv run`), or be the value of an option.
    words = [word for argv in agents for word in argv[1:]]
    for part in map(expand_home, dict.fromkeys([*words, *(word.rpartition("=")[2] for word in words)])):
        commands.append(([f"./{part}"], None) if not part.startswith("/") else ([part], None))
    if configuration.python is not None:
        commands.append(([configuration.python], None))
    for argv, folder in commands:
        if not argv:
            continue
        yield from _program(root, argv[0], folder or "")
        names = []
        if len(argv) > 1 and _RUNS_A_SCRIPT.fullmatch(posixpath.basename(argv[0])):
            names.append(argv[1])
        for name in names:
            yield from _inside(root, name, folder or "")


def _program(root: Path, name: str, folder: str) -> Iterator[str]:
    """Yield the files of the workspace that a command may start as ``name`` in ``folder``."""
    if "/" in name:
        yield from _inside(root, name, folder)
    elif name:
        for place in ON_PATH:
            yield from _inside(root, name, place)


def _inside(root: Path, name: str, folder: str) -> Iterator[str]:
    whole = os.path.normpath(root / folder / expand_home(name))
    parent, last = os.path.split(whole)
    # The second one differs where a link leads to the workspace, as in the path of some home folders.
    for place in dict.fromkeys([whole, f"{os.path.realpath(parent)}/{last}"] if "\0" not in whole else []):
        path = os.path.relpath(place, root)
        try:
            outside = path == ".." or path.startswith("../") or (root / path).is_dir()
        except OSError:  # too long a name for a file
            return
        if not outside:
            yield path


def _real(root: Path, name: str) -> str | None:
    """Return the path of a file after all links, relative to the workspace; None if it is not in it."""
    path = os.path.relpath(os.path.realpath(root / name), os.path.realpath(root))
    return None if path == ".." or path.startswith("../") else path


def _interpreters(root: Path, scripts: list[str]) -> list[str]:
    """Return the existing files of the workspace that the first lines of ``scripts`` name (``#!…``)."""
    paths: dict[str, None] = {}
    for _ in range(_DEEPEST):
        named = [
            path for script in scripts for word in interpreter_of(root / script) for path in _program(root, word, "")
        ]
        scripts = [path for path in dict.fromkeys(named) if path not in paths and os.path.lexists(root / path)]
        paths |= dict.fromkeys(scripts)
    return list(paths)


def interpreter_of(script: Path) -> list[str]:
    """Return the programs that the kernel, and then ``env``, start for a script; empty for other files."""
    try:
        descriptor = os.open(script, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return []
    with os.fdopen(descriptor, "rb") as file:
        try:
            first = file.read(_FIRST_LINE_BYTES).partition(b"\n")[0].decode("utf-8", "surrogateescape")
        except OSError:
            return []
    words = first[2:].split() if first.startswith("#!") else []
    named = words[:1]
    if named and posixpath.basename(named[0]) == "env":
        # ``env -S 'NAME=value program'``; the value of another option is taken for a program, which does no harm.
        arguments = [word.strip("'\"") for word in words[1:]]
        named += [word for word in arguments if not word.startswith("-") and "=" not in word]
    return named


def _index(root: Path) -> bytes | None:
    """Return the index of the repository at ``root``; empty when there is none, None when it cannot be searched."""
    folder = root / ".git"
    try:
        if folder.is_file():
            with folder.open("rb") as file:
                pointer = file.read(_MAX_POINTER_BYTES).decode("utf-8", "surrogateescape")
            folder = root / pointer.removeprefix("gitdir:").strip()
        bases = [bytes.fromhex(path.suffix[1:]) for path in folder.glob("sharedindex.*")]
        with (folder / "index").open("rb") as file:
            data = file.read(_MAX_INDEX_BYTES + 1)
    except (OSError, ValueError):
        return b""
    signature, version = struct.unpack(">4sI", data[:8]) if len(data) >= 8 else (b"", 0)
    # Version 4 shortens the names, and a split index keeps most of them in another file, whose hash it contains.
    readable = signature == b"DIRC" and version in {2, 3} and not any(base in data for base in bases)
    return data if readable and len(data) <= _MAX_INDEX_BYTES else None


def _is_tracked(name: str, index: bytes | None, *, whole: bool = True) -> bool:
    """Return whether the index may list ``name``: also when it lists a longer path that ends so, or is unreadable.

    Unless ``whole``, also when it lists a path that begins so.
    """
    return index is None or os.fsencode(name) + (b"\0" if whole else b"") in index
