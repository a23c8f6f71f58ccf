"""``delegators``."""

from __future__ import annotations

import json
import shlex
from typing import Any

import click
import msgspec

from understudy.frontends.cli.calls import options, workspace_trust
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.calls.command_group import DefaultGroup
from understudy.frontends.cli.moving_in import import_command
from understudy.frontends.cli.output import output
from understudy.frontends.cli.setup.entries import (
    described_target,
    pairs,
    print_connection_test,
    print_connection_tests,
    print_entry,
    print_saved,
    remove_fields,
)
from understudy.frontends.cli.terminal.terminal import local_time
from understudy.model.wire import camel

_LAUNCH_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("permission_mode", {"metavar": "MODE", "help": "Permission mode of the tool."}),
    ("prompt_prefix", {"metavar": "TEXT", "help": "Text before every prompt."}),
    ("prompt_suffix", {"metavar": "TEXT", "help": "Text after every prompt."}),
    ("branch", {"metavar": "NAME", "help": "Keep verified results on this branch, too, such as understudy/{id}."}),
    (
        "prompt_delivery",
        {"type": click.Choice(["argument", "stdin", "file"]), "help": "How a generic tool gets the prompt."},
    ),
    ("output", {"type": click.Choice(["text", "events"]), "help": "What a generic tool prints."}),
)


@click.group(
    cls=DefaultGroup,
    epilog=options.examples("understudy delegators", "understudy delegators add"),
)
def delegators() -> None:
    """Manage delegators: an agent CLI or a model on a server, with its options."""


@delegators.command("list", epilog=options.examples("understudy delegators list --json"))
@options.in_workspace
@options.as_json
def list_(*, workspace: str | None, json_: bool) -> None:
    """List delegators and whether each is ready.

    Shows where each is configured, and lists every problem of the configuration with its location.
    """
    result = call("delegators/list", workspace=uri(workspace or "."))
    if json_:
        output.json(result)
        return
    rows = []
    for entry in result.delegators:
        delegator = entry.delegator
        default = ", ".join([*(["everything"] if entry.is_default else []), *entry.default_for])
        state = (
            "ready" if entry.state.ready else next((problem.message for problem in entry.state.problems), "not ready")
        )
        if entry.state.ready and entry.state.pauses:
            state = f"paused until {local_time(max(pause.until for pause in entry.state.pauses))}"
        tool = delegator.tool or f"server {delegator.model_server or '-'}"
        if delegator.remote_agent is not None:
            tool = f"{delegator.remote_agent.platform}: {delegator.remote_agent.id}"
        if delegator.route is not None:
            tool = "route"
        rows.append((delegator.name, tool, delegator.model or "-", entry.scope, default or "-", state))
    header = ("NAME", "WITH", "MODEL", "FROM", "DEFAULT FOR", "STATE")
    output.table(header, rows, below=("FROM", "DEFAULT FOR", "MODEL"), wrap=True)
    output.problems(result.problems)


@delegators.command(epilog=options.examples("understudy delegators show claude"))
@options.named_entry(options.complete_delegators)
def show(*, name: str, workspace: str | None, json_: bool) -> None:
    """Show one delegator and its problems."""
    entry = call("delegators/get", name=name, workspace=uri(workspace or "."))
    if json_:
        output.json(entry)
        return
    print_entry(entry, entry.delegator)
    if entry.host is not None:
        output.say(f"Sends to its model server{described_target(entry.delegator.model, entry.host, entry.key)}.")


@delegators.command(epilog=options.examples("understudy delegators reset claude"))
@options.named_entry(options.complete_delegators)
def reset(*, name: str, workspace: str | None, json_: bool) -> None:
    """End the pauses of a delegator that failed again and again.

    A delegator is paused after several failures of one kind, or until the time that its provider named. While it is
    paused, its fallbacks are tried instead.
    """
    before = call("delegators/get", name=name, workspace=uri(workspace or ".")).state.pauses
    entry = call("delegators/reset", name=name, workspace=uri(workspace or "."))
    if json_:
        output.json(entry)
    else:
        output.say(f"{name} is no longer paused." if before else f"{name} was not paused.")


_declaration = options.all_of(
    click.option(
        "--tool",
        metavar="TOOL",
        shell_complete=options.complete_tools,
        help="The agent CLI (`generic` for any command).",
    ),
    click.option(
        "--mode",
        type=click.Choice(["headless", "acp", "tmux"]),
        help="How the tool is driven (acp: over the Agent Client Protocol; tmux: in a tmux pane).",
    ),
    click.option(
        "--model-server",
        "--server",
        metavar="NAME",
        shell_complete=options.complete_servers,
        help="The model server.",
    ),
    click.option("--model", metavar="ID", help="The model, by its ID in the tool or on the server."),
    click.option("--display-name", metavar="TEXT", help="Name to display."),
    click.option(
        "--command",
        metavar="COMMAND",
        help="Command of a generic tool, with quotes as in a shell; it runs without a shell.",
    ),
    click.option(
        "--flag", "flags", metavar="FLAG", multiple=True, help="Extra argument for the tool; may be repeated."
    ),
    click.option("--yolo/--no-yolo", default=None, help="Let the tool act without asking for permission."),
    options.use_worktree,
    *(click.option(f"--{name.replace('_', '-')}", **how) for name, how in _LAUNCH_OPTIONS),
    click.option(
        "--env",
        "env",
        metavar="NAME=VALUE",
        multiple=True,
        help="Set an environment variable; for secrets, use --env-from.",
    ),
    click.option(
        "--env-from",
        metavar="NAME=VARIABLE",
        multiple=True,
        help="Set NAME to the value of your VARIABLE when the tool starts.",
    ),
    click.option(
        *("--set", "--property", "properties"),
        metavar="KEY=JSON",
        multiple=True,
        help="Send this property with each request to the server (temperature=0.2).",
    ),
    click.option("--locality", type=click.Choice(["local", "remote"]), help="Whether all data stays on this machine."),
    click.option(
        "--fallback",
        metavar="NAME",
        multiple=True,
        shell_complete=options.complete_delegators,
        help="A delegator that takes over when this one cannot work; may be repeated.",
    ),
    options.limit_options,
)


@delegators.command(
    epilog=options.examples(
        "understudy delegators add",
        "understudy delegators add --from-tool claude",
        "understudy delegators add local --server ollama --model qwen2.5-coder",
        "understudy delegators add mine -- mytool --print {prompt}",
        "understudy delegators add other --tool generic --mode acp -- some-agent --acp",
    )
)
@click.argument("name", required=False)
@click.argument("argv", nargs=-1, metavar="[-- COMMAND...]")
@click.option(
    "--from-tool",
    metavar="TOOL",
    shell_complete=options.complete_tools,
    help="Add a delegator for this tool, with a generated name.",
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
    **arguments: Any,
) -> None:
    """Add a delegator; asks if no argument is given.

    It asks only on a terminal. Elsewhere, give NAME with --tool, --server or a command, or use --from-tool. A command
    without --tool is run as a generic tool.
    """
    place = {"scope": scope, "workspace": uri(workspace or ".")}
    taken_before = _taken_without_a_name(place["workspace"])
    if from_tool is not None:
        if name is not None or argv:
            raise click.UsageError("--from-tool generates the name and takes neither NAME nor COMMAND.")
        with options.as_options():
            entry = call("delegators/createFromTool", tool=from_tool, model=arguments["model"], **place)
    else:
        declared = _declared({}, arguments, argv)
        if name is not None:
            declared["name"] = name
        if not declared:
            if json_ or not workspace_trust.can_ask():
                raise click.UsageError("Give NAME with --tool, --server or a command, or use --from-tool TOOL.")
            from understudy.frontends.cli.setup import delegator_wizard

            declared = delegator_wizard.delegator()
        if "name" not in declared:
            raise click.UsageError("NAME is missing.")
        if "command" in declared.get("launch", {}) and not declared.keys() & {"tool", "modelServer", "remoteAgent"}:
            declared["tool"] = "generic"
        with options.as_options():
            entry = call("delegators/create", delegator=declared, **place)
    _print_saved("Added", entry, json_=json_)
    if not json_:
        _report_taken(taken_before, _taken_without_a_name(place["workspace"]))


@delegators.command(
    epilog=options.examples(
        "understudy delegators update local --model qwen3-coder", "understudy delegators update local --unset limits"
    )
)
@click.argument("name", shell_complete=options.complete_delegators)
@click.argument("argv", nargs=-1, metavar="[-- COMMAND...]")
@_declaration
@click.option("--unset", metavar="FIELD", multiple=True, help="Remove a field; may be repeated.")
@click.option("--rename", metavar="NAME", help="Rename the delegator.")
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
    **arguments: Any,
) -> None:
    """Update a delegator; fields that are not named do not change."""
    before = call("delegators/get", name=name, workspace=uri(workspace or "."))
    unchanged = msgspec.to_builtins(before.delegator)
    declared = _declared(msgspec.to_builtins(before.delegator), arguments, argv)
    remove_fields(declared, unset, name)
    if rename is not None:
        declared["name"] = rename
    if declared == unchanged:
        output.say(f"Nothing to change in {name}: name a field, such as --model ID.", err=True)
        if json_:
            output.json(before)
        return
    with options.as_options():
        entry = call(
            "delegators/update",
            name=name,
            delegator=declared,
            revision=before.revision,
            workspace=uri(workspace or "."),
        )
    _print_saved("Updated", entry, json_=json_)


@delegators.command(epilog=options.examples("understudy delegators remove local"))
@options.named_entry(options.complete_delegators)
def remove(*, name: str, workspace: str | None, json_: bool) -> None:
    """Remove a delegator; its delegations are kept."""
    place = uri(workspace or ".")
    before = call("delegators/get", name=name, workspace=place)
    result = call("delegators/delete", name=name, workspace=place)
    output.json(result) if json_ else output.say(f"Removed {name}.")
    left = {entry.delegator.name for entry in call("delegators/list", workspace=place).delegators}
    if name not in left:
        # Another layer may have one of the same name, which the default then means.
        for recipe in [*([None] if before.is_default else []), *before.default_for]:
            for_ = f" --for {recipe}" if recipe else ""
            output.say(
                f"It was the default for {recipe or 'everything else'}, which now has none that exists. "
                f"Choose another: understudy delegators default NAME{for_}",
                err=True,
            )


@delegators.command(epilog=options.examples("understudy delegators test local", "understudy delegators test --all"))
@click.argument("name", required=False, shell_complete=options.complete_delegators)
@click.option("--all", "all_", is_flag=True, help="Test every delegator; each costs as much as a short question.")
@options.in_workspace
@options.as_json
def test(*, name: str | None, all_: bool, workspace: str | None, json_: bool) -> int:
    """Test a delegator with a real round trip.

    Each step is printed: the program and its version, or the server, its key and the model; then the round trip.
    With --all and --json, prints an object with the `ConnectionTest` of each delegator.
    """
    place = uri(workspace or ".")
    if (name is None) is not all_:
        raise click.UsageError("Give the NAME of a delegator, or --all.")
    if name is None:
        return print_connection_tests(place, json_=json_)
    return print_connection_test(call("delegators/test", name=name, workspace=place), json_=json_)


@delegators.command(
    epilog=options.examples(
        "understudy delegators default",
        "understudy delegators default claude",
        "understudy delegators default local --for docs --for explain",
        "understudy delegators default --unset --for docs",
    )
)
@click.argument("name", required=False, shell_complete=options.complete_delegators)
@click.option(
    "--for",
    "recipes",
    metavar="RECIPE",
    multiple=True,
    shell_complete=options.complete_recipes,
    help="Only for this recipe; may be repeated.",
)
@click.option("--unset", is_flag=True, help="Remove the default.")
@options.scope
@options.in_workspace
@options.as_json
def default(
    *, name: str | None, recipes: tuple[str, ...], unset: bool, scope: str, workspace: str | None, json_: bool
) -> None:
    """Choose what is used when no delegator is named.

    Without NAME, show the defaults. Without --for, the default is for every recipe that has none of its own.
    """
    if unset and name is not None:
        raise click.UsageError("--unset takes no NAME.")
    if name is None and not unset:
        if recipes:
            raise click.UsageError("--for needs NAME or --unset.")
        _show_defaults(workspace, json_=json_)
        return
    for recipe in recipes or (None,):
        saved = call(
            "delegators/setDefault", delegator=name, recipe=recipe, scope=scope, workspace=uri(workspace or ".")
        )
        whose = f"for {recipe}" if recipe is not None else "for everything else"
        if json_:
            output.json_line(saved)
        elif saved.delegator != name:
            output.say(f"Saved, but another configuration applies here {whose}: {saved.delegator or 'none'}.")
        else:
            output.say(f"Default {whose}: {name}." if name is not None else f"Removed the default {whose}.")


def _print_saved(verb: str, entry: Any, *, json_: bool) -> None:
    """Print that a delegator was saved, and whether it can be used yet."""
    name = entry.delegator.name
    print_saved(verb, entry, name, f"understudy delegators test {name}", json_=json_)
    if not entry.state.ready and not json_ and entry.delegator.remote_agent is None:
        output.say(
            f"It is saved, but cannot be used yet. Afterwards, test it: understudy delegators test {name}", err=True
        )


def _taken_without_a_name(workspace: str) -> dict[str, str]:
    """Return the delegator that a start of each recipe takes if it names none."""
    taken: dict[str, str] = call("delegators/list", workspace=workspace).defaults
    return taken


def _report_taken(before: dict[str, str], now: dict[str, str]) -> None:
    """Say which recipes another delegator does now, or none, because one more is configured."""
    moved: dict[tuple[str, str | None], list[str]] = {}
    for recipe, name in before.items():
        if now.get(recipe) != name:
            moved.setdefault((name, now.get(recipe)), []).append(recipe)
    for (name, other), recipes in moved.items():
        does = "now needs a delegator (-d NAME)" if other is None else f"now uses {other}"
        every = len(recipes) > 1 and name not in now.values()
        keep = f"understudy delegators default {name}" + (
            "" if every else "".join(f" --for {recipe}" for recipe in recipes)
        )
        started, which = (f"start {recipes[0]}", "") if len(recipes) == 1 else ("start", f", for {', '.join(recipes)}")
        output.say(f"`understudy {started}` {does}, not {name}{which}. To keep {name}: {keep}", err=True)


def _show_defaults(workspace: str | None, *, json_: bool) -> None:
    result = call("delegators/list", workspace=uri(workspace or "."))
    general = next((entry.delegator.name for entry in result.delegators if entry.is_default), None)
    recipes = {recipe: entry.delegator.name for entry in result.delegators for recipe in entry.default_for}
    if json_:
        output.json({"delegator": general, "recipes": recipes})
        return
    rows = [(recipe, name) for recipe, name in sorted(recipes.items())]
    output.table(("RECIPE", "DELEGATOR"), [*rows, ("everything else" if rows else "everything", general or "-")])
    output.problems(result.problems)


def _declared(before: dict[str, Any], arguments: dict[str, Any], argv: tuple[str, ...]) -> dict[str, Any]:
    declared = dict(before)
    for field in ("tool", "mode", "model", "locality"):
        if arguments[field] is not None:
            declared[field] = arguments[field]
    if arguments["model_server"] is not None:
        declared["modelServer"] = arguments["model_server"]
    if arguments["display_name"] is not None:
        declared["displayName"] = arguments["display_name"]
    if arguments["fallback"]:
        declared["fallback"] = list(arguments["fallback"])
    _merge(declared, "launch", _launch(arguments, argv))
    _merge(declared, "limits", options.limits(arguments) or {})
    _merge(declared, "env", pairs(arguments["env"], "--env"))
    _merge(
        declared, "env", {key: {"fromEnv": value} for key, value in pairs(arguments["env_from"], "--env-from").items()}
    )
    _merge(
        declared,
        "modelProperties",
        {key: _json(value) for key, value in pairs(arguments["properties"], "--property").items()},
    )
    return declared


def _merge(declared: dict[str, Any], field: str, more: dict[str, Any]) -> None:
    if more:
        declared[field] = {**(declared.get(field) or {}), **more}


def _launch(arguments: dict[str, Any], argv: tuple[str, ...]) -> dict[str, Any]:
    launch: dict[str, Any] = {
        camel(name): arguments[name] for name, _ in _LAUNCH_OPTIONS if arguments[name] is not None
    }
    if arguments["yolo"] is not None:
        launch["yolo"] = arguments["yolo"]
    if arguments["use_worktree"] is not None:
        launch["useWorktree"] = arguments["use_worktree"]
    if arguments["flags"]:
        launch["flags"] = list(arguments["flags"])
    if argv and arguments["command"]:
        raise click.UsageError("Give the command once: with --command, or after --.")
    if argv:
        launch["command"] = list(argv)
    elif arguments["command"]:
        try:
            launch["command"] = shlex.split(arguments["command"])
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--command") from None
    return launch


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


delegators.add_command(import_command.import_profiles)
delegators.add_command(import_command.export)
