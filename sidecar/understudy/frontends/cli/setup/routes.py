"""``routes``: which delegators do what work, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.calls.command_group import DefaultGroup
from understudy.frontends.cli.output import output
from understudy.frontends.cli.setup.entries import print_saved
from understudy.frontends.cli.terminal import terminal
from understudy.frontends.cli.terminal.terminal import local_time
from understudy.model.config.delegators import Route, RouteCandidate, RouteConditions

_SELECTORS = {"tool": "tool", "server": "modelServer", "model": "model", "tag": "tags", "local": "local"}
"""The word of a candidate on the command line, and the field that it sets."""


@click.group(
    cls=DefaultGroup,
    epilog=options.examples("understudy routes", "understudy routes add cheap qwen deepseek claude --order cheapest"),
)
def routes() -> None:
    """Manage routes: names for several delegators, of which one does the work and the others take over.

    The name of a route can be used wherever that of a delegator can: with -d, as a default, in files of recipes.
    """


@routes.command("list", epilog=options.examples("understudy routes list --json"))
@options.in_workspace
@options.as_json
def list_(*, workspace: str | None, json_: bool) -> None:
    """List the routes, and what each recipe takes."""
    result = _delegators(workspace)
    entries = [entry for entry in result.delegators if entry.delegator.route is not None]
    if json_:
        output.json({"routes": entries, "defaults": result.defaults})
        return
    if entries:
        _table(entries)
        click.echo()
    else:
        click.echo("No route is configured. To add one: understudy routes add NAME DELEGATOR…", err=True)
    if result.defaults:
        output.table(("RECIPE", "TAKES"), list(result.defaults.items()))


def _table(entries: Sequence[Any]) -> None:
    rows = [
        (
            entry.delegator.name,
            entry.delegator.route.order,
            ", ".join(map(_described, entry.delegator.route.candidates)),
            _conditions(entry.delegator.route) or "everything",
            entry.scope,
            "ready" if entry.state.ready else entry.state.problems[0].message,
        )
        for entry in entries
    ]
    output.table(("NAME", "ORDER", "CANDIDATES", "FOR", "FROM", "STATE"), rows, below=("FROM", "STATE"), wrap=True)


@routes.command(
    epilog=options.examples(
        "understudy routes add cheap qwen deepseek claude",
        "understudy routes add small-tests tag=cheap claude --recipe tests --language python --order cheapest",
        "understudy routes add here server=ollama,local=true",
    )
)
@click.argument("name")
@click.argument("candidates", nargs=-1, required=True, metavar="CANDIDATE...")
@click.option(
    "--order",
    type=click.Choice(["listed", "cheapest", "fastest", "best"]),
    help="Which candidate comes first (default: as they are listed).",
)
@click.option("--recipe", "recipes", multiple=True, metavar="RECIPE", help="Only for this recipe; may be repeated.")
@click.option("--language", "languages", multiple=True, metavar="ID", help="Only for files in this language.")
@click.option("--max-bytes", type=click.IntRange(1), metavar="N", help="Only for files of at most this size together.")
@click.option("--label", "labels", multiple=True, metavar="WORD", help="Only for work with this label.")
@click.option(
    "--escalate", is_flag=True, help="While no result is verified, let the next candidate improve it, or begin again."
)
@click.option("--wait", is_flag=True, help="While all candidates are paused, wait for the end of the first pause.")
@click.option("--remote", is_flag=True, help="Let a delegator elsewhere take over from one on this machine.")
@options.scope
@options.in_workspace
@options.as_json
def add(
    *,
    name: str,
    candidates: tuple[str, ...],
    order: str | None,
    remote: bool,
    escalate: bool,
    wait: bool,
    scope: str,
    workspace: str | None,
    json_: bool,
    **conditions: Any,
) -> None:
    """Add a route of delegators.

    CANDIDATE is the name of a delegator, or what selects some.

    tool=NAME, server=NAME, model=ID, tag=WORD and local=true select all delegators that have this; several of them are
    joined by a comma.
    """
    chosen = {key: list(value) if isinstance(value, tuple) else value for key, value in conditions.items() if value}
    route = {
        "candidates": [_candidate(text) for text in candidates],
        **({"order": order} if order else {}),
        **{key: True for key, flag in (("remote", remote), ("escalate", escalate), ("wait", wait)) if flag},
        **{"maxBytes" if key == "max_bytes" else key: value for key, value in chosen.items()},
    }
    with options.as_options():
        entry = call(
            "delegators/create",
            delegator={"name": name, "route": route},
            scope=scope,
            workspace=uri(workspace or "."),
        )
    print_saved("Added route", entry, name, f"understudy routes explain -d {name} tests FILE", json_=json_)


@routes.command(epilog=options.examples("understudy routes remove cheap"))
@options.named_entry(options.complete_delegators)
def remove(*, name: str, workspace: str | None, json_: bool) -> None:
    """Remove a route; its delegators stay."""
    if call("delegators/get", name=name, workspace=uri(workspace or ".")).delegator.route is None:
        raise click.UsageError(f"{name} is not a route. To remove a delegator: understudy delegators remove {name}")
    call("delegators/delete", name=name, workspace=uri(workspace or "."))
    if json_:
        output.json({})
    else:
        output.say(f"Removed {name}.")


@routes.command(
    epilog=options.examples("understudy routes explain tests src/net.py", "understudy routes explain -d cheap fix a.py")
)
@click.argument("recipe")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "-d",
    "--delegator",
    "--route",
    "delegator",
    metavar="NAME",
    shell_complete=options.complete_delegators,
    help="The route (default: what a start without -d takes).",
)
@click.option("--label", "labels", multiple=True, metavar="WORD", help="A label of the work; may be repeated.")
@options.in_workspace
@options.as_json
def explain(
    *,
    recipe: str,
    files: tuple[str, ...],
    delegator: str | None,
    labels: tuple[str, ...],
    workspace: str | None,
    json_: bool,
) -> None:
    """Say why each candidate is taken, follows, waits or is skipped.

    Nothing is sent or started.
    """
    if ("/" in recipe or "." in recipe) and Path(recipe).exists():
        recipe, files = "tests", (recipe, *files)
    asked = {"files": [uri(file) for file in files]} if files else {}
    with options.as_options():
        explained = call(
            "delegations/preview",
            recipe=recipe,
            task="To explain which delegator is taken.",
            **asked,
            **({"delegator": delegator} if delegator else {}),
            **({"labels": list(labels)} if labels else {}),
            **({"workspace": uri(workspace or ".")} if workspace or not files else {}),
        ).explain
    if json_:
        output.json(explained)
        return
    paused = {
        entry.delegator.name: max(pause.until for pause in entry.state.pauses)
        for entry in _delegators(workspace).delegators
        if entry.state.pauses
    }
    output.say(f"{recipe}: {explained.delegator}, because {terminal.one_line(explained.reason)}")
    rows = []
    for candidate in explained.candidates:
        name, why = candidate.name, candidate.reason or ""
        if candidate.skipped_because:
            state, why = "skipped", candidate.skipped_because
        elif name in paused:
            state, why = "paused", f"until {local_time(paused[name])}; {why}"
        else:
            state = "taken" if name == explained.delegator else "follows"
        rows.append((name, state, terminal.one_line(why)))
    if rows:
        output.table(("CANDIDATE", "STATE", "WHY"), rows, wrap=True)


def _delegators(workspace: str | None) -> Any:
    return call("delegators/list", workspace=uri(workspace or "."))


def _candidate(text: str) -> Any:
    """Return a candidate as the request has it: a name, or what selects some."""
    if "=" not in text:
        return text
    fields: dict[str, Any] = {}
    for part in text.split(","):
        word, _, value = part.partition("=")
        if word not in _SELECTORS or not value:
            selectors = ", ".join(f"{name}=…" for name in _SELECTORS)
            raise click.BadParameter(f"{part!r} selects nothing: use {selectors}.", param_hint="CANDIDATE")
        if word == "tag":
            fields.setdefault("tags", []).append(value)
        else:
            fields[_SELECTORS[word]] = value == "true" if word == "local" else value
    return fields


def _described(candidate: str | RouteCandidate) -> str:
    if isinstance(candidate, str):
        return candidate
    conditions = _conditions(candidate)
    selectors = [candidate.delegator] if candidate.delegator else []
    selectors += [f"tag={tag}" for tag in candidate.tags or ()]
    for word, field in (("tool", "tool"), ("server", "model_server"), ("model", "model")):
        if getattr(candidate, field) is not None:
            selectors.append(f"{word}={getattr(candidate, field)}")
    if candidate.local is not None:
        selectors.append(f"local={'true' if candidate.local else 'false'}")
    return ",".join(selectors) + (f" ({conditions})" if conditions else "")


def _conditions(conditions: RouteConditions | Route) -> str:
    parts = [
        *(" or ".join(getattr(conditions, name) or ()) for name in ("recipes", "languages", "labels")),
        f"up to {conditions.max_bytes:,} bytes" if conditions.max_bytes is not None else "",
    ]
    return ", ".join(filter(None, parts))
