"""Read one file: its entries with their places, and its problems, before it is compared with other files.

What Understudy writes is rendered here, too, so that edits by hand are noticed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from understudy.config import findings, locations
from understudy.config.findings import Finding, LocatedFinding, near
from understudy.config.locations import SCHEMA_FOLDER, SINGLE, FileKind, Layer, schema_name
from understudy.config.parsing import file_schema
from understudy.config.parsing.file_schema import RecipeTable, RouteTable, decode
from understudy.config.parsing.source_file import Source, opened, read
from understudy.config.validation import start_options
from understudy.model.config.config_entries import has_errors
from understudy.model.config.delegators import (
    NAME_PATTERN,
    AppliesTo,
    Delegator,
    ModelServer,
    Recipe,
    Scope,
)
from understudy.model.config.notifications import NotificationReceiver
from understudy.model.config.schedules import Schedule
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.evidence.checks import Check

REPLACEABLE = frozenset({"delegators", "routes", "model_servers", "schedules", "notifications", "defaults"})
"""Parts of ``config.toml`` whose loss must be reported, because requests name their entries."""
_LISTS = {"delegators": "delegators", "routes": "delegators", "model_servers": "servers"} | {
    name: name for name in ("checks", "schedules", "notifications")
}
_ENTRIES = ("delegators", "servers", "checks", "schedules", "notifications", "recipes", "tools")
"""The lists of a ``Reading``."""
_OPENING = re.compile(rb"\A(?:\xef\xbb\xbf)?\+\+\+[ \t]*\r?\n")
_CLOSING = re.compile(rb"^\+\+\+[ \t]*\r?$", re.MULTILINE)
WorktreesTable = file_schema.TABLES["worktrees"]
Value = Delegator | ModelServer | Check | Schedule | NotificationReceiver | file_schema.DefaultsTable | msgspec.Struct
_KINDS: dict[type[Value], FileKind] = {
    Delegator: FileKind.DELEGATOR,
    ModelServer: FileKind.MODEL_SERVER,
    Check: FileKind.CHECK,
    Schedule: FileKind.SCHEDULE,
    NotificationReceiver: FileKind.NOTIFICATION,
    file_schema.DefaultsTable: FileKind.DEFAULTS,
    WorktreesTable: FileKind.WORKTREES,
}


class Item(msgspec.Struct):
    """One entry of one layer."""

    value: Any
    layer: Layer
    source: Source
    path: findings.KeyPath
    whole: bool
    """Whether the file contains this entry and nothing else."""
    problems: list[LocatedFinding] = msgspec.field(default_factory=list)

    def note(self, finding: Finding) -> None:
        """Add a finding to the problems, with its place in the file."""
        at = self.source.where((*self.path, *finding.path), key=finding.key)
        self.problems.append(
            self.source.problem(
                finding.message,
                hint=finding.hint,
                at=at,
                severity=finding.severity,
                code=finding.code,
            )
        )

    @property
    def usable(self) -> bool:
        """Whether it has no errors."""
        return not has_errors(self.problems)


class Reading(msgspec.Struct):
    """One file, read and decoded, but not yet checked against other files."""

    layer: Layer
    kind: FileKind
    path: Path
    delegators: list[Item] = msgspec.field(default_factory=list)
    servers: list[Item] = msgspec.field(default_factory=list)
    checks: list[Item] = msgspec.field(default_factory=list)
    schedules: list[Item] = msgspec.field(default_factory=list)
    notifications: list[Item] = msgspec.field(default_factory=list)
    recipes: list[Item] = msgspec.field(default_factory=list)
    tools: list[Item] = msgspec.field(default_factory=list)
    sections: list[tuple[str, Item]] = msgspec.field(default_factory=list)
    problems: list[LocatedFinding] = msgspec.field(default_factory=list)
    missing: list[LocatedFinding] = msgspec.field(default_factory=list)
    """Those of ``problems`` that affect every delegation."""
    broken: set[tuple[str, str]] = msgspec.field(default_factory=set)
    """Entries that cannot be decoded, as (``delegators``, name): a request that names one fails with its errors."""

    def fresh(self) -> Reading:
        """Return a copy without the findings of later checks."""
        lists = {name: [_fresh(item) for item in getattr(self, name)] for name in _ENTRIES}
        return msgspec.structs.replace(
            self,
            **lists,
            sections=[(name, _fresh(item)) for name, item in self.sections],
            problems=list(self.problems),
            missing=list(self.missing),
            broken=set(self.broken),
        )


def files(layer: Layer) -> Iterator[tuple[FileKind, Path]]:
    """Yield the files of a layer that may exist, in the order in which they apply."""
    for kind, name in locations.SINGLE.items():
        yield kind, layer.root / name
    for kind, (folder, suffix) in locations.PLACES.items():
        for path in locations.names_in(layer.root / folder, suffix):
            yield kind, path


def left_out(layer: Layer, kind: FileKind) -> Iterator[Reading]:
    """Yield a reading with one problem if files of a folder are not read because it has too many.

    It has the place of the first of them, and says how many follow.
    """
    folder, suffix = locations.PLACES[kind]
    paths = locations.names_in(layer.root / folder, suffix, left_out=True)
    first = next(paths, None)
    if first is None:
        return
    more = sum(1 for _ in paths)
    which = f"{first.name} and {more:,} more are" if more else f"{first.name} is"
    message = f"Only the first {locations.MAX_FILES:,} files of {first.parent} are read: {which} left out."
    problem = Source(first, b"").problem(message, hint="Remove files that you do not use.")
    yield _reading(Reading(layer, kind, first), None, [problem])


def read_file(layer: Layer, kind: FileKind, path: Path) -> Reading:
    """Read and decode a file; return an empty reading if it does not exist."""
    source, problems = read(path, inside=layer.inside)
    return _reading(Reading(layer, kind, path), source, problems)


def read_text(layer: Layer, kind: FileKind, path: Path, data: bytes) -> Reading:
    """Return the reading of a file as if it contained ``data``."""
    source, problems = opened(path, data)
    return _reading(Reading(layer, kind, path), source, problems)


def _reading(into: Reading, source: Source | None, problems: list[LocatedFinding]) -> Reading:
    into.problems += problems
    if source is not None:
        match into.kind:
            case FileKind.CONFIG:
                _hand_written(into, source)
            case FileKind.DEFAULTS:
                _table_file(into, source, "defaults", file_schema.DefaultsTable)
            case FileKind.WORKTREES:
                _table_file(into, source, "worktrees", WorktreesTable)
            case FileKind.RECIPE:
                _recipe(into, source)
            case FileKind.DELEGATOR:
                into.delegators += _thing(into, source, Delegator)
            case FileKind.ROUTE:
                into.delegators += _thing(into, source, RouteTable)
            case FileKind.MODEL_SERVER:
                into.servers += _thing(into, source, ModelServer)
            case FileKind.CHECK:
                into.checks += _thing(into, source, Check)
            case FileKind.SCHEDULE:
                into.schedules += _thing(into, source, Schedule)
            case FileKind.NOTIFICATION:
                into.notifications += _thing(into, source, NotificationReceiver)
            case FileKind.TOOL:
                into.tools += _thing(into, source, ToolDefinition)
    elif into.kind is FileKind.CONFIG:
        into.missing += problems
    entries = any(getattr(into, name) for name in _ENTRIES)
    if into.kind in locations.PLACES and not entries and into.problems:
        if into.kind is FileKind.CHECK:
            into.missing += into.problems
        kind = FileKind.DELEGATOR if into.kind is FileKind.ROUTE else into.kind
        into.broken.add((kind.replace("-", "_") + "s", into.path.stem))
    return into


def _hand_written(into: Reading, source: Source) -> None:
    document, problems = source.parse()
    if document is None:
        into.problems += problems
        into.missing += problems
        return
    for name, value in document.items():
        before = len(into.problems)
        if name in file_schema.TABLES:
            decoded = decode(value, file_schema.TABLES[name], source, (name,), into.problems)
            if decoded is not None:
                into.sections.append((name, Item(decoded, into.layer, source, (name,), whole=False)))
        elif name in file_schema.LISTS and isinstance(value, list):
            items: list[Item] = getattr(into, _LISTS[name])
            for number, element in enumerate(value):
                thing = decode(element, file_schema.LISTS[name], source, (name, number), into.problems)
                if thing is not None:
                    items.append(Item(_entry_of(thing), into.layer, source, (name, number), whole=False))
                elif isinstance(element, dict) and isinstance(element.get("name"), str):
                    into.broken.add(("delegators" if name == "routes" else name, element["name"]))
        else:
            into.problems.append(_stranger(name, source))
        if name not in REPLACEABLE:
            into.missing += into.problems[before:]


def _table_file(into: Reading, source: Source, name: str, structure: type[msgspec.Struct]) -> None:
    """Read a file that holds one table and nothing else."""
    document, problems = source.parse()
    into.problems += problems
    if document is not None:
        decoded = decode(document, structure, source, (), into.problems)
        if decoded is not None:
            into.sections.append((name, Item(decoded, into.layer, source, (), whole=True)))


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
    name = cast(
        "Delegator | RouteTable | ModelServer | Check | Schedule | NotificationReceiver | ToolDefinition", thing
    ).name
    if name != stem:
        at = source.where(("name",))
        hint = f"Rename the file to {name}.toml, or set the name to {stem}."
        into.problems.append(source.problem("The name differs from the file's name.", hint=hint, at=at))
        return
    yield Item(_entry_of(thing), into.layer, source, (), whole=True)


def _entry_of(thing: Any) -> Any:
    """Return what the configuration has of a table: a route is an entry beside delegators."""
    return thing.delegator() if isinstance(thing, RouteTable) else thing


def _recipe(into: Reading, source: Source) -> None:
    if not re.fullmatch(NAME_PATTERN, into.path.stem):
        hint = "Use lowercase letters, digits, dots, hyphens and underscores."
        into.problems.append(source.problem("The file's name is not a valid name of a recipe.", hint=hint))
        return
    recipe, source, problems = read_recipe(source, into.path.stem, into.layer.scope)
    into.problems += problems
    if recipe is not None:
        into.recipes.append(Item(recipe, into.layer, source, (), whole=True))


def _stranger(name: str, source: Source) -> LocatedFinding:
    if name in file_schema.LISTS:
        at = source.where((name,), key=True)
        message = f"`{name}` must be an array of tables."
        return source.problem(message, hint=f"Write [[{name}]].", at=at, code="not_a_list")
    hint = near(name, [*file_schema.TABLES, *file_schema.LISTS])
    return source.unknown_key((name,), hint=hint)


def _fresh(item: Item) -> Item:
    return Item(item.value, item.layer, item.source, item.path, item.whole)


def read_recipe(source: Source, name: str, scope: Scope) -> tuple[Recipe | None, Source, list[LocatedFinding]]:
    """Return the recipe in a file, the source that knows the places of its front matter, and the problems."""
    span = front_matter(source.data)
    if span is None:
        yaml = source.data.lstrip().startswith(b"---")
        hint = "Put TOML between two lines of +++" + (" instead of YAML between lines of ---." if yaml else ".")
        return None, source, [source.problem("A recipe begins with its front matter.", hint=hint, code="syntax")]
    start, end = span
    if end is None:
        return None, source, [source.problem("The front matter has no closing +++.", code="syntax")]
    source = Source(source.path, source.data, start=start, end=end)
    value, problems = source.parse()
    if value is None:
        return None, source, problems
    table = decode(value, RecipeTable, source, (), problems)
    if table is None:
        return None, source, problems
    try:
        prompt = source.data[end:].partition(b"+++")[2].decode().replace("\r\n", "\n").strip()
    except UnicodeDecodeError:
        message = "The file is not UTF-8 text."
        return None, source, [source.problem(message, hint="Save it as UTF-8.", code="syntax")]
    if not prompt:
        hint = "Write the instructions below the +++."
        return None, source, [source.problem("The recipe has no text.", hint=hint, code="missing")]
    for field in ("writes", "checks"):
        if getattr(table, field) is not None and table.returns == "text":
            message = f"`{field}` has no effect on a recipe that returns text."
            at = source.where((field,), key=True)
            problems.append(source.problem(message, hint="Remove it.", at=at, code="no_effect"))
            return None, source, problems
    wrong = start_options.check_rounds(table.rounds, table.returns)
    if wrong is not None:
        at = source.where(("rounds",), key=True)
        problems.append(source.problem(wrong.message, hint=wrong.hint, at=at, code=wrong.code))
        return None, source, problems
    table.applies_to = table.applies_to or AppliesTo(on=["file", "selection"])  # the default
    fields = msgspec.structs.asdict(table)
    return Recipe(name=name, scope=scope, location=source.location(), prompt=prompt, **fields), source, problems


def front_matter(data: bytes) -> tuple[int, int | None] | None:
    """Return where the TOML of a recipe begins and ends (``None``: it is not closed); None without front matter."""
    opening = _OPENING.match(data)
    if opening is None:
        return None
    closing = _CLOSING.search(data, opening.end())
    return opening.end(), closing.start() if closing else None


def revision(data: bytes) -> str:
    """Return a token that changes whenever ``data`` does."""
    return hashlib.sha256(data).hexdigest()[:16]


def schema_line(kind: FileKind) -> str:
    """Return the first line of a generated file, which tells TOML language servers its JSON Schema.

    The path is relative to the file, so that it holds on every machine that has a copy of the folder.
    """
    return f"#:schema {'' if kind in SINGLE else '../'}{SCHEMA_FOLDER}/{schema_name(kind)}\n"


def render(value: Value) -> bytes:
    """Return the file that Understudy writes for ``value``; the same value gives the same bytes."""
    return schema_line(kind_of(value)).encode() + _table(value)


def kind_of(value: Value) -> FileKind:
    """Return the kind of the file that has this value."""
    is_route = isinstance(value, Delegator) and value.route is not None
    return FileKind.ROUTE if is_route else _KINDS[type(value)]


def is_own(item: Item) -> bool:
    """Return whether Understudy wrote the file: rendering its value gives the same bytes."""
    if not item.whole or item.source.path.is_symlink():
        return False
    # Earlier versions wrote no line about the schema.
    line = schema_line(kind_of(item.value)).encode()
    return item.source.data.removeprefix(line) == _table(item.value)


def _table(value: Value) -> bytes:
    import tomli_w

    if isinstance(value, Delegator) and value.route is not None:
        return tomli_w.dumps(file_schema.to_file(RouteTable.of(value))).encode()
    return tomli_w.dumps(file_schema.to_file(value)).encode()
