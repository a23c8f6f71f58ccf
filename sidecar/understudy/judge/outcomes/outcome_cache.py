"""Keep what checks showed on a base, by tree, check and environment, so that the next judgement need not run them.

The folder holds one file per outcome, at most ``_MOST_FILES``. Agents run as the user and can write to it, so a file
counts only if it has not changed since this process started, which was before its agent started.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

import msgspec

from understudy.judge.outcomes.outcome_comparison import Observed

_STARTED = time.time()
_MOST_FILES = 200
_MOST_BYTES = 8 * 1024 * 1024


class OutcomeCache:
    """A folder of outcomes; without a folder, outcomes are kept for this object only."""

    def __init__(self, folder: Path | None) -> None:
        """Create nothing on disk."""
        self._folder = folder
        self._own: dict[str, Observed] = {}

    def get(self, key: str) -> Observed | None:
        """Return a kept outcome, or None if there is none that can be trusted."""
        if key in self._own or self._folder is None:
            return self._own.get(key)
        path = self._folder / _name(key)
        try:
            with path.open("rb") as stream:
                # ctime cannot be set to an earlier time, unlike mtime.
                if os.fstat(stream.fileno()).st_ctime >= _STARTED:
                    return None
                return msgspec.msgpack.decode(stream.read(_MOST_BYTES), type=Observed)
        except (OSError, msgspec.DecodeError):
            return None

    def put(self, key: str, observed: Observed) -> None:
        """Keep an outcome, unless the run was cut off; errors of the disk are ignored."""
        if observed.timed_out or not observed.started:
            return
        self._own[key] = observed
        data = msgspec.msgpack.encode(observed)
        if self._folder is None or len(data) > _MOST_BYTES:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary = self._folder / f".{_name(key)}.{os.getpid()}"
            temporary.write_bytes(data)
            temporary.replace(self._folder / _name(key))
            self._remove_oldest()

    def _remove_oldest(self) -> None:
        assert self._folder is not None  # noqa: S101 - checked by the caller
        files = sorted(self._folder.iterdir(), key=lambda path: path.lstat().st_mtime)
        for path in files[: max(0, len(files) - _MOST_FILES)]:
            path.unlink(missing_ok=True)


def _name(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
