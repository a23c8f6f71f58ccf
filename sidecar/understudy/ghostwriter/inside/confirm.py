"""Evaluate examples again in a fresh process, without Hypothesis, and perhaps at another date.

Reads one JSON request from standard input; writes ``{"bad": [number, …]}``, with the numbers of the examples that do
not hold, or ``{"bad": null}`` when the module cannot be imported at that date.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def main() -> None:
    """Answer the request."""
    request = json.load(sys.stdin)
    if request["shift"]:
        _move_clock(request["shift"])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    bad: list[int] | None = None
    try:
        bad = _bad(request)
    finally:
        answers.write(json.dumps({"bad": bad}) + "\n")
        answers.close()
        os._exit(0)


def _bad(request: dict[str, Any]) -> list[int]:
    import importlib
    import warnings

    warnings.simplefilter("ignore")
    module = importlib.import_module(request["module"])
    from .audit import Guard
    from .exact import HELPERS
    from .loading import WHOLE, Example, detects, evaluate, run_imports, seen_by

    provided = run_imports(request["provided"], request["examples"])
    guard = Guard([request["root"], sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), *sys.path])
    guard.install()
    guard.start_clocks()
    module_names = {name: vars(module)[name] for name in request["own"] if name in vars(module)}
    scope = {**HELPERS, **module_names, WHOLE: {**HELPERS, **vars(module), **provided}}
    bad = []
    numbered = list(enumerate(request["examples"]))
    for number, described in numbered[::-1] if request["reverse"] else numbered:
        example = Example(described["expression"], tuple(described["setup"]), described["origin"])
        kind, name, text = described["outcome"]
        value = name if kind == "raises" else eval(text, seen_by(example, scope))  # noqa: S307 - exact text
        example.expected = (kind, value, text)
        outcome = evaluate(example, scope, guard)
        if outcome.kind not in {"value", "raises"} or detects(example, outcome, scope):
            bad.append(number)
    return bad


def _move_clock(seconds: float) -> None:
    """Move the clock of this process; ``datetime`` is loaded as pure Python, which asks ``time``."""
    real = {name: getattr(time, name) for name in ("time", "localtime", "gmtime", "ctime", "strftime", "time_ns")}
    sys.modules["_datetime"] = None  # type: ignore[assignment]

    def now() -> float:
        return float(real["time"]()) + seconds

    def with_default(name: str) -> Any:
        return lambda when=None: real[name](now() if when is None else when)

    time.time = now
    time.time_ns = lambda: int(now() * 1e9)
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, with_default(name))
    time.strftime = lambda form, when=None: real["strftime"](form, real["localtime"](now()) if when is None else when)
