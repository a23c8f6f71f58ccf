"""The contract: every request with its parameters, its result and the function that answers it.

``protocol/`` is generated from this table (``make generate``), and every frontend serves it, so a method
exists when, and only when, it has a line here.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import typing
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from understudy.api import messages
from understudy.api.caller import Caller
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready

PROTOCOL_VERSION = 2
PREFIX = "understudy/"


Effect = Literal["reads", "asks", "delegates", "decides"]
"""What a method does: it changes nothing; it asks a model, or stops work; it starts work; or it changes what is the
user's: files, decisions, verdicts, worktrees, configuration, trust. Inside a run, a method that delegates or decides is
refused (``Caller``), and one that stops work stops only what the run itself delegated. Agents start work with the relay
tool ``delegate``, which has bounds: a start of their own could use another delegator, or the user's checkout."""


class Condition(msgspec.Struct, frozen=True):
    """A condition on the parameters of a request."""

    text: str
    """As the end of a sentence of the documentation: "`dryRun` is true"."""
    holds: Callable[[Any], bool]


_DRY_RUN = Condition("`dryRun` is true", lambda params: params.dry_run)
_ONLY_ASKS = Condition("`trusted` is absent", lambda params: params.trusted is None)
_SAVED_DELEGATOR = Condition("`delegator` is absent", lambda params: params.delegator is None)
_SAVED_CHECK = Condition("`check` is absent", lambda params: params.check is None)


class Method(msgspec.Struct, frozen=True):
    """One request of the contract."""

    name: str
    effect: Effect
    function: str
    """``module:function`` below ``understudy.api.handlers``; imported when it is first called."""
    needs_notifications: bool = False
    """Served only by frontends that can send notifications."""
    slow: bool = False
    """May wait for minutes; frontends answer it in threads reserved for slow methods."""
    only_looks: Condition | None = None
    """For a method that is refused inside a run: the parameters with which it changes nothing."""

    @property
    def wire_name(self) -> str:
        """Return the method name on the wire."""
        return PREFIX + self.name

    @property
    def handler(self) -> Callable[[Caller, Any], Any]:
        """Return the function that answers it; its docstring begins with the summary."""
        module, _, function = self.function.partition(":")
        return getattr(importlib.import_module(f"understudy.api.handlers.{module}"), function)  # type: ignore[no-any-return]

    @property
    def summary(self) -> str:
        """Return what it does, for the documentation."""
        return (inspect.getdoc(self.handler) or "").partition("\n\n")[0].replace("\n", " ")

    @property
    def params(self) -> type:
        """Return the structure of its parameters."""
        return _types(self.handler)["params"]

    @property
    def result(self) -> type:
        """Return the structure of its result."""
        return _types(self.handler)["return"]

    def is_for_the_user(self, params: Any) -> bool:
        """Return whether a request with these parameters is for the user alone."""
        if self.only_looks is not None and self.only_looks.holds(params):
            return False
        return self.effect in {"delegates", "decides"}


_ROWS: tuple[Method, ...] = (
    Method("version", "reads", "setup.overview:version"),
    Method("doctor", "reads", "setup.doctor:doctor", slow=True),
    Method("status", "reads", "setup.overview:status"),
    Method("remedies/apply", "decides", "setup.apply_remedy:apply"),
    Method("configuration/init", "decides", "setup.overview:init", slow=True),
    Method("configuration/import", "decides", "setup.importing:import_configuration", only_looks=_DRY_RUN),
    Method("tools/list", "reads", "setup.overview:tools", slow=True),
    Method("tools/create", "decides", "configuration:create_tool"),
    Method("workspace/trust", "decides", "configuration:trust", only_looks=_ONLY_ASKS),
    Method("recipes/list", "reads", "configuration:recipes"),
    Method("agents/list", "reads", "configuration:agents"),
    Method("delegators/list", "reads", "configuration:delegators"),
    Method("delegators/get", "reads", "configuration:delegator"),
    Method("delegators/create", "decides", "configuration:create_delegator"),
    Method("delegators/createFromTool", "decides", "configuration:create_delegator_from_tool"),
    Method("delegators/importProfile", "decides", "setup.importing:import_profile", only_looks=_DRY_RUN),
    Method("delegators/exportProfile", "reads", "setup.importing:export_profile"),
    Method("delegators/update", "decides", "configuration:update_delegator"),
    Method("delegators/reset", "decides", "configuration:reset_delegator"),
    Method("delegators/delete", "decides", "configuration:delete_delegator"),
    Method("delegators/setDefault", "decides", "configuration:set_default"),
    Method(
        "delegators/test", "decides", "setup.connection_tests:test_delegator", slow=True, only_looks=_SAVED_DELEGATOR
    ),
    Method("modelServers/list", "reads", "configuration:model_servers"),
    Method("modelServers/get", "reads", "configuration:model_server"),
    Method("modelServers/create", "decides", "configuration:create_model_server"),
    Method("modelServers/update", "decides", "configuration:update_model_server"),
    Method("modelServers/delete", "decides", "configuration:delete_model_server"),
    Method("modelServers/test", "asks", "setup.connection_tests:test_model_server", slow=True),
    Method("modelServers/presets", "reads", "configuration:presets", slow=True),
    Method("modelServers/models", "reads", "setup.connection_tests:models", slow=True),
    Method("modelServers/setKey", "decides", "configuration:set_key"),
    Method("checks/list", "reads", "setup.configured_checks:checks"),
    Method("checks/create", "decides", "setup.configured_checks:create_check"),
    Method("checks/delete", "decides", "setup.configured_checks:delete_check"),
    Method("checks/test", "decides", "setup.configured_checks:test_check", slow=True, only_looks=_SAVED_CHECK),
    Method("schedules/list", "reads", "setup.schedules:list_all"),
    Method("schedules/create", "decides", "setup.schedules:create"),
    Method("schedules/delete", "decides", "setup.schedules:delete"),
    Method("schedules/pause", "decides", "setup.schedules:pause"),
    Method("schedules/run", "delegates", "setup.schedules:run"),
    Method("schedules/serve", "delegates", "setup.schedules:serve"),
    Method("schedules/install", "decides", "setup.schedules:install", slow=True, only_looks=_DRY_RUN),
    Method("notifications/list", "reads", "setup.notifications:list_all"),
    Method("notifications/create", "decides", "setup.notifications:create"),
    Method("notifications/delete", "decides", "setup.notifications:delete"),
    Method("notifications/test", "decides", "setup.notifications:test", slow=True),
    Method("text/preview", "reads", "text_answers:preview"),
    Method("text/run", "asks", "text_answers:run", slow=True),
    Method("delegations/start", "delegates", "delegations:start"),
    Method("delegations/preview", "reads", "delegations:preview"),
    Method("delegations/get", "reads", "delegations:get"),
    Method("delegations/list", "reads", "delegations:list_page"),
    Method("delegations/wait", "reads", "delegations:wait", slow=True),
    Method("delegations/events", "reads", "delegations:events", slow=True),
    Method("delegations/subscribe", "reads", "delegations:subscribe", needs_notifications=True),
    Method("delegations/unsubscribe", "reads", "delegations:unsubscribe", needs_notifications=True),
    Method("delegations/cancel", "asks", "delegations:cancel"),
    Method("delegations/attach", "reads", "delegations:attach"),
    Method("groups/create", "delegates", "groups:create"),
    Method("groups/start", "delegates", "groups:start", slow=True),
    Method("groups/get", "reads", "groups:get"),
    Method("groups/list", "reads", "groups:list_newest"),
    Method("groups/wait", "reads", "groups:wait", slow=True),
    Method("groups/cancel", "asks", "groups:cancel", slow=True),
    Method("groups/compare", "reads", "groups:compare", slow=True),
    Method("queue/get", "reads", "groups:get_queue"),
    Method("queue/pause", "decides", "groups:pause"),
    Method("queue/move", "decides", "groups:move"),
    Method("delegations/diff", "reads", "review:diff"),
    Method("delegations/file", "reads", "delegations:file"),
    Method("delegations/logs", "reads", "delegations:logs"),
    Method("delegations/check", "decides", "delegations:check", slow=True),
    Method("delegations/evidence", "reads", "review:page"),
    Method("delegations/dismiss", "decides", "review:dismiss_mutants"),
    Method("delegations/decide", "decides", "review:decide"),
    Method("delegations/undo", "decides", "review:undo"),
    Method("delegations/amend", "decides", "review:amend"),
    Method("delegations/drop", "decides", "review:drop"),
    Method("delegations/dismissRun", "decides", "review:dismiss"),
    Method("delegations/undoAmend", "decides", "review:undo_amend"),
    Method("delegations/reply", "decides", "review:reply"),
    Method("delegations/strengthen", "decides", "review:strengthen"),
    Method("delegations/retry", "decides", "review:retry"),
    Method("delegations/answer", "decides", "review:answer"),
    Method("delegations/say", "decides", "review:say"),
    Method("delegations/export", "decides", "review:export"),
    Method("delegations/commit", "decides", "review:commit", slow=True),
    Method("delegations/discard", "decides", "review:discard"),
    Method("worktrees/list", "reads", "review:worktrees"),
    Method("worktrees/remove", "decides", "review:remove_worktree"),
    Method("worktrees/restore", "decides", "review:restore_worktree"),
    Method("routes/suggest", "reads", "configuration:suggest_routes"),
    Method("ledger/read", "reads", "ledger:read"),
    Method("metrics/read", "reads", "ledger:metrics"),
    Method("instructions/list", "reads", "setup.other_agents:instructions"),
    Method("instructions/change", "decides", "setup.other_agents:change_instructions", only_looks=_DRY_RUN),
    Method("mcpClients/list", "reads", "setup.other_agents:clients"),
    Method("mcpClients/change", "decides", "setup.other_agents:change_clients", only_looks=_DRY_RUN),
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
    try:
        decoded = params if isinstance(params, ready(declared.params)) else decode_params(declared, params)
        if declared.is_for_the_user(decoded):
            caller.refuse_inside_runs(declared.wire_name, starts=declared.effect == "delegates")
        distrusts = caller.distrusts
        if distrusts is not None:
            from understudy.config.trust import records

            with records.withdrawing(distrusts):
                return declared.handler(caller, decoded)
        return declared.handler(caller, decoded)
    except UnderstudyError:
        raise
    except Exception as error:
        from understudy.api.error_answers import internal_error

        raise internal_error(declared.name, error) from error


@functools.cache
def _types(handler: Callable[[Caller, Any], Any]) -> dict[str, type]:
    return typing.get_type_hints(handler)
