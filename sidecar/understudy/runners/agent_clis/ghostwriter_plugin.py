"""A pytest plugin for the ghostwriter: reports each test's outcome and, if asked, breaks the code under test.

It runs in the project's Python, copied into a separate folder. It breaks functions after the tests are collected, so
that importing still works: a test that passes then tests nothing.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
from pathlib import Path
from typing import Any

OUTCOMES: dict[str, str] = {}


class BrokenOnPurpose(Exception):  # noqa: N818 - what it says is what it is
    """Raised by every function of the code under test."""


def pytest_runtest_logreport(report: Any) -> None:
    """Record the worst outcome of each test."""
    if (report.when == "call" or report.outcome != "passed") and OUTCOMES.get(report.nodeid) in {None, "passed"}:
        OUTCOMES[report.nodeid] = report.outcome


def pytest_sessionfinish() -> None:
    """Write the report."""
    Path(os.environ["GHOSTWRITER_REPORT"]).write_text(json.dumps(OUTCOMES), "utf-8")


def pytest_collection_finish() -> None:
    """Break the module that ``GHOSTWRITER_BREAK`` names, including its classes."""
    name = os.environ.get("GHOSTWRITER_BREAK")
    if not name:
        return
    module = importlib.import_module(name)
    classes = [value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == name]
    for holder in (module, *classes):
        for key, value in list(vars(holder).items()):
            # Methods that dataclasses and the like generate contain no code to test.
            if inspect.isfunction(value) and value.__code__.co_filename == module.__file__:
                setattr(holder, key, _broken(value))
            elif isinstance(value, staticmethod | classmethod):
                setattr(holder, key, type(value)(_broken(value.__func__)))


def _broken(function: Any) -> Any:
    @functools.wraps(function)
    def raises(*_: Any, **__: Any) -> Any:
        raise BrokenOnPurpose(function.__qualname__)

    return raises
