"""``checks``."""

from __future__ import annotations

import shlex
from typing import Any

import click
import msgspec

from understudy.frontends.cli.calls import exit_codes, options
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.calls.command_group import DefaultGroup
from understudy.frontends.cli.output import output
from understudy.frontends.cli.setup.entries import print_saved
from understudy.frontends.cli.terminal import terminal
from understudy.model.states import State
from understudy.model.verdicts import Verdict

_LOOKED_AT = 20
"""How many of the newest delegations are searched for one that the new check can judge."""
_SHOWN_LINES = 15
"""Lines of a failed check's output that are printed."""


@click.group(
    cls=DefaultGroup,
    epilog=options.examples("understudy checks", "understudy checks add"),
)
def checks() -> None:
    """Manage checks: commands, such as a test runner, that results must pass."""


@checks.command("list", epilog=options.examples("understudy checks list --json"))
@options.in_workspace
@options.as_json
def list_(*, workspace: str | None, json_: bool) -> None:
    """List checks, also those that the project suggests."""
    result = call("checks/list", workspace=uri(workspace or "."))
    if json_:
        output.json(result)
        return
    rows = []
    for entry in result.checks:
        problem = next((problem.message for problem in entry.state.problems), "")
        rows.append((entry.check.name, _command(entry.check), entry.scope, problem))
    for proposal in result.proposals:
        if not proposal.configured:
            problem = " ".join(filter(None, (proposal.problem, proposal.hint)))
            rows.append((proposal.check.name, _command(proposal.check), f"found in {proposal.shown_by}", problem))
    output.table(("NAME", "COMMAND", "FROM", "PROBLEM"), rows, wrap=True)
    output.problems(result.problems)
    if not result.checks:
        output.say(f"No check is configured. {_next_step(result.proposals)}", err=True)


@checks.command(
    epilog=options.examples(
        "understudy checks add",
        "understudy checks add pytest --scope user",
        "understudy checks add lint -- {python} -m ruff check .",
    )
)
@click.argument("name", required=False)
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARG]...]")
@click.option("--cwd", metavar="DIR", help="Run it in this folder of the workspace.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Count it as failed after this time.")
@click.option("--optional", is_flag=True, help="A result can be verified although this check fails.")
@click.option("--no-test", is_flag=True, help="Save it without running it first.")
@click.option(
    "--scope",
    type=click.Choice(["workspace", "user"]),
    default="workspace",
    show_default=True,
    help="Where to save: the repository's .understudy folder, or your configuration, for every project.",
)
@options.in_workspace
@options.as_json
def add(
    *,
    name: str | None,
    argv: tuple[str, ...],
    cwd: str | None,
    timeout: float | None,
    optional: bool,
    no_test: bool,
    scope: str,
    workspace: str | None,
    json_: bool,
) -> int:
    """Run a check on the current files, and save it if it passes.

    Without a command, the check is one that the project's files suggest (`understudy checks` lists them). In COMMAND,
    `{python}` is the project's own Python, such as that of its .venv. The check runs in a worktree of its own, and only
    in a trusted workspace.
    """
    where = uri(workspace or ".")
    declared: dict[str, Any] = {"name": name, "argv": list(argv)} if argv else _proposed(where, name)
    declared |= {"cwd": cwd} if cwd is not None else {}
    declared |= {"timeoutSeconds": timeout} if timeout is not None else {}
    declared |= {"required": False} if optional else {}
    with options.as_options():
        if not no_test:
            if not json_:
                command = terminal.one_line(_words(declared["argv"]))
                output.say(f"Running {command} in a worktree of its own…", err=True)
            trial = call("checks/test", name=declared["name"], check=declared, workspace=where)
            if not trial.ok:
                _print_trial(trial, json_=json_)
                if not json_:
                    output.say(_not_saved(trial), err=True)
                return exit_codes.Exit.UNVERIFIED
            if not json_:
                _print_trial(trial, json_=False)
        entry = call("checks/create", check=declared, scope=scope, workspace=where)
    after = f"understudy checks test {entry.check.name}" if no_test else _first_use(where)
    print_saved("Added", entry, entry.check.name, after, json_=json_)
    return exit_codes.Exit.OK


@checks.command("test", epilog=options.examples("understudy checks test", "understudy checks test pytest"))
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=options.complete_checks)
@options.in_workspace
@options.as_json
def test(*, names: tuple[str, ...], workspace: str | None, json_: bool) -> int:
    """Run checks on the current files in a worktree: all, or those named.

    So you can look at your files after an accept. If no check is configured, the first that the project's files suggest
    is run. With --json, prints the `CheckTrial` of one named check, or an object of all by name.
    """
    where = uri(workspace or ".")
    trials: dict[str, Any] = {}
    ok = True
    for declared in [{"name": name} for name in names] or _on_working_copy(where):
        name = declared["name"]
        if not json_ and not names:
            output.say(terminal.one_line(name), err=True)
        trial = trials[name] = call("checks/test", name=name, check=declared.get("check"), workspace=where)
        ok = ok and (trial.ok or not declared.get("required", True))
        if not json_:
            _print_trial(trial, json_=False)
    if json_:
        output.json(trials[names[0]] if len(names) == 1 else msgspec.to_builtins(trials))
    return exit_codes.Exit.OK if ok else exit_codes.Exit.UNVERIFIED


def _on_working_copy(where: str) -> list[dict[str, Any]]:
    """Return every configured check, or the first that the project's files suggest; a usage error without any."""
    listed = call("checks/list", workspace=where).checks
    if listed:
        return [{"name": entry.check.name, "required": entry.check.required} for entry in listed]
    proposed = _proposed(where, None)
    return [{"name": proposed["name"], "check": proposed}]


@checks.command(epilog=options.examples("understudy checks remove pytest"))
@options.named_entry(options.complete_checks)
def remove(*, name: str, workspace: str | None, json_: bool) -> None:
    """Remove a check that Understudy saved."""
    result = call("checks/delete", name=name, workspace=uri(workspace or "."))
    output.json(result) if json_ else output.say(f"Removed {name}.")


def _proposed(where: str, name: str | None) -> dict[str, Any]:
    """Return the suggested check with this name, or the first; a usage error if there is none."""
    proposals = [proposal for proposal in call("checks/list", workspace=where).proposals if not proposal.configured]
    if name is not None:
        proposals = [proposal for proposal in proposals if name in {proposal.check.name, proposal.title}]
    if not proposals:
        example = f"understudy checks add {name or 'tests'} -- {{python}} -m pytest"
        if name is None:
            raise click.UsageError(f"No test runner was found here. Give a command, such as: {example}")
        raise click.UsageError(f"The project's files suggest no check {name!r}. Give a command, such as: {example}")
    declared: dict[str, Any] = msgspec.to_builtins(proposals[0].check)
    return declared


def _not_saved(trial: Any) -> str:
    """Return what to do about a check that was not saved."""
    if trial.passed is not None and not (trial.passed or trial.failed):
        return (
            "Not saved. If the project has no tests yet, let some be written first (understudy start tests FILE), or "
            "save it anyway with --no-test."
        )
    return "Not saved. Correct the command, or save it anyway with --no-test."


def _first_use(where: str) -> str:
    """Return the command that uses a new check: on the newest result that waits for review, or on the next one."""
    finished = call("delegations/list", workspace=where, states=[str(State.FINISHED)], limit=_LOOKED_AT).delegations
    waiting = next(
        (
            delegation
            for delegation in finished
            if delegation.review.pending and delegation.verdict is not Verdict.VERIFIED
        ),
        None,
    )
    return f"understudy check {waiting.id}" if waiting is not None else "understudy start tests FILE"


def _next_step(proposals: list[Any]) -> str:
    if not proposals:
        return "Add one, such as: understudy checks add tests -- {python} -m pytest"
    return f"This project uses {proposals[0].title}. Add it: understudy checks add {proposals[0].check.name}"


def _command(check: Any) -> str:
    command = _words(check.argv)
    return f"{command} (in {check.cwd})" if check.cwd else command


def _words(argv: list[str]) -> str:
    """Return a command for display; slots need no quotes."""
    return " ".join(word if word in {"{python}", "{tests}"} else shlex.quote(word) for word in argv)


def _print_trial(trial: Any, *, json_: bool) -> None:
    if json_:
        output.json(trial)
        return
    brush = output.paint()
    mark = brush("✓", fg="green") if trial.ok else brush("✗", fg="red")
    output.say(f"{mark} {_outcome(trial)} ({trial.seconds:.1f} s)")
    if not trial.ok:
        lines = trial.output_tail.rstrip().splitlines()
        for line in lines[-_SHOWN_LINES:]:
            click.echo(f"    {terminal.sanitize(line)}")
    for note in [*trial.notes, *([trial.hint] if trial.hint else [])]:
        output.say(f"note: {terminal.one_line(note)}", err=True)


def _outcome(trial: Any) -> str:
    counts = ((trial.passed, "passed"), (trial.failed, "failed"), (trial.skipped, "skipped"))
    tests = ", ".join(f"{count} {what}" for count, what in counts if count)
    if trial.ok:
        return f"It passes: {tests}" if tests else "It passes"
    if trial.timed_out:
        return "It did not finish in time"
    if trial.exit_code is None:
        return "It could not be started"
    if not tests and trial.passed is not None:
        return f"No test ran (exit code {trial.exit_code})"
    return f"It fails with exit code {trial.exit_code}" + (f": {tests}" if tests else "")
