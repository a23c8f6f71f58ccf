"""``diff``: what a delegation changed, as a patch that ``git apply`` takes."""

from __future__ import annotations

import re
import sys
from typing import Any

import click

from understudy.faces.cli import exits, options, output, targets, terminal
from understudy.faces.cli.calls import call, resolve
from understudy.faces.cli.pager import paged
from understudy.git.names import quote, unquote
from understudy.model.errors import ErrorKind, UnderstudyError

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
_REVIEW_BYTES = 64 * 1024 * 1024
"""Four times what is ever written there: a person may write below each change."""
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
@click.option("--stat", is_flag=True, help="Files and counts only.")
@options.as_json
def diff(*, identifier: str, paths: tuple[str, ...], stat: bool, json_: bool) -> int:
    """Show what a delegation changed; PATHS (relative to the workspace) choose files or folders.

    On a terminal coloured, and through $PAGER where that is set; otherwise the bytes of the patch. With --json: files
    and hunks.
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
        return exits.Exit.OK
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
        return exits.Exit.OK
    patch = _patch(whole)
    if paths:
        names = {file.path for file in files if _chosen(file.path, paths)}
        patch = b"".join(part for part in split(patch) if concerns(part, names))
    if not terminal.is_terminal(sys.stdout):
        click.echo(patch, nl=False)
        return exits.Exit.OK
    if not patch:
        click.echo("Nothing changed.")
        return exits.Exit.OK
    with paged() as write:
        write(coloured(patch, output.paint()))
    return exits.Exit.OK


def coloured(patch: bytes, paint: terminal.Paint) -> str:
    """Return a patch as text for a terminal: what it would obey or hide spelled out, with ``paint``'s colours."""
    rows = []
    in_hunk = False
    for line in patch.split(b"\n"):
        in_hunk = line.startswith(b"@@") or (in_hunk and not line.startswith(_HEADER))
        # Inside a hunk `--- x` is a removed line `-- x`.
        styles = _STYLES[4:] if in_hunk else _STYLES
        style: dict[str, Any] = next((style for prefix, style in styles if line.startswith(prefix)), {})
        text = terminal.visible(line.decode("utf-8", "replace"))
        rows.append(paint(text, **style) if style and text else text)
    return "\n".join(rows)


def split(patch: bytes) -> list[bytes]:
    """Return the parts of a patch, one a file. A line of content never begins with ``diff --git``: it has a prefix."""
    if not patch:
        return []
    starts = [0]
    place = patch.find(b"\n" + _HEADER)
    while place >= 0:
        starts.append(place + 1)
        place = patch.find(b"\n" + _HEADER, place + 1)
    return [patch[start:end] for start, end in zip(starts, [*starts[1:], len(patch)], strict=True)]


def without_words(review: bytes) -> bytes:
    """Return the patch of a ``review.diff`` alone: no head, and no line that a person wrote into it beside a change.

    No line of a patch begins with ``>``.
    """
    start = 0 if review.startswith(_HEADER) else review.find(b"\n" + _HEADER) + 1
    patch = review[start:] if start or review.startswith(_HEADER) else b""
    return _WORDS.sub(b"", patch)


def concerns(part: bytes, names: set[str]) -> bool:
    """Tell whether one file's part of a patch is about a path of ``names`` (spelled as the contract spells paths)."""
    header = part.partition(b"\n")[0]
    if header.endswith(b'"'):  # git quotes whatever is not plain ASCII
        quoted = header[header.rindex(b' "b/') + 1 :].decode("ascii")
        return quote(unquote(quoted)[len(b"b/") :]) in names
    return any(header.endswith(b" b/" + name.encode()) for name in names)


def _refuse_unchanged(paths: tuple[str, ...], changed: list[tuple[str, str | None]]) -> None:
    """Raise ``invalid_params`` for a path of which the result changes nothing."""
    for path in paths:
        everything = path.rstrip("/") in {"", "."}
        either = [one for pair in changed for one in pair if one is not None]
        if not everything and not any(targets.concerns(one, path) for one in either):
            raise targets.not_changed(path, [one for one, _ in changed])


def _chosen(path: str, chosen: tuple[str, ...]) -> bool:
    return any(targets.concerns(path, one) for one in chosen)


def _patch(identifier: str) -> bytes:
    from understudy.journal import disk  # noqa: PLC0415 - one user
    from understudy.journal.store import open_folder  # noqa: PLC0415 - one user

    folder = open_folder(identifier)
    try:
        return without_words(disk.read_whole(folder.review, _REVIEW_BYTES))
    except FileNotFoundError:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{identifier} has no result yet",
            hint=f"`understudy show {identifier}` says how it stands",
        ) from None
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.STORE_UNAVAILABLE,
            f"{folder.review} cannot be read: {error.strerror}",
            hint="see `understudy doctor`",
        ) from error
