"""Read recipes: Markdown files whose front matter says what they return and where they are offered.

The front matter is TOML between two lines of ``+++`` (the convention of Hugo and Zola). It is not YAML, because
the standard library reads only TOML and all other files here are TOML: one parser, one
schema and one way to show the place of an error serve every file. A file that begins with ``---``
gets a hint about this.
"""

from __future__ import annotations

import re

from understudy.config.findings import LocatedFinding
from understudy.config.parsing.decode import decode
from understudy.config.parsing.file_schema import RecipeTable
from understudy.config.parsing.source_file import Source
from understudy.config.validation import recipe_rules
from understudy.model.config.delegators import Scope
from understudy.model.config.recipes import AppliesTo, Recipe

_OPENING = re.compile(rb"\A(?:\xef\xbb\xbf)?\+\+\+[ \t]*\r?\n")
_CLOSING = re.compile(rb"^\+\+\+[ \t]*\r?$", re.MULTILINE)


def read_recipe(source: Source, name: str, scope: Scope) -> tuple[Recipe | None, Source, list[LocatedFinding]]:
    """Return the recipe in a file, the source that knows the places of its front matter, and the problems."""
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
    for field in ("writes", "checks"):
        if getattr(table, field) is not None and table.returns == "text":
            message = f"`{field}` has no effect on a recipe that returns text."
            at = source.where((field,), key=True)
            problems.append(source.problem(message, hint="Remove it.", at=at, code="no_effect"))
            return None, source, problems
    wrong = recipe_rules.check_rounds(table.rounds, table.returns)
    if wrong is not None:
        at = source.where(("rounds",), key=True)
        problems.append(source.problem(wrong.message, hint=wrong.hint, at=at, code=wrong.code))
        return None, source, problems
    applies_to = table.applies_to or AppliesTo(on=["file", "selection"])  # the default
    recipe = Recipe(
        name=name,
        title=table.title,
        returns=table.returns,
        writes=table.writes,
        checks=table.checks,
        delegator=table.delegator,
        rounds=table.rounds,
        applies_to=applies_to,
        needs=table.needs,
        judged_by=table.judged_by,
        changes=table.changes,
        action=table.action,
        order=table.order,
        scope=scope,
        location=source.location(),
        prompt=prompt,
    )
    return recipe, source, problems


def front_matter(data: bytes) -> tuple[int, int | None] | None:
    """Return where the TOML of a recipe begins and ends (``None``: it is not closed); None without front matter."""
    opening = _OPENING.match(data)
    if opening is None:
        return None
    closing = _CLOSING.search(data, opening.end())
    return opening.end(), closing.start() if closing else None
