"""``diff``: print the changes of a delegation as a patch for ``git apply``."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any

import click

from understudy.api import result_files
from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.frontends.cli.output import output
from understudy.frontends.cli.review import hunk_targets
from understudy.frontends.cli.terminal import terminal
from understudy.model.text import patches

_STYLES: tuple[tuple[bytes, dict[str, Any]], ...] = (
    (b"diff --git ", {"bold": True}),
    (b"--- ", {"bold": True}),
    (b"+++ ", {"bold": True}),
    (b"index ", {"dim": True}),
    (b"@@", {"fg": "cyan"}),
    (b"+", {"fg": "green"}),
    (b"-", {"fg": "red"}),
)


@click.command(
    epilog=options.examples(
        "understudy diff k3f9q",
        "understudy diff k3f9q --stat",
        "understudy diff k3f9q -- tests/",
        "understudy diff k3f9q | git apply",
    )
)
@options.identifier
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("--stat", is_flag=True, help="Print only files and counts.")
@options.as_json
def diff(*, identifier: str, paths: tuple[str, ...], stat: bool, json_: bool) -> None:
    """Show what a delegation changed.

    PATHS choose files or folders, relative to the workspace. On a terminal the patch is coloured and shown in $PAGER
    if that is set; otherwise it is printed byte for byte. With --json, prints files and hunks as a `DiffResult`.
    """
    whole = resolve(identifier)
    if json_:
        result = call("delegations/diff", id=whole)
        if paths:
            _refuse_unchanged(paths, [(file.path, file.from_) for file in result.files])
            result.files = [
                file
                for file in result.files
                if _chosen(file.path, paths) or (file.from_ is not None and _chosen(file.from_, paths))
            ]
        output.json(result)
        return
    delegation = call("delegations/get", id=whole)
    files = delegation.result.files if delegation.result else []
    if paths:
        _refuse_unchanged(paths, [(file.path, None) for file in files])
    if stat:
        rows = [file for file in files if not paths or _chosen(file.path, paths)]
        output.table(
            ("STATUS", "+", "-", "PATH"),
            [(f.status, f"+{f.additions}", f"-{f.deletions}", terminal.path(f.path)) for f in rows],
            empty="Nothing changed.",
        )
        return
    patch = _patch(whole)
    if paths:
        names = {file.path for file in files if _chosen(file.path, paths)}
        patch = b"".join(part for part in patches.split(patch) if patches.concerns(part, names))
    if not terminal.is_terminal(sys.stdout):
        click.echo(patch, nl=False)
        return
    if not patch:
        click.echo("Nothing changed.")
        return
    show(patch)


def show(patch: bytes) -> None:
    """Print a patch in colours on this terminal, through ``$PAGER`` if that is a command."""
    text = coloured(patch, output.paint())
    try:
        pager = shlex.split(os.environ.get("PAGER", ""))
    except ValueError:  # a quotation mark is missing
        pager = []
    if pager:
        os.environ.setdefault("LESS", "FRX")  # as git does: pass colours through, and exit at once for a short text
        click.echo_via_pager(text.removesuffix("\n"), color=True)
    else:
        click.echo(text, nl=not text.endswith("\n"))


def coloured(patch: bytes, paint: terminal.Paint) -> str:
    """Return a patch as coloured text for a terminal, with control characters shown visibly."""
    rows = []
    in_hunk = False
    for line in patch.split(b"\n"):
        in_hunk = line.startswith(b"@@") or (in_hunk and not line.startswith(patches.HEADER))
        # Inside a hunk, `--- x` is the removed line `-- x`.
        styles = _STYLES[4:] if in_hunk else _STYLES
        style: dict[str, Any] = next((style for prefix, style in styles if line.startswith(prefix)), {})
        text = terminal.visible(line.decode("utf-8", "replace"))
        rows.append(paint(text, **style) if style and text else text)
    return "\n".join(rows)


def _refuse_unchanged(paths: tuple[str, ...], changed: list[tuple[str, str | None]]) -> None:
    """Raise ``invalid_params`` for a path that the result does not change."""
    for path in paths:
        everything = path.rstrip("/") in {"", "."}
        either = [name for pair in changed for name in pair if name is not None]
        if not everything and not any(hunk_targets.concerns(name, path) for name in either):
            raise hunk_targets.not_changed(path, [name for name, _ in changed])


def _chosen(path: str, chosen: tuple[str, ...]) -> bool:
    return any(hunk_targets.concerns(path, name) for name in chosen)


def _patch(identifier: str) -> bytes:
    return patches.without_notes(result_files.read_review(identifier))
