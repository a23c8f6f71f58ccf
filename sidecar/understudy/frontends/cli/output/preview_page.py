"""Print what a start or a request would send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import terminal


def show(found: Any, *, as_json: bool, left_out: Sequence[tuple[str, str]] = ()) -> None:
    """Print a ``PreviewResult``; ``left_out`` are files that are not part of it, and why."""
    if as_json:
        output.json(found)
        return
    click.echo(f"To {found.explain.delegator}: {terminal.one_line(found.explain.reason)}")
    for candidate in found.explain.candidates:
        if candidate.skipped_because:
            click.echo(f"  not {candidate.name}: {terminal.one_line(candidate.skipped_because)}")
    if found.explain.fallback:
        click.echo(f"  then, if it cannot work: {', '.join(found.explain.fallback)}")
    click.echo()
    rows = [
        (file.path, str(file.bytes), str(file.tokens), f"withheld: {file.withheld}" if file.withheld else "")
        for file in found.files
    ]
    rows += [(name, "", "", f"left out: {why}") for name, why in left_out]
    output.table(("FILE", "BYTES", "TOKENS", ""), rows)
    if not found.prompt:
        click.echo("\nNo prompt is sent: it works without a model and reads only the files.")
        return
    click.echo(f"\nAbout {found.tokens} tokens. The prompt:\n")
    click.echo(terminal.sanitize(found.prompt))
