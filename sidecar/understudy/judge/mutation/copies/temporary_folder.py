"""A folder for the temporary files of all programs that the checks of one result start."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from understudy.git.worktree.cleanup import delete_folder


@contextlib.asynccontextmanager
async def temporary_folder(scratch: Path) -> AsyncIterator[Path]:
    """Yield a new folder in the system's place for temporary files, or in ``scratch`` if there is none; delete it.

    Dozens of runs on mutants would leave folders in the user's place, and pytest, which keeps only the last three,
    would remove those of the user. The folder is not always in ``scratch``, because the path of a socket may have at
    most 104 bytes. After a killed worker it stays, like the temporary files of other programs.
    """
    folder = await asyncio.to_thread(_made, scratch)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            await asyncio.to_thread(delete_folder, folder)


def _made(scratch: Path) -> Path:
    try:
        # The usual name: a result must not see by it that it is judged.
        return Path(tempfile.mkdtemp())
    except OSError:
        return Path(tempfile.mkdtemp(dir=scratch))
