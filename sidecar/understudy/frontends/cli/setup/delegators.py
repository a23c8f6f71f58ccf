"""``delegators``: who can do the work."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from typing import Any

import click
import msgspec

from understudy.faces.cli import exits, interactive, options, output, spelling, terminal, trusting
from understudy.faces.cli.calls import call, uri
from understudy.model.delegators import Delegator

_LAUNCH_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("mode", {"type": click.Choice(["headless", "tmux", "acp"]), "help": "How the tool is driven."}),
    ("permission_mode", {"metavar": "MODE", "help": "The tool's own permission mode."}),
    ("sandbox", {"type": click.Choice(["off", "prefer", "require"]), "help": "Whether it runs in a sandbox."}),
    ("prompt_prefix", {"metavar": "TEXT", "help": "Put before every prompt."}),
    ("prompt_suffix", {"metavar": "TEXT", "help": "Put after every prompt."}),
    (
        "prompt_delivery",
        {"type": click.Choice(["argument", "stdin", "file"]), "help": "How a generic tool gets the prompt."},
    ),
    ("output", {"type": click.Choice(["text", "events"]), "help": "What a generic tool prints."}),
)


@click.group(epilog=options.examples("understudy delegators", "understudy delegators add"), invoke_without_command=True)
@click.pass_context
def delegators(context: click.Context) -> int:
    """Say who can do the work: an agent CLI, or a model on a server, with a model and launch options."""
    if context.invoked_subcommand is None:
        return int(context.invoke(list_, workspace=None, json_=False))
    return exits.Exit.OK


@delegators.command("list", epilog=options.examples("understudy delegators list --json"))
@options.in_workspace
@options.as_json
def list_(*, workspace: str | None, json_: bool) -> int:
    """List delegators, where each comes from, and whether it can be used now."""
    found = call("delegators/list", workspace=uri(workspace or "."))
    if json_:
        output.json(found)
        return exits.Exit.OK
    rows = []
    for entry in found.delegators:
        one = entry.delegator
        state = (
            "ready" if entry.state.ready else next((problem.message for problem in entry.state.problems), "not ready")
        )
        rows.append((one.name, one.tool or f"server {one.model_server or '-'}", one.model or "-", entry.scope, state))
    output.table(("NAME", "WITH", "MODEL", "FROM", "STATE"), rows)
    output.problems(found.problems)
    return exits.Exit.OK


@delegators.command(epilog=options.examples("understudy delegators show claude"))
@click.argument("name", shell_complete=options.complete_delegators)
@options.in_workspace
@options.as_json
def show(*, name: str, workspace: str | None, json_: bool) -> int:
    """Show one delegator and its problems."""
    entry = call("delegators/get", name=name, workspace=uri(workspace or "."))
    output.json(entry) if json_ else print_entry(entry, entry.delegator)
    return exits.Exit.OK


def print_entry(entry: Any, declared: Any) -> None:
    """Print a configured thing as people write it, with its place and its problems."""
    place = f", {entry.location.uri.removeprefix('file://')}" if entry.location else ""
    editable = "" if entry.editable else " (by hand only)"
    click.echo(terminal.one_line(f"{declared.name}: from {entry.scope}{place}{editable}"))
    data = json.dumps(msgspec.to_builtins(declared), indent=2, ensure_ascii=False)
    click.echo("\n".join(map(terminal.clean, data.splitlines())))
    output.problems(entry.state.problems)


def _declaration(command: Callable[..., Any]) -> Callable[..., Any]:
    decorators = [
        click.option(
            "--tool",
            metavar="TOOL",
            shell_complete=options.complete_tools,
            help="The agent CLI (`generic`: any command).",
        ),
        click.option(
            "--model-server",
            "--server",
            metavar="NAME",
            shell_complete=options.complete_servers,
            help="The model server.",
        ),
        click.option("--model", metavar="ID", help="The model, as the tool or the server spells it."),
        click.option("--display-name", metavar="TEXT", help="How people read it."),
        click.option("--agent", metavar="NAME", help="The agent definition to use."),
        click.option(
            "--command",
            metavar="COMMAND",
            help="A generic tool's command in one string; quotes group words, no shell sees it.",
        ),
        click.option(
            "--flag", "flags", metavar="FLAG", multiple=True, help="A further argument for the tool; may be repeated."
        ),
        click.option("--yolo/--no-yolo", default=None, help="Let the tool do everything without asking."),
        *(click.option(f"--{name.replace('_', '-')}", **how) for name, how in _LAUNCH_OPTIONS),
        click.option(
            "--env", "env", metavar="NAME=VALUE", multiple=True, help="Set a variable (no secrets: see --env-from)."
        ),
        click.option(
            "--env-from", metavar="NAME=VARIABLE", multiple=True, help="Take NAME from your VARIABLE when it runs."
        ),
        click.option(
            "--property",
            "properties",
            metavar="KEY=JSON",
            multiple=True,
            help="Sent with each request to a server (temperature=0.2).",
        ),
        click.option("--locality", type=click.Choice(["local", "remote"]), help="`local` never talks to another host."),
        click.option("--total-seconds", type=float, metavar="N", help="Limit of a delegation."),
        click.option("--idle-seconds", type=float, metavar="N", help="Limit between two events."),
        click.option("--max-turns", type=int, metavar="N", help="Limit of turns."),
        click.option("--max-tokens", type=int, metavar="N", help="Limit of tokens."),
        click.option("--max-usd", metavar="N", help="Limit of money."),
        click.option(
            "--from-json",
            metavar="FILE",
            type=click.File("rb"),
            help="Take the whole declaration from a file (- is stdin).",
        ),
    ]
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


@delegators.command(
    epilog=options.examples(
        "understudy delegators add",
        "understudy delegators add --from-tool claude",
        "understudy delegators add local --server ollama --model qwen2.5-coder",
        "understudy delegators add mine --tool generic -- mytool --print {prompt}",
    )
)
@click.argument("name", required=False)
@click.argument("argv", nargs=-1, metavar="[-- COMMAND...]")
@click.option(
    "--from-tool",
    metavar="TOOL",
    shell_complete=options.complete_tools,
    help="Make one for this tool, with a generated name.",
)
@_declaration
@options.scope
@options.in_workspace
@options.as_json
def add(
    *,
    name: str | None,
    argv: tuple[str, ...],
    from_tool: str | None,
    scope: str,
    workspace: str | None,
    json_: bool,
    **given: Any,
) -> int:
    """Make a delegator; without arguments on a terminal, by questions."""
    place = {"scope": scope, "workspace": uri(workspace or ".")}
    if from_tool is not None:
        if name is not None or argv:
            raise click.UsageError("--from-tool generates the name: give neither a name nor a command")
        with spelling.as_options():
            entry = call("delegators/createFromTool", tool=from_tool, model=given["model"], **place)
    else:
        declared = _declared({}, given, argv)
        if name is not None:
            declared["name"] = name
        if not declared:
            if json_ or not trusting.can_ask():
                raise click.UsageError("give a NAME and what it runs on (--tool or --server), or --from-tool TOOL")
            declared = interactive.delegator()
        if "name" not in declared:
            raise click.UsageError("a NAME is missing")
        with spelling.as_options():
            entry = call("delegators/create", delegator=declared, **place)
    _report("made", entry, json_=json_)
    return exits.Exit.OK


@delegators.command(
    epilog=options.examples(
        "understudy delegators update local --model qwen3-coder", "understudy delegators update local --unset limits"
    )
)
@click.argument("name", shell_complete=options.complete_delegators)
@click.argument("argv", nargs=-1, metavar="[-- COMMAND...]")
@_declaration
@click.option("--unset", metavar="FIELD", multiple=True, help="Remove a field; may be repeated.")
@click.option("--rename", metavar="NAME", help="Give it another name.")
@options.in_workspace
@options.as_json
def update(
    *,
    name: str,
    argv: tuple[str, ...],
    unset: tuple[str, ...],
    rename: str | None,
    workspace: str | None,
    json_: bool,
    **given: Any,
) -> int:
    """Change a delegator; what is not named stays as it is."""
    before = call("delegators/get", name=name, workspace=uri(workspace or "."))
    declared = _declared(msgspec.to_builtins(before.delegator), given, argv)
    for field in unset:
        if field not in declared:
            raise click.BadParameter(
                f"{name} has no field {field!r}; it has {', '.join(declared)}", param_hint="--unset"
            )
        del declared[field]
    if rename is not None:
        declared["name"] = rename
    with spelling.as_options():
        entry = call(
            "delegators/update",
            name=name,
            delegator=declared,
            revision=before.revision,
            workspace=uri(workspace or "."),
        )
    _report("changed", entry, json_=json_)
    return exits.Exit.OK


@delegators.command(epilog=options.examples("understudy delegators remove local"))
@click.argument("name", shell_complete=options.complete_delegators)
@options.in_workspace
@options.as_json
def remove(*, name: str, workspace: str | None, json_: bool) -> int:
    """Remove a delegator; delegations that it did are kept."""
    done = call("delegators/delete", name=name, workspace=uri(workspace or "."))
    output.json(done) if json_ else click.echo(f"removed {name}")
    return exits.Exit.OK


@delegators.command(epilog=options.examples("understudy delegators test local"))
@click.argument("name", shell_complete=options.complete_delegators)
@options.in_workspace
@options.as_json
def test(*, name: str, workspace: str | None, json_: bool) -> int:
    """Try a delegator step by step: binary and version, or server, key, model and a round trip."""
    return print_probe(call("delegators/test", name=name, workspace=uri(workspace or ".")), json_=json_)


def print_probe(found: Any, *, json_: bool) -> int:
    """Print a ``ProbeResult``; the exit code says whether every step went well."""
    if json_:
        output.json(found)
    else:
        brush = output.paint()
        for step in found.steps:
            mark = brush("✓", fg="green") if step.ok else brush("✗", fg="red")
            click.echo(
                f"{mark} {step.name.replace('_', ' ')}: {terminal.one_line(step.message)} ({step.seconds:.1f} s)"
            )
    return exits.Exit.OK if found.ok else exits.Exit.UNVERIFIED


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Return ``NAME=VALUE`` options as a mapping."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        found[key] = value
    return found


def read_declaration(file: Any) -> dict[str, Any]:
    """Return the JSON object in ``file``."""
    try:
        found = msgspec.json.decode(file.read())
    except (OSError, msgspec.DecodeError) as error:
        raise click.BadParameter(f"{file.name}: {error}", param_hint="--from-json") from None
    if not isinstance(found, dict):
        raise click.BadParameter(f"{file.name} holds no JSON object", param_hint="--from-json")
    return found


def _declared(before: dict[str, Any], given: dict[str, Any], argv: tuple[str, ...]) -> dict[str, Any]:
    declared = before | (read_declaration(given["from_json"]) if given["from_json"] else {})
    for field in ("tool", "model", "agent", "locality"):
        if given[field] is not None:
            declared[field] = given[field]
    if given["model_server"] is not None:
        declared["modelServer"] = given["model_server"]
    if given["display_name"] is not None:
        declared["displayName"] = given["display_name"]
    _merge(declared, "launch", _launch(given, argv))
    _merge(declared, "limits", _limits(given))
    _merge(declared, "env", pairs(given["env"], "--env"))
    _merge(declared, "env", {key: {"fromEnv": value} for key, value in pairs(given["env_from"], "--env-from").items()})
    _merge(
        declared,
        "modelProperties",
        {key: _json(value) for key, value in pairs(given["properties"], "--property").items()},
    )
    return declared


def _merge(declared: dict[str, Any], field: str, more: dict[str, Any]) -> None:
    if more:
        declared[field] = {**(declared.get(field) or {}), **more}


def _launch(given: dict[str, Any], argv: tuple[str, ...]) -> dict[str, Any]:
    from understudy.model.wire import camel  # noqa: PLC0415 - one user

    launch: dict[str, Any] = {camel(name): given[name] for name, _ in _LAUNCH_OPTIONS if given[name] is not None}
    if given["yolo"] is not None:
        launch["yolo"] = given["yolo"]
    if given["flags"]:
        launch["flags"] = list(given["flags"])
    if argv and given["command"]:
        raise click.UsageError("give the command once: with --command, or behind --")
    if argv:
        launch["command"] = list(argv)
    elif given["command"]:
        try:
            launch["command"] = shlex.split(given["command"])
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--command") from None
    return launch


def _limits(given: dict[str, Any]) -> dict[str, Any]:
    from understudy.faces.cli.start import limits  # noqa: PLC0415 - one user

    return limits(given) or {}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _report(verb: str, entry: Any, *, json_: bool) -> None:
    if json_:
        output.json(entry)
        return
    declared: Delegator = entry.delegator
    place = f" in {entry.location.uri.removeprefix('file://')}" if entry.location else ""
    click.echo(terminal.one_line(f"{verb} {declared.name}{place}"))
    output.problems(entry.state.problems)
    if sys.stdout.isatty():
        click.echo(f"next: understudy delegators test {declared.name}")
