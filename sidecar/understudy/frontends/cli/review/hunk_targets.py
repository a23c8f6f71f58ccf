"""Parse and complete ``PATH[:HUNK]``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.frontends.cli.output import event_lines
from understudy.frontends.cli.review import hunk_view
from understudy.frontends.cli.terminal import terminal
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import FileDiff, HunkState
from understudy.model.text import path_quoting
from understudy.model.text.sanitize import name_list

Target = tuple[str, str | None]
"""A file, and the full ID of one hunk or None for all its hunks in the state that the command changes."""


def find(
    files: Sequence[FileDiff],
    chosen: Sequence[str],
    *,
    everything: bool = False,
    command: str = "",
    identifier: str = "ID",
    state: HunkState = HunkState.PENDING,
) -> list[Target]:
    """Return the chosen files and hunks, a folder as its files; no choice is a usage error unless ``everything``.

    ``state`` is what the hunks of a file are in when the command changes them.
    """
    if everything and chosen:
        raise click.UsageError("--all and paths exclude each other.")
    if not everything and not chosen:
        raise click.UsageError(f"Name what to {command}: PATH, PATH:HUNK or --all.")
    if everything:
        targets: list[Target] = [(file.path, None) for file in files if _has(file, state)]
    else:
        targets = [target for text in chosen for target in _one(files, text, state)]
    if not targets:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"No hunk of {'the result' if everything else name_list(chosen)} is {state}.",
            hint=f"`understudy review {identifier} --list` shows all hunks.",
        )
    return list(dict.fromkeys(targets))


def decisions(targets: Iterable[Target], decision: str, reason: str | None = None) -> list[dict[str, Any]]:
    """Return targets as decisions for ``delegations/decide``."""
    listed = []
    for path, hunk in targets:
        fields = {"path": path, "hunk": hunk, "decision": decision, "reason": reason}
        listed.append({name: value for name, value in fields.items() if value is not None})
    return listed


def items(files: Iterable[FileDiff], targets: Iterable[Target]) -> list[hunk_view.Item]:
    """Return the hunks of targets: the named ones, and the pending ones of whole files."""
    chosen = set(targets)
    return [
        item
        for item in hunk_view.items(files)
        if (item.file.path, item.hunk.id) in chosen
        or ((item.file.path, None) in chosen and item.hunk.state is HunkState.PENDING)
    ]


def tested(files: Sequence[FileDiff], targets: Iterable[Target], identifier: str) -> list[Target]:
    """Return the hunks of targets of which every place has evidence; raise ``conflict`` if there is none."""
    listed = items(files, targets)
    chosen: list[Target] = [(item.file.path, item.hunk.id) for item in listed if item.hunk.tested]
    if not chosen and any(item.hunk.doubted for item in listed):
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            "A failed check or a reservation of this result puts in doubt what its tests noticed.",
            hint=f"Read `understudy show {identifier}`, then accept the hunks that you have looked at.",
        )
    if not chosen:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"Of {event_lines.plural(len(listed), 'hunk')}, none is tested.",
            hint=f"`understudy review {identifier}` says what is missing for each.",
        )
    return chosen


def _paths(context: click.Context) -> list[tuple[str, str]]:
    return [(file.path, file.status) for file in _files(context)]


def _hunks(context: click.Context) -> list[tuple[str, str]]:
    return [
        (item.name, f"{item.hunk.state}, {terminal.one_line(hunk_view.place(item))}")
        for item in hunk_view.items(_files(context))
    ]


def _files(context: click.Context) -> list[FileDiff]:
    files: list[FileDiff] = call("delegations/diff", id=resolve(context.params.get("identifier"))).files
    return files


complete_paths = options.completes(_paths)
_complete_hunks = options.completes(_hunks)


def complete_targets(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete files of the delegation named before, and their hunks after a colon."""
    complete = _complete_hunks if ":" in incomplete else complete_paths
    return complete(context, parameter, incomplete)


argument = click.argument("chosen", metavar="[PATH[:HUNK]]...", nargs=-1, shell_complete=complete_targets)
"""The files and hunks that a command is about."""


def last_accept(identifier: str) -> str:
    """Return the undo token of a delegation's last accept; raise ``conflict`` if all are undone."""
    diff = call("delegations/diff", id=identifier)
    if not diff.undoable:
        rejected = any(_has(file, HunkState.REJECTED) for file in diff.files)
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"Nothing of {identifier} is accepted.",
            hint=f"Name what was rejected to undo that: understudy undo {identifier} PATH"
            if rejected
            else f"`understudy show {identifier}` shows what happened.",
        )
    return str(diff.undoable[0].undo_token)


def result_text(ask: Callable[..., Any], identifier: str, path: str) -> str:
    """Return the text of a file of a result, with ``ask`` as ``call``. Errors: ``invalid_params`` if it is not text."""
    text: str | None = ask("delegations/file", id=identifier, path=path, side="result").text
    if text is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"{terminal.path(path)} is not UTF-8 text.", hint="Edit it in its worktree."
        )
    return text


def wire(files: Iterable[FileDiff], text: str) -> str:
    """Return a typed path, in any bytes or quoted as it is printed, as it is written on the wire."""
    paths = {file.path for file in files}
    spelled = [path_quoting.quote(path) for path in _spellings(text)]
    return next((path for path in spelled if path in paths), spelled[-1])


def concerns(path: str, text: str) -> bool:
    """Return whether a path on the wire is the typed path or below it."""
    raw = path_quoting.unquote(path)
    spellings = [spelling.rstrip(b"/") for spelling in _spellings(text)]
    return any(spelling in {b"", b".", raw} or raw.startswith(spelling + b"/") for spelling in spellings)


def named(files: Iterable[FileDiff], chosen: Sequence[str]) -> list[hunk_view.Item]:
    """Return all hunks that ``chosen`` names, decided or not."""
    return [item for item in hunk_view.items(files) if any(_names(item, text) for text in chosen)]


def not_changed(text: str, paths: Sequence[str]) -> UnderstudyError:
    """Return the error for a path that a result, which changes ``paths``, does not change."""
    return UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        f"The result does not change {terminal.path(path_quoting.quote(_spellings(text)[0]))}"
        + (", only these files:" if paths else "."),
        hint="Name one of them, or a folder, relative to the workspace." if paths else "It changes no file.",
        names=list(paths[:20]) or None,
    )


def _spellings(text: str) -> list[bytes]:
    """Return the paths that a text may mean: as typed, and unquoted if it is quoted."""
    text = text.removeprefix("./")
    spellings = [os.fsencode(text)]
    if text.startswith('"'):
        with contextlib.suppress(ValueError):
            spellings.append(path_quoting.unquote(text))
    return spellings


def _names(item: hunk_view.Item, text: str) -> bool:
    path, colon, hunk = text.rpartition(":")
    raw = path_quoting.unquote(item.file.path)
    return concerns(item.file.path, text) or bool(
        colon and hunk and item.hunk.id.startswith(hunk) and raw in _spellings(path)
    )


def _one(files: Sequence[FileDiff], text: str, state: HunkState) -> list[Target]:
    by_path = {path_quoting.unquote(file.path): file for file in files}
    for spelling in _spellings(text):
        if spelling in by_path:
            file = by_path[spelling]
            return [(file.path, None)] if _has(file, state) else []
    below = [file for file in files if concerns(file.path, text)]
    if below:
        return [(file.path, None) for file in below if _has(file, state)]
    path, colon, hunk = text.rpartition(":")
    for spelling in _spellings(path) if colon else []:
        if spelling in by_path:
            return [(by_path[spelling].path, _hunk(by_path[spelling], hunk))]
    raise not_changed(text, [file.path for file in files])


def _hunk(file: FileDiff, beginning: str) -> str:
    matching = [hunk.id for hunk in file.hunks if beginning and hunk.id.startswith(beginning)]
    if len(matching) == 1:
        return matching[0]
    count = len(matching) or "no"
    raise UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        f"{count} hunks of {terminal.path(file.path)} begin with {terminal.one_line(beginning)!r}; it has these:",
        hint="Name one of them by a prefix of its ID.",
        names=[hunk.id for hunk in file.hunks][:20],
    )


def _has(file: FileDiff, state: HunkState) -> bool:
    return any(hunk.state is state for hunk in file.hunks)
