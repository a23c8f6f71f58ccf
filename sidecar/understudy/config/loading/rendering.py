"""Render generated TOML files, and detect edits by hand."""

from __future__ import annotations

import hashlib

from understudy.config.parsing import file_schema
from understudy.config.parsing.config_file import Item
from understudy.model.config.delegators import Delegator, ModelServer
from understudy.model.evidence.checks import Check


def revision(data: bytes) -> str:
    """Return a token that changes whenever ``data`` does."""
    return hashlib.sha256(data).hexdigest()[:16]


def render(value: Delegator | ModelServer | Check | file_schema.DefaultsTable) -> bytes:
    """Return the file that Understudy writes for ``value``; the same value gives the same bytes."""
    import tomli_w

    return tomli_w.dumps(file_schema.to_file(value)).encode()


def is_own(item: Item) -> bool:
    """Return whether Understudy wrote the file: rendering its value gives the same bytes."""
    return item.whole and not item.source.path.is_symlink() and render(item.value) == item.source.data
