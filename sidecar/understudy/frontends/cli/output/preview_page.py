"""Print what a start or a request would send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import terminal


def show(preview: Any, *, as_json: bool, left_out: Sequence[tuple[str, str]] = ()) -> None:
    """Print a ``PreviewResult``; ``left_out`` are files that are not part of it, and why."""
    if as_json:
        output.json(preview)
        return
    click.echo(f"To {preview.explain.delegator}: {terminal.one_line(preview.explain.reason)}")
    for candidate in preview.explain.candidates:
        if candidate.skipped_because:
            click.echo(f"  not {candidate.name}: {terminal.one_line(candidate.skipped_because)}")
    if preview.explain.fallback:
        click.echo(f"  then, if it cannot work: {', '.join(preview.explain.fallback)}")
    click.echo()
    rows = [
        (file.path, str(file.bytes), str(file.tokens), f"withheld: {file.withheld}" if file.withheld else "")
        for file in preview.files
    ]
    rows += [(name, "", "", f"left out: {why}") for name, why in left_out]
    output.table(("FILE", "BYTES", "TOKENS", ""), rows)
    if not preview.prompt:
        click.echo("\nNo prompt is sent: it works without a model and reads only the files.")
        return
    click.echo(f"\nAbout {preview.tokens} tokens. The prompt:\n")
    click.echo(terminal.sanitize(preview.prompt))
