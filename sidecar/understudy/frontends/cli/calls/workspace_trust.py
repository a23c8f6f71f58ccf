"""Trust of a workspace: asked for, recorded, and asked for where a request needs it."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from understudy.api.caller import require_current_folder
from understudy.api.messages import DoctorCheck
from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import terminal
from understudy.frontends.cli.terminal.terminal import HeldInterrupt
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.remedies import RemedyKind


def with_trust(
    method: str, params: dict[str, Any], task: dict[str, Any], *, trust: bool, held: HeldInterrupt | None = None
) -> Any:
    """Send the request; if the workspace is untrusted, trust it (with --trust, or after asking) and send it again.

    ``task`` names the workspace or a file in it. ``held`` holds Ctrl-C back during the request, but not while asking.
    """
    holding = held or contextlib.nullcontext()
    try:
        with options.as_options(), holding:
            return call(method, **params)
    except UnderstudyError as error:
        if error.parameter == "whole_folder" and not task.get("wholeFolder") and can_ask():
            output.say(error.message, err=True)
            if not click.confirm("Copy the whole folder?", default=False, err=True):
                raise
            for asked in (task, *params.get("tasks", [])):
                asked["wholeFolder"] = True
            return with_trust(method, params, task, trust=trust, held=held)
        if error.kind is not ErrorKind.UNTRUSTED_WORKSPACE:
            raise
        outside = _outside(task)
        if not (trust or can_ask()):
            error.hint = f"{outside} {error.hint}" if outside is not None else error.hint
            raise
        named = task.get("workspace") or next(iter(task.get("files") or []), str(require_current_folder()))
        workspace = workspace_of(named)
        if outside is not None:
            output.say(f"note: {outside}", err=True)
        if not (record(workspace, trusted=True) if trust else ask(workspace)):
            raise
        if not trust:
            place = str(workspace) if task.get("workspace") else named
            offer_packages(workspace, call("doctor", workspace=place, only=["packages"]).checks)
    with options.as_options(), holding:
        return call(method, **params)


def _outside(task: dict[str, Any]) -> str | None:
    """Return the sentence that the first file is in another workspace than the current folder, None if it is not."""
    named = next(iter(task.get("files") or []), None)
    if named is None or task.get("workspace"):
        return None
    here = workspace_of(str(require_current_folder()))
    its = workspace_of(named)
    if its == here:
        return None
    if its.is_relative_to(here):
        what = "a repository inside of" if (its / ".git").exists() else f"{its.name}, a folder of"
        return f"The file is in {what} {terminal.one_line(str(here))}, which has its own trust."
    return f"The file is outside of {terminal.one_line(str(here))}, where you are."


def describe(workspace: Path, *, to_stderr: bool = False) -> Any:
    """Print whether a workspace is trusted and the effects of trusting it; return the ``TrustResult``."""
    trust_status = call("workspace/trust", workspace=str(workspace))
    word = "is trusted" if trust_status.trusted else "is not trusted"
    output.say(f"{terminal.one_line(str(workspace))} {word}.", err=to_stderr)
    if trust_status.effects:
        output.say("Trusting it allows:" if not trust_status.trusted else "It is allowed to:", err=to_stderr)
        for line in trust_status.effects:
            output.say(f"  - {terminal.one_line(line)}", err=to_stderr)
    if trust_status.changed:
        output.say("Changed since you trusted it:", err=to_stderr)
        for line in trust_status.changed:
            output.say(f"  ~ {terminal.one_line(line)}", err=to_stderr)
    return trust_status


def workspace_of(named: str) -> Path:
    """Return the workspace of a file or folder (URI or absolute path): what trust is given to."""
    return Path(call("workspace/trust", workspace=named).workspace)


def can_ask() -> bool:
    """Return whether questions can be asked: stdin and stderr are a terminal."""
    return terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stderr)


def ask(workspace: Path) -> bool:
    """Show the effects of trusting ``workspace``, ask once, record a yes; return whether it is trusted now."""
    trust_status = describe(workspace, to_stderr=True)
    if trust_status.trusted:
        return True
    if not confirm():
        return False
    return record(workspace, trusted=True, digest=trust_status.digest)


def offer_packages(workspace: Path, findings: Iterable[DoctorCheck]) -> None:
    """Offer to give worktrees the installed packages that they lack."""
    for finding in findings:
        remedy = finding.remedy
        if remedy is None or remedy.kind not in {RemedyKind.LINK_FOLDERS, RemedyKind.SET_UP_WORKTREES}:
            continue
        how = f"link to {', '.join(remedy.paths)}" if remedy.paths else f"run `{shlex.join(remedy.commands[0])}`"
        output.say(finding.message, err=True)
        if not click.confirm(f"Let each worktree {terminal.one_line(how)}?", default=True, err=True):
            continue
        call("remedies/apply", remedy=msgspec.to_builtins(remedy), workspace=str(workspace))


def confirm() -> bool:
    """Ask whether to trust the folder that was described."""
    return click.confirm("Trust this folder?", default=False, err=True)


def record(workspace: Path, *, trusted: bool, digest: str | None = None) -> bool:
    """Trust ``workspace``, or revoke it; return whether it is trusted. ``digest``: only exactly what was shown."""
    return bool(call("workspace/trust", workspace=str(workspace), trusted=trusted, digest=digest).trusted)
