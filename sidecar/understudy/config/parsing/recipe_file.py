"""Recipes: Markdown files whose front matter says what comes back and where it is offered.

The front matter is TOML between two lines of ``+++`` (the convention of Hugo and Zola). Not YAML:
the standard library reads TOML and no YAML, everything else here is TOML, and so one parser, one
schema and one way of showing the place of a fault serve every file. A file that begins with ``---``
is told so.
"""

from __future__ import annotations

import re

from understudy.config.decode import decode
from understudy.config.shapes import RecipeTable
from understudy.config.sources import Remark, Source
from understudy.model.delegators import Fits, Recipe, Scope

_OPENING = re.compile(rb"\A(?:\xef\xbb\xbf)?\+\+\+[ \t]*\r?\n")
_CLOSING = re.compile(rb"^\+\+\+[ \t]*\r?$", re.MULTILINE)


def read_recipe(source: Source, name: str, scope: Scope) -> tuple[Recipe | None, Source, list[Remark]]:
    """Return the recipe a file holds, the source that knows its front matter's places, and what is wrong."""
    found = front_matter(source.data)
    if found is None:
        yaml = source.data.lstrip().startswith(b"---")
        hint = "Put TOML between two lines of +++" + (" instead of YAML between lines of ---." if yaml else ".")
        return None, source, [source.problem("A recipe begins with its front matter.", hint=hint, code="syntax")]
    start, end = found
    if end is None:
        return None, source, [source.problem("The front matter has no closing +++.", code="syntax")]
    source = Source(source.path, source.data, start=start, end=end)
    value, problems = source.parse()
    if value is None:
        return None, source, problems
    table = decode(value, RecipeTable, source, (), problems)
    if table is None:
        return None, source, problems
    try:
        prompt = source.data[end:].partition(b"+++")[2].decode().replace("\r\n", "\n").strip()
    except UnicodeDecodeError:
        message = "The file is not UTF-8 text."
        return None, source, [source.problem(message, hint="Save it as UTF-8.", code="syntax")]
    if not prompt:
        hint = "Write the instructions below the +++."
        return None, source, [source.problem("The recipe has no text.", hint=hint, code="missing")]
    if table.route is not None:
        hint = "Name a `delegator`."
        at = source.where(("route",), key=True)
        message = "`route` is not supported yet."
        problems.append(source.problem(message, hint=hint, at=at, code="no_effect", about=("route",)))
        return None, source, problems
    for field in ("writes", "checks"):
        if getattr(table, field) is not None and table.returns == "text":
            message = f"`{field}` has no effect on a recipe that returns text."
            at = source.where((field,), key=True)
            problems.append(source.problem(message, hint="Remove it.", at=at, code="no_effect", about=(field,)))
            return None, source, problems
    fits = table.fits or Fits(on=["file", "selection"])  # where a recipe is offered that does not say
    recipe = Recipe(
        name=name,
        title=table.title,
        returns=table.returns,
        writes=table.writes,
        checks=table.checks,
        delegator=table.delegator,
        fits=fits,
        scope=scope,
        location=source.location(),
        prompt=prompt,
    )
    return recipe, source, problems


def front_matter(data: bytes) -> tuple[int, int | None] | None:
    """Return where in a recipe its TOML begins and ends (``None``: it is not closed), or nothing when there is none."""
    opening = _OPENING.match(data)
    if opening is None:
        return None
    closing = _CLOSING.search(data, opening.end())
    return opening.end(), closing.start() if closing else None
