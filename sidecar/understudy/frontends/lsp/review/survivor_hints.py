"""Place the changes that no test noticed at their lines in an open file of the code under test. No I/O."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from understudy.frontends.lsp.editor.line_alignment import align
from understudy.frontends.lsp.review.review_actions import OpenReview
from understudy.model.delegation.delegations import Delegation
from understudy.model.evidence.checks import JudgedMutant, noticed
from understudy.model.text import path_quoting
from understudy.model.text.sanitize import one_line
from understudy.model.verdicts import Reservation

MOST_HINTS = 100
"""Most hints in one file."""
_CHARACTERS = 120
"""Of a line in a message."""


@dataclass(frozen=True, slots=True)
class SurvivorHint:
    """A change that no test noticed, and its line in a document, from zero."""

    work: OpenReview
    mutant: JudgedMutant
    line: int

    @property
    def message(self) -> str:
        """Return what was changed."""
        where = f"{one_line(self.work.delegation.title)} ({self.work.delegation.id})"
        return f"No test notices `{_short(self.mutant.after)}` instead of `{_short(self.mutant.before)}`. {where}"


def survivors_in(delegation: Delegation, path: str) -> list[JudgedMutant]:
    """Return the changes of a file, by its wire path, that no test noticed."""
    return [mutant for mutant in _survivors(delegation) if mutant.path == path]


def _survivors(delegation: Delegation) -> list[JudgedMutant]:
    if Reservation.CHECKS_OUTDATED in delegation.reservations:
        return []  # the edited tests may notice them
    evidence = noticed(check.mutation for check in delegation.checks)
    return [] if evidence is None else evidence.survivors


def placed(work: OpenReview, mutants: Iterable[JudgedMutant], result: str, current: str) -> list[SurvivorHint]:
    """Return the hints for ``current``, the text of a document, where the line is the same as in the ``result``."""
    # Lines of mutants end with a line feed, those of editors also with a carriage return: numbers must agree.
    old, new = _lines(result), _lines(current)
    if any("\r" in line for line in (*old, *new)):
        return []
    places = align(old, new)
    hints = [
        SurvivorHint(work, mutant, place)
        for mutant in mutants
        if 0 < mutant.line <= len(places) and (place := places[mutant.line - 1]) is not None
    ]
    return hints[:MOST_HINTS]


def _lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.split("\n")]


def _short(text: str) -> str:
    line = one_line(text).replace("`", "'")
    return line if len(line) <= _CHARACTERS else line[: _CHARACTERS - 1] + "…"


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
    return absolute(delegation, {*files, *(mutant.path for mutant in _survivors(delegation))})


def absolute(delegation: Delegation, paths: Iterable[str]) -> set[str]:
    """Return the absolute paths of wire paths in the workspace of a delegation."""
    workspace = Path(delegation.workspace)
    return {str(workspace / os.fsdecode(path_quoting.unquote(path))) for path in paths}
