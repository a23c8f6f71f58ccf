"""Say which module a project lacks, where it is needed, and how to get it."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from understudy.files.version_files import named_files
from understudy.model import remedies
from understudy.model.remedies import Remedy, RemedyKind

NAME_PYTHON = 'name its Python in .understudy/config.toml: `[environment]` with `python = "PATH"`'
"""What to do if the wrong interpreter is found, as the end of a sentence."""
_MISSING = re.compile(r"No module named '([\w.]+)'")
_IN_TESTS = re.compile(r"^(?:E\s+)?ModuleNotFoundError: (No module named '[\w.]+')", re.MULTILINE)
_PLACE = re.compile(r"^(\S+\.py):(\d+): in ", re.MULTILINE)
"""Matches a line of a traceback as pytest prints it."""
_STATEMENT = re.compile(r"^\s*(?:from|import) ([\w.]+)", re.MULTILINE)
_NAME = re.compile(r"[\w.-]+")
_MOST_FILES = 20


Why = tuple[str, str, Remedy | None]
"""What is wrong, what to do about it, for the command line (empty: unknown), and for a button."""


def why_not_imported(root: Path, reason: str, python: str, statement: str = "", *, checkout: Path | None = None) -> Why:
    """Return why a module cannot be imported, and what to do if another one is missing.

    That is not installed, or generated and ignored by git. ``python`` is the project's interpreter. ``statement`` is
    what was to be imported, if known: of ``ruamel.yaml``, only ``ruamel`` is reported as missing. ``checkout`` is the
    user's folder of the project where ``root`` is a worktree, whose requirements an agent may have written.
    """
    missing = _MISSING.search(reason)
    if missing is None:
        return reason, "", None
    part = missing[1].replace(".", "/") + ".py"
    ignored = (root / ".gitignore").read_text("utf-8", "replace") if (root / ".gitignore").is_file() else ""
    settings = (root / "pyproject.toml").read_text("utf-8", "replace") if (root / "pyproject.toml").is_file() else ""
    name = part.rpartition("/")[2]
    declared = name in {path.rpartition("/")[2] for path in named_files(settings)}
    if name in ignored or declared:
        part = f"src/{part}" if (root / "src" / part.partition("/")[0]).is_dir() else part
        why = f"`{part}` is generated and ignored by git"
        if declared:  # it would have been copied
            build = [python, "-m", "pip", "install", "-e", "."]
            hint = f"Build the project once in your checkout, then try again: {shlex.join(build)}"
            return why, hint, Remedy(kind=RemedyKind.INSTALL_PACKAGES, commands=[build])
        return why, _how_to_copy([part]), Remedy(kind=RemedyKind.COPY_FILES, paths=[part])
    if "." in missing[1]:
        return reason, "", None
    what, install = _how_to_install(checkout or root, missing[1], python, statement)
    remedy = Remedy(kind=RemedyKind.INSTALL_PACKAGES, commands=[install])
    return f"{missing[1]} is not installed in the project's environment", f"{what}: {shlex.join(install)}", remedy


def why_no_tests(root: Path, printed: str, python: str, *, checkout: Path | None = None) -> Why | None:
    """Return which module pytest did not find when it loaded the files of the tests, with what to do; None: none.

    For ``checkout``, see ``why_not_imported``.
    """
    missing = _IN_TESTS.search(printed)
    if missing is None:
        return None
    before = printed[: missing.start()]
    statements = _STATEMENT.findall(before)
    statement = statements[-1] if statements else ""
    why, hint, remedy = why_not_imported(root, missing[1], python, statement, checkout=checkout)
    places = _PLACE.findall(before)
    where = "{}:{}".format(*places[-1]) if places else "a file that pytest loads"
    return f"{where} cannot be loaded: {why}", hint, remedy


def how_to_get_pytest(root: Path, python: str, *, shared: bool) -> tuple[str, Remedy]:
    """Return how a project gets pytest and Hypothesis: a hint without a full stop, and the same for a button.

    ``shared``: the interpreter is not the project's own. Many systems refuse to install into theirs.
    """
    what, kind = "Install it there", RemedyKind.INSTALL_PACKAGES
    packages = ["-m", "pip", "install", "pytest", "hypothesis"]
    commands = [[python, *packages]]
    if shared:
        what = "Create an environment for the project, and install there what it needs"
        kind = RemedyKind.MAKE_ENVIRONMENT
        if any((root / name).is_file() for name in ("pyproject.toml", "setup.py")):
            packages[3:3] = ["-e", "."]
        commands = [["python3", "-m", "venv", ".venv"], [".venv/bin/python", *packages]]
    return f"{what}: {' && '.join(map(shlex.join, commands))}", Remedy(kind=kind, commands=commands)


def in_folder(hint: str, remedy: Remedy | None, folder: str) -> tuple[str, Remedy | None]:
    """Return what helps a project in a folder of its workspace (empty: the workspace itself) for the workspace."""
    if not folder or not hint:
        return hint, remedy
    moved = remedies.in_folder(remedy, folder) if remedy is not None else None
    if moved is not None and moved.kind is RemedyKind.COPY_FILES:
        return _how_to_copy(moved.paths), moved
    return f"In {folder}: {hint}", moved


def _how_to_copy(paths: list[str]) -> str:
    return f"Add `worktrees.copy = {json.dumps(paths)}` to .understudy/config.toml."


def _how_to_install(root: Path, module: str, python: str, statement: str) -> tuple[str, list[str]]:
    """Return the command that installs a module, as the project itself names what has it, if it does."""
    install = [python, "-m", "pip", "install"]
    if any((root / folder / module).is_dir() for folder in (".", "src")):
        return "Install the project itself", [*install, "-e", "."]
    named = {_normal(f"{prefix}{module}") for prefix in ("", "py", "python-")}
    if statement.startswith(f"{module}."):
        parts = statement.split(".")
        named |= {_normal(".".join(parts[:length])) for length in range(2, len(parts) + 1)}
    for kind, name, listed in _declared(root):
        if kind == "group" and any(line.lstrip().startswith("-") for line in listed):
            continue  # its lines become arguments of pip
        distributions = {_normal(match[0]) for line in listed if (match := _NAME.match(line.strip()))}
        if distributions & named:
            # Only a new pip knows groups.
            arguments = {"extra": ["-e", f".[{name}]"], "group": listed, "file": ["-r", name]}
            return "Install what the project declares", [*install, *arguments[kind]]
    return "Install what provides it", [*install, module]


def _declared(root: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the kind (extra, group, file), the name and the lines of each list of requirements."""
    try:
        settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    except (OSError, ValueError):
        settings = {}
    project = settings.get("project")
    extras: Any = project.get("optional-dependencies") if isinstance(project, dict) else None
    for kind, table in (("extra", extras), ("group", settings.get("dependency-groups"))):
        for name, listed in table.items() if isinstance(table, dict) else ():
            lines = listed if isinstance(listed, list) else []
            yield kind, name, [line for line in lines if isinstance(line, str)]
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(root / "setup.cfg", "utf-8")
        for name, text in parser["options.extras_require"].items():
            yield "extra", name, text.splitlines()
    except (OSError, ValueError, KeyError, configparser.Error):
        pass
    files = [*root.glob("*requirements*.txt"), *root.glob("requirements/*.txt"), *root.glob("tests/*requirements*.txt")]
    for file in sorted(files)[:_MOST_FILES]:
        yield "file", file.relative_to(root).as_posix(), file.read_text("utf-8", "replace").splitlines()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
