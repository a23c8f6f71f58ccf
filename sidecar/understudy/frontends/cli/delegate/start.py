"""``start`` and ``preview``."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from understudy.frontends.cli import exit_codes, option_names, options
from understudy.frontends.cli.api_calls import call, uri
from understudy.frontends.cli.delegate import follower
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import terminal, trust_prompt
from understudy.model.errors import ErrorKind, UnderstudyError

_RANGE = re.compile(r"([1-9]\d{0,8})(?::([1-9]\d{0,8}))?")


def _what_to_do(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments and options that make a ``StartParams``."""
    decorators = [
        click.argument("recipe", shell_complete=options.complete_recipes),
        click.argument("files", nargs=-1, type=click.Path()),
        click.option("-t", "--task", metavar="TEXT", help="The task for the agent."),
        click.option(
            "--task-file",
            metavar="FILE",
            type=click.File(encoding="utf-8"),
            help="Read the task from a file (- for stdin).",
        ),
        click.option(
            "--context",
            metavar="FILE",
            multiple=True,
            type=click.Path(),
            help="Attach a file for reading; may be repeated.",
        ),
        click.option("--range", "range_", metavar="FROM[:TO]", help="Lines of the first file (1-based, inclusive)."),
        click.option(
            "--target", metavar="FILE", type=click.Path(), help="The file to write, for recipes that write one."
        ),
        click.option(
            "--input",
            "input_",
            metavar="FILE",
            type=click.File(encoding="utf-8"),
            help="Read the text to work on from a file (- for stdin).",
        ),
        click.option(
            "-d",
            "--delegator",
            metavar="NAME",
            shell_complete=options.complete_delegators,
            help="The delegator (default: chosen by the configuration).",
        ),
        click.option(
            "--base",
            metavar="BASE",
            help="Start from `current` (your files as they are, the default), `head`, or a revision.",
        ),
        click.option(
            "--check",
            "checks",
            metavar="NAME",
            multiple=True,
            help="Add this configured check (for recipes other than `tests`: run only the named ones); "
            "may be repeated.",
        ),
        click.option(
            "--buffer",
            "buffers",
            metavar="PATH=FILE",
            multiple=True,
            help="Use the text in FILE as the unsaved text of PATH; may be repeated.",
        ),
        click.option(
            "--workspace",
            metavar="DIR",
            type=click.Path(file_okay=False),
            help="The workspace (default: the repository of the first file).",
        ),
        click.option("--group", metavar="ID", help="The group to join (see `understudy groups create`)."),
        click.option("--trust", is_flag=True, help="Trust the workspace without asking."),
        click.option(
            "--idempotency-key", metavar="KEY", help="Return the existing delegation if one was started with this key."
        ),
        options.rounds,
        options.limit_options,
        options.as_json,
    ]
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


@click.command(
    epilog=options.examples(
        "understudy start tests src/wrap.py",
        "understudy start implement src/wrap.py -t 'support tabs' -d claude --max-usd 2",
        "understudy start ask -t 'What does this do?' --context src/wrap.py > answer.md",
        "understudy start tests src/wrap.py --detach",
    )
    + "\n\nThe exit code is the verdict: `understudy --help` lists the codes."
)
@_what_to_do
@options.following
def start(*, detach: bool, quiet: bool, trust: bool, json_: bool, **given: Any) -> int:
    """Start a delegation, follow it, and print its verdict.

    RECIPE is the kind of work (`understudy recipes` lists them), and FILES are the files to work on. Progress goes to
    stderr, the verdict or the answer to stdout. Ctrl-C cancels the delegation and keeps its partial work; a second
    Ctrl-C exits at once.
    """
    params = _params(given)
    started = _trusted(lambda: call("delegations/start", **params), params, trust=trust)
    if detach:
        output.json(started) if json_ else click.echo(started.id)
        return exit_codes.Exit.OK
    if not quiet:
        why = terminal.one_line(started.explain.reason)
        click.echo(f"{started.id}: {started.explain.delegator}, {why}", err=True)
    return follower.to_the_end(started.id, given["recipe"], quiet=quiet, as_json=json_)


@click.command(
    epilog=options.examples(
        "understudy preview tests src/wrap.py", "understudy preview ask -t 'Why?' --context src/wrap.py --json"
    )
)
@_what_to_do
def preview(*, trust: bool, json_: bool, **given: Any) -> int:
    """Show exactly what a start would send, without sending it: delegator, prompt and files."""
    params = _params(given)
    found = _trusted(lambda: call("delegations/preview", **params), params, trust=trust)
    if json_:
        output.json(found)
        return exit_codes.Exit.OK
    click.echo(f"To {found.explain.delegator}: {terminal.one_line(found.explain.reason)}")
    for candidate in found.explain.candidates:
        if candidate.skipped_because:
            click.echo(f"  not {candidate.name}: {terminal.one_line(candidate.skipped_because)}")
    click.echo()
    output.table(
        ("FILE", "BYTES", "TOKENS", ""),
        [
            (file.path, str(file.bytes), str(file.tokens), f"withheld: {file.withheld}" if file.withheld else "")
            for file in found.files
        ],
    )
    click.echo(f"\nAbout {found.tokens} tokens. The prompt:\n")
    click.echo(terminal.sanitize(found.prompt))
    return exit_codes.Exit.OK


def _params(given: dict[str, Any]) -> dict[str, Any]:
    task = given["task"]
    if given["task_file"] is not None:
        if task is not None:
            raise click.UsageError("--task and --task-file exclude each other.")
        task = _read(given["task_file"])
    params = {
        "recipe": given["recipe"],
        "task": task,
        "files": [uri(file) for file in given["files"]] or None,
        "range": _range(given["range_"]),
        "contextFiles": [uri(file) for file in given["context"]] or None,
        "input": None if given["input_"] is None else _read(given["input_"]),
        "target": uri(given["target"]) if given["target"] else None,
        "delegator": given["delegator"],
        "workspace": uri(given["workspace"]) if given["workspace"] else None,
        "base": given["base"],
        "checks": list(given["checks"]) or None,
        "limits": options.limits(given),
        "rounds": given["rounds"],
        "groupId": given["group"],
        "idempotencyKey": given["idempotency_key"],
        "buffers": [_buffer(text) for text in given["buffers"]] or None,
    }
    return {name: value for name, value in params.items() if value is not None}


def _range(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    match = _RANGE.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not FROM or FROM:TO with line numbers from 1.", param_hint="--range")
    first = int(match[1])
    last = int(match[2] or first)
    if last < first:
        raise click.BadParameter(f"{text!r} ends before it begins.", param_hint="--range")
    return {"start": {"line": first - 1, "character": 0}, "end": {"line": last, "character": 0}}


def _buffer(text: str) -> dict[str, str]:
    path, equals, file = text.partition("=")
    if not path or not equals or not file:
        raise click.BadParameter(f"{text!r} is not PATH=FILE.", param_hint="--buffer")
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return {"uri": uri(path), "text": data.decode()}
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}.", param_hint="--buffer") from None
    except UnicodeDecodeError:
        raise click.BadParameter(f"{file} is not UTF-8.", param_hint="--buffer") from None


def _read(file: Any) -> str:
    try:
        return str(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{file.name} cannot be read as UTF-8 text: {error}.") from None


def _trusted(ask_for: Callable[[], Any], params: dict[str, Any], *, trust: bool) -> Any:
    """Send the request; if the workspace is untrusted, trust it (with --trust, or after asking) and send it again."""
    try:
        with option_names.as_options():
            return ask_for()
    except UnderstudyError as error:
        if error.kind is not ErrorKind.UNTRUSTED_WORKSPACE or not (trust or trust_prompt.can_ask()):
            raise
        named = params.get("workspace") or next(iter(params.get("files") or []), str(Path.cwd()))
        workspace = trust_prompt.workspace_of(named)
        if not (trust_prompt.record(workspace, trusted=True) if trust else trust_prompt.ask(workspace)):
            raise
    with option_names.as_options():
        return ask_for()
