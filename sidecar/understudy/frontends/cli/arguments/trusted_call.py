"""Send a request that needs a trusted workspace; trust the workspace first if the user agrees."""

from __future__ import annotations

import contextlib
from typing import Any

import click

from understudy.api.caller import require_current_folder
from understudy.frontends.cli.calls import option_names
from understudy.frontends.cli.calls.api_calls import call
from understudy.frontends.cli.terminal import terminal, trust_prompt
from understudy.frontends.cli.terminal.held_interrupt import HeldInterrupt
from understudy.model.errors import ErrorKind, UnderstudyError


def with_trust(
    method: str, params: dict[str, Any], task: dict[str, Any], *, trust: bool, held: HeldInterrupt | None = None
) -> Any:
    """Send the request; if the workspace is untrusted, trust it (with --trust, or after asking) and send it again.

    ``task`` names the workspace or a file in it. ``held`` holds Ctrl-C back during the request, but not while asking.
    """
    holding = held or contextlib.nullcontext()
    try:
        with option_names.as_options(), holding:
            return call(method, **params)
    except UnderstudyError as error:
        if error.kind is not ErrorKind.UNTRUSTED_WORKSPACE:
            raise
        outside = _outside(task)
        if not (trust or trust_prompt.can_ask()):
            error.hint = f"{outside} {error.hint}" if outside is not None else error.hint
            raise
        named = task.get("workspace") or next(iter(task.get("files") or []), str(require_current_folder()))
        workspace = trust_prompt.workspace_of(named)
        if outside is not None:
            click.echo(f"note: {outside}", err=True)
        if not (trust_prompt.record(workspace, trusted=True) if trust else trust_prompt.ask(workspace)):
            raise
    with option_names.as_options(), holding:
        return call(method, **params)


def _outside(task: dict[str, Any]) -> str | None:
    """Return the sentence that the first file is in another workspace than the current folder, None if it is not."""
    named = next(iter(task.get("files") or []), None)
    if named is None or task.get("workspace"):
        return None
    here = trust_prompt.workspace_of(str(require_current_folder()))
    its = trust_prompt.workspace_of(named)
    if its == here:
        return None
    if its.is_relative_to(here):
        return f"The file is in a repository inside of {terminal.one_line(str(here))}, which has its own trust."
    return f"The file is outside of {terminal.one_line(str(here))}, where you are."
