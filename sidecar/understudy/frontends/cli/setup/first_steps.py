"""The first steps: ``doctor``, ``version``, ``init``, ``trust``, ``status`` and ``completion``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

from understudy.api.messages import DoctorCheck
from understudy.frontends.cli.calls import exit_codes, options, workspace_trust
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.output import output
from understudy.frontends.cli.output.event_lines import plural
from understudy.frontends.cli.output.output import thousands
from understudy.frontends.cli.setup.entries import described_target, print_connection_tests
from understudy.frontends.cli.terminal import terminal
from understudy.model.config.delegators import DayBudget
from understudy.model.delegation.ledger import LedgerTotals
from understudy.model.text import path_quoting

VARIABLE = "_UNDERSTUDY_COMPLETE"
"""Click's name for the variable of a program called ``understudy``."""


@click.command(epilog=options.examples("understudy version --json"))
@options.as_json
def version(*, json_: bool) -> None:
    """Print the version of Understudy and of its protocol."""
    result = call("version")
    if json_:
        output.json(result)
    else:
        output.say(f"understudy {result.version}, protocol {result.protocol_version}")


@click.command(
    epilog=options.examples("understudy doctor", "understudy doctor --delegators", "understudy doctor --json")
)
@click.option(
    "--delegators",
    "delegators",
    is_flag=True,
    help="Also test every delegator with a short question to its model.",
)
@options.as_json
def doctor(*, delegators: bool, json_: bool) -> int:
    """Check that everything a delegation needs is installed; print how to fix what is missing."""
    if delegators and json_:
        raise click.UsageError("Use `understudy delegators test --all --json` for the delegators.")
    result = call("doctor")
    passed = all(check.ok for check in result.checks)
    if json_:
        output.json(result)
        return exit_codes.Exit.OK if passed else exit_codes.Exit.UNVERIFIED
    print_findings(result.checks)
    if delegators:
        passed = print_connection_tests(uri("."), json_=False) == exit_codes.Exit.OK and passed
    return exit_codes.Exit.OK if passed else exit_codes.Exit.UNVERIFIED


def print_findings(checks: Iterable[DoctorCheck]) -> None:
    """Print the findings of ``doctor``, each with how to fix it."""
    brush = output.paint()
    for check in checks:
        good = brush("!", fg="yellow") if check.hint else brush("✓", fg="green")
        mark = good if check.ok else brush("✗", fg="red")
        output.say(f"{mark} {check.name}: {terminal.one_line(check.message)}")
        if check.hint:
            output.say(f"    {terminal.one_line(check.hint)}")


@click.command(epilog=options.examples("understudy init", "understudy init --scope workspace"))
@options.scope
@click.option("--link", metavar="PATH", multiple=True, help="Let worktrees link to this path, such as node_modules.")
@click.option("--setup", metavar="COMMAND", help="Run this command in each new worktree, such as 'npm ci'.")
@options.in_workspace
@options.as_json
def init(*, scope: str, link: tuple[str, ...], setup: str | None, workspace: str | None, json_: bool) -> None:
    """Write a commented configuration file.

    Everything in it but --link and --setup is a comment: what can be set, the agent CLIs that are installed, and in a
    workspace the test runners that its files show. A file that exists is never replaced.
    """
    made = call(
        "configuration/init",
        scope=scope,
        workspace=uri(workspace or "."),
        link=list(link),
        setup=shlex.split(setup or ""),
    )
    if json_:
        output.json(made)
        return
    output.say(f"Wrote {path_quoting.path_of(made.location.uri)}")
    for title, names in (("Installed agent CLIs", made.tools), ("Test runners", made.checks)):
        if names:
            output.say(f"{title}: {', '.join(names)}", err=True)
    output.say("Remove the # of what you need, then: understudy delegators list", err=True)


@click.command(
    epilog=options.examples("understudy trust", "understudy trust ~/src/project --yes", "understudy trust --revoke")
)
@click.argument("path", required=False, type=click.Path(file_okay=False))
@click.option("--revoke", is_flag=True, help="Revoke the trust.")
@click.option("--status", is_flag=True, help="Only print whether the workspace is trusted.")
@click.option("-y", "--yes", is_flag=True, help="Trust without asking.")
@options.as_json
def trust(*, path: str | None, revoke: bool, status: bool, yes: bool, json_: bool) -> int:
    """Trust a workspace (default: the current directory): agents and checks may run in its worktrees.

    Shows the effects, and what changed since you trusted it, before asking. The exit code is 1 if the workspace is
    not trusted.
    """
    if revoke and (status or yes):
        raise click.UsageError("--revoke excludes --status and --yes.")
    workspace = workspace_trust.workspace_of(str(Path(path or ".").expanduser().absolute()))
    decision = False if revoke else True if yes and not status else None
    if json_:
        if not (revoke or status or yes):
            raise click.UsageError("--json does not ask: add --yes, --revoke or --status.")
        trust_status = call("workspace/trust", workspace=str(workspace), trusted=decision)
        output.json(trust_status)
        return exit_codes.Exit.OK if trust_status.trusted is not revoke else exit_codes.Exit.UNVERIFIED
    if revoke:
        workspace_trust.record(workspace, trusted=False)
        output.say(f"{terminal.one_line(str(workspace))} is no longer trusted.")
        return exit_codes.Exit.OK
    trust_status = workspace_trust.describe(workspace)
    if status or trust_status.trusted:
        return exit_codes.Exit.OK if trust_status.trusted else exit_codes.Exit.UNVERIFIED
    if not yes and not workspace_trust.can_ask():
        raise click.UsageError("There is no terminal to ask on: add --yes.")
    if not yes and not workspace_trust.confirm():
        return exit_codes.Exit.UNVERIFIED
    workspace_trust.record(workspace, trusted=True, digest=trust_status.digest)
    output.say("Trusted.")
    findings = call("doctor", workspace=uri(path or "."), only=["interpreter", "packages"]).checks
    print_findings(findings)
    if not yes:
        workspace_trust.offer_packages(workspace, findings)
    return exit_codes.Exit.OK


@click.command(epilog=options.examples("understudy status", "understudy status --json"))
@options.in_workspace
@options.as_json
def status(*, workspace: str | None, json_: bool) -> None:
    """Show what runs, what waits for you, and what was spent today.

    Delegations of all workspaces count. The day begins at midnight of this machine's time zone.
    """
    overview = call("status", workspace=uri(workspace or "."))
    if json_:
        output.json(overview)
        return
    if overview.workspace is not None:
        word = "trusted" if overview.trusted else "not trusted (understudy trust)"
        _line("Workspace", f"{overview.workspace}, {word}")
    builtin = "only the built-in ghostwriter (understudy delegators add)"
    resting = {*overview.not_ready, *overview.paused}
    ready = f"{overview.delegators - len(resting)} of {overview.delegators} ready" if overview.delegators else builtin
    target = described_target(overview.default_model, overview.default_host, overview.default_key)
    default = f", default {overview.default_delegator}{target}" if overview.default_delegator else ""
    broken = f"; not ready: {', '.join(overview.not_ready)}" if overview.not_ready else ""
    _line("Delegators", ready + default + broken)
    if overview.paused:
        _line("Paused", f"{', '.join(overview.paused)} (understudy delegators list; understudy delegators reset NAME)")
    if overview.problems:
        _line("Configuration", f"{plural(overview.problems, 'error')} (understudy delegators list)")
    running = ", ".join(f"{count} {state}" for state, count in overview.states.items())
    paused = "; the queue is paused (understudy queue resume)" if call("queue/get").paused else ""
    _line("Delegations", (running or "none in progress") + paused)
    if overview.questions:
        _line("Questions", f"{plural(len(overview.questions), 'agent')} waiting for an answer (understudy inbox)")
    _line("To review", f"{plural(overview.to_review, 'result')}" if overview.to_review else "nothing")
    _line("Today", _spent(overview.spent) + _of_the_day(overview.per_day))
    _line("Understudy", f"{overview.version}, protocol {overview.protocol_version}")


def _line(title: str, text: str) -> None:
    output.say(f"{title + ':':<15}{terminal.one_line(text)}", hanging=15)


def _of_the_day(budget: DayBudget | None) -> str:
    if budget is None:
        return ""
    usd = f"{budget.usd} US dollars" if budget.usd else ""
    tokens = f"{thousands(budget.tokens)} tokens" if budget.tokens else ""
    named = " and ".join(filter(None, [usd, tokens]))
    return f" (at most {named} per day)" if named else ""


def _spent(totals: LedgerTotals) -> str:
    if not totals.attempts:
        return "nothing delegated yet"
    read, written = totals.usage.input_tokens, totals.usage.output_tokens
    mark = "~" if totals.costs_estimated else ""
    cost = f"{mark}{totals.cost_usd} US dollars"
    if totals.costs_unknown == totals.attempts:
        cost = "cost unknown"
    elif totals.costs_unknown:
        cost += f" and {plural(totals.costs_unknown, 'attempt')} of unknown cost"
    elif totals.cost_usd == "0":
        cost = "no cost"
    tokens = f", {thousands(read)} tokens read, {thousands(written)} written" if read or written else " without tokens"
    return f"{plural(totals.attempts, 'attempt')}{tokens}, {cost}"


@click.command(
    epilog=options.examples(
        "bash:  echo 'eval \"$(understudy completion bash)\"' >> ~/.bashrc",
        "zsh:   echo 'eval \"$(understudy completion zsh)\"' >> ~/.zshrc",
        "fish:  understudy completion fish > ~/.config/fish/completions/understudy.fish",
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(*, shell: str) -> None:
    """Print the completion script for a shell: commands, options, IDs, delegators and recipes."""
    class_ = get_completion_class(shell)
    if class_ is None:  # pragma: no cover - Choice lists what click has
        raise click.UsageError(f"There is no completion for {shell}.")
    # Not the subclass's source(): for bash it starts a bash to query its version.
    program = click.get_current_context().find_root()
    click.echo(ShellComplete.source(class_(program.command, {}, program.info_name or "", VARIABLE)))
