"""Find the module with the version that a project's build writes from git, as hatch-vcs, setuptools-scm and pdm do.

Git ignores it, and no module of the project can be imported without it, so each worktree gets a copy.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

_NAMED = re.compile(
    r"""(?:version[-_]file|write_to)["']?\s*[=:]\s*["']((?:[\w./-]*[/_])?(?:version|about)(?:_\w*)?\.py)["']""",
    re.IGNORECASE,
)
"""``version_file`` and ``write_to`` of setuptools-scm and pdm, ``version-file`` of hatch-vcs."""
_PLAIN = re.compile(r"[\w ./-]+")
"""Matches a path that is also a pattern of git for that file alone."""
_MOST_FOLDERS = 200
"""Most folders of one folder that are searched: a monorepo has several projects, and data can have thousands."""
_MOST_BYTES = 64 * 1024
_MOST_BUILD_BYTES = 1024 * 1024


def version_files(checkout: Path, base: Path) -> list[str]:
    """Return the modules that the build files in ``base`` name and ``checkout`` has, as paths in it.

    The name must say what it is: a project cannot have other ignored files copied, such as settings with keys.
    """
    modules: list[str] = []
    projects = [folder for top in _folders_in(base) for folder in (top, *_folders_in(top))]
    for build in [base / "pyproject.toml", base / "setup.py", *(folder / "pyproject.toml" for folder in projects)]:
        with contextlib.suppress(OSError):  # such as a folder of another user
            modules += [path for path in _named_in(build, checkout, base) if path not in modules]
    return modules


def named_files(settings: str) -> set[str]:
    """Return the paths of the version files that the text of a build file names."""
    return set(_NAMED.findall(settings))


def _folders_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    visible = sorted(name for name in folders if not name.startswith("."))
    return [folder / name for name in visible[:_MOST_FOLDERS]]


def _named_in(build: Path, checkout: Path, base: Path) -> Iterator[str]:
    if not build.is_file() or build.stat().st_size > _MOST_BUILD_BYTES:
        return
    for name in sorted(named_files(build.read_text("utf-8", "replace"))):
        for folder in ("", "src"):  # pdm names it as it is in the wheel
            path = os.path.normpath(build.parent.relative_to(base) / folder / name)
            file = checkout / path
            if path.startswith(("/", "..")) or not _PLAIN.fullmatch(path) or file.is_symlink() or not file.is_file():
                continue
            if file.stat().st_size <= _MOST_BYTES:
                yield path
