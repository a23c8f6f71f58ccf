"""Texts that evaluate to exactly a value, and comparison of outcomes with what a test asserts."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import math
from typing import Any

LONGEST = 400
DEEPEST = 5
HELPERS: dict[str, Any] = {"datetime": datetime, "decimal": decimal, "fractions": fractions}
"""Modules that a text may name besides the module under test."""
PLAIN = (int, str, bool, bytes, type(None))
DERIVED = (int, float, str, bytes, tuple, list, dict, set, frozenset)
"""Plain types: an object of a derived class may equal an object of these."""
DATED = (datetime.date, datetime.datetime, datetime.timedelta, datetime.time, decimal.Decimal, fractions.Fraction)


def exact(value: Any, names: dict[str, Any], depth: int = DEEPEST) -> str | None:
    """Return a text that evaluates to ``value``, or None when it has no short exact one.

    ``names`` are those of the module under test, for its enumerations and named tuples.
    """
    text = _text(value, names, depth)
    return text if text is not None and len(text) <= LONGEST else None


def _text(value: Any, names: dict[str, Any], depth: int) -> str | None:
    kind = type(value)
    if kind is str:
        return repr(value) if len(value) <= LONGEST and not any("\ud800" <= c <= "\udfff" for c in value) else None
    if kind is int:
        return repr(value) if abs(value) < 10**40 else None
    if kind in PLAIN:
        return repr(value)
    if kind is float:
        return repr(value) if math.isfinite(value) else None
    if kind is complex:
        return repr(value) if math.isfinite(value.real) and math.isfinite(value.imag) else None
    if kind in DATED:
        text = repr(value)
        prefix = {decimal.Decimal: "decimal.", fractions.Fraction: "fractions."}.get(kind, "")
        if names.get(kind.__name__) is kind:  # such as after `from datetime import datetime`
            prefix, text = "", text.replace(f"datetime.{kind.__name__}", kind.__name__, 1)
        return prefix + text if "tzinfo" not in text and "nan" not in text.lower() else None
    if kind is range:
        return repr(value)
    if isinstance(value, enum.Enum) and names.get(kind.__name__) is kind:
        return f"{kind.__name__}.{value.name}" if value.name else None
    if depth == 0:
        return None
    container = _container(value, names, depth - 1)
    plain = _as_plain(value) if container is None else None
    return container if plain is None else _text(plain, names, depth - 1)


def _as_plain(value: Any) -> Any:
    """Return the equal object of a plain type, such as the tuple that a named tuple equals; None if there is none."""
    kind = type(value)
    base: Any = next((base for base in DERIVED if isinstance(value, base)), None)
    if base is None or kind is base:
        return None
    same = all(_defined(kind, name) is _defined(base, name) for name in ("__eq__", "__iter__"))
    if not same and kind not in (collections.OrderedDict, collections.Counter):
        return None
    if base in (int, float):
        return getattr(base, f"__{base.__name__}__")(value)
    return base.__getitem__(value, slice(None)) if base in (str, bytes) else base(value)


def _defined(kind: type, name: str) -> Any:
    """Return what a class defines or inherits, not what its metaclass does."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _container(value: Any, names: dict[str, Any], depth: int) -> str | None:
    kind = type(value)
    if kind is dict:
        if len(value) > 60:
            return None
        pairs = [(_text(k, names, depth), _text(v, names, depth)) for k, v in value.items()]
        return "{" + ", ".join("{}: {}".format(*pair) for pair in pairs) + "}" if _complete(pairs) else None
    named = isinstance(value, tuple) and hasattr(kind, "_fields") and names.get(kind.__name__) is kind
    if kind not in (list, tuple, set, frozenset) and not named:
        return None
    if len(value) > 60:
        return None
    texts = [_text(item, names, depth) for item in value]
    if any(text is None for text in texts):
        return None
    complete = [text for text in texts if text is not None]
    if named:
        return "{}({})".format(kind.__name__, ", ".join("{}={}".format(*pair) for pair in zip(kind._fields, complete)))
    if kind is list:
        return "[" + ", ".join(complete) + "]"
    if kind is tuple:
        return "(" + ", ".join(complete) + ("," if len(complete) == 1 else "") + ")"
    inner = "{" + ", ".join(sorted(complete)) + "}" if complete else "set()"
    return inner if kind is set else "frozenset({})".format(inner if complete else "")


def _complete(pairs: list[tuple[str | None, str | None]]) -> bool:
    return all(key is not None and value is not None for key, value in pairs)


def agrees(expected: Any, actual: Any) -> bool:
    """Return whether an assertion that recorded ``expected`` holds for ``actual``."""
    if expected is None or type(expected) is bool:
        return actual is expected
    try:
        return bool(actual == expected)
    except Exception:
        return False
