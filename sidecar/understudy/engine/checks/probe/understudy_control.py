"""What a function under test calls first during the control run, and what it raises.

It raises only when it is armed, and never while a module is being imported: a test that does nothing but import must
not count as one that can fail. ``ControlError`` is an ``AssertionError``, the most ordinary of them all: a test that
swallows failed assertions, or every exception, passes whatever the code does, so it has to survive here as well.
"""

from __future__ import annotations

import os
import sys
from typing import Optional

ARMED = "UNDERSTUDY_CONTROL_ARMED"
"""Set once armed: the file in which processes that tests start (a command line under test) leave their mark."""


class ControlError(AssertionError):
    """The code under test, broken on purpose."""


class _Control:
    def __init__(self) -> None:
        self.file: Optional[str] = os.environ.get(ARMED)  # noqa: UP045 - Python 3.8
        self.armed = self.file is not None
        self.raised = False


_control = _Control()


def arm(file: str) -> None:
    """Let the code under test raise from now on, here and in every process started from here."""
    watch(file)
    _control.armed = True
    os.environ[ARMED] = file


def watch(file: str) -> None:
    """Ask ``file`` whether the code under test has raised in another process, without arming this one."""
    _control.file = file


def has_bitten() -> bool:
    """Say whether the code under test has raised, here or in a process started from here."""
    if _control.raised or _control.file is None:
        return _control.raised
    try:
        return os.path.getsize(_control.file) > 0  # noqa: PTH202 - nothing but os is loaded here
    except OSError:
        return False


def bite() -> None:
    """Raise ``ControlError`` when armed and no import is going on."""
    if not _control.armed or _importing():
        return
    if not _control.raised and _control.file is not None:
        _leave_mark(_control.file)
    _control.raised = True
    raise ControlError("this function was broken on purpose, to see whether a test notices")


def _importing() -> bool:
    frame = sys._getframe(2)  # noqa: SLF001 - the documented way to look at the stack without building a traceback
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        name = frame.f_globals.get("__name__") or ""
        if name.startswith(("_pytest.", "unittest.")):
            return False  # what lies further out is the test runner, which was imported long ago
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _leave_mark(file: str) -> None:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return  # a test that took the file system away; this process remembers by itself
    try:
        os.write(descriptor, b"x")
    finally:
        os.close(descriptor)
