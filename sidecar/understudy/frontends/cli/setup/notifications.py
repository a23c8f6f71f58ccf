"""``notifications``: where questions, verdicts, failures, pauses and spent budgets are reported."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call
from understudy.frontends.cli.calls.command_group import DefaultGroup
from understudy.frontends.cli.output import output
from understudy.frontends.cli.output.event_lines import plural
from understudy.frontends.cli.setup.entries import print_saved
from understudy.frontends.cli.terminal.terminal import is_terminal, local_time, one_line
from understudy.model.config.config_entries import NotificationEntry
from understudy.model.config.notifications import EVENTS


@click.group(
    cls=DefaultGroup,
    epilog=options.examples(
        "understudy notifications",
        "understudy notifications add phone --kind ntfy --topic my-k3f9q2",
        "understudy notifications test phone",
    ),
)
def notifications() -> None:
    """Manage who gets notifications of questions, verdicts and failures.

    They say the title of a delegation, its verdict and how much it changed; never code, prompts or output. Tokens and
    secret URLs are referred to, and only public addresses are connected to unless --allow-private lists others.
    """


def _names(_: click.Context) -> list[tuple[str, str]]:
    return [(entry.receiver.name, entry.receiver.kind) for entry in call("notifications/list").notifications]


_name = click.argument("name", shell_complete=options.completes(_names))


@notifications.command("list", epilog=options.examples("understudy notifications list --json"))
@options.as_json
def list_(*, json_: bool) -> None:
    """List the receivers with the outcome of the last notifications."""
    result = call("notifications/list")
    if json_:
        output.json(result)
        return
    if not result.notifications:
        click.echo("No receiver is configured. To add one: understudy notifications add NAME --kind desktop", err=True)
        return
    rows = [(entry.receiver.name, entry.receiver.kind, _events(entry), _last(entry)) for entry in result.notifications]
    output.table(("NAME", "KIND", "EVENTS", "LAST"), rows, below=("LAST",), wrap=True)


def _events(entry: NotificationEntry) -> str:
    events = entry.receiver.events
    return "all" if set(events) == set(EVENTS) else ", ".join(events)


def _last(entry: NotificationEntry) -> str:
    state = entry.state
    errors = [problem.message for problem in state.problems if problem.severity == "error"]
    if errors:
        return one_line(errors[0])
    sent = f"{state.sent} sent, the last {local_time(state.last_sent_at)}" if state.last_sent_at else "none sent"
    why = f": {one_line(state.last_error.message)}" if state.last_error is not None else ""
    return f"{sent}; {plural(state.failed, 'failure')} since{why}" if state.failed else sent


@notifications.command(
    epilog=options.examples(
        "understudy notifications add desk --kind desktop --event question",
        "understudy notifications add phone --kind ntfy --topic understudy-k3f9q2 --answer",
        "understudy notifications add bot --kind telegram --chat 123456 --token-env TELEGRAM_TOKEN --answer",
        "understudy notifications add team --kind slack --url-file ~/.config/understudy/slack-url",
        "understudy notifications add home --kind webhook --url http://192.168.1.5/in --allow-private 192.168.1.5",
    )
)
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["desktop", "webhook", "ntfy", "slack", "telegram"]),
    required=True,
    help="What gets the notifications.",
)
@click.option("--url", metavar="URL", help="The URL of a webhook, or of your ntfy or Telegram server.")
@click.option("--url-env", metavar="VARIABLE", help="Read a secret URL from this environment variable.")
@click.option("--url-file", metavar="FILE", type=click.Path(), help="Read a secret URL from this file (mode 0600).")
@click.option("--url-keyring", metavar="ENTRY", help="Read a secret URL from this entry of the OS keyring.")
@click.option("--topic", metavar="TOPIC", help="The topic at ntfy; who knows it can read along.")
@click.option("--chat", metavar="NUMBER", help="The chat at Telegram.")
@click.option("--token-env", metavar="VARIABLE", help="Read the token from this environment variable.")
@click.option("--token-file", metavar="FILE", type=click.Path(), help="Read the token from this file (mode 0600).")
@click.option("--token-keyring", metavar="ENTRY", help="Read the token from this entry of the OS keyring.")
@click.option(
    "--event", "events", type=click.Choice(EVENTS), multiple=True, help="Only this event; repeat it (default: all)."
)
@click.option(
    "--workspace", "workspaces", metavar="DIR", multiple=True, help="Only delegations in this folder; repeat it."
)
@click.option(
    "--allow-private",
    metavar="HOST",
    multiple=True,
    help="Connect to this host, address or network, although it is not public; repeat it.",
)
@click.option("--answer", is_flag=True, help="Let questions be answered from it (ntfy, Telegram).")
@options.as_json
def add(*, name: str, kind: str, json_: bool, **fields: Any) -> None:
    """Add a receiver of notifications.

    Tokens and secret URLs are never arguments, because every process on the machine can read arguments.
    """
    receiver = {
        "name": name,
        "kind": kind,
        "url": fields["url"],
        "secretUrl": _reference(fields, "url"),
        "topic": fields["topic"],
        "chat": fields["chat"],
        "token": _reference(fields, "token"),
        "events": list(fields["events"]),
        "workspaces": [str(Path(folder).expanduser().absolute()) for folder in fields["workspaces"]],
        "allowPrivate": list(fields["allow_private"]),
        "answer": fields["answer"],
    }
    with options.as_options():
        entry = call("notifications/create", receiver={key: value for key, value in receiver.items() if value})
    print_saved("Added receiver", entry, name, f"understudy notifications test {name}", json_=json_)


def _reference(fields: dict[str, Any], what: str) -> dict[str, str] | None:
    """Return where a secret is stored, as the options say."""
    named = {"fromEnv": fields[f"{what}_env"], "file": fields[f"{what}_file"], "keyring": fields[f"{what}_keyring"]}
    chosen = {key: value for key, value in named.items() if value is not None}
    if len(chosen) > 1:
        raise click.UsageError(f"Use only one of --{what}-env, --{what}-file and --{what}-keyring.")
    if "file" in chosen:
        chosen["file"] = str(Path(chosen["file"]).expanduser().absolute())
    return chosen or None


@notifications.command(epilog=options.examples("understudy notifications test phone"))
@_name
@options.as_json
def test(*, name: str, json_: bool) -> None:
    """Send a notification to a receiver now."""
    if is_terminal(sys.stderr):
        click.echo(f"Sending a notification to {name}…", err=True)
    result = call("notifications/test", name=name)
    output.json(result) if json_ else output.say(f"{name} took a notification in {result.seconds:.1f} s.")


@notifications.command(epilog=options.examples("understudy notifications remove phone"))
@_name
@options.as_json
def remove(*, name: str, json_: bool) -> None:
    """Remove a receiver of notifications."""
    call("notifications/delete", name=name)
    output.json({}) if json_ else output.say(f"Removed {name}.")
