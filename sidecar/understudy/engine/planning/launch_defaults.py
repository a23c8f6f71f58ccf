"""The user's defaults for launch options, ``[launch]`` in ``config.toml``."""

from __future__ import annotations

import msgspec

from understudy.config.validation import delegator_rules
from understudy.model.capabilities import Capabilities
from understudy.model.config.delegators import Delegator, Launch, Scope

_PERMISSIONS = ("yolo", "permission_mode")
"""Options of which a delegator has one: its own one leaves no room for a default of the other."""


def apply(defaults: Launch, delegator: Delegator, scope: Scope, supported: Capabilities) -> tuple[Delegator, list[str]]:
    """Return ``delegator`` with the defaults that it does not set itself, and their names.

    A default that the tool does not have is left out: it is meant for others. So is a permission, or to work in the
    checkout, for a delegator of the workspace, which the user has not written. Of ``branch`` and ``use_worktree =
    false``, which exclude each other, the delegator's own one applies, and of two defaults the second.
    """
    own = delegator.launch or Launch()
    in_checkout = own.use_worktree is False or (
        own.use_worktree is None
        and defaults.use_worktree is False
        and scope is not Scope.WORKSPACE
        and own.branch is None
        and _has(supported, "use_worktree", False)
    )
    decided = scope is Scope.WORKSPACE or any(getattr(own, name) is not None for name in _PERMISSIONS)
    taken = {
        name: value
        for name, value in msgspec.structs.asdict(defaults).items()
        if value is not None
        and getattr(own, name) is None
        and not (decided and name in _PERMISSIONS)
        and not (scope is Scope.WORKSPACE and name == "unanswered" and value == "allow")
        and not (name == "use_worktree" and value is False and not in_checkout)
        and not (name == "branch" and in_checkout)
        and not (name == "relay" and value and delegator_rules.lacks_relay_slot(own, supported))
        and _has(supported, name, value)
    }
    if not taken:
        return delegator, []
    return msgspec.structs.replace(delegator, launch=msgspec.structs.replace(own, **taken)), list(taken)


def described(taken: list[str]) -> str:
    """Return which options are defaults, for the reason of the choice; empty if none is."""
    return f"; from [launch]: {', '.join(taken)}" if taken else ""


def _has(supported: Capabilities, name: str, value: object) -> bool:
    values = supported.launch.get(name)
    if values is None or (name == "permission_mode" and not values):  # no one knows which modes it has
        return False
    return not values or any(one.value == value for one in values)
