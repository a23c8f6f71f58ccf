"""The entry: which commands there are, which module each lives in, and how every error leaves."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from understudy.faces.cli.exits import Exit, table

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from understudy.model.errors import UnderstudyError

PROGRAM = "understudy"

_SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Delegate": {
        "start": ("start:start", "Delegate work, follow it, and say what can be believed of the result."),
        "preview": ("start:preview", "Show exactly what a start would send; send nothing."),
        "cancel": ("control:cancel", "Stop delegations; their work is kept."),
        "check": ("control:check", "Run the checks again on a result."),
    },
    "Look": {
        "watch": ("follow:watch", "Follow a delegation live."),
        "wait": ("follow:wait", "Wait until delegations have ended."),
        "list": ("look:list_", "List delegations, newest first."),
        "show": ("look:show", "Show one delegation with its verdict."),
        "diff": ("diff:diff", "Show what a delegation changed."),
    },
    "Decide": {
        "review": ("review:review", "Look at a result hunk by hunk and decide."),
        "accept": ("deciding:accept", "Merge hunks of a result into your files."),
        "reject": ("deciding:reject", "Turn hunks of a result down, with a reason."),
        "undo": ("deciding:undo", "Take an accept back; your later edits stay."),
        "amend": ("further:amend", "Change a file of the result by hand."),
        "reply": ("further:reply", "Send a result back with words."),
        "retry": ("further:retry", "Do it again from the original base."),
        "answer": ("answering:answer", "Answer the question of an agent that waits."),
        "export": ("keeping:export", "Take a result out as a branch, commit or patch."),
        "discard": ("keeping:discard", "Throw a result and its tree away; restorable."),
        "restore": ("keeping:restore", "Bring a discarded tree back."),
        "worktrees": ("keeping:worktrees", "Trees on disk: list, remove, restore."),
    },
    "Set up": {
        "doctor": ("installation:doctor", "Check that everything a run needs is there."),
        "tools": ("installation:tools", "List the agent CLIs that are known, found or not."),
        "delegators": ("delegators:delegators", "Say who can do the work: list, add, test…"),
        "servers": ("servers:servers", "Model servers and their keys: list, add, probe…"),
        "recipes": ("installation:recipes", "List the kinds of work that can be delegated."),
        "trust": ("installation:trust", "Trust a workspace, or withdraw it."),
    },
    "For programs": {
        "serve": ("serve:serve", "Be the language server of an editor."),
        "rpc": ("serve:rpc", "Serve the whole contract as JSON-RPC on stdio or a socket."),
        "completion": ("completion:completion", "Print the completion script for a shell."),
        "version": ("installation:version", "Print the version and the contract it speaks."),
    },
}
"""Command → module and attribute below ``faces.cli``, and the line in the help: no module is imported for the help."""

_COMMANDS = {name: entry for section in _SECTIONS.values() for name, entry in section.items()}

_FIRST_STEPS = """
Hand work to cheaper models and other coding agents, and get it back verified. The work happens in a tree of its own;
your files, index and branches stay as they are.

\b
First steps:
  understudy doctor                      is everything there?
  understudy tools                       which agent CLIs were found?
  understudy delegators add              say who does the work
  understudy start tests src/module.py   delegate tests for a file
  understudy review ID                   look at the result and take what is good
"""

_EPILOG = f"""
\b
Exit codes:
{table()}

Every command has `--help` with examples, and `--json` prints the contract's structures. NO_COLOR turns colours off.
"""


class _ReaderGone(Exception):  # noqa: N818 - nothing went wrong
    """Nobody reads stdout any more; click would answer a ``BrokenPipeError`` with exit code 1."""


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help."""
        _ = ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and return it."""
        _ = ctx
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"understudy.faces.cli.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for an unknown one, name near ones."""
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            import difflib  # noqa: PLC0415 - only when it goes wrong

            near = difflib.get_close_matches(args[0], _COMMANDS, n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(near)}?" if near else " `understudy --help` lists the commands."
            ctx.fail(f"There is no command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and tell a reader that went away from a failure."""
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            raise _ReaderGone from None
        return answer

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their sections."""
        _ = ctx
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, line) for name, (_, line) in commands.items()], col_max=14)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete command names without importing the commands."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only in a completion

        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(name, help=line) for name, (_, line) in _COMMANDS.items() if name.startswith(incomplete)]


def _print_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    _ = parameter
    if value and not ctx.resilient_parsing:
        from understudy import __version__  # noqa: PLC0415 - its one user here

        click.echo(f"{PROGRAM} {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    help=_FIRST_STEPS,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Print the version."
)
def group() -> None:
    """Hold the commands."""


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; whatever happens, no traceback reaches the person."""
    as_json = wants_json(arguments)
    try:
        answer: Any = group.main(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        return _usage_error(error, as_json=as_json)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return Exit.CANCELLED
    except (BrokenPipeError, _ReaderGone):
        return _pipe_closed()
    except Exception as error:
        return _any_error(error, as_json=as_json)
    return int(answer) if isinstance(answer, int) else Exit.OK


def wants_json(arguments: Sequence[str]) -> bool:
    """Tell whether ``--json`` is among the options; needed where parsing them failed."""
    options = list(arguments)
    return "--json" in (options[: options.index("--")] if "--" in options else options)


def _pipe_closed() -> int:
    # The interpreter flushes stdout once more at its end, and would complain about the same pipe.
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a descriptor is wanted, not a path
        os.dup2(nowhere.fileno(), 1)
    return Exit.PIPE_CLOSED


def _usage_error(error: click.ClickException, *, as_json: bool) -> int:
    if as_json:
        from understudy.model.errors import ErrorKind, UnderstudyError  # noqa: PLC0415 - keeps the start quick

        context = getattr(error, "ctx", None)
        command = context.command_path if context else PROGRAM
        wrong = UnderstudyError(ErrorKind.INVALID_PARAMS, error.format_message(), hint=f"see `{command} --help`")
        return _any_error(wrong, as_json=True, code=Exit.USAGE)
    error.show()
    return Exit.USAGE


def _any_error(error: Exception, *, as_json: bool, code: Exit = Exit.ERROR) -> int:
    from understudy.faces.cli import output  # noqa: PLC0415 - keeps the start quick
    from understudy.model.errors import UnderstudyError  # noqa: PLC0415

    if isinstance(error, UnderstudyError):
        typed: UnderstudyError = error
    else:
        from understudy.api.faults import internal  # noqa: PLC0415

        typed = internal("understudy", error)
    try:
        output.error(typed, as_json=as_json)
    except BrokenPipeError:
        return _pipe_closed()
    return code
