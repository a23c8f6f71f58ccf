"""The path that a word of the command line names: a glob of the shell lets a repository choose the word."""

from __future__ import annotations

import os
from pathlib import Path

from understudy.git import repository
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting


def expanded(word: str, folder: Path) -> Path:
    """Return the path with ``~`` expanded, unless ``folder`` has an entry ``~``: a repository may have one."""
    path = Path(word)
    if not path.parts or not path.parts[0].startswith("~") or os.path.lexists(folder / path.parts[0]):
        return path
    return path.expanduser()


def leads_out(path: str, real: str, folder: Path) -> Path | None:
    """Return the repository around ``folder`` if ``path`` is in it and ``real``, what its links lead to, is not.

    Without a repository, the folder itself counts.
    """
    here = Path(os.path.realpath(folder))
    top = repository.workspace_of(here)
    seen = Path(os.path.normpath(here / os.path.relpath(path, folder)))
    return top if seen.is_relative_to(top) and not Path(real).is_relative_to(top) else None


def require_inside(word: str, path: str, folder: Path) -> None:
    """Raise ``path_escape`` if a link leads out of the repository around ``folder``."""
    real = os.path.realpath(path)
    top = leads_out(path, real, folder)
    if top is not None:
        name, target = (path_quoting.quote(os.fsencode(one)) for one in (word, real))
        raise UnderstudyError(
            ErrorKind.PATH_ESCAPE,
            f"{name} is or passes through a link that leads out of {top}.",
            hint=f"Nothing was sent. To send it, name what the link leads to: {target}",
        )
