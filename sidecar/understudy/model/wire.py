"""The two base classes of everything that travels, and how it is encoded.

Field names are snake_case here and camelCase on the wire. A field without a default is always
present; an optional one is left out while it has its default.
"""

from __future__ import annotations

import msgspec


class Wire(msgspec.Struct, rename="camel", omit_defaults=True):
    """A structure that Understudy sends: readers ignore fields they do not know."""


class Strict(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """A structure that Understudy receives: a field it does not know is an error."""


def camel(name: str) -> str:
    """Return the wire spelling of a snake_case field name (``base_url`` → ``baseUrl``)."""
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)
