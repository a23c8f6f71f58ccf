"""``routes``: which delegators do what work, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.calls.command_group import DefaultGroup
from understudy.frontends.cli.output import output
from understudy.frontends.cli.setup.entries import print_saved
from understudy.frontends.cli.terminal import terminal
from understudy.frontends.cli.terminal.terminal import local_time
from understudy.model.config.delegators import Delegator, Route, RouteCandidate, RouteConditions
from understudy.model.delegation.route_evidence import SIZES, RouteEvidence, RouteSuggestion
from understudy.model.text import sanitize
from understudy.model.text.delegation_text import duration

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
            _order(entry.delegator.route),
            ", ".join(map(_described, entry.delegator.route.candidates)),
            _conditions(entry.delegator.route) or "everything",
            entry.scope,
            "ready" if entry.state.ready else entry.state.problems[0].message,
        )
        for entry in entries
    ]
    output.table(("NAME", "ORDER", "CANDIDATES", "FOR", "FROM", "STATE"), rows, below=("FROM", "STATE"), wrap=True)


def _order(route: Route) -> str:
    return ", ".join([route.order, *(["escalates"] if route.escalate else []), *(["waits"] if route.wait else [])])


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


@routes.command(
    epilog=options.examples(
        "understudy routes suggest",
        "understudy routes suggest tests --since 30d",
        "understudy routes suggest tests --apply",
        "understudy routes suggest tests --route cheap-tests --apply --yes",
    )
)
@click.argument("recipe", required=False, shell_complete=options.complete_recipes)
@click.option("--route", metavar="NAME", help="Put the candidates of this route in order (default: suggested-RECIPE).")
@click.option("--since", metavar="TIME", help="Only runs from this time on, such as 30d (default: 90d).")
@click.option("--here", is_flag=True, help="Only runs in this workspace.")
@click.option("--remote", is_flag=True, help="Let a delegator elsewhere take over from one on this machine.")
@click.option("--apply", "apply_", is_flag=True, help="Show the change of your routes, ask, and save it.")
@click.option("--yes", is_flag=True, help="Save without asking.")
@options.in_workspace
@options.as_json
def suggest(
    *,
    recipe: str | None,
    since: str | None,
    here: bool,
    apply_: bool,
    yes: bool,
    workspace: str | None,
    json_: bool,
    **arguments: Any,
) -> None:
    """Suggest which delegators should do what, from how their runs ended.

    A run is all work of one delegator on one delegation; it succeeds if its result is verified, or if it answers in
    text. Intervals have a confidence of 95 %. A delegator comes before another only if their intervals do not overlap;
    otherwise there are not enough runs to distinguish them, and a route keeps its order; a new one is ordered by the
    lower ends and the costs. ACCEPTED counts the hunks that you accepted of those that you decided on. Nothing is
    changed without --apply.
    """
    if apply_ and json_ and not yes:
        raise click.UsageError("--json needs --yes to apply, because it does not ask.")
    asked = {name: value for name, value in arguments.items() if value} | ({"onlyWorkspace": True} if here else {})
    with options.as_options():
        result = call(
            "routes/suggest",
            **asked,
            **({"recipe": recipe} if recipe else {}),
            **({"since": options.since(since)} if since else {}),
            workspace=uri(workspace or "."),
        )
    if not json_:
        for suggestion in result.suggestions:
            _show_suggestion(suggestion)
        if not result.suggestions:
            click.echo("Nothing was delegated in this time.", err=True)
    if apply_:
        for suggestion in result.suggestions:
            _apply_suggestion(suggestion, workspace, yes=yes, quiet=json_)
    if json_:
        output.json(result)
    elif not apply_ and any(suggestion.diff for suggestion in result.suggestions):
        output.say(f"To save it as a route: understudy routes suggest {recipe or 'RECIPE'} --apply", err=True)


_SUGGESTION = ("CANDIDATE", "RUNS", "SUCCEEDED", "ACCEPTED", "USD", "USD/SUCCESS", "TIME", "WHY")
_SUGGESTION_NEEDED_LEAST = ("WHY", "ACCEPTED", "USD", "TIME")


def _show_suggestion(suggestion: RouteSuggestion) -> None:
    for number, group in enumerate(suggestion.groups):
        if number:
            most = SIZES[group.size] if group.size else None
            size = f", {group.size}" + (f" (up to {most:,} bytes)" if most else "") if group.size else ""
            output.say(f"{suggestion.recipe}, {group.language or 'no known language'}{size}:")
        else:
            output.say(f"{suggestion.recipe}:")
        if group.candidates:
            rows = [_evidence_row(evidence) for evidence in group.candidates]
            output.table(_SUGGESTION, rows, below=_SUGGESTION_NEEDED_LEAST, wrap=True)
        else:
            output.say("No run of it is known.")
        click.echo()


def _evidence_row(evidence: RouteEvidence) -> tuple[str, ...]:
    share, seconds = evidence.share, evidence.seconds
    why = f"left out: {evidence.skipped_because}" if evidence.skipped_because else evidence.reason
    if not evidence.runs:
        return (evidence.delegator, "0", "-", "-", "-", "-", "-", terminal.one_line(why))
    return (
        evidence.delegator,
        str(evidence.runs),
        f"{evidence.succeeded} ({100 * share.low:.0f}-{100 * share.high:.0f} %)",
        f"{evidence.accepted}/{evidence.decided}" if evidence.decided else "-",
        (evidence.cost_usd or "?") + ("+?" if evidence.cost_usd and evidence.costs_unknown else ""),
        evidence.success_usd or "-",
        f"{duration(evidence.median_seconds)} ({duration(seconds.low)}-{duration(seconds.high)})",
        # The figures at its beginning are in the other columns.
        terminal.one_line(why.partition("; ")[2] if not evidence.skipped_because else why) or "-",
    )


def _apply_suggestion(suggestion: RouteSuggestion, workspace: str | None, *, yes: bool, quiet: bool) -> None:
    """Save a suggested route after showing the change of its file; abort if the user does not want it."""
    route = suggestion.route
    if route is None or (suggestion.revision is not None and not suggestion.diff and _is_saved(route, workspace)):
        if not quiet:
            output.say(f"{suggestion.recipe}: nothing to change.")
        return
    for line in [] if quiet else suggestion.diff.splitlines():
        click.echo(sanitize.visible(line))
    if suggestion.diff and not yes and not click.confirm(f"Save the route {route.name}?", default=False, err=True):
        raise click.Abort
    plain, place = msgspec.to_builtins(route), uri(workspace or ".")
    if suggestion.revision is None:
        entry = call("delegators/create", delegator=plain, scope="user", workspace=place)
    else:
        revision = suggestion.revision
        entry = call("delegators/update", name=route.name, delegator=plain, revision=revision, workspace=place)
    if not quiet:
        following = f"understudy delegators default {route.name} --for {suggestion.recipe}"
        print_saved("Saved route", entry, route.name, following, json_=False)


def _is_saved(route: Delegator, workspace: str | None) -> bool:
    """Return whether a route is in the configuration as it is."""
    saved: Delegator = call("delegators/get", name=route.name, workspace=uri(workspace or ".")).delegator
    return saved == route


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
