"""``start`` and ``preview``."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import uri, whole_group
from understudy.frontends.cli.calls.workspace_trust import with_trust
from understudy.frontends.cli.delegate import follower
from understudy.frontends.cli.group import group_table, queue_commands
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import terminal
from understudy.frontends.cli.terminal.terminal import HeldInterrupt
from understudy.model.errors import ErrorKind, UnderstudyError

_FRONT_MATTER = re.compile(r"\ufeff?---\n((?:[^\n]*\n){0,200}?)---\n")
_DELEGATOR = re.compile(r"""^delegator:[ \t]*(["']?)([A-Za-z0-9._-]+)\1[ \t]*\n""", re.MULTILINE)
_RANGE = re.compile(r"([1-9]\d{0,8})(?::([1-9]\d{0,8}))?")


_what_to_do = options.all_of(
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
    click.option("--target", metavar="FILE", type=click.Path(), help="The file to write, for recipes that write one."),
    click.option(
        "--input",
        "input_",
        metavar="FILE",
        type=click.File(encoding="utf-8"),
        help="Read the text to work on from a file (- for stdin).",
    ),
    click.option(
        *("-d", "--profile", "--delegator", "delegators"),  # errors name the last one
        metavar="NAME",
        multiple=True,
        shell_complete=options.complete_delegators,
        help="The delegator (default: chosen by the configuration); with several, each does the task.",
    ),
    click.option(
        "--fallback",
        "fallback",
        metavar="NAME",
        multiple=True,
        shell_complete=options.complete_delegators,
        help="A delegator that takes over when the one before cannot work; may be repeated.",
    ),
    click.option("--no-fallback", is_flag=True, help="Let no other delegator take over."),
    click.option("--each", is_flag=True, help="Start one delegation for each of FILES, as a group."),
    click.option(
        "--agent",
        metavar="NAME",
        shell_complete=options.complete_agents,
        help="Add the instructions, model and tools of an agent (`understudy agents` lists them).",
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
        help="Add this configured check (for recipes other than `tests`: run only the named ones); may be repeated.",
    ),
    click.option(
        "--workspace",
        metavar="DIR",
        type=click.Path(file_okay=False),
        help="The workspace (default: the repository of the first file).",
    ),
    click.option("--whole-folder", is_flag=True, help="Copy all files of a large folder that is not a git repository."),
    click.option(
        "--label", "labels", metavar="WORD", multiple=True, help="A word about the work, for routes; may be repeated."
    ),
    click.option("--group", metavar="ID", help="The group to join (see `understudy groups create`)."),
    click.option("--trust", is_flag=True, help="Trust the workspace without asking."),
    click.option(
        "--idempotency-key", metavar="KEY", help="Return the existing delegation if one was started with this key."
    ),
    click.option(
        "--at",
        "start_at",
        metavar="TIME",
        callback=lambda _, __, text: None if text is None else options.moment(text),
        help="Wait in the queue until then: 22:00 (today or tomorrow), '2026-12-24 08:00', +90m, +2h.",
    ),
    click.option(
        "--when",
        type=click.Choice(["quota"]),
        help="quota: while the delegator and all that may take over are paused, wait for the end of the first pause.",
    ),
    options.launch,
    options.rounds,
    options.limit_options,
    options.as_json,
)
"""The arguments and options that make a ``StartParams``."""


@click.command(
    epilog=options.examples(
        "understudy start tests src/wrap.py",
        "understudy start implement src/wrap.py -t 'support tabs' -d claude --max-usd 2",
        "understudy start ask -t 'What does this do?' --context src/wrap.py > answer.md",
        "understudy start tests src/wrap.py --detach",
        "understudy start tests src/*.py --each",
        "understudy start fix src/wrap.py -t 'keep tabs' -d claude -d codex",
        "understudy start fix src/wrap.py -t 'keep tabs' -d claude --fallback codex",
    )
    + "\n\nThe exit code is the verdict: `understudy --help` lists the codes."
)
@_what_to_do
@options.following
def start(*, detach: bool, quiet: bool, trust: bool, json_: bool, **arguments: Any) -> int:
    """Start a delegation, follow it, and print its verdict.

    RECIPE is the kind of work (`understudy recipes` lists them), and FILES are the files to work on. Progress goes to
    stderr, the verdict or the answer to stdout. Ctrl-C cancels the delegation and keeps its partial work; a second
    Ctrl-C exits at once.
    """
    chosen = arguments["delegators"]
    tasks = _tasks(arguments)
    if arguments["delegators"] != chosen:
        output.say(f"note: The task file names the delegator {arguments['delegators'][0]}.", err=True)
    held = HeldInterrupt()
    if len(tasks) > 1:
        kind = "batch" if arguments["each"] else "compare"
        started = with_trust("groups/start", {"tasks": tasks, "kind": kind}, tasks[0], trust=trust, held=held)
        return group_table.to_the_end(started, held, detach=detach, quiet=quiet, as_json=json_)
    params = tasks[0]
    with _task_file_named():
        started = with_trust("delegations/start", params, params, trust=trust, held=held)
    queue_commands.warn_if_paused()
    return follower.follow_started(
        started, params["recipe"], started.explain.delegator, held, detach=detach, quiet=quiet, as_json=json_
    )


@click.command(
    epilog=options.examples(
        "understudy preview tests src/wrap.py", "understudy preview ask -t 'Why?' --context src/wrap.py --json"
    )
)
@_what_to_do
def preview(*, trust: bool, json_: bool, **arguments: Any) -> None:
    """Show exactly what a start would send, without sending it: delegator, prompt and files."""
    params, *more = _tasks(arguments)
    if more:
        raise click.UsageError("A preview shows one task: name one delegator, and leave out --each.")
    previewed = with_trust("delegations/preview", params, params, trust=trust)
    output.preview(previewed, as_json=json_)


def _tasks(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one ``StartParams`` for each file (with ``--each``) and each delegator; several are a group."""
    params = _params(arguments)
    files = params.get("files", [])
    if arguments["each"] and not files:
        raise click.UsageError("--each needs FILES.")
    one_each = [{**params, "files": [file]} for file in files] if arguments["each"] else [params]
    tasks = [{**task, "delegator": name} for task in one_each for name in arguments["delegators"]] or one_each
    if len(tasks) > 1 and any(arguments[name] is not None for name in ("group", "idempotency_key")):
        raise click.UsageError("--group and --idempotency-key are for one delegation; several become a group.")
    return tasks


def _params(arguments: dict[str, Any]) -> dict[str, Any]:
    task = arguments["task"]
    if arguments["task_file"] is not None:
        if task is not None:
            raise click.UsageError("--task and --task-file exclude each other.")
        task, named = _without_delegator(_read(arguments["task_file"]))
        arguments["delegators"] = arguments["delegators"] or named
    recipe = arguments["recipe"]
    if ("/" in recipe or "." in recipe) and Path(recipe).exists():
        example = shlex.join(["understudy", "start", "tests", recipe])
        raise click.UsageError(f"{recipe} is a file or folder. Name the recipe first, such as: {example}")
    for file in arguments["files"]:
        # The name of a file may have blanks, but its ending has none.
        ending = Path(file).suffix
        if " " in file.strip() and (" " in ending or not ending) and not Path(file).exists():
            example = shlex.join(["understudy", "start", recipe, "-t", file])
            raise click.UsageError(f"{file!r} is not a file. If it describes the work, give it with -t: {example}")
    params = {
        "recipe": recipe,
        "task": task,
        "files": [uri(file) for file in arguments["files"]] or None,
        "range": _range(arguments["range_"]),
        "contextFiles": [uri(file) for file in arguments["context"]] or None,
        "input": None if arguments["input_"] is None else _read(arguments["input_"]),
        "target": uri(arguments["target"]) if arguments["target"] else None,
        "fallback": _fallback(arguments),
        "agent": arguments["agent"],
        "workspace": uri(arguments["workspace"]) if arguments["workspace"] else None,
        "wholeFolder": arguments["whole_folder"] or None,
        "base": arguments["base"],
        "checks": list(arguments["checks"]) or None,
        "limits": options.limits(arguments),
        "launch": options.launch_of(arguments),
        "rounds": arguments["rounds"],
        "labels": list(arguments["labels"]) or None,
        "startAt": arguments["start_at"],
        "when": arguments["when"],
        "groupId": whole_group(arguments["group"]),
        "idempotencyKey": arguments["idempotency_key"],
    }
    return {name: value for name, value in params.items() if value is not None}


@contextlib.contextmanager
def _task_file_named() -> Iterator[None]:
    """Name ``--task-file -`` in the error of a start without a task: what is piped in is not read by itself."""
    try:
        yield
    except UnderstudyError as error:
        if error.kind is ErrorKind.INPUT_EMPTY and not terminal.is_terminal(sys.stdin):
            error.hint = f"{error.hint} A task that is piped in is read with --task-file -."
        raise


def _without_delegator(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a task without `delegator: NAME` in its front matter, as a ticket of Operator has it, and that name."""
    front = _FRONT_MATTER.match(text)
    named = _DELEGATOR.search(front[1]) if front is not None else None
    if front is None or named is None:
        return text, ()
    rest = _DELEGATOR.sub("", front[1])
    return (f"---\n{rest}---\n" if rest.strip() else "") + text[front.end() :], (named[2],)


def _fallback(arguments: dict[str, Any]) -> list[str] | None:
    names = options.fallback(arguments)
    if names and len(arguments["delegators"]) > 1:
        raise click.UsageError("--fallback is for one delegator; several -d do the same task each.")
    return names


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


def _read(file: Any) -> str:
    try:
        return str(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{file.name} cannot be read as UTF-8 text: {error}.") from None
