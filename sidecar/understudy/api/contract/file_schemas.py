"""Render JSON Schemas of the files that people write, for editors that know nothing of Understudy."""

from __future__ import annotations

import msgspec

from understudy.api.contract.schemas import dump
from understudy.config import fields
from understudy.config.folders import FileKind
from understudy.engine import limits, resolve
from understudy.runners import registry

DIALECT = "http://json-schema.org/draft-07/schema#"
"""What the schema-driven editors for TOML understand; later dialects only in part."""

_TITLES = {
    FileKind.CONFIG: "Understudy: config.toml",
    FileKind.DELEGATOR: "Understudy: delegators/<name>.toml",
    FileKind.MODEL_SERVER: "Understudy: model-servers/<name>.toml",
    FileKind.RECIPE: "Understudy: the front matter of recipes/<name>.md",
}


def documents() -> dict[str, str]:
    """Return one schema document per kind of file, by the name of its file."""
    names = {"tools": sorted(set(registry.ABILITIES) - {registry.BACKEND})}
    defaults = {**msgspec.structs.asdict(limits.DEFAULTS), "slots": resolve.DEFAULT_SLOTS}
    return {
        f"{kind}.schema.json": dump(
            {
                "$schema": DIALECT,
                "title": title,
                **fields.json_schema(fields.shape_of(kind, registry.ABILITIES, defaults), names),
            }
        )
        for kind, title in _TITLES.items()
    }
