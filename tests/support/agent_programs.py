"""Install real agent CLIs, and other programs that tests use, from lock files into a cache outside the repository."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from cached_installs import once, python_environment, ran

HERE = Path(__file__).parents[1] / "integration" / "agent_clis"
LOCKED = HERE / "requirements-python-agents.txt"


def install() -> Path | str:
    """Return the folder with the CLIs' programs, or the reason why there is none."""
    return node_modules(HERE, "clis", "node_modules/.bin")


def install_tokenizer() -> Path | str:
    """Return the folder with a tokenizer and its vocabulary, or the reason why there is none."""
    return node_modules(Path(__file__).with_name("tokenizer"), "tokenizer", "node_modules")


def node_modules(source: Path, name: str, result: str) -> Path | str:
    """Install the packages of a lock file; return ``result`` in their folder, or the reason why there is none."""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"

    def fill(folder: Path) -> str | None:
        for file in ("package.json", "package-lock.json"):
            shutil.copyfile(source / file, folder / file)
        # Not `npm ci`, which refuses a lock file without the optional packages of other platforms; a registry may
        # not have those. Versions and hashes are those of the lock file all the same.
        return ran([npm, "install", "--no-save", "--no-audit", "--no-fund"], folder)

    folder = once(name, (source / "package-lock.json").read_bytes(), fill)
    return folder if isinstance(folder, str) else folder / result


def install_python() -> Path | str:
    """Return the folder with the programs of the agents that are Python packages, or why there is none."""
    if sys.version_info >= (3, 13):
        return "aider needs an older Python"

    def fill(folder: Path) -> str | None:
        environment, programs = folder / "environment", folder / "programs"
        reason = python_environment(folder, LOCKED)
        programs.mkdir(exist_ok=True)
        for name in ("aider", "mini"):  # not the environment's Python, which agents must not find first
            (programs / name).unlink(missing_ok=True)
            (programs / name).symlink_to(environment / "bin" / name)
        return reason

    folder = once(f"python{sys.version_info.minor}", LOCKED.read_bytes(), fill)
    return folder if isinstance(folder, str) else folder / "programs"
