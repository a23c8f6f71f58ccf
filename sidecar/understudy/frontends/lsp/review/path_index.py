"""Look up by path what belongs to a file: open documents, results. No I/O."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from understudy.frontends.lsp.review import survivor_hints
from understudy.model.delegation.delegations import Delegation
from understudy.model.text import path_quoting


class PathIndex:
    """Keys with the absolute paths that belong to each; a lookup costs the same however many keys there are."""

    def __init__(self) -> None:
        """Start empty."""
        self._paths: dict[str, frozenset[str]] = {}
        self._keys: dict[str, dict[str, None]] = {}

    def __contains__(self, path: str) -> bool:
        """Return whether any key has this path."""
        return path in self._keys

    def put(self, key: str, paths: Iterable[str]) -> None:
        """Set the paths of a key."""
        new, old = frozenset(paths), self._paths.get(key, frozenset())
        self._paths[key] = new
        self._remove(key, old - new)
        for path in new - old:
            self._keys.setdefault(path, {})[key] = None

    def drop(self, key: str) -> None:
        """Remove a key, if it is there."""
        self._remove(key, self._paths.pop(key, frozenset()))

    def of(self, key: str) -> frozenset[str]:
        """Return the paths of a key; none if it is not there."""
        return self._paths.get(key, frozenset())

    def at(self, paths: Iterable[str]) -> list[str]:
        """Return the keys that have one of these paths, each once."""
        return list(dict.fromkeys(key for path in paths for key in self._keys.get(path, ())))

    def _remove(self, key: str, paths: Iterable[str]) -> None:
        for path in paths:
            keys = self._keys[path]
            del keys[key]
            if not keys:
                del self._keys[path]


def paths_of_result(delegation: Delegation) -> set[str]:
    """Return the paths of the files that a result changes, and of those whose mistakes no test notices."""
    files = [] if delegation.result is None else [file.path for file in delegation.result.files]
    return absolute(delegation, {*files, *survivor_hints.survivor_paths(delegation)})


def absolute(delegation: Delegation, paths: Iterable[str]) -> set[str]:
    """Return the absolute paths of wire paths in the workspace of a delegation."""
    workspace = Path(delegation.workspace)
    return {str(workspace / os.fsdecode(path_quoting.unquote(path))) for path in paths}
