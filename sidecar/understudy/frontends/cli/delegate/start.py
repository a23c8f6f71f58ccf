"""``start`` and ``preview``: what is to be done, by whom, on what."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from understudy.faces.cli import exits, following, options, output, spelling, terminal, trusting
from understudy.faces.cli.calls import call, uri
from understudy.model.errors import ErrorKind, UnderstudyError

_RANGE = re.compile(r"([1-9]\d{0,8})(?::([1-9]\d{0,8}))?")

_LIMITS: tuple[tuple[str, type, str], ...] = (
    ("total-seconds", float, "Limit: all attempts together."),
    ("idle-seconds", float, "Limit: between two events of the agent."),
    ("first-event-seconds", float, "Limit: from the start of an attempt to its first event."),
    ("after-result-seconds", float, "Limit: from the agent's last word to its exit."),
    ("max-turns", int, "Limit: turns of the agent."),
    ("max-output-tokens", int, "Limit: tokens of one answer."),
    ("max-tokens", int, "Limit: tokens of the whole delegation."),
    ("max-usd", str, "Limit: money, in USD."),
)


def _what_to_do(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments and options that make a ``StartParams``."""
    decorators = [
        click.argument("recipe", shell_complete=options.complete_recipes),
        click.argument("files", nargs=-1, type=click.Path()),
        click.option("-t", "--task", metavar="TEXT", help="What you want, in your own words."),
        click.option(
            "--task-file",
            metavar="FILE",
            type=click.File(encoding="utf-8"),
            help="Read the task from a file (- is stdin).",
        ),
        click.option(
            "--context", metavar="FILE", multiple=True, type=click.Path(), help="A file to read along; may be repeated."
        ),
        click.option(
            "--range", "range_", metavar="FROM[:TO]", help="Lines of the first file, counted from 1, both included."
        ),
        click.option(
            "--target", metavar="FILE", type=click.Path(), help="The file to write, for recipes that return one."
        ),
        click.option(
            "--input", "input_", metavar="FILE", type=click.File(encoding="utf-8"), help="Text to work on (- is stdin)."
        ),
        click.option(
            "-d",
            "--delegator",
            metavar="NAME",
            shell_complete=options.complete_delegators,
            help="Who does it; else configuration decides.",
        ),
        click.option(
            "--base", metavar="BASE", help="Start from `seen` (what you see, the default), `head`, or a revision."
        ),
        click.option(
            "--check", "checks", metavar="NAME", multiple=True, help="Run this configured check; may be repeated."
        ),
        click.option(
            "--buffer",
            "buffers",
            metavar="PATH=FILE",
            multiple=True,
            help="PATH as in FILE instead of on disk: unsaved text.",
        ),
        click.option(
            "--workspace",
            metavar="DIR",
            type=click.Path(file_okay=False),
            help="The workspace; else the first file's repository.",
        ),
        click.option("--trust", is_flag=True, help="Trust the workspace without asking."),
        click.option("--idempotency-key", metavar="KEY", help="The same key again returns the same delegation."),
        *(click.option(f"--{name}", type=type_, metavar="N", help=text) for name, type_, text in _LIMITS),
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
    + "\n\nThe exit code says the verdict: `understudy --help` lists them."
)
@_what_to_do
@options.following
def start(*, detach: bool, quiet: bool, trust: bool, json_: bool, **given: Any) -> int:
    """Delegate work, follow it, and say what can be believed of the result.

    RECIPE is the kind of work (`understudy recipes` lists them), FILES are what it is about. Progress goes to stderr,
    the verdict or the answer to stdout. Ctrl-C cancels and keeps the work; a second Ctrl-C leaves at once.
    """
    params = _params(given)
    started = _trusted(lambda: call("delegations/start", **params), params, trust=trust)
    if detach:
        output.json(started) if json_ else click.echo(started.id)
        return exits.Exit.OK
    if not quiet:
        why = terminal.one_line(started.explain.because)
        click.echo(f"{started.id}: {started.explain.delegator}, {why}", err=True)
    return following.to_the_end(started.id, given["recipe"], quiet=quiet, as_json=json_)


@click.command(
    epilog=options.examples(
        "understudy preview tests src/wrap.py", "understudy preview ask -t 'Why?' --context src/wrap.py --json"
    )
)
@_what_to_do
def preview(*, trust: bool, json_: bool, **given: Any) -> int:
    """Show exactly what a start would send: who, the prompt, the files. Nothing is sent."""
    params = _params(given)
    found = _trusted(lambda: call("delegations/preview", **params), params, trust=trust)
    if json_:
        output.json(found)
        return exits.Exit.OK
    click.echo(f"To {found.explain.delegator}: {terminal.one_line(found.explain.because)}")
    for tried in found.explain.tried:
        if tried.skipped:
            click.echo(f"  not {tried.name}: {terminal.one_line(tried.skipped)}")
    click.echo()
    output.table(
        ("FILE", "BYTES", "TOKENS", ""),
        [
            (file.path, str(file.bytes), str(file.tokens), f"withheld: {file.withheld}" if file.withheld else "")
            for file in found.files
        ],
    )
    money = f", about ${found.estimated_usd}" if found.estimated_usd else ""
    click.echo(f"\nAbout {found.tokens} tokens{money}. The prompt:\n")
    click.echo(terminal.clean(found.prompt))
    return exits.Exit.OK


def _params(given: dict[str, Any]) -> dict[str, Any]:
    task = given["task"]
    if given["task_file"] is not None:
        if task is not None:
            raise click.UsageError("--task and --task-file exclude each other")
        task = _read(given["task_file"])
    params = {
        "recipe": given["recipe"],
        "task": task,
        "files": [uri(file) for file in given["files"]] or None,
        "range": _range(given["range_"]),
        "context": [uri(file) for file in given["context"]] or None,
        "input": None if given["input_"] is None else _read(given["input_"]),
        "target": uri(given["target"]) if given["target"] else None,
        "delegator": given["delegator"],
        "workspace": uri(given["workspace"]) if given["workspace"] else None,
        "base": given["base"],
        "checks": list(given["checks"]) or None,
        "limits": limits(given),
        "idempotencyKey": given["idempotency_key"],
        "buffers": [_buffer(text) for text in given["buffers"]] or None,
    }
    return {name: value for name, value in params.items() if value is not None}


def limits(given: dict[str, Any]) -> dict[str, Any] | None:
    """Return the ``Limits`` among a command's options, None where there is none."""
    from understudy.model.wire import camel  # noqa: PLC0415 - one user

    names = [name.replace("-", "_") for name, _, _ in _LIMITS]
    return {camel(name): given[name] for name in names if given.get(name) is not None} or None


def _range(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    match = _RANGE.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not FROM or FROM:TO, lines counted from 1", param_hint="--range")
    first = int(match[1])
    last = int(match[2] or first)
    if last < first:
        raise click.BadParameter(f"{text!r} ends before it begins", param_hint="--range")
    return {"start": {"line": first - 1, "character": 0}, "end": {"line": last, "character": 0}}


def _buffer(text: str) -> dict[str, str]:
    path, equals, file = text.partition("=")
    if not path or not equals or not file:
        raise click.BadParameter(f"{text!r} is not PATH=FILE", param_hint="--buffer")
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return {"uri": uri(path), "text": data.decode()}
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint="--buffer") from None
    except UnicodeDecodeError:
        raise click.BadParameter(f"{file} is not UTF-8", param_hint="--buffer") from None


def _read(file: Any) -> str:
    try:
        return str(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{file.name} cannot be read as UTF-8 text: {error}") from None


def _trusted(ask_for: Callable[[], Any], params: dict[str, Any], *, trust: bool) -> Any:
    """Do it; where the workspace is not trusted, trust it as told (or after asking once) and do it again."""
    try:
        with spelling.as_options():
            return ask_for()
    except UnderstudyError as error:
        if error.kind is not ErrorKind.UNTRUSTED_WORKSPACE or not (trust or trusting.can_ask()):
            raise
        from understudy.engine.places import workspace_of  # noqa: PLC0415 - only in a new folder

        workspace = workspace_of(params.get("files") or [], params.get("workspace"), Path.cwd())
        if not (trusting.record(workspace, trusted=True) if trust else trusting.ask(workspace)):
            raise
    with spelling.as_options():
        return ask_for()
