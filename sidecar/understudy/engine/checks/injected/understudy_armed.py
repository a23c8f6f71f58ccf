"""Raise an exception from broken functions under test once mutation testing is armed.

Broken functions call ``raise_if_armed`` first. It never raises while a module is being imported: a test that only
imports code must not count as a test that can fail. ``MutantError`` is an ``AssertionError``, so that a test which
swallows failed assertions, or all exceptions, survives: it passes whatever the code does.
"""

from __future__ import annotations

import os
import sys
from typing import Optional

ARMED = "UNDERSTUDY_MUTANT_ARMED"
"""Set once armed: the file that records that a broken function raised in a child process of a test."""


class MutantError(AssertionError):
    """Raised by a function that was broken for mutation testing."""


class _State:
    def __init__(self) -> None:
        self.file: Optional[str] = os.environ.get(ARMED)  # noqa: UP045 - Python 3.8
        self.armed = self.file is not None
        self.raised = False


_state = _State()


def arm(file: str) -> None:
    """Make broken functions raise from now on, in this process and its children."""
    watch(file)
    _state.armed = True
    os.environ[ARMED] = file


def watch(file: str) -> None:
    """Make ``has_raised`` check ``file`` for other processes, without arming this one."""
    _state.file = file


def has_raised() -> bool:
    """Return whether a broken function has raised, in this process or its children."""
    if _state.raised or _state.file is None:
        return _state.raised
    try:
        return os.path.getsize(_state.file) > 0  # noqa: PTH202 - only os is imported here
    except OSError:
        return False


def raise_if_armed() -> None:
    """Raise ``MutantError`` if armed and no import is in progress."""
    if not _state.armed or _importing():
        return
    if not _state.raised and _state.file is not None:
        _record_raise(_state.file)
    _state.raised = True
    raise MutantError("Understudy broke this function to check whether a test fails")


def _importing() -> bool:
    frame = sys._getframe(2)  # noqa: SLF001 - the documented way to look at the stack without building a traceback
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        name = frame.f_globals.get("__name__") or ""
        if name.startswith(("_pytest.", "unittest.")):
            return False  # the outer frames are the test runner, which has been imported already
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _record_raise(file: str) -> None:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return  # a test replaced the file system; this process still has ``raised``
    try:
        os.write(descriptor, b"x")
    finally:
        os.close(descriptor)
