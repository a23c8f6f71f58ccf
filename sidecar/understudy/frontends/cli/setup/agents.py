"""``agents``: list the agents that a delegation can name, or show one."""

from __future__ import annotations

from pathlib import Path

import click

from understudy.api.caller import TerminalCaller, require_current_folder
from understudy.api.handlers import offers
from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import terminal
from understudy.model.config import config_entries
from understudy.model.config.config_entries import AgentEntry
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting


@click.command(
    epilog=options.examples(
        "understudy agents",
        "understudy agents show reviewer",
        "understudy start implement src/wrap.py --agent reviewer",
    )
)
@click.argument("names", metavar="[[show] NAME]", nargs=-1, shell_complete=options.complete_agents)
@options.in_workspace
@options.as_json
def agents(*, names: tuple[str, ...], workspace: str | None, json_: bool) -> None:
    """List the agents that `start --agent` takes: of the workspace, yours, and built in; with NAME, show one.

    They are Markdown files in .understudy/agents and .claude/agents, of the workspace or of your home, and skills in
    .claude/skills. Of several with one name, the nearest is used.
    """
    name = _named(names)
    result = call("agents/list", workspace=uri(workspace or "."))
    if name is not None:
        entry = next((agent for agent in result.agents if agent.name == name), None)
        if entry is None:
            output.problems(result.problems)
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS, f"There is no agent {name!r}.", hint="List the agents: understudy agents"
            )
        output.json(entry) if json_ else _show(entry)
        return
    if json_:
        output.json(result)
        return
    rows = [
        (
            agent.name,
            agent.scope if agent.kind == "agent" else f"{agent.scope}, skill",
            agent.model or "-",
            _tools(agent),
            ", ".join(field.name for field in agent.ignored) or "-",
            _file(agent.location.uri),
        )
        for agent in result.agents
    ]
    output.table(("AGENT", "FROM", "MODEL", "TOOLS", "IGNORED", "FILE"), rows)
    for agent in result.agents:
        for hidden in agent.hides:
            click.echo(f"{agent.name} hides {_file(hidden.uri)}", err=True)
    output.problems(result.problems)


def _named(names: tuple[str, ...]) -> str | None:
    """Return the agent to show, also after the word `show`; None for the list."""
    if names in {(), ("list",)}:
        return None
    if len(names) == 1:
        return names[0]
    if len(names) == 2 and names[0] == "show":
        return names[1]
    raise click.UsageError("Give the NAME of one agent.")


def _tools(entry: AgentEntry) -> str:
    text = "all" if entry.tools is None else ", ".join(entry.tools) or "none"
    return text + (f" except {', '.join(entry.disallowed_tools)}" if entry.disallowed_tools else "")


def _file(location: str) -> str:
    path = path_quoting.path_of(location) or Path(location)
    for folder, start in ((require_current_folder(), ""), (Path.home(), "~/")):
        if path.is_relative_to(folder):
            return terminal.one_line(start + str(path.relative_to(folder)))
    return terminal.one_line(str(path))


def _show(entry: AgentEntry) -> None:
    click.echo(f"{entry.name}: {terminal.one_line(entry.description)}")
    click.echo(f"From:         {entry.scope}, {entry.kind}, {_file(entry.location.uri)}")
    for hidden in entry.hides:
        click.echo(f"Hides:        {_file(hidden.uri)}")
    click.echo(f"Model:        {entry.model or 'the one of the delegator'}")
    click.echo(f"Tools:        {_tools(entry)}")
    if entry.tools is not None or entry.disallowed_tools is not None:
        left = config_entries.loop_tools(entry.tools, entry.disallowed_tools)
        unknown = f"; not known there: {', '.join(left.unknown)}" if left.unknown else ""
        click.echo(f"Restricts:    a model without an agent to {', '.join(left.names) or 'no tool'}{unknown}")
        click.echo("              Claude Code without a terminal to these tools; no other agent, which a start reports")
    click.echo(f"Fields used:  {', '.join(entry.honoured) or '-'}")
    for field in entry.ignored:
        click.echo(f"Ignored:      {terminal.one_line(field.name)}: {field.reason}")
    click.echo(f"\n{terminal.sanitize(entry.prompt)}")
    output.problems(entry.problems)


@click.command(epilog=options.examples("understudy recipes", "understudy recipes src/wrap.py"))
@click.argument("file", required=False, type=click.Path())
@options.as_json
def recipes(*, file: str | None, json_: bool) -> None:
    """List the recipes: the kinds of work to delegate; with FILE, those that apply to it."""
    listed = call("recipes/list", uri=None if file is None else uri(file))
    if json_:
        output.json(listed)
        return
    taken = offers.taken_by_recipe(TerminalCaller(Path.cwd()), uri("."))
    chosen = {one.recipe.name: one.explain.delegator for one in taken if one.explain is not None}
    rows = [(one.name, one.returns, one.scope, chosen.get(one.name, "-"), one.title) for one in listed.recipes]
    output.table(("RECIPE", "RETURNS", "FROM", "DELEGATOR", "WHAT"), rows, wrap=True)
    output.problems(listed.problems)
