"""Accept messages of newer editors: enum values that lsprotocol does not know are kept unchanged."""

from __future__ import annotations

import enum
import functools
from typing import Any

import cattrs
from lsprotocol import types
from pygls.protocol import default_converter


def converter() -> cattrs.Converter:
    """Return pygls' converter, changed to accept unknown enum values.

    The specification demands that unknown values are ignored (LSP 3.17, "Enumerations" and the notes on capabilities).
    Each enum class needs a hook of its own, because str and int enums match primitives first.
    """
    found: cattrs.Converter = default_converter()  # type: ignore[no-untyped-call]
    for value in vars(types).values():
        if isinstance(value, type) and issubclass(value, enum.Enum):
            found.register_structure_hook(value, functools.partial(_either, value))
    return found


def _either(kind: type[enum.Enum], value: Any, _: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        return value
