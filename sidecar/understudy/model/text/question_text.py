"""Describe what a permission question would allow, for frontends that show text. Pure; nothing is sanitised here."""

from __future__ import annotations

import re

from understudy.model.delegation.delegations import PermissionRequest


def remembered(request: PermissionRequest) -> str | None:
    """Return what an answer with ``remember`` would allow from now on; None if it cannot be remembered."""
    rule = request.rule
    if rule is None or not any(option.kind == "allow_once" for option in request.options):
        return None
    if rule.command is not None:
        return f"`{rule.command}`" if rule.exact else f"commands that begin with `{rule.command}`"
    path = (rule.path or "").removeprefix("/")
    return f"edits of {path}" if rule.kind == "edit" else f"reading {path}"


def describe(request: PermissionRequest) -> str:
    """Return first the effect, from the fields that the agent's driver reports, then the agent's own text.

    Lines of the agent's text that only repeat the effect are left out.
    """
    if request.kind == "question":
        return request.detail.rstrip() if request.detail.strip() != request.title.strip() else ""
    stated = {request.command, *(request.paths or [])}
    rest = [line for line in request.detail.split("\n") if re.sub(r"^\w+: ", "", line.strip()) not in stated]
    return "\n".join([*_effect(request), *rest]).rstrip()


def _effect(request: PermissionRequest) -> list[str]:
    files = ", ".join(request.paths or [])
    runs = [f"Runs: {request.command}"] if request.command is not None else []
    named = [f"Files: {files}"] if files else []
    match request.kind:
        case "execute":
            return [*(runs or ["Runs a command"]), *named]
        case "read":
            return [f"Reads: {files}" if files else "Reads files", *runs]
        case "edit":
            return [f"Changes: {files}" if files else "Changes files", *runs]
        case "fetch":
            return ["Accesses the network", *runs, *named]
        case _:
            return [*runs, *named]
