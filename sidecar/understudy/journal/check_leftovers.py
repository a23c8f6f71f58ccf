"""Scratch folders of checks, and what a killed worker left of them and of hidden checks in its worktree.

A scratch folder has another folder beside it in the system's own place for temporary files. Programs that a check
starts put theirs there: dozens of runs on mutants would leave folders in the user's place, and pytest, which keeps only
the last three, would remove those of the user. It is not inside the scratch folder, because the path of a socket may
have at most 104 bytes.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from understudy.files import durable, nofollow
from understudy.journal.delegation_folder import Folder
from understudy.model.errors import UnderstudyError

_PREFIX = "judge-"
"""How the names of scratch folders in the folder of a delegation's checks begin."""
_LIMIT = 16 * 1024 * 1024


def record_in(checks: Path) -> Path:
    """Return the file in the folder of a delegation's checks that lists the files in the worktree."""
    return checks / "hidden.json"


def make_scratch(checks: Path) -> tuple[Path, Path]:
    """Make a scratch folder in ``checks``; return it, and the folder for temporary files that belongs to it."""
    scratch = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=checks))
    temporary = _temporary_of(scratch)
    try:
        temporary.mkdir(mode=0o700)
    except OSError:  # there is no place; then programs with long paths of sockets fail
        temporary = scratch / "tmp"
        temporary.mkdir(mode=0o700)
    return scratch, temporary


def remove_scratch(checks: Path) -> None:
    """Remove the scratch folders, among them copies of the result with small changes. No check may be running."""
    for scratch in checks.glob(f"{_PREFIX}*"):
        for path in (_temporary_of(scratch), scratch):
            shutil.rmtree(path, ignore_errors=True)


def _temporary_of(scratch: Path) -> Path:
    return Path(tempfile.gettempdir()) / f"us-{scratch.name.removeprefix(_PREFIX)}"


def remove(folder: Folder) -> None:
    """Remove the scratch folders, the recorded hidden files and their record. The delegation's processes are dead."""
    remove_scratch(folder.path / "checks")
    record = record_in(folder.path / "checks")
    try:
        paths = json.loads(durable.read_whole(record, _LIMIT))
        tree = Path(json.loads(durable.read_whole(folder.path / "worktree.json", _LIMIT))["tree"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    for path in paths if isinstance(paths, list) else []:
        with suppress(OSError, UnderstudyError):
            nofollow.remove(tree, str(path))
    with suppress(OSError):
        record.unlink()
