"""From a parsed value to a structure: fast when it is right, thorough when it is not."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from understudy.config import positions, shapes
from understudy.config.sources import Remark, Source, unusable_value

_Thing = TypeVar("_Thing", bound=msgspec.Struct)


def decode(
    value: Any, structure: type[_Thing], source: Source, path: positions.Path, problems: list[Remark]
) -> _Thing | None:
    """Return ``value`` as ``structure``, or ``None`` after adding everything that is wrong to ``problems``."""
    unusable = unusable_value(value)
    if unusable is not None:
        where, why = unusable
        label = ".".join(map(str, where)) or "The value"
        problems.append(source.problem(f"`{label}` {why}.", at=source.where((*path, *where))))
        return None
    value, twice = shapes.rename_aliases(value, structure)
    for name in twice:
        other = next(ours for ours, theirs in shapes.SPELLINGS.items() if theirs == name)
        at = source.where((*path, name), key=True)
        message = f"`{name}` and `{other}` say the same thing."
        problems.append(source.problem(message, hint="Remove one.", at=at, code="duplicate", about=(*path, name)))
    if twice:
        return None
    try:
        return shapes.from_file(value, structure)
    except msgspec.ValidationError as error:
        from understudy.config import problems as explanations  # noqa: PLC0415 - only when something is wrong

        problems += explanations.explain(value, shapes.twin(structure), source, path, str(error))
        return None
