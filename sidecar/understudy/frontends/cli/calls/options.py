"""Options that several commands share, and shell completion of their values."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from understudy.model.errors import UnderstudyError

_SPAN = re.compile(r"(\d{1,5})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_ALSO = (
    ("api_key", "--key-env"),
    ("model_properties", "--property"),
    ("task", "--question"),
    ("task", "--spec"),
    ("total_bytes", "--max-bytes"),
)
"""Keys whose option has another name, for commands that have that option."""
_KEY = re.compile(r"`(?:launch\.|limits\.)?([a-z_]+|[a-z]+[A-Z]\w*)`")
_ASSIGNMENT = re.compile(r"(?:launch = \{ )?\b([a-z_]+) = (\"[^\"]*\"|\[[^\]]*\])(?: \})?")

Command = TypeVar("Command", bound=Callable[..., Any])
Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
_COMPLETED_IDS = 50
PAGE = 1000
"""The most entries that one request returns."""
_TIME_OF_ID = re.compile(r"^\d{8}-\d{6}-")
LIMITS: tuple[tuple[str, type, str], ...] = (
    ("total-seconds", float, "Limit the duration of all attempts together."),
    ("idle-seconds", float, "Limit the time between two events of the agent."),
    ("first-event-seconds", float, "Limit the time from the start of an attempt to its first event."),
    ("after-result-seconds", float, "Limit the time from the agent's result to its exit."),
    ("max-turns", int, "Limit the agent's turns."),
    ("max-output-tokens", int, "Limit the tokens that the model writes, in all turns."),
    ("max-tokens", int, "Limit the tokens read and written in one attempt."),
    ("max-usd", str, "Limit the cost, in USD."),
)


def fallback(arguments: Mapping[str, Any]) -> list[str] | None:
    """Return those that take over, as ``--fallback`` and ``--no-fallback`` say; None where neither is given."""
    names = list(arguments["fallback"])
    if names and arguments["no_fallback"]:
        raise click.UsageError("--fallback and --no-fallback exclude each other.")
    return names if names or arguments["no_fallback"] else None


def words_or_stdin(words: tuple[str, ...]) -> str:
    """Return the words of a command line as a text; ``-`` reads it from stdin."""
    return stdin() if words == ("-",) else " ".join(words)


def stdin() -> str:
    """Read stdin as UTF-8."""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"stdin is not UTF-8: {error}.") from None


def examples(*lines: str) -> str:
    """Return an epilog that shows these examples, one per line."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def all_of(*decorators: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds arguments and options in this order."""
    return lambda command: functools.reduce(lambda inner, add: add(inner), reversed(decorators), command)


class Identifier(click.types.StringParamType):
    """An ID; one that is missing is an error that says where to look it up."""

    def __init__(self, where: str = "`understudy list` shows the IDs; their last five characters are enough.") -> None:
        """Remember the sentence."""
        self._where = where

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:  # noqa: ARG002
        """Return the sentence that says where the IDs are."""
        return self._where


class NamedChoice(click.Choice[str]):
    """A choice of which some have other names in other tools, in upper or lower case."""

    def __init__(self, choices: Iterable[str], other_names: Mapping[str, str]) -> None:
        """Remember the other names, each with the choice that it means."""
        super().__init__(tuple(choices), case_sensitive=False)
        self._other_names = other_names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the choice of this name."""
        return super().convert(self._other_names.get(value, value), param, ctx)


def limits(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Return the ``Limits`` among a command's options, None if there are none."""
    from understudy.model.wire import camel

    names = [name.replace("-", "_") for name, _, _ in LIMITS]
    return {camel(name): arguments[name] for name in names if arguments.get(name) is not None} or None


def moment(text: str, now: datetime | None = None) -> str:
    """Return a time that the user wrote, as RFC 3339: ``22:00`` is the next one, ``+90m`` counts from now.

    Raises ``click.BadParameter``. A text without an offset is in the time zone of this machine.
    """
    now = now or datetime.now().astimezone()
    later = _span(text.strip().removeprefix("+")) if text.strip().startswith("+") else None
    if later is not None:
        return (now + later).isoformat(timespec="seconds")
    with contextlib.suppress(ValueError):
        clock = datetime.strptime(text.strip(), "%H:%M").time()  # noqa: DTZ007 - the zone follows
        today = datetime.combine(now.date(), clock)
        day = today if today.astimezone() > now else today + timedelta(days=1)
        return day.astimezone().isoformat(timespec="seconds")
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(text.strip()).astimezone().isoformat(timespec="seconds")
    raise click.BadParameter(f"{text!r} is not a time. Write it like 22:00, '2026-12-24 08:00', +90m or +2h.")


def since(text: str) -> str:
    """Return a time, also for how long ago it is; the request checks others."""
    ago = _span(text)
    if ago is None:
        if not text[:1].isdigit():
            raise click.BadParameter(f"{text!r} is not a date, a time, or how long ago it is (36h, 7d, 2w).")
        return text
    return (datetime.now(UTC) - ago).isoformat()


def _span(text: str) -> timedelta | None:
    """Return how long ``90m``, ``2h``, ``1d`` or ``1w`` is."""
    match = _SPAN.fullmatch(text)
    return None if match is None else timedelta(**{_UNITS[match[2]]: int(match[1])})


def completes(find: Callable[[click.Context], Iterable[tuple[str, str]]]) -> Completion:
    """Return a completion of the names that ``find`` returns with a description each.

    An error completes nothing: its message would be inserted into the user's command line.
    """

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with contextlib.suppress(Exception):
            return [CompletionItem(name, help=text) for name, text in find(context) if _begins(name, incomplete)]
        return []

    return complete


def _begins(name: str, incomplete: str) -> bool:
    """Return whether a name, or the end of an ID, begins with what was typed."""
    return name.startswith(incomplete) or _TIME_OF_ID.sub("", name).startswith(incomplete)


def _configured(method: str, entries: str, declaration: str | None = None, text: str = "display_name") -> Completion:
    def find(_: click.Context) -> Iterator[tuple[str, str]]:
        from understudy.api.caller import require_current_folder
        from understudy.frontends.cli.calls.api_calls import call

        for entry in getattr(call(method, workspace=str(require_current_folder())), entries):
            declared = getattr(entry, declaration) if declaration else entry
            yield declared.name, getattr(declared, text, None) or ""

    return completes(find)


def _identifiers(_: click.Context) -> Iterator[tuple[str, str]]:
    """Yield IDs, newest first, with their titles."""
    from understudy.frontends.cli.calls.api_calls import call
    from understudy.frontends.cli.terminal.terminal import one_line

    for delegation in call("delegations/list", limit=_COMPLETED_IDS).delegations:
        yield delegation.id, f"{delegation.verdict or delegation.state} {one_line(delegation.title)}"


def _recipes(_: click.Context) -> Iterator[tuple[str, str]]:
    from understudy.frontends.cli.calls.api_calls import call

    for recipe in call("recipes/list").recipes:
        yield recipe.name, recipe.title


complete_identifiers = completes(_identifiers)


complete_delegators = _configured("delegators/list", "delegators", "delegator")


complete_servers = _configured("modelServers/list", "model_servers", "model_server")


complete_checks = _configured("checks/list", "checks", "check")


complete_agents = _configured("agents/list", "agents", text="description")


complete_tools = _configured("tools/list", "tools")


complete_recipes = completes(_recipes)


as_json = click.option("--json", "json_", is_flag=True, help="Print JSON, as protocol/README.md documents it.")
identifiers = click.argument(
    "identifiers",
    type=Identifier(),
    metavar="ID...",
    nargs=-1,
    required=True,
    shell_complete=complete_identifiers,
)
identifier = click.argument("identifier", type=Identifier(), metavar="ID", shell_complete=complete_identifiers)
members = all_of(
    click.argument("identifiers", metavar="[ID]...", nargs=-1, shell_complete=complete_identifiers),
    click.option("--group", metavar="ID", help="All delegations of this group."),
)
"""The delegations of a command, which may be left out with ``--group``."""
following = all_of(
    click.option("--detach", is_flag=True, help="Print the ID and return at once; the work continues."),
    click.option("-q", "--quiet", is_flag=True, help="Print only the result, no progress."),
)
"""Options of commands that start a delegation and follow it."""
scope = click.option(
    "--scope",
    type=click.Choice(["user", "workspace"]),
    default="user",
    show_default=True,
    help="Where to save: your configuration, or the repository's .understudy folder.",
)
in_workspace = click.option(
    "--workspace",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="The workspace (default: the current directory).",
)
"""Whose configuration a command reads."""
rounds = click.option(
    "--rounds",
    type=int,
    metavar="N",
    help="Ask the agent up to N more times for a repair if a check fails, and for tests that notice more, within "
    "the limits; keep what is better.",
)
tool_sets = click.option(
    "--tools",
    "tool_sets",
    multiple=True,
    type=click.Choice(["delegate-local"]),
    help="Also list the tools of another program; may be repeated.",
)
limit_options = all_of(*(click.option(f"--{name}", type=type_, metavar="N", help=text) for name, type_, text in LIMITS))
use_worktree = click.option(
    "--worktree/--no-worktree",
    "use_worktree",
    default=None,
    help="Let the agent work in a worktree, or in your checkout itself.",
)
launch = all_of(
    click.option("--model", metavar="ID", help="Use this model of the delegator's tool or server."),
    click.option("--mode", type=click.Choice(["headless", "acp", "tmux"]), help="Drive the tool like this."),
    click.option("--permission-mode", metavar="MODE", help="What the tool may do without asking."),
    click.option(
        *("--property", "--set", "properties"),
        metavar="KEY=VALUE",
        multiple=True,
        help="Set a model property; may be repeated.",
    ),
    click.option(
        "--limit",
        "limits",
        metavar="NAME=VALUE",
        multiple=True,
        help="Set a limit by its name in the configuration (answer_seconds=60); may be repeated.",
    ),
    use_worktree,
)


def most(text: str) -> Callable[[Command], Command]:
    """Return a decorator that adds ``--limit``: how many entries are shown."""
    return click.option(
        "-n", "--limit", metavar="N", type=click.IntRange(1, PAGE), default=20, show_default=True, help=text
    )


def named_entry(complete: Completion) -> Callable[[Command], Command]:
    """Return a decorator that adds the NAME of an entry of the configuration, ``--workspace`` and ``--json``."""
    return all_of(click.argument("name", shell_complete=complete), in_workspace, as_json)


def launch_of(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Return the ``LaunchOverride`` among a command's options, None if there is none."""
    override = {
        "model": arguments["model"],
        "mode": arguments["mode"],
        "permissionMode": arguments["permission_mode"],
        "modelProperties": dict(map(_property, arguments["properties"])) or None,
        "limits": dict(map(_limit, arguments["limits"])) or None,
        "useWorktree": arguments["use_worktree"],
    }
    return {name: value for name, value in override.items() if value is not None} or None


def _property(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE.", param_hint="--set")
    try:
        decoded = json.loads(value)
    except ValueError:
        return name, value
    return name, decoded if isinstance(decoded, bool | int | float) else value


def _limit(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE.", param_hint="--limit")
    return name, value


@contextlib.contextmanager
def as_options(*, also_json: bool = False) -> Iterator[None]:
    """Replace the keys of a file that an error names by options of the running command.

    Errors are unchanged with --json, unless ``also_json``, and where they are in a file.
    """
    try:
        yield
    except UnderstudyError as error:
        context = click.get_current_context(silent=True)
        is_json = context is not None and context.params.get("json_") and not also_json
        if context is None or is_json or error.location:
            raise
        by_key = _options(context.command)
        # The message is about what was given (--no-worktree), the hint about what to give instead.
        message = _said(error.message, by_key | _negated(context))
        hint = _said(error.hint, by_key) if error.hint else None
        raise UnderstudyError(
            error.kind,
            message,
            hint=hint,
            names=error.names,
            log_paths=error.log_paths,
            status=error.status,
            parameter=error.parameter,
        ) from None


def _options(command: click.Command) -> dict[str, str]:
    by_key = {
        str(parameter.name): next(opt for opt in reversed(parameter.opts) if opt.startswith("--"))
        for parameter in command.params
        if isinstance(parameter, click.Option) and any(opt.startswith("--") for opt in parameter.opts)
    }
    return by_key | {key: option for key, option in _ALSO if option in by_key.values()}


def _negated(context: click.Context) -> dict[str, str]:
    """Return the options that were given in their negative form."""
    return {
        str(parameter.name): parameter.secondary_opts[0]
        for parameter in context.command.params
        if isinstance(parameter, click.Option)
        and parameter.secondary_opts
        and context.params.get(str(parameter.name)) is False
    }


def _said(text: str, by_key: dict[str, str]) -> str:
    from understudy.model.wire import snake

    def key(match: re.Match[str]) -> str:
        return by_key.get(snake(match[1]), match[0])

    def assignment(match: re.Match[str]) -> str:
        if match[1] not in by_key:
            return match[0]
        value = match[2].strip('"')
        if value.startswith("["):
            words = re.findall(r'"([^"]*)"', value)
            value = f"'{' '.join(words)}'"
        return f"{by_key[match[1]]} {value}"

    return _KEY.sub(key, _ASSIGNMENT.sub(assignment, text))
