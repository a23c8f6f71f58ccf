"""Ask whether to trust a workspace, for ``start`` and ``trust``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from understudy.frontends.cli.calls.api_calls import call
from understudy.frontends.cli.terminal import terminal


def describe(workspace: Path, *, to_stderr: bool = False) -> Any:
    """Print whether a workspace is trusted and the effects of trusting it; return the ``TrustResult``."""
    trust_status = call("workspace/trust", workspace=str(workspace))
    word = "is trusted" if trust_status.trusted else "is not trusted"
    click.echo(f"{terminal.one_line(str(workspace))} {word}.", err=to_stderr)
    if trust_status.effects:
        click.echo("Trusting it allows:" if not trust_status.trusted else "It is allowed to:", err=to_stderr)
        for line in trust_status.effects:
            click.echo(f"  - {terminal.one_line(line)}", err=to_stderr)
    if trust_status.changed:
        click.echo("Changed since you trusted it:", err=to_stderr)
        for line in trust_status.changed:
            click.echo(f"  ~ {terminal.one_line(line)}", err=to_stderr)
    return trust_status


def workspace_of(named: str) -> Path:
    """Return the workspace of a file or folder (URI or absolute path): what trust is given to."""
    return Path(call("workspace/trust", workspace=named).workspace)


def can_ask() -> bool:
    """Return whether questions can be asked: stdin and stderr are a terminal."""
    return terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stderr)


def ask(workspace: Path) -> bool:
    """Show the effects of trusting ``workspace``, ask once, record a yes; return whether it is trusted now."""
    trust_status = describe(workspace, to_stderr=True)
    if trust_status.trusted:
        return True
    if not confirm():
        return False
    return record(workspace, trusted=True, digest=trust_status.digest)


def confirm() -> bool:
    """Ask whether to trust the folder that was described."""
    return click.confirm("Trust this folder?", default=False, err=True)


def record(workspace: Path, *, trusted: bool, digest: str | None = None) -> bool:
    """Trust ``workspace``, or revoke it; return whether it is trusted. ``digest``: only exactly what was shown."""
    return bool(call("workspace/trust", workspace=str(workspace), trusted=trusted, digest=digest).trusted)
