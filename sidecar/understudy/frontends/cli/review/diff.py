"""``diff``: print the changes of a delegation as a patch for ``git apply``."""

from __future__ import annotations

import re
import sys
from typing import Any

import click

from understudy.api import result_files
from understudy.frontends.cli import exit_codes, options
from understudy.frontends.cli.api_calls import call, resolve
from understudy.frontends.cli.output import output
from understudy.frontends.cli.review import hunk_targets
from understudy.frontends.cli.terminal import terminal
from understudy.frontends.cli.terminal.pager import paged
from understudy.model.text.path_quoting import quote, unquote

_STYLES: tuple[tuple[bytes, dict[str, Any]], ...] = (
    (b"diff --git ", {"bold": True}),
    (b"--- ", {"bold": True}),
    (b"+++ ", {"bold": True}),
    (b"index ", {"dim": True}),
    (b"@@", {"fg": "cyan"}),
    (b"+", {"fg": "green"}),
    (b"-", {"fg": "red"}),
)
_HEADER = b"diff --git "
"""Four times the size that Understudy writes, because users may write notes below each change."""
_WORDS = re.compile(rb"(?m)^>.*(?:\n|\Z)")


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
def diff(*, identifier: str, paths: tuple[str, ...], stat: bool, json_: bool) -> int:
    """Show what a delegation changed.

    PATHS choose files or folders, relative to the workspace. On a terminal the patch is coloured and shown in $PAGER
    if that is set; otherwise it is printed byte for byte. With --json, prints files and hunks as a `DiffResult`.
    """
    whole = resolve(identifier)
    if json_:
        found = call("delegations/diff", id=whole)
        if paths:
            _refuse_unchanged(paths, [(file.path, file.from_) for file in found.files])
            found.files = [
                file
                for file in found.files
                if _chosen(file.path, paths) or (file.from_ is not None and _chosen(file.from_, paths))
            ]
        output.json(found)
        return exit_codes.Exit.OK
    delegation = call("delegations/get", id=whole)
    files = delegation.result.files if delegation.result else []
    if paths:
        _refuse_unchanged(paths, [(file.path, None) for file in files])
    if stat:
        rows = [file for file in files if not paths or _chosen(file.path, paths)]
        output.table(
            ("STATUS", "+", "-", "PATH"),
            [(f.status, f"+{f.additions}", f"-{f.deletions}", terminal.path(f.path)) for f in rows],
        )
        return exit_codes.Exit.OK
    patch = _patch(whole)
    if paths:
        names = {file.path for file in files if _chosen(file.path, paths)}
        patch = b"".join(part for part in split(patch) if concerns(part, names))
    if not terminal.is_terminal(sys.stdout):
        click.echo(patch, nl=False)
        return exit_codes.Exit.OK
    if not patch:
        click.echo("Nothing changed.")
        return exit_codes.Exit.OK
    with paged() as write:
        write(coloured(patch, output.paint()))
    return exit_codes.Exit.OK


def coloured(patch: bytes, paint: terminal.Paint) -> str:
    """Return a patch as coloured text for a terminal, with control characters shown visibly."""
    rows = []
    in_hunk = False
    for line in patch.split(b"\n"):
        in_hunk = line.startswith(b"@@") or (in_hunk and not line.startswith(_HEADER))
        # Inside a hunk, `--- x` is the removed line `-- x`.
        styles = _STYLES[4:] if in_hunk else _STYLES
        style: dict[str, Any] = next((style for prefix, style in styles if line.startswith(prefix)), {})
        text = terminal.visible(line.decode("utf-8", "replace"))
        rows.append(paint(text, **style) if style and text else text)
    return "\n".join(rows)


def split(patch: bytes) -> list[bytes]:
    """Split a patch into one part per file, at ``diff --git``; content lines have a prefix, so none begins with it."""
    if not patch:
        return []
    starts = [0]
    place = patch.find(b"\n" + _HEADER)
    while place >= 0:
        starts.append(place + 1)
        place = patch.find(b"\n" + _HEADER, place + 1)
    return [patch[start:end] for start, end in zip(starts, [*starts[1:], len(patch)], strict=True)]


def without_words(review: bytes) -> bytes:
    """Return only the patch of a ``review.diff``, without its header and the user's notes.

    Notes begin with ``>``, and no line of a patch does.
    """
    start = 0 if review.startswith(_HEADER) else review.find(b"\n" + _HEADER) + 1
    patch = review[start:] if start or review.startswith(_HEADER) else b""
    return _WORDS.sub(b"", patch)


def concerns(part: bytes, names: set[str]) -> bool:
    """Return whether one file's part of a patch is about a path in ``names`` (quoted as on the wire)."""
    header = part.partition(b"\n")[0]
    if header.endswith(b'"'):  # git quotes all but plain ASCII
        quoted = header[header.rindex(b' "b/') + 1 :].decode("ascii")
        return quote(unquote(quoted)[len(b"b/") :]) in names
    return any(header.endswith(b" b/" + name.encode()) for name in names)


def _refuse_unchanged(paths: tuple[str, ...], changed: list[tuple[str, str | None]]) -> None:
    """Raise ``invalid_params`` for a path that the result does not change."""
    for path in paths:
        everything = path.rstrip("/") in {"", "."}
        either = [one for pair in changed for one in pair if one is not None]
        if not everything and not any(hunk_targets.concerns(one, path) for one in either):
            raise hunk_targets.not_changed(path, [one for one, _ in changed])


def _chosen(path: str, chosen: tuple[str, ...]) -> bool:
    return any(hunk_targets.concerns(path, one) for one in chosen)


def _patch(identifier: str) -> bytes:
    return without_words(result_files.read_review(identifier))
