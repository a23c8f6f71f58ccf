"""Check the unsaved text of a configuration file as ``load`` would check it if it were saved. Nothing is written."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from understudy.config.configuration import Configuration
from understudy.config.findings import LocatedFinding
from understudy.config.loading.loader import Loader, readings
from understudy.config.locations import LOCAL_FOLDER, FileKind, Layer, place_of
from understudy.config.parsing import config_file
from understudy.config.parsing.config_file import Reading
from understudy.model.config.delegators import Scope


@dataclass(frozen=True)
class Snapshot:
    """The configuration files at one moment, for checking one of them with another text."""

    configuration: Configuration
    readings: tuple[Reading, ...]

    def remarks(self, path: Path, data: bytes) -> list[LocatedFinding]:
        """Return what ``load`` would report for ``path`` with the content ``data``, by place; starts and reads nothing.

        A file of an untrusted workspace is checked too, because the user has it open. Names that it uses may be
        defined in files that are not read, so an unknown name is not an error there.
        """
        place = place_of(path)
        if place is None:
            return []
        kind, layer = place
        draft = config_file.read_text(layer, kind, path, data)
        others = [one.fresh() for one in self.readings if not _same(one, draft)]
        loader = Loader(
            self.configuration.workspace,
            sorted([*others, draft], key=_order),
            trusted=self.configuration.trusted,
        )
        uri = path.as_uri()
        found = [remark for remark in loader.remarks() if remark.location is not None and remark.location.uri == uri]
        if layer.scope is Scope.WORKSPACE and not self.configuration.trusted:
            found = [_doubtful(remark) if remark.code == "unknown_name" else remark for remark in found]
        return sorted(_once(found), key=_position)


def snapshot(workspace: Path | None, *, trusted: bool) -> Snapshot:
    """Return the configuration of ``workspace`` with its files; arguments as for ``load``."""
    found = readings(workspace, trusted=trusted)
    kept = tuple(one.fresh() for one in found)
    configuration = Loader(workspace, found, trusted=trusted).run()
    return Snapshot(configuration, kept)


_KINDS = list(FileKind)


def _order(one: Reading) -> tuple[int, int, str]:
    """Return a key that sorts readings in the order in which ``load`` finds them."""
    return _rank(one.layer), _KINDS.index(one.kind), one.path.name


def _rank(layer: Layer) -> int:
    if layer.scope is Scope.WORKSPACE:
        return 3 if layer.root.name == LOCAL_FOLDER else 2
    return 1 if layer.scope is Scope.USER else 0


def _same(one: Reading, other: Reading) -> bool:
    if one.path == other.path:
        return True
    # The same file under another path.
    alike = one.kind is other.kind and one.layer.scope is other.layer.scope and one.path.name == other.path.name
    return alike and os.path.realpath(one.path) == os.path.realpath(other.path)


def _doubtful(remark: LocatedFinding) -> LocatedFinding:
    why = "The workspace is not trusted, so the files beside this one are not read."
    hint = f"{remark.hint} {why}" if remark.hint else why
    return msgspec.structs.replace(remark, severity="information", hint=hint)


def _once(remarks: Iterable[LocatedFinding]) -> list[LocatedFinding]:
    unique = {(remark.message, remark.severity, str(remark.location)): remark for remark in remarks}
    return list(unique.values())


def _position(remark: LocatedFinding) -> tuple[int, int, str]:
    start = remark.location.range.start if remark.location else None
    return (start.line, start.character, remark.message) if start else (0, 0, remark.message)
