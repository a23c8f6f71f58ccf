"""Requests about checks: list, propose, create, remove and try them."""

from __future__ import annotations

from understudy.api import messages
from understudy.api.caller import Caller
from understudy.api.handlers import configuration
from understudy.engine.check_setup import check_trial
from understudy.git import repository
from understudy.journal import change_notifications
from understudy.model.config.config_entries import CheckEntry, CheckTrial
from understudy.model.config.delegators import Scope
from understudy.model.errors import ErrorKind, UnderstudyError


def checks(caller: Caller, params: messages.WorkspaceParams) -> messages.ChecksResult:
    """List the checks with where each is configured, and those that the project's files suggest."""
    loaded = configuration.load(caller, params.workspace)
    proposals = []
    if loaded.workspace is not None:
        proposals = check_trial.propose(
            loaded.workspace,
            [entry.check for entry in loaded.check_entries.values()],
            loaded.worktrees.link,
            set_up=bool(loaded.worktrees.setup),
        )
    return messages.ChecksResult(
        checks=list(loaded.check_entries.values()), proposals=proposals, problems=loaded.problems
    )


def create_check(caller: Caller, params: messages.CheckCreateParams) -> CheckEntry:
    """Create a check: one file in the folder of its scope."""
    made = configuration.editor(caller, params.workspace).create(params.check, Scope(params.scope))
    change_notifications.notify(configuration.CHANGED)
    return made


def delete_check(caller: Caller, params: messages.DeleteParams) -> messages.EmptyResult:
    """Remove a check."""
    configuration.editor(caller, params.workspace).delete("check", params.name, params.revision)
    change_notifications.notify(configuration.CHANGED)
    return messages.EmptyResult()


def test_check(caller: Caller, params: messages.CheckTestParams) -> CheckTrial:
    """Run a check, saved or not, on the current files in a worktree of its own.

    Only in a trusted workspace, because it runs the project's code.
    """
    loaded = configuration.load(caller, params.workspace)
    if loaded.workspace is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, "A check needs a workspace, and the request names none.", hint="Name it."
        )
    if not loaded.trusted:
        raise UnderstudyError(
            ErrorKind.UNTRUSTED_WORKSPACE,
            f"{loaded.workspace} is not trusted, so its tests are not run.",
            hint=repository.trust_hint(loaded.workspace),
        )
    if params.check is not None:
        check = params.check
        configuration.editor(caller, params.workspace).judge(check, Scope.USER if check.hidden else Scope.WORKSPACE)
    else:
        entry = configuration.find(loaded.check_entries, params.name, ErrorKind.UNKNOWN_CHECK)
        configuration.require_usable(entry.state.problems)
        check = entry.check
    request = check_trial.CheckTrialRequest(
        workspace=str(loaded.workspace),
        check=check,
        bootstrap=loaded.worktrees,
        interpreter=loaded.python,
        program_limits=loaded.programs,
    )
    return check_trial.ask(request, caller.cancelled)
