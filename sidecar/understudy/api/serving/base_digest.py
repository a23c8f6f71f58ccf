"""Compare the files that two requests would work on."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from pathlib import Path

from understudy.engine.bases import base_recorder
from understudy.git import repository
from understudy.journal import delegation_folder
from understudy.model.errors import UnderstudyError
from understudy.model.text import path_quoting


def of(workspace: Path, files: Sequence[str], *, only_files_without_git: bool) -> str:
    """Return a digest of what a delegation would see if it started now, and of the ``files`` (URIs) that it names.

    What git ignores counts only if a file is named, by its size and time, and with ``only_files_without_git`` so does
    everything in a workspace without a repository, which may be a home folder. No program of the user's is run, and
    none of their files is written to. Where the base cannot be read, a start fails with the reason, or needs none.
    """
    digest = hashlib.sha256()
    with contextlib.suppress(UnderstudyError, OSError):
        repo = repository.locate(workspace)
        if repo.is_repository or not only_files_without_git:
            digest.update(base_recorder.current_tree(delegation_folder.state_root(), repo).encode())
    for uri in sorted(set(files)):
        facts: tuple[int, int] | None = None
        with contextlib.suppress(OSError, ValueError):
            path = path_quoting.path_of(uri)
            stat = path.stat() if path is not None else None
            facts = None if stat is None else (stat.st_size, stat.st_mtime_ns)
        digest.update(repr((uri, facts)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
