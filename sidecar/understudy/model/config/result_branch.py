"""The name of the branch on which a verified result is kept (``launch.branch``)."""

from __future__ import annotations

import re

PLACEHOLDERS = ("{id}", "{recipe}", "{delegator}")
_STRANGE = re.compile(r"[^A-Za-z0-9._@+-]")
"""A character that no part between slashes has. git allows more (``git check-ref-format``); names rarely need it."""
_MOST_CHARACTERS = 200


def filled(template: str, identifier: str, recipe: str, delegator: str) -> str:
    """Return the name for one delegation."""
    values = dict(zip(PLACEHOLDERS, (identifier, recipe, delegator), strict=True))
    return re.sub("|".join(map(re.escape, PLACEHOLDERS)), lambda match: values[match[0]], template)


def why_invalid(template: str) -> str | None:
    """Return why ``template`` does not become the name of a branch, another one for each delegation; None if it does.

    The text goes on after the name of the option: "`branch` …".
    """
    unknown = next(
        (placeholder for placeholder in re.findall(r"\{[^{}]*\}", template) if placeholder not in PLACEHOLDERS), None
    )
    if unknown is not None:
        return f"has no placeholder {unknown}; there are {', '.join(PLACEHOLDERS)}."
    if "{id}" not in template:
        return "must contain `{id}`, so that each result has its own branch."
    name = filled(template, "20260101-000000-abcde", "tests", "worker")
    if len(name) > _MOST_CHARACTERS:
        return f"must not be longer than {_MOST_CHARACTERS} characters."
    if name.startswith("-"):
        return "must not begin with a hyphen."
    for part in name.split("/"):
        if not part:
            return "must not begin or end with a slash, or contain two in a row."
        if (strange := _STRANGE.search(part)) is not None:
            return f"must not contain {strange[0]!r}: letters, digits and . _ - @ + / are allowed."
        if ".." in part or part.startswith(".") or part.endswith("."):
            return "must not contain two dots in a row, or a dot at the beginning or end of a part."
        if part.endswith(".lock"):
            return "must not have a part that ends with .lock."
    return None
