"""Find the workspace of a file, and the file's path inside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from understudy.git import repository
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting


def require_path(uri: str) -> Path:
    """Return the normalised path for a ``file:`` URI or an absolute path. Errors: ``invalid_params``."""
    path = path_quoting.path_of(uri) if not uri.startswith("/") else Path(uri)
    if path is None or "\0" in str(path):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{uri!r} does not name a file on this machine.",
            hint="Use a `file:` URI or an absolute path.",
        )
    return Path(os.path.normpath(path))


def real(path: Path) -> Path:
    """Return ``path`` with the links of its folder resolved, but not a link at its end, which is treated as a file."""
    return path.parent.resolve() / path.name


def workspace_of(files: list[str], workspace: str | None, folder: Path | None, opened: Sequence[Path] = ()) -> Path:
    """Return the workspace: the named one, else that of the first file, else that of the caller's folder.

    The workspace of a file is its git top level. Without git it is the innermost of the ``opened`` folders that
    contains the file, else the file's own folder. A folder among the files counts as the folder of its files.
    """
    if workspace is not None:
        named = require_path(workspace)
        if not named.is_dir():
            raise UnderstudyError(
                ErrorKind.BASE_UNAVAILABLE, f"{named} is not a folder.", hint="Name the folder of the workspace."
            )
        return repository.workspace_of(named.resolve())
    if files:
        path = real(require_path(files[0]))
        within = path if path.is_dir() and not path.is_symlink() else path.parent
        around = [place for place in map(Path.resolve, opened) if place in (within, *within.parents)]
        innermost = max(around, key=lambda place: len(place.parts), default=None)
        return repository.workspace_of(within, otherwise=innermost)
    if folder is not None:
        return repository.workspace_of(folder.resolve())
    raise UnderstudyError(
        ErrorKind.INVALID_PARAMS, "No file and no workspace is named.", hint="Name a file, or pass `workspace`."
    )


def inside(workspace: Path, uri: str) -> str:
    """Return the path of ``uri`` inside ``workspace`` (POSIX, surrogate-escaped); raise ``path_escape`` outside it."""
    path = real(require_path(uri))
    try:
        relative = path.relative_to(workspace)
    except ValueError:
        raise UnderstudyError(
            ErrorKind.PATH_ESCAPE,
            f"{path} is outside the workspace {workspace}.",
            hint="Name files of one workspace; start another delegation for other workspaces.",
        ) from None
    if relative == Path() or ".git" in relative.parts:
        raise UnderstudyError(ErrorKind.PATH_ESCAPE, f"{path} is not a file of the workspace.", hint="Name a file.")
    return relative.as_posix()


def trust_hint(workspace: Path) -> str:
    """Return the hint of ``untrusted_workspace``, with the command that trusts ``workspace``."""
    import shlex

    return f"Review what it allows and trust it: understudy trust {shlex.quote(str(workspace))}"
