"""The contract: every request with its parameters, its result and the function that answers it.

``protocol/`` is generated from this table (``make generate``), and every frontend serves it, so a method
exists when, and only when, it has a line here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from understudy.api import inside_runs, messages, review_messages
from understudy.api import ledger_messages as ledger
from understudy.api import other_agent_messages as others
from understudy.api import setup_messages as setup
from understudy.api.caller import Caller
from understudy.model.config import config_entries
from understudy.model.delegation import delegations
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready

PROTOCOL_VERSION = 2
PREFIX = "understudy/"


Effect = Literal["reads", "delegates", "decides"]
"""What a method does: it changes nothing; it adds work or stops it; or it changes what is the user's: files, decisions,
verdicts, worktrees, configuration, trust. Inside a run, a method that decides is refused (``api.inside_runs``), and one
that delegates stops only what the run itself delegated."""


class Condition(msgspec.Struct, frozen=True):
    """A condition on the parameters of a request."""

    text: str
    """As the end of a sentence of the documentation: "`dryRun` is true"."""
    holds: Callable[[Any], bool]


_DRY_RUN = Condition("`dryRun` is true", lambda params: params.dry_run)


class Method(msgspec.Struct, frozen=True):
    """One request of the contract."""

    name: str
    effect: Effect
    params: type
    result: type
    function: str
    """``module:function`` below ``understudy.api.handlers``; imported when it is first called."""
    summary: str
    needs_notifications: bool = False
    """Served only by frontends that can send notifications."""
    slow: bool = False
    """May wait for minutes; frontends answer it in threads reserved for slow methods."""
    only_looks: Condition | None = None
    """For a method that decides: the parameters with which it changes nothing."""

    @property
    def wire_name(self) -> str:
        """Return the method name on the wire."""
        return PREFIX + self.name

    def decides(self, params: Any) -> bool:
        """Return whether a request with these parameters is for the user alone."""
        return self.effect == "decides" and not (self.only_looks is not None and self.only_looks.holds(params))


_ROWS: tuple[Method, ...] = (
    Method(
        "version",
        "reads",
        messages.NoParams,
        messages.VersionResult,
        "setup.installation:version",
        "Return the version of Understudy and of its protocol.",
    ),
    Method(
        "doctor",
        "reads",
        messages.NoParams,
        messages.DoctorResult,
        "setup.doctor:doctor",
        "Check everything that a delegation needs, and return how to fix what is missing.",
        slow=True,
    ),
    Method(
        "status",
        "reads",
        messages.WorkspaceParams,
        setup.StatusResult,
        "setup.overview:status",
        "Return what runs, what waits for the user, and what was spent today.",
    ),
    Method(
        "configuration/init",
        "decides",
        setup.StarterParams,
        setup.StarterResult,
        "setup.overview:init",
        "Write a commented configuration file with the test runners and agent CLIs that were found.",
        slow=True,
    ),
    Method(
        "configuration/import",
        "decides",
        setup.ImportParams,
        setup.ImportResult,
        "setup.import_configuration:import_configuration",
        "Import the configuration of another delegation tool, or return what that would write.",
        only_looks=_DRY_RUN,
    ),
    Method(
        "tools/list",
        "reads",
        messages.ToolsParams,
        messages.ToolsResult,
        "setup.installation:tools",
        "List the supported agent CLIs, installed or not, with their versions.",
        slow=True,
    ),
    Method(
        "tools/create",
        "decides",
        messages.ToolCreateParams,
        messages.ToolFile,
        "configuration:create_tool",
        "Write a commented definition of an agent CLI that Understudy does not know.",
    ),
    Method(
        "workspace/trust",
        "decides",
        messages.TrustParams,
        messages.TrustResult,
        "configuration:trust",
        "Trust a workspace, revoke its trust, or return whether it is trusted.",
        only_looks=Condition("`trusted` is absent", lambda params: params.trusted is None),
    ),
    Method(
        "recipes/list",
        "reads",
        messages.RecipesParams,
        messages.RecipesResult,
        "configuration:recipes",
        "List the recipes that apply to a file.",
    ),
    Method(
        "agents/list",
        "reads",
        messages.WorkspaceParams,
        setup.AgentsResult,
        "configuration:agents",
        "List the agents and skills that a delegation can name, of the workspace, of the user and built in.",
    ),
    Method(
        "delegators/list",
        "reads",
        messages.WorkspaceParams,
        messages.DelegatorsResult,
        "configuration:delegators",
        "List the delegators with where each is configured, and the problems of the configuration.",
    ),
    Method(
        "delegators/get",
        "reads",
        messages.NameParams,
        config_entries.DelegatorEntry,
        "configuration:delegator",
        "Return one delegator.",
    ),
    Method(
        "delegators/create",
        "decides",
        messages.DelegatorCreateParams,
        config_entries.DelegatorEntry,
        "configuration:create_delegator",
        "Create a delegator: one file in the folder of its scope.",
    ),
    Method(
        "delegators/createFromTool",
        "decides",
        messages.DelegatorFromToolParams,
        config_entries.DelegatorEntry,
        "configuration:create_delegator_from_tool",
        "Create a delegator for an agent CLI, with a generated unique name.",
    ),
    Method(
        "delegators/importProfile",
        "decides",
        setup.ImportProfileParams,
        setup.ImportResult,
        "setup.agent_profiles:import_profile",
        "Create a delegator from an agent profile, which is kept; or return what would be written.",
        only_looks=_DRY_RUN,
    ),
    Method(
        "delegators/exportProfile",
        "reads",
        setup.ExportProfileParams,
        setup.ExportProfileResult,
        "setup.agent_profiles:export_profile",
        "Return a delegator as an agent profile, or several as a workflow of AGNT.",
    ),
    Method(
        "delegators/update",
        "decides",
        messages.DelegatorUpdateParams,
        config_entries.DelegatorEntry,
        "configuration:update_delegator",
        "Replace a delegator; a stale revision is a conflict.",
    ),
    Method(
        "delegators/reset",
        "decides",
        messages.NameParams,
        config_entries.DelegatorEntry,
        "configuration:reset_delegator",
        "End the pauses of a delegator that failed again and again, and forget its failures.",
    ),
    Method(
        "delegators/delete",
        "decides",
        messages.DeleteParams,
        messages.EmptyResult,
        "configuration:delete_delegator",
        "Remove a delegator.",
    ),
    Method(
        "delegators/setDefault",
        "decides",
        messages.DefaultParams,
        messages.DefaultResult,
        "configuration:set_default",
        "Choose the delegator that a recipe, or everything else, uses by default.",
    ),
    Method(
        "delegators/test",
        "decides",
        messages.DelegatorTestParams,
        config_entries.ConnectionTest,
        "setup.connection_tests:test_delegator",
        "Test a delegator, saved or not: its tool or its server, key and model, and a short round trip.",
        slow=True,
        only_looks=Condition("`delegator` is absent", lambda params: params.delegator is None),
    ),
    Method(
        "modelServers/list",
        "reads",
        messages.WorkspaceParams,
        messages.ModelServersResult,
        "configuration:model_servers",
        "List the model servers with where each is configured.",
    ),
    Method(
        "modelServers/get",
        "reads",
        messages.NameParams,
        config_entries.ModelServerEntry,
        "configuration:model_server",
        "Return one model server.",
    ),
    Method(
        "modelServers/create",
        "decides",
        messages.ModelServerCreateParams,
        config_entries.ModelServerEntry,
        "configuration:create_model_server",
        "Create a model server.",
    ),
    Method(
        "modelServers/update",
        "decides",
        messages.ModelServerUpdateParams,
        config_entries.ModelServerEntry,
        "configuration:update_model_server",
        "Replace a model server; a stale revision is a conflict.",
    ),
    Method(
        "modelServers/delete",
        "decides",
        messages.DeleteParams,
        messages.EmptyResult,
        "configuration:delete_model_server",
        "Remove a model server.",
    ),
    Method(
        "modelServers/test",
        "delegates",
        messages.NameParams,
        config_entries.ConnectionTest,
        "setup.connection_tests:test_model_server",
        "Test a model server: reach it and use its key.",
        slow=True,
    ),
    Method(
        "modelServers/presets",
        "reads",
        messages.NoParams,
        messages.PresetsResult,
        "configuration:presets",
        "List the kinds of model servers, their usual addresses, and which run on this machine.",
        slow=True,
    ),
    Method(
        "modelServers/models",
        "reads",
        messages.NameParams,
        messages.ModelsResult,
        "setup.connection_tests:models",
        "List the models of a server.",
        slow=True,
    ),
    Method(
        "modelServers/setKey",
        "decides",
        messages.SetKeyParams,
        messages.EmptyResult,
        "configuration:set_key",
        "Store a server's API key in the OS keyring or a file with mode 0600, and refer to it.",
    ),
    Method(
        "checks/list",
        "reads",
        messages.WorkspaceParams,
        messages.ChecksResult,
        "setup.configured_checks:checks",
        "List the checks with where each is configured, and those that the project's files suggest.",
    ),
    Method(
        "checks/create",
        "decides",
        messages.CheckCreateParams,
        config_entries.CheckEntry,
        "setup.configured_checks:create_check",
        "Create a check: one file in the folder of its scope.",
    ),
    Method(
        "checks/delete",
        "decides",
        messages.DeleteParams,
        messages.EmptyResult,
        "setup.configured_checks:delete_check",
        "Remove a check.",
    ),
    Method(
        "checks/test",
        "decides",
        messages.CheckTestParams,
        config_entries.CheckTrial,
        "setup.configured_checks:test_check",
        "Run a check, saved or not, on the current files in a worktree of its own.",
        slow=True,
        only_looks=Condition("`check` is absent", lambda params: params.check is None),
    ),
    Method(
        "text/preview",
        "reads",
        messages.TextParams,
        messages.PreviewResult,
        "text_answers:preview",
        "Return exactly what `text/run` would send; refused if the delegator runs an agent CLI.",
    ),
    Method(
        "text/run",
        "delegates",
        messages.TextParams,
        messages.TextResult,
        "text_answers:run",
        "Send a text recipe to a model server from this process and return the answer; nothing else is started.",
        slow=True,
    ),
    Method(
        "delegations/start",
        "delegates",
        delegations.StartParams,
        messages.StartResult,
        "delegations:start",
        "Start a delegation; return at once, with the chosen delegator and the reason.",
    ),
    Method(
        "delegations/preview",
        "reads",
        delegations.StartParams,
        messages.PreviewResult,
        "delegations:preview",
        "Return exactly what a start would send, without sending it.",
    ),
    Method(
        "delegations/get",
        "reads",
        messages.IdParams,
        delegations.Delegation,
        "delegations:get",
        "Return the current state of one delegation.",
    ),
    Method(
        "delegations/list",
        "reads",
        messages.ListParams,
        messages.ListResult,
        "delegations:list_page",
        "List delegations, newest first, page by page.",
    ),
    Method(
        "delegations/wait",
        "reads",
        messages.WaitParams,
        delegations.Delegation,
        "delegations:wait",
        "Wait for the end of a delegation; a timeout is not an error: check `state`.",
        slow=True,
    ),
    Method(
        "delegations/events",
        "reads",
        messages.EventsParams,
        messages.EventsResult,
        "delegations:events",
        "Return events after a sequence number; may wait for the next one.",
        slow=True,
    ),
    Method(
        "delegations/subscribe",
        "reads",
        messages.SubscribeParams,
        messages.EmptyResult,
        "delegations:subscribe",
        "Start sending events: missed ones first, then live ones, each exactly once.",
        needs_notifications=True,
    ),
    Method(
        "delegations/unsubscribe",
        "reads",
        messages.UnsubscribeParams,
        messages.EmptyResult,
        "delegations:unsubscribe",
        "Stop sending events.",
        needs_notifications=True,
    ),
    Method(
        "delegations/cancel",
        "delegates",
        messages.IdParams,
        delegations.Delegation,
        "delegations:cancel",
        "Cancel a delegation within five seconds; its partial work is kept. Idempotent. A run cancels only what it "
        "delegated.",
    ),
    Method(
        "delegations/attach",
        "reads",
        messages.AttachParams,
        messages.AttachResult,
        "agent_terminals:attach",
        "Return the command that shows the terminal of an agent that runs in tmux.",
    ),
    Method(
        "groups/create",
        "delegates",
        messages.GroupCreateParams,
        delegations.Group,
        "groups:create",
        "Create an empty group of delegations.",
    ),
    Method(
        "groups/start",
        "delegates",
        messages.GroupStartParams,
        messages.GroupStartResult,
        "groups:start",
        "Start several tasks as one group, from one base and with one budget; return at once.",
        slow=True,
    ),
    Method(
        "groups/get",
        "reads",
        messages.IdParams,
        delegations.Group,
        "groups:get",
        "Return a group with the IDs of its members.",
    ),
    Method(
        "groups/list",
        "reads",
        messages.GroupListParams,
        messages.GroupListResult,
        "groups:list_newest",
        "Return the newest groups, each with how many members are in which state.",
    ),
    Method(
        "groups/wait",
        "reads",
        messages.GroupWaitParams,
        messages.GroupResult,
        "groups:wait",
        "Wait for the end of every member; a timeout is not an error: check each `state`.",
        slow=True,
    ),
    Method(
        "groups/cancel",
        "delegates",
        messages.IdParams,
        messages.GroupResult,
        "groups:cancel",
        "Cancel every member that has not finished; its partial work is kept. Idempotent. A run cancels only what it "
        "delegated.",
        slow=True,
    ),
    Method(
        "queue/get",
        "reads",
        messages.NoParams,
        messages.QueueResult,
        "queued_delegations:get",
        "Return the delegations that wait for a slot, in the order in which they start.",
    ),
    Method(
        "queue/pause",
        "decides",
        messages.QueuePauseParams,
        messages.QueueResult,
        "queued_delegations:pause",
        "Let nothing that waits start, or let it start again.",
    ),
    Method(
        "queue/move",
        "decides",
        messages.QueueMoveParams,
        messages.QueueResult,
        "queued_delegations:move",
        "Let a waiting delegation start earlier or later than others.",
    ),
    Method(
        "delegations/diff",
        "reads",
        messages.IdParams,
        messages.DiffResult,
        "review:diff",
        "Return the result as files and hunks.",
    ),
    Method(
        "delegations/file",
        "reads",
        messages.FileParams,
        messages.FileResult,
        "delegations:file",
        "Return one file of the base or of the result.",
    ),
    Method(
        "delegations/logs",
        "reads",
        messages.IdParams,
        messages.LogsResult,
        "delegations:logs",
        "Return the prompt as it was sent, and the paths of the logs of the agent's program.",
    ),
    Method(
        "delegations/check",
        "decides",
        messages.IdParams,
        delegations.Delegation,
        "delegations:check",
        "Run the checks of a result again and update its verdict.",
        slow=True,
    ),
    Method(
        "delegations/evidence",
        "reads",
        messages.IdParams,
        messages.EvidenceResult,
        "evidence:page",
        "Return everything that was looked at to judge a result, as one page with commands to repeat it.",
    ),
    Method(
        "delegations/dismiss",
        "decides",
        messages.DismissParams,
        messages.EmptyResult,
        "evidence:dismiss",
        "Leave out mutants that no test can notice from later judgements in this workspace.",
    ),
    Method(
        "delegations/decide",
        "decides",
        review_messages.DecideParams,
        review_messages.DecideResult,
        "review:decide",
        "Accept hunks, merging them into the user's current files and buffers, or reject them with a reason.",
    ),
    Method(
        "delegations/undo",
        "decides",
        review_messages.UndoParams,
        messages.EmptyResult,
        "review:undo",
        "Undo an accept; keep later edits.",
    ),
    Method(
        "delegations/amend",
        "decides",
        review_messages.AmendParams,
        review_messages.AmendResult,
        "review:amend",
        "Edit a file of the result; it is split into hunks again.",
    ),
    Method(
        "delegations/drop",
        "decides",
        review_messages.DropParams,
        review_messages.DropResult,
        "review:drop",
        "Remove new tests that notice nothing from the result; amending the file restores them.",
    ),
    Method(
        "delegations/dismissRun",
        "decides",
        messages.IdParams,
        messages.EmptyResult,
        "review:dismiss",
        "Record that a finished run no longer needs the user's attention, until its checks run again.",
    ),
    Method(
        "delegations/undoAmend",
        "decides",
        review_messages.UndoAmendParams,
        review_messages.AmendResult,
        "review:undo_amend",
        "Undo the last edit of a file of the result; the decisions on it are as before the edit.",
    ),
    Method(
        "delegations/reply",
        "decides",
        review_messages.ReplyParams,
        review_messages.StartedResult,
        "review:reply",
        "Send a result back with instructions: a new delegation in the same worktree and tool session.",
    ),
    Method(
        "delegations/strengthen",
        "decides",
        review_messages.StrengthenParams,
        review_messages.StartedResult,
        "review:strengthen",
        "Send a result back for tests that notice the small changes of the code that no test noticed.",
    ),
    Method(
        "delegations/retry",
        "decides",
        review_messages.RetryParams,
        review_messages.StartedResult,
        "review:retry",
        "Run a delegation again from its original base, optionally with another delegator.",
    ),
    Method(
        "delegations/answer",
        "decides",
        review_messages.AnswerParams,
        messages.EmptyResult,
        "review:answer",
        "Answer a permission request of an agent; the first valid answer counts, a second one is a conflict.",
    ),
    Method(
        "delegations/say",
        "decides",
        review_messages.SayParams,
        review_messages.SayResult,
        "review:say",
        "Say something to the agent of a delegation in progress; what it does not get goes along with the next reply.",
    ),
    Method(
        "delegations/export",
        "decides",
        review_messages.ExportParams,
        review_messages.ExportResult,
        "review:export",
        "Export a result, without rejected hunks, as a branch, commit or patch.",
    ),
    Method(
        "delegations/discard",
        "decides",
        messages.IdParams,
        review_messages.RescueResult,
        "review:discard",
        "Discard a result and its worktree; the rescue ref restores it byte for byte.",
    ),
    Method(
        "worktrees/list",
        "reads",
        messages.NoParams,
        review_messages.WorktreesResult,
        "review:worktrees",
        "List the worktrees on disk with their owners.",
    ),
    Method(
        "worktrees/remove",
        "decides",
        messages.IdParams,
        review_messages.RescueResult,
        "review:remove_worktree",
        "Remove a worktree by its ID in the list; the rescue ref restores it.",
    ),
    Method(
        "worktrees/restore",
        "decides",
        review_messages.RestoreParams,
        review_messages.RestoreResult,
        "review:restore_worktree",
        "Restore a removed worktree at its path.",
    ),
    Method(
        "ledger/read",
        "reads",
        ledger.LedgerParams,
        ledger.LedgerResult,
        "ledger:read",
        "List what was delegated, newest first, with totals of tokens, costs and outcomes.",
    ),
    Method(
        "instructions/list",
        "reads",
        others.InstructionsParams,
        others.InstructionsResult,
        "setup.instructions:read",
        "List where other agents can be told when and how to delegate, and the text.",
    ),
    Method(
        "instructions/change",
        "decides",
        others.ChangeInstructionsParams,
        others.ChangeInstructionsResult,
        "setup.instructions:change",
        "Install or remove these instructions, in files of other agents or of a workspace.",
        only_looks=_DRY_RUN,
    ),
    Method(
        "mcpClients/list",
        "reads",
        others.McpClientsParams,
        others.McpClientsResult,
        "setup.mcp_clients:read",
        "List the agents and editors that the MCP server can be registered in, and whether it is.",
    ),
    Method(
        "mcpClients/change",
        "decides",
        others.ChangeMcpClientsParams,
        others.ChangeMcpClientsResult,
        "setup.mcp_clients:change",
        "Register the MCP server in agents and editors with their own commands, or remove it.",
        only_looks=_DRY_RUN,
    ),
)

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}
"""Every request, by its name without the ``understudy/`` prefix."""

NOTIFICATIONS: dict[str, type] = {
    "event": messages.EventNotification,
    "changed": messages.ChangedNotification,
    "text": messages.TextNotification,
}
"""Notifications to the client, by their name without the prefix."""


def method(name: str) -> Method:
    """Return the method with this name, with or without prefix; raise ``unknown_method``."""
    declared = METHODS.get(name.removeprefix(PREFIX))
    if declared is None:
        import difflib

        raise UnderstudyError(
            ErrorKind.UNKNOWN_METHOD,
            f"There is no method {name!r}.",
            hint="Run `understudy version` to see the version of the protocol.",
            names=difflib.get_close_matches(name.removeprefix(PREFIX), METHODS, n=3),
        )
    return declared


def decode_params(declared: Method, params: Any) -> Any:
    """Return ``params`` (parsed JSON; None counts as ``{}``) as the method's structure; raise ``invalid_params``."""
    if isinstance(params, list):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"The parameters of {declared.wire_name} are an array.",
            hint="Pass them by name, as an object.",
        )
    try:
        return msgspec.convert({} if params is None else params, ready(declared.params))
    except msgspec.ValidationError as error:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{declared.wire_name}: {error}",
            hint="See protocol/README.md for its parameters.",
        ) from None


def call(name: str, params: Any, caller: Caller) -> Any:
    """Answer one request; ``params`` is parsed JSON or the method's structure. Raises only ``UnderstudyError``."""
    declared = method(name)
    decoded = params if isinstance(params, ready(declared.params)) else decode_params(declared, params)
    try:
        if declared.decides(decoded):
            inside_runs.refuse(caller, declared.wire_name)
        distrusts = getattr(caller, "distrusts", None)
        if distrusts is not None:
            from understudy.config.trust import records

            with records.withdrawing(distrusts):
                return _function(declared)(caller, decoded)
        return _function(declared)(caller, decoded)
    except UnderstudyError:
        raise
    except Exception as error:
        from understudy.api.internal_errors import internal_error

        raise internal_error(declared.name, error) from error


def _function(declared: Method) -> Callable[[Caller, Any], Any]:
    module, _, function = declared.function.partition(":")
    return getattr(importlib.import_module(f"understudy.api.handlers.{module}"), function)  # type: ignore[no-any-return]
