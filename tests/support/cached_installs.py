"""Programs that heavy tests install once, into a cache outside the repository."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

INSTALL_SECONDS = 600
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy-tests"
"""Looked up before the tests redirect it."""


def folder_of(name: str, locked: bytes) -> Path:
    """Return the cached folder of what ``locked`` pins."""
    return CACHE / f"{name}-{hashlib.sha256(locked).hexdigest()[:16]}"


def is_filled(folder: Path) -> bool:
    """Return whether an installation into the folder has ended."""
    return (folder / ".ready").exists()


def once(name: str, locked: bytes, fill: Callable[[Path], str | None]) -> Path | str:
    """Return a cached folder that ``fill`` has filled, or the reason that it returned for why it could not."""
    folder = folder_of(name, locked)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # parallel test processes install once
        if not is_filled(folder):
            if (reason := fill(folder)) is not None:
                return reason
            (folder / ".ready").touch()
    return folder


def ran(argv: list[str], folder: Path, seconds: float = INSTALL_SECONDS) -> str | None:
    """Run a command of an installation; return why it failed, None if it did not."""
    program = Path(argv[0]).name
    try:
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"{program} took more than {seconds:g} s"
    said = (done.stderr.strip() or done.stdout.strip())[-300:]
    return f"{program} failed: {said}" if done.returncode != 0 else None


def python_environment(folder: Path, requirements: Path) -> str | None:
    """Make ``folder/environment`` with exactly the pinned packages; return why it failed, None if it did not."""
    environment = folder / "environment"
    pip = [str(environment / "bin/pip"), "--disable-pip-version-check", "install", "--quiet"]
    # Compiling everything takes longer than everything else; the first run compiles what it uses.
    return ran([sys.executable, "-m", "venv", "--clear", str(environment)], folder) or ran(
        [*pip, "--no-deps", "--no-compile", "--require-hashes", "--requirement", str(requirements)], folder
    )
