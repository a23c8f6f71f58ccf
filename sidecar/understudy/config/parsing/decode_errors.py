"""All that is wrong with a value that could not be decoded. Imported only when something is.

Decoding stops at the first fault and names no place in the file. So, then and only then, the value
is held against the JSON Schema of the same declaration, which finds every fault at once. A message
never repeats a value: a person who writes a key into the wrong field must not find it in a log.
"""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from understudy.config import positions
from understudy.config.sources import Remark, Source

_NAMES = {"string": "a string", "integer": "a whole number", "number": "a number", "boolean": "true or false"}
_NAMES |= {"array": "an array", "object": "a table"}

_KEY_HINT = 'Refer to it instead: api_key = { from_env = "NAME" }, { keyring = "NAME" } or { file = "/PATH" }.'

_KNOWN_STRANGERS = {
    "api_key_env": 'Write api_key = { from_env = "NAME" }.',
    "backend": "Delegators name a `tool` or a `model_server`.",
    "default_model": "Write `model` in the delegator.",
    "extra_headers": "Write `headers`.",
    "timeout": "Write limits = { total_seconds = … } in the delegator.",
    "profiles": "Write [[delegators]] and [[model_servers]].",
}
"""Names that other tools use for something that is here in another place."""


def explain(value: Any, twin: type[msgspec.Struct], source: Source, path: positions.Path, fault: str) -> list[Remark]:
    """Return every problem of ``value``, which stands at ``path`` in ``source`` and does not decode as ``twin``.

    ``fault`` is the decoder's own message, used when the schema finds nothing (``1.0`` for a whole number).
    """
    import jsonschema  # noqa: PLC0415 - 100 ms, and only when there is something to explain

    schema = _without_null(msgspec.json.schema(twin))
    found: list[Remark] = []
    for error in jsonschema.Draft202012Validator(schema).iter_errors(value):
        for leaf in _leaves(error):
            found += _problems(leaf, source, path)
    if not found:
        found = [source.problem(f"{fault.partition(' - at')[0]}.", at=source.where(path), code="wrong_type")]
    unique = {(problem.message, str(problem.location)): problem for problem in found}
    return sorted(unique.values(), key=_place)


def near(name: str, known: Iterable[str]) -> str | None:
    """Return a hint for a name that is not known: what may have been meant, else what there is."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"Did you mean `{close[0]}`?"
    return f"There are: {', '.join(names[:20])}." if names else None


def close(name: str, known: Iterable[str]) -> list[str]:
    """Return what may have been meant by a name that is not known, the likeliest first, at most three."""
    return difflib.get_close_matches(name, sorted(known), n=3)


def _place(problem: Remark) -> tuple[int, int, str]:
    start = problem.location.range.start if problem.location else positions.START.start
    return start.line, start.character, problem.message


def _leaves(error: Any) -> Iterator[Any]:
    """Yield the errors that say something: of alternatives, those of the one that was meant."""
    if error.validator != "anyOf":
        yield error
        return
    deeper = [inner for inner in error.context if inner.validator != "type" or inner.relative_path]
    if not deeper:
        yield error
    for inner in deeper:
        yield from _leaves(inner)


def _problems(error: Any, source: Source, prefix: positions.Path) -> Iterator[Remark]:
    path: positions.Path = (*prefix, *error.absolute_path)
    label = _label(error.absolute_path)
    if error.validator == "additionalProperties":
        known = set(error.schema.get("properties", {}))
        for name in error.instance.keys() - known:
            hint = _KNOWN_STRANGERS.get(name) or near(name, known)
            # A name that the table has already would only be there twice.
            names = close(name, known - error.instance.keys()) if name not in _KNOWN_STRANGERS else []
            at = source.where((*path, name), key=True)
            yield source.problem(
                f"Unknown key `{name}`.", hint=hint, at=at, code="unknown_key", names=names, about=(*path, name)
            )
    elif error.validator == "required":
        for name in error.validator_value:
            if name not in error.instance:
                message = f"`{name}` is missing{_within(label)}."
                yield source.problem(message, at=source.where(path), code="missing", about=(*path, name))
    elif error.validator == "enum":
        allowed = [str(item) for item in error.validator_value]
        hint = near(error.instance, allowed) if isinstance(error.instance, str) else None
        names = (close(error.instance, allowed) if isinstance(error.instance, str) else []) or allowed
        message = f"`{label}` must be one of {', '.join(allowed)}."
        yield source.problem(message, hint=hint, at=source.where(path), code="not_allowed", names=names, about=path)
    elif path and path[-1] == "api_key" and isinstance(error.instance, str):
        message = "A key is never written into a configuration file."
        yield source.problem(message, hint=_KEY_HINT, at=source.where(path), code="secret", about=path)
    else:
        wanted = error.schema.get("anyOf", [error.schema])
        names = [_NAMES.get(_type(kind), "something else") for kind in wanted]
        what = " or ".join(dict.fromkeys(names))
        message = f"{f'`{label}`' if label else 'This'} must be {what}, not {_type_name(error.instance)}."
        yield source.problem(message, at=source.where(path), code="wrong_type", about=path)


def _label(path: Any) -> str:
    return ".".join(str(step) for step in path)


def _within(label: str) -> str:
    return f" in `{label}`" if label else ""


def _type(schema: dict[str, Any]) -> str:
    # References lead to structures only; an enum's values are strings.
    return str(schema.get("type", "object" if "$ref" in schema else "string"))


def _type_name(value: Any) -> str:
    for kind, name in ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"), (list, "array")):
        if isinstance(value, kind):
            return _NAMES[name]
    return "a date" if isinstance(value, dt.date | dt.time) else "a table"


def _without_null(schema: Any) -> Any:
    """Return the schema without its null alternatives: TOML has no null, and messages need not mention it."""
    if isinstance(schema, list):
        return [_without_null(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kinds = schema.get("anyOf")
    if isinstance(kinds, list):
        kinds = [kind for kind in kinds if kind != {"type": "null"}]
        rest = {key: item for key, item in schema.items() if key != "anyOf"}
        if len(kinds) == 1:
            return _without_null({**rest, **kinds[0]})
        return {**rest, "anyOf": [_without_null(kind) for kind in kinds]}
    return {key: _without_null(item) for key, item in schema.items()}
