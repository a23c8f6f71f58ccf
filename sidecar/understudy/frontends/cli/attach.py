"""``attach``: show the terminal of an agent that runs in tmux."""

from __future__ import annotations

import os
import sys

import click

from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.model.errors import ErrorKind, UnderstudyError


@click.command(epilog=options.examples("understudy attach k3f9q"))
@options.identifier
def attach(*, identifier: str) -> int:
    """Show the terminal of an agent that runs in tmux.

    In the same tmux, its pane becomes the active one; in any other terminal, tmux attaches to it. Detach with `C-b d`:
    the agent goes on.
    """
    if not os.environ.get("TMUX") and not sys.stdout.isatty():
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            "`attach` needs a terminal.",
            hint=f"Run it in one, or follow the delegation: understudy watch {identifier}",
        )
    here = f"{os.environ['TMUX']} {os.environ.get('TMUX_PANE', '')}" if os.environ.get("TMUX") else None
    argv = call("delegations/attach", id=resolve(identifier), tmux=here).argv
    # In another tmux, tmux refuses to start inside itself.
    environment = {name: value for name, value in os.environ.items() if name not in {"TMUX", "TMUX_PANE"}}
    try:
        os.execve(argv[0], argv, environment)  # noqa: S606 - no shell is intended
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.TOOL_MISSING, f"{argv[0]} cannot be started: {error.strerror}.", hint="Check your tmux."
        ) from None
