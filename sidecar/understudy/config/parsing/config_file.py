"""What one file says, before it is held against anything else: its things with their places, and what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from understudy.config import folders, positions, shapes
from understudy.config.decode import decode
from understudy.config.folders import FileKind, Layer
from understudy.config.problems import close, near
from understudy.config.recipes import read_recipe
from understudy.config.semantics import Finding
from understudy.config.sources import Remark, Source, opened, read
from understudy.model.delegators import NAME_PATTERN, Delegator, ModelServer

REPLACEABLE = frozenset({"delegators", "model_servers", "defaults"})
"""Parts of ``config.toml`` whose absence whoever needs them notices: their names are asked for."""

_LISTS = {"delegators": "delegators", "model_servers": "servers", "checks": "checks"}


@dataclass
class Item:
    """One thing as one layer says it."""

    value: Any
    layer: Layer
    source: Source
    path: positions.Path
    whole: bool
    """The file holds this thing and nothing else."""
    problems: list[Remark] = field(default_factory=list)

    def note(self, finding: Finding) -> None:
        """Keep a finding as a problem, with its place in the file."""
        about = (*self.path, *finding.path)
        at = self.source.where(about, key=finding.key)
        self.problems.append(
            self.source.problem(
                finding.message,
                hint=finding.hint,
                at=at,
                severity=finding.severity,
                code=finding.code,
                names=finding.names,
                about=about,
            )
        )

    @property
    def usable(self) -> bool:
        """Whether nothing is wrong with it."""
        return not any(problem.severity == "error" for problem in self.problems)


@dataclass
class Reading:
    """One file, read and decoded; judging it against the other files is the loader's."""

    layer: Layer
    kind: FileKind
    path: Path
    delegators: list[Item] = field(default_factory=list)
    servers: list[Item] = field(default_factory=list)
    checks: list[Item] = field(default_factory=list)
    recipes: list[Item] = field(default_factory=list)
    sections: list[tuple[str, Item]] = field(default_factory=list)
    problems: list[Remark] = field(default_factory=list)
    missing: list[Remark] = field(default_factory=list)
    """Those of ``problems`` for which something is missing that holds for every delegation."""
    broken: set[tuple[str, str]] = field(default_factory=set)
    """What is there and cannot be read, as (``delegators``, name): whoever names it hears that it has errors."""

    def fresh(self) -> Reading:
        """Return the same without anything that judging has noted."""
        return Reading(
            self.layer,
            self.kind,
            self.path,
            [_fresh(item) for item in self.delegators],
            [_fresh(item) for item in self.servers],
            [_fresh(item) for item in self.checks],
            [_fresh(item) for item in self.recipes],
            [(name, _fresh(item)) for name, item in self.sections],
            list(self.problems),
            list(self.missing),
            set(self.broken),
        )


def files(layer: Layer) -> Iterator[tuple[FileKind, Path]]:
    """Yield the files of a layer that may be there, in the order in which they count."""
    yield FileKind.CONFIG, layer.root / "config.toml"
    for kind, (folder, suffix) in folders.PLACES.items():
        for path in folders.names_in(layer.root / folder, suffix):
            yield kind, path


def read_file(layer: Layer, kind: FileKind, path: Path) -> Reading:
    """Return what the file on disk says; nothing when there is none."""
    source, problems = read(path, inside=layer.inside)
    return _reading(Reading(layer, kind, path), source, problems)


def read_text(layer: Layer, kind: FileKind, path: Path, data: bytes) -> Reading:
    """Return what the file would say if it held ``data``."""
    source, problems = opened(path, data)
    return _reading(Reading(layer, kind, path), source, problems)


def _reading(into: Reading, source: Source | None, problems: list[Remark]) -> Reading:
    into.problems += problems
    if source is not None:
        match into.kind:
            case FileKind.CONFIG:
                _hand_written(into, source)
            case FileKind.RECIPE:
                _recipe(into, source)
            case FileKind.DELEGATOR:
                into.delegators += _thing(into, source, Delegator)
            case FileKind.MODEL_SERVER:
                into.servers += _thing(into, source, ModelServer)
    elif into.kind is FileKind.CONFIG:
        into.missing += problems
    if into.kind is not FileKind.CONFIG and not (into.delegators or into.servers or into.recipes) and into.problems:
        into.broken.add((into.kind.replace("-", "_") + "s", into.path.stem))
    return into


def _hand_written(into: Reading, source: Source) -> None:
    document, problems = source.parse()
    if document is None:
        into.problems += problems
        into.missing += problems
        return
    for name, value in document.items():
        known = len(into.problems)
        if name in shapes.SECTIONS:
            decoded = decode(value, shapes.SECTIONS[name], source, (name,), into.problems)
            if decoded is not None:
                into.sections.append((name, Item(decoded, into.layer, source, (name,), whole=False)))
        elif name in shapes.LISTS and isinstance(value, list):
            items: list[Item] = getattr(into, _LISTS[name])
            for number, element in enumerate(value):
                thing = decode(element, shapes.LISTS[name], source, (name, number), into.problems)
                if thing is not None:
                    items.append(Item(thing, into.layer, source, (name, number), whole=False))
                elif isinstance(element, dict) and isinstance(element.get("name"), str):
                    into.broken.add((name, element["name"]))
        else:
            into.problems.append(_stranger(name, document, source))
        if name not in REPLACEABLE:
            into.missing += into.problems[known:]


def _thing(into: Reading, source: Source, structure: type[msgspec.Struct]) -> Iterator[Item]:
    document, problems = source.parse()
    into.problems += problems
    if document is None:
        return
    stem = into.path.stem
    document.setdefault("name", stem)
    thing = decode(document, structure, source, (), into.problems)
    if thing is None:
        return
    name = cast("Delegator | ModelServer", thing).name
    if name != stem:
        at = source.where(("name",))
        hint = f"Call the file {name}.toml, or the thing {stem}."
        named = [stem] if re.fullmatch(NAME_PATTERN, stem) else []
        into.problems.append(
            source.problem("The name is not the file's.", hint=hint, at=at, names=named, about=("name",))
        )
        return
    yield Item(thing, into.layer, source, (), whole=True)


def _recipe(into: Reading, source: Source) -> None:
    if not re.fullmatch(NAME_PATTERN, into.path.stem):
        hint = "Use lower case letters, digits, dots, dashes and underscores."
        into.problems.append(source.problem("The file's name is not one a recipe can have.", hint=hint))
        return
    recipe, source, problems = read_recipe(source, into.path.stem, into.layer.scope)
    into.problems += problems
    if recipe is not None:
        into.recipes.append(Item(recipe, into.layer, source, (), whole=True))


def _stranger(name: str, document: dict[str, Any], source: Source) -> Remark:
    at = source.where((name,), key=True)
    if name == "routes":
        remedy = "Use [defaults] to name delegators."
        return source.problem("Routes are not supported yet.", hint=remedy, at=at, code="no_effect", about=(name,))
    if name in shapes.LISTS:
        message = f"`{name}` must be an array of tables."
        return source.problem(message, hint=f"Write [[{name}]].", at=at, code="not_a_list", about=(name,))
    hint = near(name, [*shapes.SECTIONS, *shapes.LISTS])
    # A name is offered only where it would make sense of what stands there.
    value = document[name]
    fitting = [*shapes.SECTIONS] if isinstance(value, dict) else [*shapes.LISTS] if isinstance(value, list) else []
    names = close(name, set(fitting) - set(document))
    message = f"Unknown key `{name}`."
    return source.problem(message, hint=hint, at=at, code="unknown_key", names=names, about=(name,))


def _fresh(item: Item) -> Item:
    return Item(item.value, item.layer, item.source, item.path, item.whole)
