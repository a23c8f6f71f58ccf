"""The entry point: the commands with their modules, the help, and the exit for every error."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from understudy import __version__
from understudy.frontends.cli.calls.command_group import ALIASES, SuggestingGroup, after_command, translated
from understudy.frontends.cli.calls.exit_codes import Exit, table

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from understudy.model.errors import UnderstudyError

PROGRAM = "understudy"
_FAMILIAR = "Familiar from other tools"

_SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Delegate": {
        "start": ("delegate.start:start", "Start a delegation, follow it, and print its verdict."),
        "ask": ("text.verbs:ask", "Ask a model server about files, folders or standard input."),
        "write": ("text.verbs:write", "Let a model server write one file."),
        "summarize": ("text.verbs:summarize", "Summarize files, folders or standard input."),
        "preview": ("delegate.start:preview", "Show exactly what a start would send, without sending it."),
        "cancel": ("delegate.watch:cancel", "Cancel delegations; their partial work is kept."),
        "batch": ("group.groups:batch", "Start the tasks of a file as one group, and follow them."),
        "groups": ("group.groups:groups", "List groups of delegations; create, show and follow them."),
        "schedules": ("group.schedules:schedules", "Manage schedules: work that starts by itself at certain times."),
        "queue": ("group.queue_commands:queue", "Show what waits; pause it, or change its order."),
        "check": ("delegate.evidence:check", "Run the checks of a result again."),
        "dismiss": ("delegate.evidence:dismiss", "Dismiss small changes of the code that no test can notice."),
    },
    "Inspect": {
        "status": ("setup.first_steps:status", "Show what runs, what waits for you, and what was spent today."),
        "watch": ("delegate.watch:watch", "Follow a delegation live."),
        "attach": ("delegate.watch:attach", "Show the terminal of an agent that runs in tmux."),
        "wait": ("delegate.watch:wait", "Wait for delegations to finish."),
        "list": ("delegate.show:list_", "List delegations, newest first."),
        "show": ("delegate.show:show", "Show one delegation with its verdict."),
        "diff": ("review.diff:diff", "Show what a delegation changed."),
        "evidence": ("delegate.evidence:evidence", "Show all evidence for a verdict."),
        "ledger": ("delegate.ledger:ledger", "Show what was delegated, its costs and results."),
        "metrics": ("delegate.ledger:metrics", "Show success, times, failures and costs, by delegator and more."),
    },
    "Decide": {
        "review": ("review.review:review", "Review a result hunk by hunk."),
        "accept": ("review.decide:accept", "Merge hunks of a result into your files."),
        "reject": ("review.decide:reject", "Reject hunks of a result, with a reason."),
        "undo": ("review.decide:undo", "Undo an accept; keep your later edits."),
        "amend": ("review.reply:amend", "Edit a file of a result."),
        "drop": ("review.reply:drop", "Remove new tests that notice nothing from a result."),
        "reply": ("review.reply:reply", "Send a result back with instructions."),
        "strengthen": ("review.reply:strengthen", "Ask for tests that notice more mistakes in the code."),
        "retry": ("review.reply:retry", "Run a delegation again from its original base."),
        "inbox": ("delegate.answer:inbox", "List and answer the questions of all agents."),
        "answer": ("delegate.answer:answer", "Answer an agent that waits for permission."),
        "say": ("delegate.answer:say", "Say something to an agent that works."),
        "export": ("review.export:export", "Export a result as a branch, commit or patch."),
        "commit": ("review.export:commit", "Commit the accepted files of a result, with its evidence."),
        "discard": ("review.worktrees:discard", "Discard a result and its worktree; `restore` undoes this."),
        "restore": ("review.worktrees:restore", "Restore a discarded worktree."),
        "worktrees": ("review.worktrees:worktrees", "Manage worktrees on disk: list, remove, clean up."),
    },
    "Set up": {
        "init": ("setup.first_steps:init", "Write a commented configuration file."),
        "import": ("moving_in.import_command:import_", "Import the configuration of another delegation tool."),
        "doctor": ("setup.first_steps:doctor", "Check that everything a delegation needs is installed."),
        "tools": ("setup.tools:tools", "List the known agent CLIs; define and test your own."),
        "delegators": ("setup.delegators:delegators", "Manage delegators: list, add, test…"),
        "routes": ("setup.routes:routes", "Manage routes: which delegators do what, and in which order."),
        "servers": ("setup.servers:servers", "Manage model servers and their keys: list, add, test…"),
        "checks": ("setup.checks:checks", "Manage the checks of results: list, add, test, remove."),
        "notifications": (
            "setup.notifications:notifications",
            "Manage notifications: list, add, test, remove receivers.",
        ),
        "recipes": ("setup.agents:recipes", "List the recipes: the kinds of work to delegate."),
        "instructions": ("setup.other_agents:instructions", "Tell other agents when to delegate, and how."),
        "agents": ("setup.agents:agents", "List the agents that give a delegation instructions."),
        "trust": ("setup.first_steps:trust", "Trust a workspace, or revoke its trust."),
    },
    _FAMILIAR: {
        "config": ("moving_in.config_keys:config", "Show or set one value of your configuration."),
    },
    "For programs": {
        "serve": ("serve:serve", "Run the language server."),
        "rpc": ("serve:rpc", "Serve the API as JSON-RPC on stdio or a Unix socket."),
        "acp": ("serve:acp", "Be an agent for editors, over the Agent Client Protocol."),
        "mcp": ("serve:mcp", "Serve other agents over the Model Context Protocol."),
        "completion": ("setup.first_steps:completion", "Print the completion script for a shell."),
        "version": ("setup.first_steps:version", "Print the version of Understudy and of its protocol."),
    },
}
"""Command → module and attribute below ``frontends.cli``, and its help line, so that the help imports no module."""

_COMMANDS = {name: entry for section in _SECTIONS.values() for name, entry in section.items()}

_ALIASES = {name: alias.about for name, alias in ALIASES.items() if " " not in name}

_ABOUT = """
Delegate work to cheaper models and other coding agents, and get it back verified. Agents work in a separate worktree;
your files, index and branches stay unchanged until you accept a result.
"""

_FIRST_STEPS = """
\b
First steps:
  understudy doctor                      check the installation
  understudy trust .                     allow agents to run in this project
  understudy start tests src/module.py   delegate the tests of a file
  understudy review ID                   review the result, hunk by hunk
  understudy delegators add --help       add an agent CLI or a model
"""

_EPILOG = f"""
\b
Exit codes:
{table()}

Every command has `--help` with examples. `--json` prints the structures that protocol/README.md documents. Set
NO_COLOR to turn colours off.
"""


class _ReaderGone(Exception):  # noqa: N818 - not an error
    """The reader of stdout closed it; click would turn the ``BrokenPipeError`` into exit code 1."""


class LazyGroup(SuggestingGroup):
    """A group that imports a command only to run it."""

    def list_commands(self, _: click.Context) -> list[str]:
        """Return the names of the commands in the order of the help."""
        return list(_COMMANDS)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and return it."""
        if cmd_name not in _COMMANDS:
            return None
        module, __, attribute = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"understudy.frontends.cli.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command by its name here or in another tool."""
        return super().resolve_command(ctx, translated(args))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; without any, print an overview that fits one screen."""
        if not args and not ctx.resilient_parsing:
            click.echo(self._overview(ctx), err=True, nl=False)
            ctx.exit(Exit.USAGE)
        args = after_command(args)
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as error:
            command = next((word for word in args if word in _COMMANDS or word in ALIASES), None)
            if command is None:
                raise
            example = f"`{PROGRAM} {command} {error.option_name}`"
            ctx.fail(f"No such option {error.option_name!r} before a command. Options follow it: {example}.")

    def _overview(self, ctx: click.Context) -> str:
        formatter = ctx.make_formatter()
        formatter.write_text(_ABOUT)
        formatter.write_paragraph()
        formatter.write_text(_FIRST_STEPS.strip())
        formatter.write_paragraph()
        formatter.write_dl([(title, ", ".join(names)) for title, names in _SECTIONS.items() if title != _FAMILIAR])
        formatter.write_paragraph()
        formatter.write_text("`understudy --help` describes each of them, and the exit codes.")
        return formatter.getvalue().lstrip()

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; raise ``_ReaderGone`` when the reader of stdout closed it."""
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            raise _ReaderGone from None
        return answer

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their sections."""
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                rows = {name: line for name, (__, line) in commands.items()} | (_ALIASES if title == _FAMILIAR else {})
                formatter.write_dl(list(rows.items()), col_max=14)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete command names without importing the commands."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        lines = {name: line for name, (__, line) in _COMMANDS.items()} | _ALIASES
        return [CompletionItem(name, help=line) for name, line in lines.items() if name.startswith(incomplete)]


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"{PROGRAM} {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    help=_ABOUT + _FIRST_STEPS,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Print the version."
)
def group() -> None:
    """Run one of the commands."""


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; the user never sees a traceback."""
    as_json = wants_json(arguments)
    try:
        answer: Any = group.main(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        return _usage_error(error, as_json=as_json)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        return Exit.CANCELLED
    except (BrokenPipeError, _ReaderGone):
        return _pipe_closed()
    except Exception as error:
        return _any_error(error, as_json=as_json)
    return int(answer) if isinstance(answer, int) else Exit.OK


def refuse_windows(arguments: Sequence[str]) -> int:
    """Report that Understudy does not run natively on Windows, and return the exit code."""
    from understudy.model.errors import ErrorKind, UnderstudyError

    message = "Understudy does not run natively on Windows: install WSL (`wsl --install`) and run it there."
    return _any_error(UnderstudyError(ErrorKind.UNSUPPORTED_PLATFORM, message), as_json=wants_json(arguments))


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether ``--json`` is among the options; for errors of parsing them."""
    options = list(arguments)
    return "--json" in (options[: options.index("--")] if "--" in options else options)


def _pipe_closed() -> int:
    # The interpreter flushes stdout once more at its end, and would complain about the same pipe.
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a descriptor is wanted, not a path
        os.dup2(nowhere.fileno(), 1)
    return Exit.PIPE_CLOSED


def _usage_error(error: click.ClickException, *, as_json: bool) -> int:
    if as_json:
        from understudy.model.errors import ErrorKind, UnderstudyError

        context = getattr(error, "ctx", None)
        command = context.command_path if context else PROGRAM
        wrong = UnderstudyError(ErrorKind.INVALID_PARAMS, error.format_message(), hint=f"Run `{command} --help`.")
        return _any_error(wrong, as_json=True, code=Exit.USAGE)
    import io

    from understudy.frontends.cli.output import output

    shown = io.StringIO()
    error.show(shown)
    output.say(shown.getvalue().removesuffix("\n"), err=True)
    return Exit.USAGE


def _any_error(error: Exception, *, as_json: bool, code: Exit = Exit.ERROR) -> int:
    from understudy.frontends.cli.output import output
    from understudy.model.errors import UnderstudyError

    if isinstance(error, UnderstudyError):
        typed: UnderstudyError = error
    else:
        from understudy.api.error_answers import internal_error

        typed = internal_error("understudy", error)
    try:
        output.error(typed, as_json=as_json)
    except BrokenPipeError:
        return _pipe_closed()
    return code
