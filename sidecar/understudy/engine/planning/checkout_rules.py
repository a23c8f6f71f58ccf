"""Refuse what cannot be done in the user's checkout, where ``launch.use_worktree = false`` lets an agent work."""

from __future__ import annotations

from understudy.model.config.delegators import Delegator
from understudy.model.config.recipes import Recipe
from understudy.model.delegation.delegations import StartParams
from understudy.model.errors import ErrorKind, UnderstudyError


def refuse(params: StartParams, delegator: Delegator, recipe: Recipe, rounds: int) -> None:
    """Raise ``invalid_params`` for a request whose agent would work in the checkout and cannot.

    A recipe that returns a text changes no files, so its agent has a worktree whatever the configuration says; only a
    request that asks for the checkout is refused.
    """
    if delegator.launch is None or delegator.launch.use_worktree is not False:
        return
    if recipe.returns == "text":
        if params.launch is not None and params.launch.use_worktree is False:
            raise _refused(
                f"`useWorktree` has no effect on the recipe {recipe.name!r}, which returns a text.",
                "Leave it out.",
            )
        return
    if params.base not in {None, "current"}:
        raise _refused(
            f"`base` {params.base!r} is not what the checkout contains, and the agent works in the checkout.",
            "Leave the base out, or let it work in a worktree: `useWorktree`.",
        )
    if rounds:
        raise _refused(
            "`rounds` needs a worktree: the tests of a round that are no better are removed again.",
            "Set `rounds` to 0, or let it work in a worktree: `useWorktree`.",
        )


def _refused(message: str, hint: str) -> UnderstudyError:
    return UnderstudyError(ErrorKind.INVALID_PARAMS, message, hint=hint)
