"""``PATH[:HUNK]``: which hunks a person means, and what the shell completes for them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from understudy.faces.cli import hunks, options, terminal
from understudy.faces.cli.calls import call, resolve
from understudy.git import names
from understudy.model.delegations import FileDiff, HunkState
from understudy.model.errors import ErrorKind, UnderstudyError

_LOOKED_AT = 20
"""Delegations whose accepts are completed as undo tokens, newest first."""

Target = tuple[str, str | None]
"""A file, and the whole id of one hunk or None for all that is undecided in it."""


def find(
    files: Sequence[FileDiff], chosen: Sequence[str], *, everything: bool = False, command: str = ""
) -> list[Target]:
    """Return what the person chose, a folder as its files; no choice is a usage error unless it is ``everything``."""
    if everything and chosen:
        raise click.UsageError("--all and paths exclude each other")
    if not everything and not chosen:
        raise click.UsageError(f"say what to {command}: PATH, PATH:HUNK or --all")
    if everything:
        found: list[Target] = [(file.path, None) for file in files if _undecided(file)]
    else:
        found = [target for text in chosen for target in _one(files, text)]
    if not found:
        raise UnderstudyError(
            ErrorKind.CONFLICT, "nothing is undecided there", hint="`understudy review ID --list` shows all hunks"
        )
    return list(dict.fromkeys(found))


def decisions(targets: Iterable[Target], decision: str, reason: str | None = None) -> list[dict[str, Any]]:
    """Return targets as the contract's decisions."""
    found = []
    for path, hunk in targets:
        given = {"path": path, "hunk": hunk, "decision": decision, "reason": reason}
        found.append({name: value for name, value in given.items() if value is not None})
    return found


def items(files: Iterable[FileDiff], targets: Iterable[Target]) -> list[hunks.Item]:
    """Return the hunks that targets mean: the named ones, and the undecided ones of whole files."""
    wanted = set(targets)
    return [
        item
        for item in hunks.items(files)
        if (item.file.path, item.hunk.id) in wanted
        or ((item.file.path, None) in wanted and item.hunk.state is HunkState.PENDING)
    ]


def argument(command: options.Command) -> options.Command:
    """Add the argument ``PATH[:HUNK]…``."""
    return click.argument("chosen", metavar="[PATH[:HUNK]]...", nargs=-1, shell_complete=complete_targets)(command)


def complete_targets(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete files of the delegation named before, and their hunks behind a colon."""
    _ = parameter
    with contextlib.suppress(Exception):
        files = _files(context)
        return [*_paths(files, incomplete), *_hunks(files, incomplete)]
    return []


def complete_paths(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete files of the delegation named before."""
    _ = parameter
    with contextlib.suppress(Exception):
        return _paths(_files(context), incomplete)
    return []


def complete_tokens(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete undo tokens of the newest delegations' accepts that were not taken back."""
    _ = context, parameter
    with contextlib.suppress(Exception):
        return _tokens(incomplete)
    return []


def wire(files: Iterable[FileDiff], text: str) -> str:
    """Return a path as the contract spells it: typed as it is, in any bytes, or in the quotes that are printed."""
    known = {file.path for file in files}
    spelled = [names.quote(path) for path in _spellings(text)]
    return next((path for path in spelled if path in known), spelled[-1])


def concerns(path: str, text: str) -> bool:
    """Tell whether a path of the contract is what a person typed, or below it."""
    raw = names.unquote(path)
    wanted = [one.rstrip(b"/") for one in _spellings(text)]
    return any(one in {b"", b".", raw} or raw.startswith(one + b"/") for one in wanted)


def named(files: Iterable[FileDiff], chosen: Sequence[str]) -> list[hunks.Item]:
    """Return all hunks that ``chosen`` names, decided or not."""
    return [item for item in hunks.items(files) if any(_names(item, text) for text in chosen)]


def not_changed(text: str, paths: Sequence[str]) -> UnderstudyError:
    """Return the error for a path of which a result that changes ``paths`` changes nothing."""
    return UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        f"the result does not change {terminal.path(names.quote(_spellings(text)[0]))}"
        + (", but these files:" if paths else ""),
        hint="name one of them, or a folder, from the top of the workspace" if paths else "it changes nothing",
        names=list(paths[:20]) or None,
    )


def _spellings(text: str) -> list[bytes]:
    """Return the paths that a person may mean: what they typed, and what it says where it is in quotes."""
    text = text.removeprefix("./")
    found = [os.fsencode(text)]
    if text.startswith('"'):
        with contextlib.suppress(ValueError):
            found.append(names.unquote(text))
    return found


def _names(item: hunks.Item, text: str) -> bool:
    path, colon, hunk = text.rpartition(":")
    own = names.unquote(item.file.path)
    return concerns(item.file.path, text) or bool(
        colon and hunk and item.hunk.id.startswith(hunk) and own in _spellings(path)
    )


def _one(files: Sequence[FileDiff], text: str) -> list[Target]:
    by_path = {names.unquote(file.path): file for file in files}
    for wanted in _spellings(text):
        if wanted in by_path:
            file = by_path[wanted]
            return [(file.path, None)] if _undecided(file) else []
    below = [file for file in files if concerns(file.path, text)]
    if below:
        return [(file.path, None) for file in below if _undecided(file)]
    path, colon, hunk = text.rpartition(":")
    for wanted in _spellings(path) if colon else []:
        if wanted in by_path:
            return [(by_path[wanted].path, _hunk(by_path[wanted], hunk))]
    raise not_changed(text, [file.path for file in files])


def _hunk(file: FileDiff, beginning: str) -> str:
    found = [hunk.id for hunk in file.hunks if beginning and hunk.id.startswith(beginning)]
    if len(found) == 1:
        return found[0]
    count = len(found) or "no"
    raise UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        f"{count} hunks of {terminal.path(file.path)} begin with {terminal.one_line(beginning)!r}; it has these:",
        hint="name one by the beginning of its id",
        names=[hunk.id for hunk in file.hunks][:20],
    )


def _undecided(file: FileDiff) -> bool:
    return any(hunk.state is HunkState.PENDING for hunk in file.hunks)


def _files(context: click.Context) -> list[FileDiff]:
    found: list[FileDiff] = call("delegations/diff", id=resolve(context.params.get("identifier"))).files
    return found


def _paths(files: Iterable[FileDiff], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(file.path, help=file.status) for file in files if file.path.startswith(incomplete)]


def _hunks(files: Iterable[FileDiff], incomplete: str) -> list[CompletionItem]:
    return [
        CompletionItem(item.name, help=f"{item.hunk.state}, {terminal.one_line(hunks.place(item))}")
        for item in hunks.items(files)
        if incomplete == item.file.path
        or (incomplete.startswith(f"{item.file.path}:") and item.name.startswith(incomplete))
    ]


def _tokens(incomplete: str) -> list[CompletionItem]:
    from understudy.journal import reader, store  # noqa: PLC0415 - only in a completion
    from understudy.model.events import Applied, Undone  # noqa: PLC0415

    found = []
    for one in call("delegations/list", limit=_LOOKED_AT).delegations:
        if not one.review.accepted:
            continue
        tokens: dict[str, Applied] = {}
        for event in reader.read_events(store.open_folder(one.id), 0, 100_000):
            if isinstance(event, Applied):
                tokens[event.undo_token] = event
            elif isinstance(event, Undone):
                tokens.pop(event.undo_token, None)
        for token, event in reversed(tokens.items()):
            if token.startswith(incomplete):
                paths = ", ".join(map(terminal.path, event.paths[:3]))
                found.append(CompletionItem(token, help=f"{terminal.one_line(one.title)}: {paths}"))
    return found
