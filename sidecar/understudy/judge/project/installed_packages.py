"""Find the packages of a JavaScript project that worktrees lack, before an agent works in one."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from understudy.model.remedies import Lack, Remedy, RemedyKind

FOLDER = "node_modules"
_FILE = "package.json"
SCRIPTS = frozenset(f".{kind}{letter}{end}" for kind in ("", "m", "c") for letter in "jt" for end in ("s", "sx"))
"""Suffixes of the files that such a project consists of."""
_KINDS = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "workspaces")
"""Parts of ``package.json`` that name packages which a script may need."""
_INSTALLS = {
    "pnpm-lock.yaml": ("pnpm", "install", "--offline", "--frozen-lockfile"),
    "yarn.lock": ("yarn", "install", "--frozen-lockfile", "--prefer-offline"),
    "bun.lock": ("bun", "install", "--frozen-lockfile"),
    "bun.lockb": ("bun", "install", "--frozen-lockfile"),
    "package-lock.json": ("npm", "ci", "--prefer-offline", "--no-audit", "--no-fund"),
}
"""Lock file → the command that installs in a worktree what the package manager already has on this machine."""
_MOST_BYTES = 1024 * 1024


def installs_nothing(package: Any) -> bool:
    """Return whether a ``package.json`` names no packages that a script may need."""
    return isinstance(package, dict) and not any(package.get(kind) for kind in _KINDS)


def lacking_packages(workspace: Path, places: Iterable[str], links: Collection[str], *, set_up: bool) -> Lack | None:
    """Return which packages worktrees lack for work on files or folders of a workspace; None if nothing is missing.

    ``links`` are the paths that worktrees link to; ``set_up``: a command installs packages in each worktree.
    """
    packages = dict.fromkeys(folder for place in places if (folder := _package_of(workspace, place)) is not None)
    if set_up or not packages:
        return None
    around = list(dict.fromkeys(folder for package in packages for folder in (package, *package.parents)))
    if all(installs_nothing(_read(workspace / folder)) for folder in around if (workspace / folder / _FILE).is_file()):
        return None
    lock = next(
        ((folder, name) for folder in around for name in _INSTALLS if (workspace / folder / name).is_file()), None
    )
    manager = _INSTALLS[lock[1]][0] if lock is not None else "npm"
    present = [(folder / FOLDER).as_posix() for folder in around if (workspace / folder / FOLDER).is_dir()]
    if not present:
        where = "" if lock is None or not lock[0].parts else str(lock[0])
        return Lack(
            text=f"{FOLDER} is missing: the packages of {next(iter(packages)) / _FILE} are not installed.",
            hint=f"Install the project's dependencies: {manager} install{f' in {where}' if where else ''}.",
            remedy=Remedy(kind=RemedyKind.INSTALL_PACKAGES, commands=[[manager, "install"]], folder=where),
        )
    missing = [
        folder for folder in present if not any(folder == link or folder.startswith(f"{link}/") for link in links)
    ]
    if not missing:
        return None
    why = f"Worktrees have no {FOLDER}, so no test of JavaScript or TypeScript runs in them."
    if lock is not None and not lock[0].parts and _has_members(workspace) and shutil.which(manager) is not None:
        # Links of a package manager to the project's own packages would lead back into the checkout.
        setup = _INSTALLS[lock[1]]
        command = f"understudy init --scope workspace --setup {shlex.quote(shlex.join(setup))}"
        line = f"setup = {json.dumps(list(setup))}"
        remedy = Remedy(kind=RemedyKind.SET_UP_WORKTREES, commands=[list(setup)])
        return Lack(text=why, hint=_todo("Install them in each worktree", command, line), remedy=remedy)
    options = " ".join(f"--link {shlex.quote(folder)}" for folder in missing)
    line = f"link = {json.dumps([*links, *missing])}"
    todo = _todo("Link to those that are installed", f"understudy init --scope workspace {options}", line)
    return Lack(text=why, hint=todo, remedy=Remedy(kind=RemedyKind.LINK_FOLDERS, paths=missing))


def _todo(what: str, command: str, line: str) -> str:
    return f"{what}: {command}, or add `{line}` under [worktrees] in .understudy/config.toml."


def _package_of(workspace: Path, place: str) -> PurePosixPath | None:
    path = PurePosixPath(place)
    return next((folder for folder in (path, *path.parents) if (workspace / folder / _FILE).is_file()), None)


def _has_members(workspace: Path) -> bool:
    """Return whether the project consists of several packages, which import each other."""
    package = _read(workspace)
    named = isinstance(package, dict) and bool(package.get("workspaces"))
    return named or (workspace / "pnpm-workspace.yaml").is_file()


def _read(folder: Path) -> Any:
    try:
        with (folder / _FILE).open("rb") as stream:
            return json.loads(stream.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
