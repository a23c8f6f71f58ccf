"""Find the tracked programs of a workspace that Understudy starts: a pull or an accepted change can replace them.

Programs that git does not track are left out: the user made them, and makes them again (an environment, a build).
"""

from __future__ import annotations

import os
import posixpath
import re
import struct
from collections.abc import Iterator
from pathlib import Path

INTERPRETERS = tuple(f"{folder}/bin/{name}" for folder in (".venv", "venv") for name in ("python", "python3"))
"""The interpreters that are used without being configured."""

_RUNS_A_SCRIPT = re.compile(
    r"(python|pypy|ruby|perl|node|php|lua)[0-9.]*|bash|dash|deno|fish|ksh|bun|pwsh|Rscript|sh|zsh"
)
"""Programs whose first argument is a script."""
_MAX_INDEX_BYTES = 256 * 1024 * 1024
_MAX_POINTER_BYTES = 4096


def tracked_programs(root: Path) -> list[str]:
    """Return the tracked programs that checks, setup and delegators start, relative to the workspace ``root``."""
    names = [name for name in dict.fromkeys([*INTERPRETERS, *_configured(root)]) if os.path.lexists(root / name)]
    if not names:
        return []
    index = _index(root)
    return [name for name in names if _is_tracked(name, index)]


def _configured(root: Path) -> Iterator[str]:
    from understudy.config.load import load

    configuration = load(root, trusted=True)
    commands = [(check.argv, check.cwd) for check in configuration.checks.values()]
    commands.append((configuration.worktrees.setup, None))
    launches = [entry.delegator.launch for entry in configuration.delegators.values()]
    commands += [(launch.command, None) for launch in launches if launch is not None and launch.command]
    if configuration.python is not None:
        commands.append(([configuration.python], None))
    for argv, folder in commands:
        if not argv:
            continue
        found = [argv[0]] if "/" in argv[0] else []
        if len(argv) > 1 and _RUNS_A_SCRIPT.fullmatch(posixpath.basename(argv[0])):
            found.append(argv[1])
        for name in found:
            path = os.path.relpath(os.path.normpath(root / (folder or "") / name), root)
            if path != ".." and not path.startswith("../") and "\0" not in path and not (root / path).is_dir():
                yield path


def _index(root: Path) -> bytes | None:
    """Return the index of the repository at ``root``; empty when there is none, None when it cannot be searched."""
    folder = root / ".git"
    try:
        if folder.is_file():
            with folder.open("rb") as file:
                pointer = file.read(_MAX_POINTER_BYTES).decode("utf-8", "surrogateescape")
            folder = root / pointer.removeprefix("gitdir:").strip()
        with (folder / "index").open("rb") as file:
            data = file.read(_MAX_INDEX_BYTES + 1)
    except (OSError, ValueError):
        return b""
    signature, version = struct.unpack(">4sI", data[:8]) if len(data) >= 8 else (b"", 0)
    # Version 4 shortens the names, and a split index keeps most of them in another file.
    readable = signature == b"DIRC" and version in {2, 3} and b"link" not in data[-_MAX_POINTER_BYTES:]
    return data if readable and len(data) <= _MAX_INDEX_BYTES else None


def _is_tracked(name: str, index: bytes | None) -> bool:
    """Return whether the index may list ``name``: also when it lists a longer path that ends so, or is unreadable."""
    return index is None or os.fsencode(name) + b"\0" in index
