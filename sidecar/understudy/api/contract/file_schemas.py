"""Render JSON Schemas of configuration files and recipes, for editors without support for Understudy."""

from __future__ import annotations

import msgspec

from understudy.api.contract.json_schema import dump
from understudy.config.discovery import declarations
from understudy.config.locations import FileKind
from understudy.config.reference import fields
from understudy.engine.planning import limits, plan

DIALECT = "http://json-schema.org/draft-07/schema#"
"""The latest dialect that schema-driven TOML editors support completely."""

_TITLES = {
    FileKind.DEFAULTS: "Understudy: defaults.toml",
    FileKind.CONFIG: "Understudy: config.toml",
    FileKind.DELEGATOR: "Understudy: delegators/<name>.toml",
    FileKind.MODEL_SERVER: "Understudy: model-servers/<name>.toml",
    FileKind.CHECK: "Understudy: checks/<name>.toml",
    FileKind.RECIPE: "Understudy: the front matter of recipes/<name>.md",
    FileKind.TOOL: "Understudy: tools/<name>.toml",
}


def documents() -> dict[str, str]:
    """Return one schema document per kind of file, by the file name of the schema."""
    names = {"tools": declarations.runnable_tools()}
    defaults = {**msgspec.structs.asdict(limits.DEFAULTS), "slots": plan.DEFAULT_SLOTS}
    return {
        f"{kind}.schema.json": dump(
            {
                "$schema": DIALECT,
                "title": title,
                **fields.json_schema(fields.shape_of(kind, defaults), names),
            }
        )
        for kind, title in _TITLES.items()
    }
