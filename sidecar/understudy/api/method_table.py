"""The contract: every request with its parameters, its result and the function that answers it.

``protocol/`` is generated from this table (``make generate``), and every face serves it, so a method
exists when, and only when, it has a line here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import msgspec

from understudy.api import messages as m
from understudy.api import review_messages as r
from understudy.api.caller import Caller
from understudy.model import delegations, delegators
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready

PROTOCOL_VERSION = 1
PREFIX = "understudy/"


class Method(msgspec.Struct, frozen=True):
    """One request of the contract."""

    name: str
    params: type
    result: type
    function: str
    """``module:function`` below ``understudy.api``; imported when it is first called."""
    summary: str
    needs_notifications: bool = False
    """Served only by faces that can send notifications."""

    @property
    def wire_name(self) -> str:
        """Return the method name as it travels."""
        return PREFIX + self.name


_ROWS: tuple[Method, ...] = (
    Method(
        "version",
        m.Nothing,
        m.VersionResult,
        "installation:version",
        "Which version this is, and which contract it speaks.",
    ),
    Method(
        "doctor",
        m.Nothing,
        m.DoctorResult,
        "installation:doctor",
        "Look at everything that a run needs, and say what to do about what is missing.",
    ),
    Method(
        "tools/list",
        m.ToolsParams,
        m.ToolsResult,
        "installation:tools",
        "Every agent CLI that Understudy knows, found or not, with its version.",
    ),
    Method(
        "workspace/trust",
        m.TrustParams,
        m.TrustResult,
        "configuration:trust",
        "Trust a workspace, withdraw it, or ask how it stands.",
    ),
    Method(
        "recipes/list", m.RecipesParams, m.RecipesResult, "configuration:recipes", "The recipes that apply to a file."
    ),
    Method(
        "delegators/list",
        m.WorkspaceParams,
        m.DelegatorsResult,
        "configuration:delegators",
        "Every delegator with where it comes from, and every problem of the configuration.",
    ),
    Method("delegators/get", m.NameParams, delegators.DelegatorEntry, "configuration:delegator", "One delegator."),
    Method(
        "delegators/create",
        m.DelegatorCreateParams,
        delegators.DelegatorEntry,
        "configuration:create_delegator",
        "Make a delegator: one file in the folder of its scope.",
    ),
    Method(
        "delegators/createFromTool",
        m.DelegatorFromToolParams,
        delegators.DelegatorEntry,
        "configuration:create_delegator_from_tool",
        "Make a delegator for an agent CLI, with a generated unique name.",
    ),
    Method(
        "delegators/update",
        m.DelegatorUpdateParams,
        delegators.DelegatorEntry,
        "configuration:update_delegator",
        "Replace a delegator; a stale revision is a conflict.",
    ),
    Method("delegators/delete", m.DeleteParams, m.Done, "configuration:delete_delegator", "Remove a delegator."),
    Method(
        "delegators/test",
        m.DelegatorTestParams,
        delegators.ProbeResult,
        "probes:test_delegator",
        "Try a delegator, saved or not: its tool, its server, key and model, and a real round trip of a few words.",
    ),
    Method(
        "modelServers/list",
        m.WorkspaceParams,
        m.ModelServersResult,
        "configuration:model_servers",
        "Every model server with where it comes from.",
    ),
    Method(
        "modelServers/get", m.NameParams, delegators.ModelServerEntry, "configuration:model_server", "One model server."
    ),
    Method(
        "modelServers/create",
        m.ModelServerCreateParams,
        delegators.ModelServerEntry,
        "configuration:create_model_server",
        "Make a model server.",
    ),
    Method(
        "modelServers/update",
        m.ModelServerUpdateParams,
        delegators.ModelServerEntry,
        "configuration:update_model_server",
        "Replace a model server; a stale revision is a conflict.",
    ),
    Method(
        "modelServers/delete", m.DeleteParams, m.Done, "configuration:delete_model_server", "Remove a model server."
    ),
    Method(
        "modelServers/probe",
        m.NameParams,
        delegators.ProbeResult,
        "probes:probe_model_server",
        "Reach a model server and try its key.",
    ),
    Method("modelServers/models", m.NameParams, m.ModelsResult, "probes:models", "The models that a server offers."),
    Method(
        "modelServers/setKey",
        m.SetKeyParams,
        m.Done,
        "configuration:set_key",
        "Store a server's API key in the OS keyring or a 0600 file, and refer to it.",
    ),
    Method(
        "delegations/start",
        delegations.StartParams,
        m.StartResult,
        "delegations:start",
        "Start a delegation; answered at once, with which delegator and why.",
    ),
    Method(
        "delegations/preview",
        delegations.StartParams,
        m.PreviewResult,
        "delegations:preview",
        "Show exactly what a start would send; nothing is sent.",
    ),
    Method(
        "delegations/get", m.IdParams, delegations.Delegation, "delegations:get", "One delegation as it stands now."
    ),
    Method(
        "delegations/list",
        m.ListParams,
        m.ListResult,
        "delegations:list_page",
        "Delegations, newest first, a page at a time.",
    ),
    Method(
        "delegations/wait",
        m.WaitParams,
        delegations.Delegation,
        "delegations:wait",
        "Wait for the end; the limit passed is not an error: look at `state`.",
    ),
    Method(
        "delegations/events",
        m.EventsParams,
        m.EventsResult,
        "delegations:events",
        "Events after a sequence number; may wait for the next one.",
    ),
    Method(
        "delegations/subscribe",
        m.SubscribeParams,
        m.Done,
        "delegations:subscribe",
        "Be sent events: missed ones first, then live ones, none twice, none lost.",
        needs_notifications=True,
    ),
    Method(
        "delegations/unsubscribe",
        m.UnsubscribeParams,
        m.Done,
        "delegations:unsubscribe",
        "Stop being sent events.",
        needs_notifications=True,
    ),
    Method(
        "delegations/cancel",
        m.IdParams,
        delegations.Delegation,
        "delegations:cancel",
        "Stop a delegation within five seconds; its work is kept. Idempotent.",
    ),
    Method("delegations/diff", m.IdParams, m.DiffResult, "review:diff", "The result as files and hunks."),
    Method(
        "delegations/file", m.FileParams, m.FileResult, "delegations:file", "One file of the base or of the result."
    ),
    Method(
        "delegations/check",
        m.IdParams,
        delegations.Delegation,
        "delegations:check",
        "Run the checks again on the result, and say the verdict anew.",
    ),
    Method(
        "delegations/decide",
        r.DecideParams,
        r.DecideResult,
        "review:decide",
        "Accept hunks, which merges them into what the person sees now, or reject them with a reason.",
    ),
    Method("delegations/undo", r.UndoParams, m.Done, "review:undo", "Take an accept back; later edits stay."),
    Method(
        "delegations/amend",
        r.AmendParams,
        r.AmendResult,
        "review:amend",
        "Edit a file of the result by hand; its hunks are split anew.",
    ),
    Method(
        "delegations/reply",
        r.ReplyParams,
        r.StartedResult,
        "review:reply",
        "Send a result back with words: a new delegation in the same tree and tool session.",
    ),
    Method(
        "delegations/retry",
        r.RetryParams,
        r.StartedResult,
        "review:retry",
        "Try again from the original base, perhaps with another delegator.",
    ),
    Method(
        "delegations/answer",
        r.AnswerParams,
        m.Done,
        "review:answer",
        "Answer an agent's question; the first valid answer counts, a second one is a conflict.",
    ),
    Method(
        "delegations/export",
        r.ExportParams,
        r.ExportResult,
        "review:export",
        "Take a result, without what was rejected, out as a branch, a commit or a patch.",
    ),
    Method(
        "delegations/discard",
        m.IdParams,
        r.RescueResult,
        "review:discard",
        "Take the tree of a result away; the rescue ref brings it back byte for byte.",
    ),
    Method("worktrees/list", m.Nothing, r.WorktreesResult, "review:worktrees", "Every tree on disk, and who has it."),
    Method(
        "worktrees/remove",
        m.IdParams,
        r.RescueResult,
        "review:remove_worktree",
        "Take a tree away by its id in the list; the rescue ref brings it back.",
    ),
    Method(
        "worktrees/restore",
        r.RestoreParams,
        r.RestoreResult,
        "review:restore_worktree",
        "Bring a tree back to where it was.",
    ),
)

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}
"""Every request by its name without the ``understudy/`` prefix."""

NOTIFICATIONS: dict[str, type] = {
    "event": m.EventNotification,
    "changed": m.ChangedNotification,
}
"""Notifications to the client by their name without the prefix."""


def method(name: str) -> Method:
    """Return the method of this name, with or without prefix; raise ``unknown_method``."""
    found = METHODS.get(name.removeprefix(PREFIX))
    if found is None:
        import difflib  # noqa: PLC0415 - only when it goes wrong

        raise UnderstudyError(
            ErrorKind.UNKNOWN_METHOD,
            f"There is no method {name!r}.",
            hint="`understudy version` tells which contract this version speaks",
            names=difflib.get_close_matches(name.removeprefix(PREFIX), METHODS, n=3),
        )
    return found


def decode_params(found: Method, params: Any) -> Any:
    """Return ``params`` (parsed JSON; None counts as ``{}``) as the method's structure; raise ``invalid_params``."""
    try:
        return msgspec.convert({} if params is None else params, ready(found.params))
    except msgspec.ValidationError as error:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"{found.wire_name}: {error}", hint="See protocol/README.md for its parameters."
        ) from None


def call(name: str, params: Any, caller: Caller) -> Any:
    """Answer one request: ``params`` is parsed JSON or already the structure. Raises ``UnderstudyError`` only."""
    found = method(name)
    decoded = params if isinstance(params, ready(found.params)) else decode_params(found, params)
    try:
        withdrawn = getattr(caller, "withdrawn", None)
        if withdrawn is not None:
            from understudy.config import trust  # noqa: PLC0415 - few callers withdraw trust

            with trust.withdrawing(withdrawn):
                return _function(found)(caller, decoded)
        return _function(found)(caller, decoded)
    except UnderstudyError:
        raise
    except Exception as error:
        from understudy.api.faults import internal  # noqa: PLC0415 - only when it goes wrong

        raise internal(found.name, error) from error


def _function(found: Method) -> Callable[[Caller, Any], Any]:
    module, _, function = found.function.partition(":")
    return getattr(importlib.import_module(f"understudy.api.{module}"), function)  # type: ignore[no-any-return]
