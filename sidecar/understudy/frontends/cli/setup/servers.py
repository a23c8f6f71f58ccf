"""``servers``."""

from __future__ import annotations

import difflib
import sys
from typing import Any

import click
import msgspec

from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.calls.command_group import DefaultGroup
from understudy.frontends.cli.output import output
from understudy.frontends.cli.setup.entries import (
    pairs,
    print_connection_test,
    print_entry,
    print_saved,
    remove_fields,
)
from understudy.frontends.cli.terminal import terminal
from understudy.model.config.delegators import ModelPrice
from understudy.model.wire import camel

_LONGEST_KEY = 16_384
_PRICE_FIELDS = ("input", "output", "cacheRead", "cacheWrite")


@click.group(
    cls=DefaultGroup,
    epilog=options.examples("understudy servers", "understudy servers add local --url http://127.0.0.1:11434/v1"),
)
def servers() -> None:
    """Manage model servers (inference endpoints) and their keys."""


@servers.command("list", epilog=options.examples("understudy servers list --json"))
@options.in_workspace
@options.as_json
def list_(*, workspace: str | None, json_: bool) -> None:
    """List model servers and where each is configured."""
    result = call("modelServers/list", workspace=uri(workspace or "."))
    if json_:
        output.json(result)
        return
    rows = []
    for entry in result.model_servers:
        server = entry.model_server
        problem = next((problem.message for problem in entry.state.problems), "")
        rows.append((server.name, server.kind, server.base_url, entry.scope, problem))
    none = "No model server is configured. Add one: understudy servers add NAME --kind KIND"
    output.table(("NAME", "KIND", "URL", "FROM", "PROBLEM"), rows, empty=none, wrap=True)
    output.problems(result.problems)


@servers.command(epilog=options.examples("understudy servers show local"))
@options.named_entry(options.complete_servers)
def show(*, name: str, workspace: str | None, json_: bool) -> None:
    """Show one model server, without its key.

    The output says where the key is stored.
    """
    entry = call("modelServers/get", name=name, workspace=uri(workspace or "."))
    output.json(entry) if json_ else print_entry(entry, entry.model_server)


_declaration = options.all_of(
    click.option("--url", "base_url", metavar="URL", help="Base URL (without /chat/completions)."),
    click.option(
        "--kind",
        metavar="KIND",
        help="ollama, lmstudio, llamacpp, vllm, litellm, openrouter, groq, cerebras, together, fireworks, "
        "hyperbolic, deepseek, openai, anthropic, google, custom.",
    ),
    click.option("--display-name", metavar="TEXT", help="Name to display."),
    click.option(
        "--protocol",
        "protocols",
        metavar="PROTOCOL",
        multiple=True,
        help="API of the server (openai, anthropic, responses; gemini for Gemini CLI); repeat it, best first. "
        "auto: find out.",
    ),
    click.option("--key-env", metavar="VARIABLE", help="Read the key from this environment variable."),
    click.option("--key-file", metavar="FILE", type=click.Path(), help="Read the key from this file (mode 0600)."),
    click.option("--key-keyring", metavar="ENTRY", help="Read the key from this entry of the OS keyring."),
    click.option(
        "--header",
        "headers",
        metavar="NAME=VALUE",
        multiple=True,
        help="Send this header; may be repeated. Not for keys.",
    ),
    click.option("--locality", type=click.Choice(["local", "remote"]), help="Whether the server is on this machine."),
    click.option(
        "--max-concurrent",
        metavar="N",
        type=click.IntRange(1, 1000),
        help="Send at most N requests at once, from all processes together; others wait.",
    ),
    click.option(
        "--price",
        "prices",
        metavar="MODEL=IN/OUT",
        multiple=True,
        help="Price of the models whose names begin so, in USD per million tokens: read and written, then read "
        "from and written to the cache (gpt-5=1.25/10/0.125); may be repeated.",
    ),
)


@servers.command(
    epilog=options.examples(
        "understudy servers add local --kind ollama",
        "understudy servers add router --kind openrouter --key-env ROUTER_KEY",
        "understudy servers add gemini --kind google",
        "understudy servers set-key gemini",
    )
)
@click.argument("name")
@_declaration
@options.scope
@options.in_workspace
@options.as_json
def add(*, name: str, scope: str, workspace: str | None, json_: bool, **arguments: Any) -> None:
    """Add a model server.

    A kind has a usual address, protocols and key variable. The variable is used if it is set now.
    """
    declared = _declared({"kind": "custom"}, arguments) | {"name": name}
    variable = None
    if "baseUrl" not in declared:
        # The preset is for everything that was not given.
        usual, variable = _preset(declared["kind"])
        declared = usual | declared
    with options.as_options():
        entry = call("modelServers/create", modelServer=declared, scope=scope, workspace=uri(workspace or "."))
    if variable is not None and entry.model_server.api_key is None:
        output.say(f"It has no key, because {variable} is not set: understudy servers set-key {name}", err=True)
    print_saved("Added", entry, name, f"understudy servers test {name}", json_=json_)


@servers.command(epilog=options.examples("understudy servers update local --url http://127.0.0.1:8000/v1"))
@click.argument("name", shell_complete=options.complete_servers)
@_declaration
@click.option("--unset", metavar="FIELD", multiple=True, help="Remove a field; may be repeated.")
@options.in_workspace
@options.as_json
def update(*, name: str, unset: tuple[str, ...], workspace: str | None, json_: bool, **arguments: Any) -> None:
    """Update a model server; fields that are not named do not change."""
    before = call("modelServers/get", name=name, workspace=uri(workspace or "."))
    declared = _declared(msgspec.to_builtins(before.model_server), arguments)
    remove_fields(declared, unset, name)
    with options.as_options():
        entry = call(
            "modelServers/update",
            name=name,
            modelServer=declared,
            revision=before.revision,
            workspace=uri(workspace or "."),
        )
    print_saved("Updated", entry, name, f"understudy servers test {name}", json_=json_)


@servers.command(epilog=options.examples("understudy servers remove local"))
@options.named_entry(options.complete_servers)
def remove(*, name: str, workspace: str | None, json_: bool) -> None:
    """Remove a model server; list the delegators that need another one."""
    listed = call("delegators/list", workspace=uri(workspace or ".")).delegators
    result = call("modelServers/delete", name=name, workspace=uri(workspace or "."))
    if json_:
        output.json(result)
        return
    output.say(f"Removed {name}.")
    lost = [entry.delegator.name for entry in listed if entry.delegator.model_server == name]
    if lost:
        output.say(f"These delegators have no model server now: {', '.join(lost)}.", err=True)
        output.say(f"next: understudy delegators update {lost[0]} --server OTHER", err=True)


@servers.command("test", epilog=options.examples("understudy servers test local"))
@options.named_entry(options.complete_servers)
def test(*, name: str, workspace: str | None, json_: bool) -> int:
    """Test a model server: reach it and use its key."""
    return print_connection_test(call("modelServers/test", name=name, workspace=uri(workspace or ".")), json_=json_)


@servers.command(epilog=options.examples("understudy servers models local"))
@options.named_entry(options.complete_servers)
def models(*, name: str, workspace: str | None, json_: bool) -> None:
    """List the models that a server offers."""
    result = call("modelServers/models", name=name, workspace=uri(workspace or "."))
    if json_:
        output.json(result)
        return
    output.table(
        ("MODEL", "CONTEXT", "PRICE"),
        [
            (model.id, str(model.context_tokens) if model.context_tokens else "-", _price(model.price))
            for model in result.models
        ],
    )


@servers.command(
    "set-key",
    epilog=options.examples(
        "understudy servers set-key openrouter", "pass show openrouter | understudy servers set-key openrouter"
    ),
)
@options.named_entry(options.complete_servers)
def set_key(*, name: str, workspace: str | None, json_: bool) -> None:
    """Store the API key of a server.

    The key goes to the OS keyring, or to a file with mode 0600. The command asks for it without echo, or reads it from
    stdin if that is not a terminal. The key is never an argument, because every process on the machine can read
    arguments.
    """
    # Fail for an unknown server before asking for a key.
    call("modelServers/get", name=name, workspace=uri(workspace or "."))
    if terminal.is_terminal(sys.stdin):
        key = str(click.prompt(f"API key for {name}", hide_input=True, err=True))
    else:
        key = sys.stdin.read(_LONGEST_KEY + 1)
    key = key.strip()
    if not key:
        raise click.UsageError("No key was given; pipe it into the command, or run it in a terminal.")
    if len(key) > _LONGEST_KEY:
        raise click.UsageError("The key is too long.")
    result = call("modelServers/setKey", name=name, key=key, workspace=uri(workspace or "."))
    output.json(result) if json_ else output.say(f"Stored the API key for {name}.")


def _price(price: ModelPrice | None) -> str:
    if price is None:
        return "-"
    parts = ((price.input, "in"), (price.output, "out"))
    return ", ".join(f"${amount} {what}" for amount, what in parts if amount is not None) + " per million tokens"


def _preset(kind: str) -> tuple[dict[str, Any], str | None]:
    """Return the usual fields of a kind of server, and the variable of the key that it needs.

    A usage error when it has no usual address.
    """
    presets = {entry.kind: entry for entry in call("modelServers/presets").presets}
    with_address = ", ".join(name for name, entry in presets.items() if entry.base_url)
    if kind not in presets:
        near = difflib.get_close_matches(kind, presets, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Kinds: {', '.join(presets)}"
        raise click.UsageError(f"There is no kind of server {kind!r}. {hint}")
    preset = presets[kind]
    if not preset.base_url:
        raise click.UsageError(f"--url is missing; only these kinds have a usual address: {with_address}")
    fields: dict[str, Any] = {"baseUrl": preset.base_url, "protocols": preset.protocols}
    if preset.key_in_environment:
        fields["apiKey"] = {"fromEnv": preset.key_variable}
    return fields, preset.key_variable if preset.needs_key else None


def _prices(texts: tuple[str, ...]) -> dict[str, dict[str, str]]:
    prices = {}
    for model, amounts in pairs(texts, "--price").items():
        parts = amounts.split("/")
        if not 2 <= len(parts) <= len(_PRICE_FIELDS):
            raise click.UsageError(f"--price {model}={amounts}: write IN/OUT, such as {model}=0.25/1.25")
        prices[model] = dict(zip(_PRICE_FIELDS, parts, strict=False))
    return prices


def _declared(before: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    declared = dict(before)
    for field in ("base_url", "kind", "display_name", "locality", "max_concurrent"):
        if arguments[field] is not None:
            declared[camel(field)] = arguments[field]
    if arguments["protocols"]:
        declared["protocols"] = list(arguments["protocols"])
    if arguments["headers"]:
        declared["headers"] = {**(declared.get("headers") or {}), **pairs(arguments["headers"], "--header")}
    if arguments["prices"]:
        declared["prices"] = {**(declared.get("prices") or {}), **_prices(arguments["prices"])}
    keys = {"fromEnv": arguments["key_env"], "file": arguments["key_file"], "keyring": arguments["key_keyring"]}
    chosen = {name: value for name, value in keys.items() if value is not None}
    if len(chosen) > 1:
        raise click.UsageError("Use only one of --key-env, --key-file and --key-keyring.")
    if "file" in chosen:
        from pathlib import Path

        chosen["file"] = str(Path(chosen["file"]).expanduser().absolute())
    if chosen:
        declared["apiKey"] = chosen
    return declared
