"""Asking a person whether a workspace may run something; ``start`` and ``trust`` share it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from understudy.faces.cli import terminal
from understudy.faces.cli.calls import call


def describe(workspace: Path, *, to_stderr: bool = False) -> Any:
    """Print how a workspace stands and what trusting it allows; return the ``TrustResult``."""
    standing = call("workspace/trust", workspace=str(workspace))
    word = "is trusted" if standing.trusted else "is not trusted"
    click.echo(f"{terminal.one_line(str(workspace))} {word}.", err=to_stderr)
    if standing.allows:
        click.echo("Trusting it allows:" if not standing.trusted else "It may:", err=to_stderr)
        for line in standing.allows:
            click.echo(f"  - {terminal.one_line(line)}", err=to_stderr)
    if standing.changed:
        click.echo("Different from what you trusted before:", err=to_stderr)
        for line in standing.changed:
            click.echo(f"  ~ {terminal.one_line(line)}", err=to_stderr)
    return standing


def can_ask() -> bool:
    """Tell whether a person sits at both ends: a question on stderr, an answer from stdin."""
    return terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stderr)


def ask(workspace: Path) -> bool:
    """Show what trusting ``workspace`` allows and ask once; record a yes. Returns whether it is trusted now."""
    standing = describe(workspace, to_stderr=True)
    if standing.trusted:
        return True
    if not click.confirm("Trust this folder?", default=False, err=True):
        return False
    return record(workspace, trusted=True, seen=standing.seen)


def record(workspace: Path, *, trusted: bool, seen: str | None = None) -> bool:
    """Trust ``workspace``, or withdraw it; return how it stands then. ``seen``: only exactly what was shown."""
    return bool(call("workspace/trust", workspace=str(workspace), trusted=trusted, seen=seen).trusted)
