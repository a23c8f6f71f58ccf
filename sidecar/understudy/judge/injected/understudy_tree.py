"""Put a copied tree back as it was, after tests have written to it.

Used by ``understudy_mutants`` in the project's interpreter, and by the sidecar for runners of other languages.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from typing import Dict, Optional, Tuple  # noqa: UP035 - Python 3.8

State = Tuple[int, int, int]  # noqa: UP006
"""Mode, size and time of the last change, which a test that writes a file changes."""


class CopiedTree:
    """A copy of a folder, with the folder it was copied from, which stays as it is."""

    def __init__(self, copy: str, original: str) -> None:
        """Remember every entry of ``copy``; links are not followed."""
        self._copy = copy
        self._original = original
        self._entries: Dict[str, State] = {}  # noqa: UP006
        self._entries = self._look()

    def reset(self) -> None:
        """Remove what was added, and copy again what was changed or removed. What cannot be reset stays."""
        now = self._look()
        for path in sorted(now.keys() - self._entries.keys(), key=len):
            self._remove(path)
        for path in sorted(self._entries):
            if now.get(path) != self._entries[path]:
                self._restore(path, now.get(path))

    def _look(self) -> Dict[str, State]:  # noqa: UP006
        """Return the state of every entry by its path relative to the copy; of folders, only the mode."""
        states: Dict[str, State] = {}  # noqa: UP006
        pending = [""]
        while pending:
            folder = pending.pop()
            try:
                entries = list(os.scandir(os.path.join(self._copy, folder)))  # noqa: PTH118
            except OSError:
                continue
            for entry in entries:
                path = os.path.join(folder, entry.name)  # noqa: PTH118
                with contextlib.suppress(OSError):  # a process that is ending may remove it
                    state = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(state.st_mode):
                        pending.append(path)
                        states[path] = (state.st_mode, 0, 0)
                    else:
                        states[path] = (state.st_mode, state.st_size, state.st_mtime_ns)
        return states

    def _remove(self, path: str) -> None:
        place = os.path.join(self._copy, path)  # noqa: PTH118
        if os.path.isdir(place) and not os.path.islink(place):  # noqa: PTH112, PTH114
            shutil.rmtree(place, ignore_errors=True)
            return
        with contextlib.suppress(OSError):
            os.unlink(place)  # noqa: PTH108

    def _restore(self, path: str, now: Optional[State]) -> None:  # noqa: UP045
        place, source = os.path.join(self._copy, path), os.path.join(self._original, path)  # noqa: PTH118
        mode, _, changed = self._entries[path]
        if now is not None and stat.S_IFMT(now[0]) != stat.S_IFMT(mode):
            self._remove(path)
        with contextlib.suppress(OSError):
            if stat.S_ISDIR(mode):
                os.makedirs(place, exist_ok=True)  # noqa: PTH103
            elif stat.S_ISLNK(mode):
                self._remove(path)
                os.symlink(os.readlink(source), place)  # noqa: PTH115, PTH211
                return
            else:
                with contextlib.suppress(OSError):
                    os.chmod(place, stat.S_IMODE(mode) | stat.S_IWUSR)  # noqa: PTH101
                shutil.copyfile(source, place)
                os.utime(place, ns=(changed, changed))
            os.chmod(place, stat.S_IMODE(mode))  # noqa: PTH101
