"""The person's pager, where they set one."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator

import click

from understudy.faces.cli import terminal


@contextlib.contextmanager
def paged() -> Iterator[Callable[[str], None]]:
    """Give a function that writes through ``$PAGER`` on a terminal, plainly where there is none.

    The variable's words become an argument vector; a shell never sees them. Beside the editor this is the one program
    that a face starts: it needs the person's own terminal and environment, which ``process`` never hands on.
    """
    argv = _argv()
    if not argv:
        yield _echo
        return
    # What git does for the same reason: colours pass, and a short text does not need a key to leave.
    environment = {"LESS": "FRX"} | dict(os.environ)
    try:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, env=environment, text=True, errors="replace")
    except OSError:
        yield _echo
        return
    pipe = process.stdin
    assert pipe is not None  # noqa: S101 - stdin=PIPE above
    try:
        with contextlib.suppress(BrokenPipeError):
            yield lambda text: (pipe.write(text), None)[1]
    finally:
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
        # Ctrl-C is the pager's own key while it has the terminal.
        while True:
            with contextlib.suppress(KeyboardInterrupt):
                process.wait()
                break


def _argv() -> list[str]:
    if not (terminal.is_terminal(sys.stdout) and terminal.is_terminal(sys.stdin)):
        return []
    try:
        return shlex.split(os.environ.get("PAGER", ""))
    except ValueError:
        return []


def _echo(text: str) -> None:
    click.echo(text, nl=not text.endswith("\n"))
