"""``reply``, ``strengthen``, ``retry``, ``amend`` and ``drop``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from understudy.frontends.cli.calls import exit_codes, options
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.frontends.cli.delegate import evidence as checking
from understudy.frontends.cli.delegate import follower
from understudy.frontends.cli.output import event_lines, output
from understudy.frontends.cli.review import hunk_targets
from understudy.frontends.cli.terminal import editor, terminal
from understudy.frontends.cli.terminal.terminal import HeldInterrupt


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
    """Send a result back with instructions.

    This starts a new delegation and follows it, as `start` does. It uses the same worktree and session, and starts from
    your files as they are now. The agent also receives the hunks that you rejected, with your reasons; pending hunks
    become part of the new delegation. `-` reads the instructions from stdin.
    """
    text = options.words_or_stdin(words)
    if not text.strip():
        raise click.UsageError("The instructions are empty.")
    parent = call("delegations/get", id=resolve(identifier))
    with HeldInterrupt() as held:
        started = call("delegations/reply", id=parent.id, text=text)
    return follower.follow_started(
        started, parent.recipe, f"continues {parent.id}", held, detach=detach, quiet=quiet, as_json=json_
    )


@click.command(epilog=options.examples("understudy strengthen k3f9q", "understudy strengthen k3f9q --rounds 2"))
@options.identifier
@options.rounds
@options.following
@options.as_json
def strengthen(*, identifier: str, rounds: int | None, detach: bool, quiet: bool, json_: bool) -> int:
    """Ask for tests that notice more mistakes in the code.

    The checks of a result also run on small changes of the code. This sends those that no test noticed back to the
    agent, and the tests that noticed none. It starts a new delegation and follows it, as `reply` does.
    """
    parent = call("delegations/get", id=resolve(identifier))
    with options.as_options(), HeldInterrupt() as held:
        started = call("delegations/strengthen", id=parent.id, rounds=rounds)
    return follower.follow_started(
        started, parent.recipe, f"continues {parent.id}", held, detach=detach, quiet=quiet, as_json=json_
    )


@click.command(epilog=options.examples("understudy retry k3f9q", "understudy retry k3f9q -d claude --model opus"))
@options.identifier
@click.option(
    "-d", "--delegator", metavar="NAME", shell_complete=options.complete_delegators, help="Use another delegator."
)
@options.launch
@options.following
@options.as_json
def retry(*, identifier: str, delegator: str | None, detach: bool, quiet: bool, json_: bool, **arguments: Any) -> int:
    """Run a delegation again from its original base.

    This starts a new delegation and follows it, as `start` does. With the same delegator, the
    options with which the first delegation changed it apply again, unless you give others.
    """
    parent = call("delegations/get", id=resolve(identifier))
    with options.as_options(), HeldInterrupt() as held:
        started = call("delegations/retry", id=parent.id, delegator=delegator, launch=options.launch_of(arguments))
    return follower.follow_started(
        started, parent.recipe, f"starts {parent.id} again", held, detach=detach, quiet=quiet, as_json=json_
    )


@click.command(
    epilog=options.examples(
        "understudy amend k3f9q src/wrap.py",
        "understudy amend k3f9q src/wrap.py better.py",
        "sed s/foo/bar/ better.py | understudy amend k3f9q src/wrap.py -",
        "understudy amend k3f9q src/wrap.py --undo",
    )
)
@options.identifier
@click.argument("path", shell_complete=hunk_targets.complete_paths)
@click.argument("file", metavar="[FILE]", required=False, type=click.Path())
@click.option("--undo", is_flag=True, help="Undo the last edit of the file.")
@options.as_json
def amend(*, identifier: str, path: str, file: str | None, undo: bool, json_: bool) -> None:
    """Edit a file of a result in $EDITOR, or replace it with FILE (- for stdin).

    Your own files do not change. The result is split into hunks again, and is unverified until `understudy check`.
    With --json, prints the `AmendResult`.
    """
    whole = resolve(identifier)
    # The head first, so that an edit by another process in between is refused, not overwritten.
    before = call("delegations/diff", id=whole)
    head, path = before.head, hunk_targets.wire(before.files, path)
    if undo:
        if file is not None:
            raise click.UsageError("--undo takes no FILE.")
        _amended(whole, path, call("delegations/undoAmend", id=whole, path=path, head=head), as_json=json_)
        return
    if file is not None:
        text: str | None = options.stdin() if file == "-" else _contents(file)
    elif json_ or not editor.can_edit():
        raise click.UsageError("Name the FILE with the new contents (- for stdin): an editor needs a terminal.")
    else:
        text = editor.edited(hunk_targets.result_text(call, whole, path), path)
    if text is None:
        output.say("Nothing was changed.", err=True)
        return
    _amended(whole, path, call("delegations/amend", id=whole, path=path, text=text, head=head), as_json=json_)


def _amended(identifier: str, path: str, result: Any, *, as_json: bool) -> None:
    if as_json:
        output.json(result)
    else:
        output.say(f"{terminal.path(path)} has {event_lines.plural(len(result.hunks), 'hunk')} now.")
        output.say(event_lines.next_commands(f"understudy check {identifier}", f"understudy review {identifier}"))


@click.command(
    epilog=options.examples(
        "understudy drop k3f9q",
        "understudy drop k3f9q tests/test_wrap.py::test_nothing",
        "understudy drop k3f9q --check",
    )
)
@options.identifier
@click.argument("tests", nargs=-1, metavar="[TEST]…")
@click.option("--check", is_flag=True, help="Run the checks again afterwards, and print the card.")
@options.as_json
def drop(*, identifier: str, tests: tuple[str, ...], check: bool, json_: bool) -> int:
    """Remove new tests that notice nothing from a result: those named, or all that the card lists.

    Your own files do not change. The result is split into hunks again, and is unverified until its checks ran. `amend`
    restores a file. With --json, prints the `DropResult`, or the delegation if its checks ran.
    """
    whole = resolve(identifier)
    result = call("delegations/drop", id=whole, tests=list(tests))
    if json_ and not check:
        output.json(result)
        return exit_codes.Exit.OK
    if not json_:
        for test in result.dropped:
            output.say(f"dropped: {terminal.one_line(test)}")
        for kept in result.kept:
            output.say(f"kept: {terminal.one_line(kept.test)} {terminal.one_line(kept.why)}")
    if check:
        return checking.run_checks(whole, json_=json_)
    output.say(event_lines.next_commands(f"understudy check {whole}"))
    return exit_codes.Exit.OK


def _contents(file: str) -> str:
    try:
        return Path(file).read_bytes().decode()
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}.", param_hint="FILE") from None
    except UnicodeDecodeError:
        raise click.BadParameter(f"{file} is not UTF-8.", param_hint="FILE") from None
