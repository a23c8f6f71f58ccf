"""``tools``: list the agent CLIs, explain how to install one, and define and test others."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from understudy.api.messages import ToolsResult
from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.calls.command_group import DefaultGroup
from understudy.frontends.cli.output import output
from understudy.frontends.cli.setup.entries import print_connection_test
from understudy.model.config.config_entries import SupportedOptions, ToolEntry
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting
from understudy.model.wire import snake

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


_MESSAGE_TIMES = {
    "during_turn": "reach the agent while it works",
    "after_turn": "reach the agent when it has answered",
    "next_attempt": "reach the agent with its next attempt",
    "never": "never reach the agent, which takes none",
}
"""What happens to a message of the user to an agent that works (``MessageTime``)."""


class _Tools(DefaultGroup):
    """A group in which the name of a tool is a command, too."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command; for any other word, the one that shows a tool."""
        return super().get_command(ctx, cmd_name) or self.commands["list"]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; for anything else, the one that shows the tool with this name."""
        if args and args[0] not in self.commands:
            args = ["list", *args]
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands and the names of tools."""
        return [
            *super().shell_complete(ctx, incomplete),
            *options.complete_tools(ctx, click.Argument(["tool"]), incomplete),
        ]


@click.group(
    cls=_Tools,
    epilog=options.examples(
        "understudy tools", "understudy tools codex", "understudy tools --refresh --json", "understudy tools new mine"
    ),
)
def tools() -> None:
    """List the known agent CLIs; with the name of one, show how to install it and what it can do here."""


@tools.command("list", epilog=options.examples("understudy tools list", "understudy tools list codex"))
@click.argument("tool", required=False, shell_complete=options.complete_tools)
@click.option("--refresh", is_flag=True, help="Query the versions again.")
@options.in_workspace
@options.as_json
def list_(*, tool: str | None, refresh: bool, workspace: str | None, json_: bool) -> None:
    """List the known agent CLIs, or show one."""
    result = call("tools/list", refresh=refresh, workspace=uri(workspace or "."))
    if tool is None:
        _list(result, json_=json_)
    else:
        _show(result, tool, json_=json_)


@tools.command(epilog=options.examples("understudy tools new mine", "understudy tools new my-cursor --like cursor"))
@click.argument("name")
@click.option("--like", metavar="TOOL", help="Begin with the definition of aider, crush, cursor, goose or mini.")
@options.scope
@options.in_workspace
@options.as_json
def new(*, name: str, like: str | None, scope: str, workspace: str | None, json_: bool) -> None:
    """Write a commented definition of an agent CLI.

    It is for one that Understudy does not know. Edit the file, then test it.
    """
    made = call("tools/create", name=name, like=like, scope=scope, workspace=uri(workspace or "."))
    if json_:
        output.json(made)
        return
    output.say(f"Wrote {path_quoting.path_of(made.location.uri)}")
    output.say(f"Edit it, then test it: understudy tools test {name}", err=True)
    output.say(f"Then add a delegator: understudy delegators add --from-tool {name}", err=True)


@tools.command(epilog=options.examples("understudy tools test mine", "understudy tools test mine --model small"))
@click.argument("name", shell_complete=options.complete_tools)
@click.option("--model", metavar="ID", help="The model to ask.")
@options.in_workspace
@options.as_json
def test(*, name: str, model: str | None, workspace: str | None, json_: bool) -> int:
    """Run an agent CLI with a short question.

    Reports what was understood of its output: events, usage and session.
    """
    place = {"workspace": uri(workspace or ".")}
    result = call("tools/list", **place)
    entry = _find(result, name)
    if any(problem.severity == "error" for problem in entry.problems):
        output.problems(entry.problems)
        raise _unusable(name)
    delegator = {"name": name, "tool": name, **({"model": model} if model else {})}
    scope = entry.scope if entry.scope is not None else "user"
    return print_connection_test(
        call("delegators/test", name=name, delegator=delegator, scope=scope, **place), json_=json_
    )


def _list(result: ToolsResult, *, json_: bool) -> None:
    if json_:
        output.json(result)
        return
    rows = []
    for entry in sorted(result.tools, key=lambda entry: (not entry.found, entry.name)):
        place = entry.path or ("-" if not entry.found else "built in" if entry.scope is None else "in the worktree")
        over_acp = "over ACP" if entry.supports_acp is not None else None
        otherwise = over_acp or ("in tmux" if entry.supports_tmux is not None else "as a custom command")
        able = "yes" if entry.runnable else "no" if entry.scope is not None else otherwise
        rows.append((entry.name, entry.version or ("?" if entry.found else "not found"), able, place))
    output.table(("TOOL", "VERSION", "RUNNABLE", "PATH"), rows)
    problems = [problem for entry in result.tools if entry.scope is None for problem in entry.problems]
    output.problems([*problems, *result.problems])
    if any(not entry.found for entry in result.tools):
        output.say("\nHow to install one: understudy tools TOOL", err=True)


def _find(result: ToolsResult, name: str) -> ToolEntry:
    """Return the entry of a tool; raise the problem of a file that defines it and cannot be read."""
    entry = next((entry for entry in result.tools if entry.name == name), None)
    if entry is None:
        for problem in result.problems:
            if problem.location is not None and problem.location.uri.endswith(f"/tools/{name}.toml"):
                output.problems(result.problems)
                raise _unusable(name)
        names = sorted(entry.name for entry in result.tools)
        import difflib

        suggested = difflib.get_close_matches(name, names, n=1)
        every = f"Use one of: {', '.join(names)}; or define it: understudy tools new {name}"
        hint = f"Did you mean {suggested[0]!r}?" if suggested else every
        raise UnderstudyError(ErrorKind.UNKNOWN_TOOL, f"There is no tool {name!r}.", hint=hint)
    return entry


def _unusable(name: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.CONFIG_INVALID, f"The definition of the tool {name!r} has errors.", hint="Correct them, then retry."
    )


def _facts(supported: SupportedOptions) -> list[tuple[str, str]]:
    return [
        ("Returns", ", ".join(supported.returns)),
        ("Recipes", "those judged by new tests" if supported.only_new_tests else "all"),
        ("Permission modes", ", ".join(mode.value for mode in supported.permission_modes)),
        ("Model servers", ", ".join(supported.protocols)),
        ("Sessions", "a reply continues the session" if supported.sessions else "a reply starts a new session"),
        ("Messages", _MESSAGE_TIMES[supported.messages]),
        ("Launch options", ", ".join(snake(option.name) for option in supported.launch)),
        ("Limits", ", ".join(snake(limit.name) for limit in supported.limits)),
        ("Model properties", ", ".join(snake(model_property.name) for model_property in supported.properties)),
    ]


def _show(result: ToolsResult, name: str, *, json_: bool) -> None:
    entry = _find(result, name)
    if json_:
        output.json(entry)
        return
    output.say(f"{entry.display_name} {entry.version or ''}".rstrip() + ("" if entry.found else ": not found on PATH"))
    for line in how_to_install(entry):
        output.say(line)
    if entry.found and (entry.runnable or entry.command):
        output.say(f"Add it:   understudy delegators add --from-tool {entry.name}")
    for title, supported in (("headless", entry.supports), ("acp", entry.supports_acp), ("tmux", entry.supports_tmux)):
        if supported is not None:
            output.say(f"\nMode {title}:")
            output.facts(_facts(supported))
    output.problems(entry.problems)


def how_to_install(entry: ToolEntry) -> list[str]:
    """Return the lines that say what a tool is, how to install it and log in, and how it runs."""
    lines = []
    if entry.description is not None:
        lines.append(entry.description)
    if entry.install is not None:
        lines.append(entry.install.about)
        lines.append(f"Install:  {entry.install.command}")
        lines.append(f"Log in:   {entry.install.login_command or entry.install.login}")
        if entry.install.login_command is not None:
            lines.append(f"          {entry.install.login}")
        lines.append(f"More:     {entry.install.url}")
    if entry.command is not None:
        lines.append(f"Runs as:  {shlex.join(entry.command)}")
    return lines
