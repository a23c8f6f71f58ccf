"""What the user said in a delegation, for frontends that show delegations as conversations."""

from __future__ import annotations

from understudy.journal import delegation_folder


def is_delegation(identifier: str) -> bool:
    """Return whether a text is the ID of a delegation, which need not exist."""
    return delegation_folder.is_id(identifier)


def asked(delegation: str) -> str:
    """Return what the user asked for in a delegation. Errors: ``unknown_delegation``."""
    spec = delegation_folder.read_spec(delegation_folder.open_folder(delegation))
    if spec.origin is not None and spec.origin.said:
        return spec.origin.said[-1]
    command = f"/{spec.recipe.name}"
    return f"{command} {spec.params.task or ' '.join(spec.files)}".strip()
