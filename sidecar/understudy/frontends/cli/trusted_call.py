"""Send a request that needs a trusted workspace; trust the workspace first if the user agrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from understudy.api.caller import require_current_folder
from understudy.frontends.cli import option_names
from understudy.frontends.cli.terminal import terminal, trust_prompt
from understudy.model.errors import ErrorKind, UnderstudyError


def with_trust(ask_for: Callable[[], Any], params: dict[str, Any], *, trust: bool) -> Any:
    """Send the request; if the workspace is untrusted, trust it (with --trust, or after asking) and send it again."""
    try:
        with option_names.as_options():
            return ask_for()
    except UnderstudyError as error:
        if error.kind is not ErrorKind.UNTRUSTED_WORKSPACE:
            raise
        outside = _outside(params)
        if not (trust or trust_prompt.can_ask()):
            error.hint = f"{outside} {error.hint}" if outside is not None else error.hint
            raise
        named = params.get("workspace") or next(iter(params.get("files") or []), str(require_current_folder()))
        workspace = trust_prompt.workspace_of(named)
        if outside is not None:
            click.echo(f"note: {outside}", err=True)
        if not (trust_prompt.record(workspace, trusted=True) if trust else trust_prompt.ask(workspace)):
            raise
    with option_names.as_options():
        return ask_for()


def _outside(params: dict[str, Any]) -> str | None:
    """Return the sentence that the first file is in another workspace than the current folder, None if it is not."""
    named = next(iter(params.get("files") or []), None)
    if named is None or params.get("workspace"):
        return None
    here = trust_prompt.workspace_of(str(require_current_folder()))
    if trust_prompt.workspace_of(named) == here:
        return None
    return f"The file is outside of {terminal.one_line(str(here))}, where you are."
