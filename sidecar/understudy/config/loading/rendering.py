"""Render generated TOML files, and detect edits by hand."""

from __future__ import annotations

import hashlib

from understudy.config.locations import SCHEMA_FOLDER, SINGLE, FileKind, schema_name
from understudy.config.parsing import file_schema
from understudy.config.parsing.config_file import Item
from understudy.model.config.delegators import Delegator, ModelServer
from understudy.model.evidence.checks import Check

Value = Delegator | ModelServer | Check | file_schema.DefaultsTable

_KINDS: dict[type[Value], FileKind] = {
    Delegator: FileKind.DELEGATOR,
    ModelServer: FileKind.MODEL_SERVER,
    Check: FileKind.CHECK,
    file_schema.DefaultsTable: FileKind.DEFAULTS,
}


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
    return schema_line(_KINDS[type(value)]).encode() + _table(value)


def is_own(item: Item) -> bool:
    """Return whether Understudy wrote the file: rendering its value gives the same bytes."""
    if not item.whole or item.source.path.is_symlink():
        return False
    # Earlier versions wrote no line about the schema.
    line = schema_line(_KINDS[type(item.value)]).encode()
    return item.source.data.removeprefix(line) == _table(item.value)


def _table(value: Value) -> bytes:
    import tomli_w

    return tomli_w.dumps(file_schema.to_file(value)).encode()
