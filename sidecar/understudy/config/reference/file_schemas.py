"""Render JSON Schemas of configuration files and recipes, for editors that complete TOML with a schema."""

from __future__ import annotations

import functools
import json

from understudy.config.locations import FileKind
from understudy.config.reference import fields

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


@functools.cache
def document(kind: FileKind) -> str:
    """Return the schema of files of this kind; it depends only on the declarations."""
    schema = {"$schema": DIALECT, "title": _TITLES[kind], **fields.json_schema(fields.shape_of(kind))}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
