"""``ask``, ``write`` and ``summarize``."""

from __future__ import annotations

import sys
from typing import Any

import click

from understudy.frontends.cli.calls import options
from understudy.frontends.cli.output import output
from understudy.frontends.cli.output.live_view import StreamedAnswer
from understudy.frontends.cli.output.output import thousands
from understudy.frontends.cli.terminal import terminal
from understudy.frontends.cli.text import envelope
from understudy.model.config.delegators import Limits
from understudy.model.errors import ErrorKind, UnderstudyError

_LEFT_OUT_SHOWN = 3


_common = options.all_of(
    click.option(
        *("-d", "--profile", "--delegator", "delegator"),  # errors name the last one
        metavar="NAME",
        shell_complete=options.complete_delegators,
        help="The delegator (default: chosen by the configuration).",
    ),
    click.option(
        "--fallback",
        multiple=True,
        metavar="NAME",
        shell_complete=options.complete_delegators,
        help="The delegator that takes over if this one fails; may be repeated (default: its own list).",
    ),
    click.option("--no-fallback", is_flag=True, help="Let no other delegator take over."),
    click.option("--model", metavar="ID", help="Use this model of the delegator's model server."),
    click.option("--temperature", type=float, metavar="N", help="Use this temperature."),
    click.option("--total-seconds", type=float, metavar="N", help="Limit the duration, retries included."),
    click.option(
        "--first-event-seconds",
        type=float,
        metavar="N",
        help="Seconds to wait for the first word (default: 15 where another delegator can take over, else 300).",
    ),
    click.option(
        "--idle-seconds",
        type=float,
        metavar="N",
        help="Seconds to wait for the next word (default: 20 where another delegator can take over, else 600).",
    ),
    click.option("--max-output-tokens", type=int, metavar="N", help="Limit the tokens that the model writes."),
    click.option("--max-tokens", type=int, metavar="N", help="Limit the tokens read and written."),
    click.option("--max-file-bytes", type=click.IntRange(1), metavar="N", help="Limit the bytes of one file."),
    click.option("--max-bytes", type=click.IntRange(1), metavar="N", help="Limit the bytes of all input."),
    click.option("--preview", is_flag=True, help="Show what would be sent, with its size; send nothing."),
    click.option("--json", "json_", is_flag=True, help="Print one line of JSON, also for errors."),
)
"""The options that all three commands have."""


@click.command(
    cls=envelope.EnvelopeCommand,
    epilog=options.examples(
        "understudy ask -t 'Which functions retry?' src/net.py src/http",
        "understudy ask -t 'What failed?' /var/log/build.log",
        "git diff | understudy ask -t 'What is risky here?' -",
        "understudy ask -t 'Where is it tested?' 'tests/**/*.py' --preview",
    )
    + "\n\nExit codes: 0 answered, 1 the model server failed, 2 the request could not be made.",
)
@click.argument("files", nargs=-1, metavar="[PATH]...")
@click.option("-t", "--question", required=True, metavar="TEXT", help="The question.")
@click.option("--paths", "more", multiple=True, metavar="PATH", help="The same as PATH; may be repeated.")
@_common
def ask(*, files: tuple[str, ...], more: tuple[str, ...], question: str, **arguments: Any) -> int:
    """Ask a model server about files, folders, globs, or standard input (-).

    The answer goes to stdout. Nothing is started or written: the request is sent from this process.
    """
    return _run("ask", arguments, paths=(*more, *files), task=question)


@click.command(
    cls=envelope.EnvelopeCommand,
    epilog=options.examples(
        "understudy write -t 'a test of retry()' src/net.py --target test_net.py",
        "understudy write -t 'the same in Go' src/net.py --stdout > net.go",
        "understudy write -t 'describe the options' src --target options.md --diff",
    )
    + "\n\nExit codes: 0 written, 1 the model server failed, 2 the request could not be made.",
)
@click.argument("files", nargs=-1, metavar="[PATH]...")
@click.option("-t", "--spec", required=True, metavar="TEXT", help="What the file must contain.")
@click.option("--context", "more", multiple=True, metavar="PATH", help="The same as PATH; may be repeated.")
@click.option("--target", metavar="FILE", help="The file to write.")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the file; write nothing.")
@click.option("--diff", is_flag=True, help="Print the difference to the target; write nothing unless --force.")
@click.option("--force", is_flag=True, help="Replace an existing target.")
@click.option("--target-root", metavar="DIR", help="Refuse a target outside of this folder.")
@click.option(
    "--strip-fences/--no-strip-fences",
    default=True,
    help="Remove a code fence around the whole answer (the default), or keep the answer as it is.",
)
@_common
def write(
    *,
    files: tuple[str, ...],
    more: tuple[str, ...],
    spec: str,
    target: str | None,
    to_stdout: bool,
    target_root: str | None,
    strip_fences: bool,
    **arguments: Any,
) -> int:
    """Let a model server write one file from a description, with files, folders, globs or stdin (-) as context.

    An existing target is replaced only with --force, and only by a complete answer. Your other files do not change.
    """
    if target is None and not to_stdout:
        raise click.UsageError("Name the file with --target, or print it with --stdout.")
    params = {
        "paths": (*more, *files),
        "task": spec,
        "target": target,
        "target_root": target_root,
        "writes_target": target is not None and not to_stdout and (not arguments["diff"] or arguments["force"]),
        "force": arguments["force"],
        "keep_fences": not strip_fences,
    }
    return _run("write", arguments, **params)


@click.command(
    cls=envelope.EnvelopeCommand,
    epilog=options.examples("understudy summarize < build.log", "understudy summarize docs src/parser.py")
    + "\n\nExit codes: 0 answered, 1 the model server failed, 2 the request could not be made.",
)
@click.argument("files", nargs=-1, metavar="[PATH]...")
@_common
def summarize(*, files: tuple[str, ...], **arguments: Any) -> int:
    """Summarize files, folders, globs, or standard input (the default)."""
    if not files and terminal.is_terminal(sys.stdin):
        raise click.UsageError("Name files, or pipe a text into the command.")
    return _run("summarize", arguments, paths=files or ("-",))


def _prepared(asked: Any) -> Any:
    """Prepare a request; where no delegator is configured, name the commands that add one that runs here."""
    from understudy.api import text_requests

    try:
        return text_requests.prepare(asked)
    except UnderstudyError as error:
        if error.kind is ErrorKind.UNKNOWN_DELEGATOR and not error.names:
            from understudy.frontends.cli.setup import delegator_wizard

            error.hint = delegator_wizard.for_running_server() or error.hint
        raise


def _run(command: str, arguments: dict[str, Any], **params: Any) -> int:
    return envelope.enveloped(
        command, lambda facts: _answer(command, arguments, params, facts), {**params, **arguments}
    )


def _answer(command: str, arguments: dict[str, Any], params: dict[str, Any], facts: dict[str, Any]) -> None:
    """Prepare the request, then show it, or send it and print the answer."""
    from understudy.api import text_requests

    prepared = _prepared(
        text_requests.TextParams(
            recipe=command,
            read_stdin=sys.stdin.buffer.read,
            delegator=arguments["delegator"],
            fallback=options.fallback(arguments),
            model=arguments["model"],
            temperature=arguments["temperature"],
            limits=_limits(arguments),
            max_file_bytes=arguments["max_file_bytes"],
            max_bytes=arguments["max_bytes"],
            **params,
        )
    )
    delegator = prepared.request.chosen.delegator
    facts |= {"model": delegator.model or "", "profile": delegator.name}
    if params.get("target"):
        facts["target"] = params["target"]
    if delegator.model_server:
        facts["backend"] = delegator.model_server
    if arguments["preview"]:
        left_out = [(skipped.name, skipped.why) for skipped in prepared.left_out]
        output.preview(text_requests.preview_of(prepared.request), as_json=arguments["json_"], left_out=left_out)
        return
    _warn(prepared)
    if not arguments["json_"]:
        _announce(prepared, command)
    prints_text = command != "write" or (not params["writes_target"] and not arguments["diff"])
    is_live = prints_text and terminal.is_terminal(sys.stdout) and not arguments["json_"]
    is_live = is_live and (command != "write" or params["keep_fences"])  # only the whole file shows what is a fence
    streamed = StreamedAnswer(sys.stdout)

    def note(text: str) -> None:
        streamed.end_line()
        _note(text)

    try:
        answer = prepared.answer(streamed.add if is_live else lambda _: None, note)
    except BaseException as error:
        if is_live and (streamed.in_line or _is_stop(error)):
            click.echo()  # the message begins on a line of its own
        raise
    facts |= {"model": answer.model, "profile": answer.delegator, "backend": answer.model_server}
    if arguments["json_"]:
        more = {"diff": prepared.difference} if arguments.get("diff") else {}
        envelope.success(command, {**facts, **more}, answer)
    elif not prints_text:
        _report(prepared.difference if arguments["diff"] else "", params)
    elif is_live:
        streamed.end_line()
    else:
        click.echo(answer.text, nl=not answer.text.endswith("\n"))


def _report(difference: str, params: dict[str, Any]) -> None:
    """Print the difference, and whether the target was written."""
    click.echo(terminal.sanitize(difference) if terminal.is_terminal(sys.stdout) else difference, nl=False)
    name = terminal.path(params["target"])
    if params["writes_target"]:
        _note(f"Wrote {name}.")
    else:
        _note(f"{name} was not changed; --force replaces it." if difference else f"{name} is already the same.")


def _limits(arguments: dict[str, Any]) -> Any:
    names = ("total_seconds", "first_event_seconds", "idle_seconds", "max_output_tokens", "max_tokens")
    limits = {name: arguments[name] for name in names if arguments[name] is not None}
    return Limits(**limits) if limits else None


def _announce(prepared: Any, command: str) -> None:
    """Say on a terminal how much is sent where more than one file is: a folder may be larger than it looks."""
    sent = [file for file in prepared.request.prompt.files if not file.withheld]
    if len(sent) > 1 and terminal.is_terminal(sys.stderr):
        tokens = thousands(prepared.request.prompt.tokens)
        _note(f"Sending {len(sent)} files, about {tokens} tokens. `understudy {command} … --preview` lists them.")


def _warn(prepared: Any) -> None:
    for text in prepared.request.notes:
        _note(text)
    left_out = prepared.left_out
    if left_out:
        shown = "; ".join(f"{skipped.name} ({skipped.why})" for skipped in left_out[:_LEFT_OUT_SHOWN])
        rest = f"; and {len(left_out) - _LEFT_OUT_SHOWN} more" if len(left_out) > _LEFT_OUT_SHOWN else ""
        _note(f"Not sent: {shown}{rest}.")


def _is_stop(error: BaseException) -> bool:
    """Return whether Ctrl-C caused it, for which the terminal shows ``^C``."""
    return isinstance(error, KeyboardInterrupt) or getattr(error, "kind", None) == "cancelled"


def _note(text: str) -> None:
    output.say(terminal.one_line(text), err=True)
