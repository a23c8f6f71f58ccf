"""The user's pager."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator

import click

from understudy.frontends.cli.terminal import terminal


@contextlib.contextmanager
def paged() -> Iterator[Callable[[str], None]]:
    """Yield a function that writes through ``$PAGER`` on a terminal, and directly to stdout otherwise.

    The variable is split into an argument vector without a shell. The editor and the pager are the only programs that
    a frontend starts itself: they need the user's terminal and environment, which ``process`` never passes on.
    """
    argv = _argv()
    if not argv:
        yield _echo
        return
    # As git does: pass colours through, and exit at once for a short text.
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
        # Ctrl-C belongs to the pager while it has the terminal.
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
