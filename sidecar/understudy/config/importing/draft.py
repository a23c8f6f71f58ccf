"""What a reader found in another tool's configuration: entries for ours, and settings that have no counterpart."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from understudy.config.findings import KeyPath
from understudy.config.importing.foreign_files import Document, setting
from understudy.config.validation.delegator_rules import VARIABLE
from understudy.model.config.delegators import Delegator, EnvReference, ModelServer
from understudy.model.errors import ErrorKind, Location, UnderstudyError

_Entry = TypeVar("_Entry", ModelServer, Delegator)

_SECRET_NAME = re.compile(
    r"(^|[-_.])(api[-_]?key|access[-_]?key|key|auth|authorization|token|secret|password|passwd|credentials?|cookie)$",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{8,}|gsk_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}"
    r"|AIza[A-Za-z0-9_-]{20,}|xox[abeprs]-[A-Za-z0-9-]{8,}|hf_[A-Za-z0-9]{16,}|AKIA[A-Z0-9]{16}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,})|\bBearer\s+\S{8,}|://[^/@\s]+:[^/@\s]+@"
)
_SECRET_ARGUMENT = re.compile(r"--?[A-Za-z-]*(?:key|token|secret|password|auth)(=.+)?", re.IGNORECASE)
_EXPANSION = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}|\$([A-Za-z_][A-Za-z0-9_]*)")

MOST_NAMED = 500
"""The most unknown settings of one table that are named one by one."""


@dataclass(frozen=True)
class NotCarried:
    """A setting that has no counterpart, or none that works."""

    setting: str
    reason: str
    """A sentence; what to do instead, if there is something."""
    location: Location | None


@dataclass(frozen=True)
class FoundKey:
    """An API key in plain text, which is never written into the configuration."""

    value: str = field(repr=False)
    setting: str = ""
    location: Location | None = None


@dataclass
class Drafted(Generic[_Entry]):
    """An entry to write, with the setting and the place that it comes from."""

    entry: _Entry
    setting: str
    location: Location | None
    key: FoundKey | None = None
    """The key of a model server that was found in plain text."""
    profile: str | None = None
    """The agent profile that a delegator comes from; it is kept beside it."""
    otherwise: _Entry | None = None
    """What is written if the entry cannot be used as it is."""


@dataclass
class Draft:
    """Everything that one import found; names are still those of the other tool."""

    read: list[Path] = field(default_factory=list)
    servers: list[Drafted[ModelServer]] = field(default_factory=list)
    delegators: list[Drafted[Delegator]] = field(default_factory=list)
    default: tuple[str, str, Location | None] | None = None
    """The delegator for everything, the setting that names it, and its place."""
    recipes: dict[str, tuple[str, str, Location | None]] = field(default_factory=dict)
    """Recipe → its delegator, the setting that names it, and its place."""
    settings: dict[tuple[str, str], tuple[float, str]] = field(default_factory=dict)
    """Table and key of ``config.toml`` → the value, and the setting that it comes from."""
    dropped: list[NotCarried] = field(default_factory=list)

    def drop(self, name: str, reason: str, location: Location | None) -> None:
        """Name a setting that is not carried over."""
        self.dropped.append(NotCarried(name, reason, location))

    def set(self, table: str, key: str, value: float | None, name: str) -> None:
        """Set a value of ``config.toml``, if there is one."""
        if value is not None:
            self.settings[table, key] = (value, name)

    def drop_variables(self, variables: Mapping[str, str], reasons: Mapping[str, str]) -> None:
        """Name environment variables of the other tool as not carried over, as far as they are set."""
        for name, reason in reasons.items():
            if variables.get(name):
                self.drop(name, reason, None)


def read_each(tables: Iterable[Table], read: Callable[[Table], None]) -> None:
    """Read each table; one that is wrong is named as not carried over, and the others are read all the same."""
    for table in tables:
        try:
            read(table)
        except UnderstudyError as error:
            if error.kind is not ErrorKind.CONFIG_INVALID:
                raise
            reason = f"Not carried over: {error.message}"
            table.draft.drop(table.name(), reason, error.location or table.location())


class Table:
    """A table of a document whose every key is either taken or named as not carried over."""

    def __init__(self, document: Document, draft: Draft, path: KeyPath, values: Any) -> None:
        """Take the value at ``path``; raises ``config_invalid`` if it is not a table."""
        if not isinstance(values, dict):
            raise document.invalid(path, f"`{setting(path)}` must be a table." if path else "The file is not a table.")
        self.document = document
        self.draft = draft
        self.path = path
        self.values = values
        self._taken: set[str] = set()

    def __contains__(self, key: str) -> bool:
        """Return whether the table has a value for ``key``."""
        return self.values.get(key) is not None

    def name(self, key: str | None = None) -> str:
        """Return the setting ``key`` of this table as text."""
        return setting(self.path if key is None else (*self.path, key))

    def location(self, key: str | None = None) -> Location:
        """Return the place of the setting ``key``, or of the table."""
        return self.document.location(self.path if key is None else (*self.path, key))

    def text(self, key: str) -> str | None:
        """Take a text."""
        value = self._take(key)
        if value is None or isinstance(value, str):
            return value
        raise self._wrong(key, "a text")

    def required(self, key: str) -> str:
        """Take a text that must exist."""
        value = self.text(key)
        if value is None:
            raise self.document.invalid(self.path, f"`{self.name(key)}` is missing.")
        return value

    def number(self, key: str) -> float | None:
        """Take a number above zero; any other is named as not carried over."""
        value = self._take(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a number")
        if not 0 < value <= 2**31:
            self.drop(key, "It must be above zero.")
            return None
        return float(value)

    def whole(self, key: str) -> int | None:
        """Take a whole number above zero."""
        value = self.number(key)
        if value is not None and value != int(value):
            self.drop(key, "It must be a whole number.")
            return None
        return None if value is None else int(value)

    def flag(self, key: str) -> bool | None:
        """Take true or false."""
        value = self._take(key)
        if value is None or isinstance(value, bool):
            return value
        raise self._wrong(key, "true or false")

    def texts(self, key: str) -> list[str] | None:
        """Take a list of texts."""
        value = self._take(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(key, "a list of texts")
        return list(value)

    def table(self, key: str) -> Table | None:
        """Take a table; its own keys are taken from it."""
        value = self._take(key)
        return None if value is None else Table(self.document, self.draft, (*self.path, key), value)

    def tables(self, key: str) -> Iterator[Table]:
        """Take a list of tables."""
        value = self._take(key)
        if value is None:
            return
        if not isinstance(value, list):
            raise self._wrong(key, "a list of tables")
        for number, item in enumerate(value):
            yield Table(self.document, self.draft, (*self.path, key, number), item)

    def any(self, key: str) -> Any:
        """Take a value of any type."""
        return self._take(key)

    def named(self) -> Iterator[tuple[str, Table]]:
        """Take every value as a table, with its key."""
        for key in self.values:
            table = self.table(key)
            if table is not None:
                yield key, table

    def drop(self, key: str, reason: str) -> None:
        """Name a setting as not carried over, if the table has it."""
        self._taken.add(key)
        if key in self.values:
            self.draft.drop(self.name(key), reason, self.location(key))

    def drop_all(self, keys: Iterable[str], reason: str) -> None:
        """Name several settings as not carried over, as far as the table has them."""
        for key in keys:
            self.drop(key, reason)

    def end(self, reason: str = "Understudy does not know this setting.") -> None:
        """Name everything that was not taken."""
        left = [key for key in self.values if key not in self._taken]
        for key in left[:MOST_NAMED]:
            self.drop(key, reason)
        if left[MOST_NAMED:]:
            self._taken.update(left)
            self.draft.drop(self.name() or "the file", f"{len(left)} of its settings are unknown.", self.location())

    def _take(self, key: str) -> Any:
        self._taken.add(key)
        return self.values.get(key)

    def _wrong(self, key: str, what: str) -> UnderstudyError:
        return self.document.invalid((*self.path, key), f"`{self.name(key)}` must be {what}.")


@functools.cache
def reasons(kind: str) -> Mapping[str, str]:
    """Return why the settings of one kind are not carried over, as sentences: a table of ``not_carried.toml``."""
    tables = tomllib.loads(Path(__file__).with_name("not_carried.toml").read_text(encoding="utf-8"))
    table: Mapping[str, str] = tables[kind]
    return table


def is_secret(name: str, value: object) -> bool:
    """Return whether a setting of this name and value may be a key."""
    return isinstance(value, str) and bool(value) and bool(_SECRET_NAME.search(name) or holds_secret(value))


def holds_secret(value: str) -> bool:
    """Return whether a text looks as if it contained a key."""
    return _SECRET_VALUE.search(value) is not None


def secret_argument(arguments: list[str]) -> bool:
    """Return whether one of these arguments of a program may be a key."""
    for number, argument in enumerate(arguments):
        match = _SECRET_ARGUMENT.fullmatch(argument)
        if match and (match[1] or arguments[number + 1 : number + 2]):
            return True
        if holds_secret(argument):
            return True
    return False


def expansion(value: str) -> str | None:
    """Return the variable that a value consists of (``${NAME}``, ``${NAME:-default}`` or ``$NAME``), or None."""
    match = _EXPANSION.fullmatch(value.strip())
    return (match[1] or match[2]) if match else None


def environment(table: Table) -> dict[str, str | EnvReference]:
    """Return the variables of a table of texts and ``{from_env: NAME}``; a key becomes a reference."""
    variables: dict[str, str | EnvReference] = {}
    for name in table.values:
        if not VARIABLE.fullmatch(name):
            table.drop(name, "This is not the name of an environment variable.")
            continue
        value = table.any(name)
        if isinstance(value, dict):
            inner = Table(table.document, table.draft, (*table.path, name), value)
            variables[name] = EnvReference(from_env=inner.required("from_env"))
            inner.end()
        elif value is None or isinstance(value, list):
            raise table.document.invalid((*table.path, name), f"`{table.name(name)}` must be a text.")
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            variable = expansion(text)
            if variable is not None:
                variables[name] = EnvReference(from_env=variable)
            elif is_secret(name, text):
                variables[name] = EnvReference(from_env=name)
                table.drop(name, f"A key in plain text is not copied. Set {name} in the environment instead.")
            else:
                variables[name] = text
    return variables
