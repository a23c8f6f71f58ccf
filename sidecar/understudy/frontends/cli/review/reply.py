"""``reply``, ``retry`` and ``amend``: a result goes back with words, is tried anew, or is changed by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from understudy.faces.cli import editor, exits, following, lines, options, output, targets, terminal
from understudy.faces.cli.calls import call, resolve
from understudy.model.errors import ErrorKind, UnderstudyError


@click.command(
    epilog=options.examples(
        "understudy reply k3f9q 'keep the old signature, and test the empty string'",
        "understudy reply k3f9q - < notes.md",
    )
)
@options.identifier
@click.argument("words", metavar="TEXT...|-", nargs=-1, required=True)
@options.following
@options.as_json
def reply(*, identifier: str, words: tuple[str, ...], detach: bool, quiet: bool, json_: bool) -> int:
    """Send a result back with words: a new delegation, in the same tree and session, followed like `start`.

    It begins from your files as they are now; what you rejected is told with your reasons, and what is undecided stays
    under review in the new one. `-` reads the text from stdin.
    """
    text = _stdin() if words == ("-",) else " ".join(words)
    if not text.strip():
        raise click.UsageError("say what is to be done differently")
    parent = call("delegations/get", id=resolve(identifier))
    started = call("delegations/reply", id=parent.id, text=text)
    return _follow(started, parent.recipe, parent.id, detach=detach, quiet=quiet, as_json=json_)


@click.command(epilog=options.examples("understudy retry k3f9q", "understudy retry k3f9q -d claude"))
@options.identifier
@click.option(
    "-d", "--delegator", metavar="NAME", shell_complete=options.complete_delegators, help="Another one does it."
)
@options.following
@options.as_json
def retry(*, identifier: str, delegator: str | None, detach: bool, quiet: bool, json_: bool) -> int:
    """Do it again from the original base: a new delegation, followed like `start`."""
    parent = call("delegations/get", id=resolve(identifier))
    started = call("delegations/retry", id=parent.id, delegator=delegator)
    return _follow(started, parent.recipe, parent.id, detach=detach, quiet=quiet, as_json=json_)


@click.command(
    epilog=options.examples(
        "understudy amend k3f9q src/wrap.py",
        "understudy amend k3f9q src/wrap.py better.py",
        "sed s/foo/bar/ better.py | understudy amend k3f9q src/wrap.py -",
    )
)
@options.identifier
@click.argument("path", shell_complete=targets.complete_paths)
@click.argument("file", metavar="[FILE]", required=False, type=click.Path())
@options.as_json
def amend(*, identifier: str, path: str, file: str | None, json_: bool) -> int:
    """Change a file of the result by hand: with $EDITOR, or to the contents of FILE (- is stdin).

    Your own files stay as they are. The result is split into hunks anew, and it is unverified until `understudy check`.
    With --json: the `AmendResult`.
    """
    whole = resolve(identifier)
    # The head first: an edit of another person in between is then refused, not overwritten.
    before = call("delegations/diff", id=whole)
    head, path = before.head, targets.wire(before.files, path)
    if file is not None:
        text: str | None = _stdin() if file == "-" else _contents(file)
    elif json_ or not editor.can_edit():
        raise click.UsageError("name the FILE with the new contents (- is stdin); an editor needs a terminal")
    else:
        found = call("delegations/file", id=whole, path=path, side="result")
        if found.text is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS, f"{terminal.path(path)} is not UTF-8 text", hint="edit it in its tree"
            )
        text = editor.edited(found.text, path)
    if text is None:
        click.echo("Nothing was changed.", err=True)
        return exits.Exit.OK
    done = call("delegations/amend", id=whole, path=path, text=text, head=head)
    if json_:
        output.json(done)
    else:
        click.echo(f"{terminal.path(path)} has {lines.plural(len(done.hunks), 'hunk')} now.")
        click.echo(f"next: understudy check {whole}   understudy review {whole}")
    return exits.Exit.OK


def _follow(started: Any, recipe: str, parent: str, *, detach: bool, quiet: bool, as_json: bool) -> int:
    if detach:
        output.json(started) if as_json else click.echo(started.id)
        return exits.Exit.OK
    if not quiet:
        click.echo(f"{started.id}: follows {parent}", err=True)
    return following.to_the_end(started.id, recipe, quiet=quiet, as_json=as_json)


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"stdin is not UTF-8: {error}") from None


def _contents(file: str) -> str:
    try:
        return Path(file).read_bytes().decode()
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint="FILE") from None
    except UnicodeDecodeError:
        raise click.BadParameter(f"{file} is not UTF-8", param_hint="FILE") from None
