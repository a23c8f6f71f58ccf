"""Remove what a killed worker left of its checks: scratch folders, and files of hidden checks in its worktree."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

from understudy.files import durable, nofollow
from understudy.journal.delegation_folder import Folder
from understudy.model.errors import UnderstudyError

SCRATCH_PREFIX = "judge-"
"""How the names of scratch folders in the folder of a delegation's checks begin."""
_LIMIT = 16 * 1024 * 1024


def record_in(checks: Path) -> Path:
    """Return the file in the folder of a delegation's checks that lists the files in the worktree."""
    return checks / "hidden.json"


def remove_scratch(checks: Path) -> None:
    """Remove the scratch folders, among them copies of the result with small changes. No check may be running."""
    for path in checks.glob(f"{SCRATCH_PREFIX}*"):
        shutil.rmtree(path, ignore_errors=True)


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
