"""``servers``: model servers and their keys."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click
import msgspec

from understudy.faces.cli import exits, options, output, spelling, terminal
from understudy.faces.cli.calls import call, uri
from understudy.faces.cli.delegators import pairs, print_entry, print_probe, read_declaration

_LONGEST_KEY = 16_384


@click.group(
    epilog=options.examples("understudy servers", "understudy servers add local --url http://127.0.0.1:11434/v1"),
    invoke_without_command=True,
)
@click.pass_context
def servers(context: click.Context) -> int:
    """Name model servers (inference endpoints) and keep their keys."""
    if context.invoked_subcommand is None:
        return int(context.invoke(list_, workspace=None, json_=False))
    return exits.Exit.OK


@servers.command("list", epilog=options.examples("understudy servers list --json"))
@options.in_workspace
@options.as_json
def list_(*, workspace: str | None, json_: bool) -> int:
    """List model servers and where each comes from."""
    found = call("modelServers/list", workspace=uri(workspace or "."))
    if json_:
        output.json(found)
        return exits.Exit.OK
    rows = []
    for entry in found.model_servers:
        one = entry.model_server
        problem = next((problem.message for problem in entry.state.problems), "")
        rows.append((one.name, one.kind, one.base_url, entry.scope, problem))
    output.table(("NAME", "KIND", "URL", "FROM", "PROBLEM"), rows)
    output.problems(found.problems)
    return exits.Exit.OK


@servers.command(epilog=options.examples("understudy servers show local"))
@click.argument("name", shell_complete=options.complete_servers)
@options.in_workspace
@options.as_json
def show(*, name: str, workspace: str | None, json_: bool) -> int:
    """Show one model server; a key is shown by where it is kept, never itself."""
    entry = call("modelServers/get", name=name, workspace=uri(workspace or "."))
    output.json(entry) if json_ else print_entry(entry, entry.model_server)
    return exits.Exit.OK


def _declaration(command: Callable[..., Any]) -> Callable[..., Any]:
    decorators = [
        click.option("--url", "base_url", metavar="URL", help="Its address, up to and without /chat/completions."),
        click.option(
            "--kind", metavar="KIND", help="openai, ollama, lmstudio, llamacpp, vllm, openrouter, deepseek, custom."
        ),
        click.option("--display-name", metavar="TEXT", help="How people read it."),
        click.option("--protocol", type=click.Choice(["openai", "anthropic", "auto"]), help="What it speaks."),
        click.option("--key-env", metavar="VARIABLE", help="Its key is in this environment variable."),
        click.option("--key-file", metavar="FILE", type=click.Path(), help="Its key is in this file (mode 0600)."),
        click.option("--key-keyring", metavar="ENTRY", help="Its key is in this entry of the OS keyring."),
        click.option(
            "--header", "headers", metavar="NAME=VALUE", multiple=True, help="A header to send; no keys here."
        ),
        click.option("--locality", type=click.Choice(["local", "remote"]), help="Whether it is on this machine."),
        click.option("--concurrency", type=click.IntRange(min=1), metavar="N", help="Requests at once."),
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


@servers.command(
    epilog=options.examples(
        "understudy servers add local --kind ollama --url http://127.0.0.1:11434/v1",
        "understudy servers add router --kind openrouter --url https://openrouter.ai/api/v1 --key-env ROUTER_KEY",
        "understudy servers set-key router",
    )
)
@click.argument("name")
@_declaration
@options.scope
@options.in_workspace
@options.as_json
def add(*, name: str, scope: str, workspace: str | None, json_: bool, **given: Any) -> int:
    """Name a model server."""
    declared = _declared({"kind": "custom"}, given) | {"name": name}
    if "baseUrl" not in declared:
        raise click.UsageError("--url is missing")
    with spelling.as_options():
        entry = call("modelServers/create", modelServer=declared, scope=scope, workspace=uri(workspace or "."))
    _report("made", entry, json_=json_)
    return exits.Exit.OK


@servers.command(epilog=options.examples("understudy servers update local --concurrency 2"))
@click.argument("name", shell_complete=options.complete_servers)
@_declaration
@click.option("--unset", metavar="FIELD", multiple=True, help="Remove a field; may be repeated.")
@options.in_workspace
@options.as_json
def update(*, name: str, unset: tuple[str, ...], workspace: str | None, json_: bool, **given: Any) -> int:
    """Change a model server; what is not named stays as it is."""
    before = call("modelServers/get", name=name, workspace=uri(workspace or "."))
    declared = _declared(msgspec.to_builtins(before.model_server), given)
    for field in unset:
        if field not in declared:
            raise click.BadParameter(
                f"{name} has no field {field!r}; it has {', '.join(declared)}", param_hint="--unset"
            )
        del declared[field]
    with spelling.as_options():
        entry = call(
            "modelServers/update",
            name=name,
            modelServer=declared,
            revision=before.revision,
            workspace=uri(workspace or "."),
        )
    _report("changed", entry, json_=json_)
    return exits.Exit.OK


@servers.command(epilog=options.examples("understudy servers remove local"))
@click.argument("name", shell_complete=options.complete_servers)
@options.in_workspace
@options.as_json
def remove(*, name: str, workspace: str | None, json_: bool) -> int:
    """Remove a model server; delegators that named it are said, they cannot work until they name another."""
    listed = call("delegators/list", workspace=uri(workspace or ".")).delegators
    done = call("modelServers/delete", name=name, workspace=uri(workspace or "."))
    if json_:
        output.json(done)
        return exits.Exit.OK
    click.echo(f"removed {name}")
    lost = [entry.delegator.name for entry in listed if entry.delegator.model_server == name]
    if lost:
        click.echo(f"without a model server now: {', '.join(lost)}", err=True)
        click.echo(f"next: understudy delegators update {lost[0]} --server OTHER", err=True)
    return exits.Exit.OK


@servers.command(epilog=options.examples("understudy servers probe local"))
@click.argument("name", shell_complete=options.complete_servers)
@options.in_workspace
@options.as_json
def probe(*, name: str, workspace: str | None, json_: bool) -> int:
    """Reach a model server and try its key."""
    return print_probe(call("modelServers/probe", name=name, workspace=uri(workspace or ".")), json_=json_)


@servers.command(epilog=options.examples("understudy servers models local"))
@click.argument("name", shell_complete=options.complete_servers)
@options.in_workspace
@options.as_json
def models(*, name: str, workspace: str | None, json_: bool) -> int:
    """List the models that a server offers."""
    found = call("modelServers/models", name=name, workspace=uri(workspace or "."))
    if json_:
        output.json(found)
        return exits.Exit.OK
    output.table(
        ("MODEL", "CONTEXT"),
        [(model.id, str(model.context_tokens) if model.context_tokens else "-") for model in found.models],
    )
    return exits.Exit.OK


@servers.command(
    "set-key",
    epilog=options.examples(
        "understudy servers set-key openrouter", "pass show openrouter | understudy servers set-key openrouter"
    ),
)
@click.argument("name", shell_complete=options.complete_servers)
@options.in_workspace
@options.as_json
def set_key(*, name: str, workspace: str | None, json_: bool) -> int:
    """Store a server's API key in the OS keyring or a 0600 file.

    The key is asked for without showing it, or read from stdin where that is no terminal; never an argument, because
    every process of the machine can read arguments.
    """
    # Before a key is asked for: that there is such a server.
    call("modelServers/get", name=name, workspace=uri(workspace or "."))
    if terminal.is_terminal(sys.stdin):
        key = str(click.prompt(f"Key of {name}", hide_input=True, err=True))
    else:
        key = sys.stdin.read(_LONGEST_KEY + 1)
    key = key.strip()
    if not key or len(key) > _LONGEST_KEY:
        raise click.UsageError("no key was given" if not key else "that is too long for a key")
    done = call("modelServers/setKey", name=name, key=key, workspace=uri(workspace or "."))
    output.json(done) if json_ else click.echo(f"stored the key of {name}")
    return exits.Exit.OK


def _declared(before: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    from understudy.model.wire import camel  # noqa: PLC0415 - one user

    declared = before | (read_declaration(given["from_json"]) if given["from_json"] else {})
    for field in ("base_url", "kind", "display_name", "protocol", "locality", "concurrency"):
        if given[field] is not None:
            declared[camel(field)] = given[field]
    if given["headers"]:
        declared["headers"] = {**(declared.get("headers") or {}), **pairs(given["headers"], "--header")}
    keys = {"fromEnv": given["key_env"], "file": given["key_file"], "keyring": given["key_keyring"]}
    chosen = {name: value for name, value in keys.items() if value is not None}
    if len(chosen) > 1:
        raise click.UsageError("a key has one place: --key-env, --key-file or --key-keyring")
    if "file" in chosen:
        from pathlib import Path  # noqa: PLC0415 - one user

        chosen["file"] = str(Path(chosen["file"]).expanduser().absolute())
    if chosen:
        declared["apiKey"] = chosen
    return declared


def _report(verb: str, entry: Any, *, json_: bool) -> None:
    if json_:
        output.json(entry)
        return
    place = f" in {entry.location.uri.removeprefix('file://')}" if entry.location else ""
    click.echo(terminal.one_line(f"{verb} {entry.model_server.name}{place}"))
    output.problems(entry.state.problems)
    if sys.stdout.isatty():
        click.echo(f"next: understudy servers probe {entry.model_server.name}")
