"""Remove files of hidden checks that a killed worker left in its worktree."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from understudy.files import durable, nofollow
from understudy.journal.delegation_folder import Folder
from understudy.model.errors import UnderstudyError

_LIMIT = 16 * 1024 * 1024


def record_in(checks: Path) -> Path:
    """Return the file in the folder of a delegation's checks that lists the files in the worktree."""
    return checks / "hidden.json"


def remove(folder: Folder) -> None:
    """Remove the recorded files and the record; do nothing if there is none. The delegation's processes are dead."""
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
