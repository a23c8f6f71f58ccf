"""A file as somebody is writing it: what ``load`` would say of it if it were saved now. Nothing is written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from understudy.config import reading, semantics
from understudy.config.folders import LOCAL_FOLDER, FileKind, Layer, place_of
from understudy.config.load import Configuration, Loader, readings
from understudy.config.reading import Reading
from understudy.config.semantics import Abilities
from understudy.config.sources import Remark
from understudy.model.delegators import Scope


@dataclass(frozen=True)
class Snapshot:
    """The configuration as its files were at one moment, and what it takes to judge one of them with another text."""

    configuration: Configuration
    readings: tuple[Reading, ...]
    abilities: Mapping[str, Abilities]

    def remarks(self, path: Path, data: bytes) -> list[Remark]:
        """Return what a load would say of ``path`` if it held ``data``, by place; starts and reads nothing.

        A file of a workspace that is not trusted is judged as well, because it is open before a person's
        eyes; what it names may be in files beside it that are not read, so an unknown name is no error there.
        """
        place = place_of(path)
        if place is None:
            return []
        kind, layer = place
        draft = reading.read_text(layer, kind, path, data)
        others = [one.fresh() for one in self.readings if not _same(one, draft)]
        loader = Loader(
            self.configuration.workspace,
            sorted([*others, draft], key=_order),
            trusted=self.configuration.trusted,
            abilities=self.abilities,
        )
        uri = path.as_uri()
        found = [remark for remark in loader.remarks() if remark.location is not None and remark.location.uri == uri]
        if layer.scope is Scope.WORKSPACE and not self.configuration.trusted:
            found = [_doubtful(remark) if remark.code == "unknown_name" else remark for remark in found]
        return sorted(_once(found), key=_position)


def snapshot(
    workspace: Path | None, *, trusted: bool, abilities: Mapping[str, Abilities] = semantics.DEFAULT_ABILITIES
) -> Snapshot:
    """Return the configuration of ``workspace`` with what its files say; arguments and behaviour as of ``load``."""
    found = readings(workspace, trusted=trusted)
    kept = tuple(one.fresh() for one in found)
    configuration = Loader(workspace, found, trusted=trusted, abilities=abilities).run()
    return Snapshot(configuration, kept, abilities)


_KINDS = list(FileKind)


def _order(one: Reading) -> tuple[int, int, str]:
    """Return what puts readings into the order in which a load finds them."""
    return _rank(one.layer), _KINDS.index(one.kind), one.path.name


def _rank(layer: Layer) -> int:
    if layer.scope is Scope.WORKSPACE:
        return 3 if layer.root.name == LOCAL_FOLDER else 2
    return 1 if layer.scope is Scope.USER else 0


def _same(one: Reading, other: Reading) -> bool:
    if one.path == other.path:
        return True
    # The same file, reached in another way.
    alike = one.kind is other.kind and one.layer.scope is other.layer.scope and one.path.name == other.path.name
    return alike and os.path.realpath(one.path) == os.path.realpath(other.path)


def _doubtful(remark: Remark) -> Remark:
    why = "The workspace is not trusted, so the files beside this one are not read."
    hint = f"{remark.hint} {why}" if remark.hint else why
    return msgspec.structs.replace(remark, severity="information", hint=hint)


def _once(remarks: Iterable[Remark]) -> list[Remark]:
    unique = {(remark.message, remark.severity, str(remark.location)): remark for remark in remarks}
    return list(unique.values())


def _position(remark: Remark) -> tuple[int, int, str]:
    start = remark.location.range.start if remark.location else None
    return (start.line, start.character, remark.message) if start else (0, 0, remark.message)
