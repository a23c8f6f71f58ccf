"""Decode a parsed value as a structure: fast for valid values, with all problems for invalid ones."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from understudy.config import findings
from understudy.config.findings import LocatedFinding
from understudy.config.parsing import file_schema
from understudy.config.parsing.source_file import Source, unusable_value

_Thing = TypeVar("_Thing", bound=msgspec.Struct)


def decode(
    value: Any, structure: type[_Thing], source: Source, path: findings.KeyPath, problems: list[LocatedFinding]
) -> _Thing | None:
    """Return ``value`` as ``structure``, or ``None`` after adding all problems to ``problems``."""
    unusable = unusable_value(value)
    if unusable is not None:
        where, why = unusable
        label = ".".join(map(str, where)) or "The value"
        problems.append(source.problem(f"`{label}` {why}.", at=source.where((*path, *where))))
        return None
    value, twice = file_schema.rename_aliases(value, structure)
    for name in twice:
        other = next(ours for ours, theirs in file_schema.SPELLINGS.items() if theirs == name)
        at = source.where((*path, name), key=True)
        message = f"`{name}` and `{other}` set the same field."
        problems.append(source.problem(message, hint="Remove one.", at=at, code="duplicate"))
    if twice:
        return None
    try:
        return file_schema.from_file(value, structure)
    except msgspec.ValidationError as error:
        from understudy.config.parsing import decode_errors as explanations

        problems += explanations.explain(value, file_schema.file_type(structure), source, path, str(error))
        return None
