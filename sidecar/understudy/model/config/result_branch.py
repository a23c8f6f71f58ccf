"""The name of the branch on which a verified result is kept (``launch.branch``)."""

from __future__ import annotations

import re

PLACEHOLDERS = ("{id}", "{recipe}", "{delegator}")
_PART = re.compile(r"(?!\.)[A-Za-z0-9._@+-]+(?<!\.)(?<!\.lock)")
"""A part between slashes. git allows more (``git check-ref-format``), but nothing that anyone names a branch."""


def filled(template: str, identifier: str, recipe: str, delegator: str) -> str:
    """Return the name for one delegation."""
    values = dict(zip(PLACEHOLDERS, (identifier, recipe, delegator), strict=True))
    return re.sub("|".join(map(re.escape, PLACEHOLDERS)), lambda found: values[found[0]], template)


def is_valid(template: str) -> bool:
    """Return whether ``template`` becomes the name of a branch, and of another one for each delegation."""
    name = filled(template, "20260101-000000-abcde", "tests", "worker")
    parts = name.split("/")
    return (
        "{id}" in template
        and all(_PART.fullmatch(part) for part in parts)
        and not name.startswith("-")
        and (".." not in name and "@{" not in name and len(name) <= 200)
    )
