"""Each method says what it does, and what it decides is refused inside a run, whatever calls it."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
import pytest

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.model.errors import ErrorKind, UnderstudyError

READS = (
    *("version", "doctor", "status", "tools/list", "recipes/list", "agents/list", "checks/list", "ledger/read"),
    *("schedules/list", "notifications/list", "metrics/read", "routes/suggest"),
    *("delegators/list", "delegators/get", "delegators/exportProfile", "instructions/list", "mcpClients/list"),
    *("modelServers/list", "modelServers/get", "modelServers/presets", "modelServers/models"),
    *("text/preview", "delegations/preview", "delegations/get", "delegations/list", "delegations/wait"),
    *("delegations/events", "delegations/subscribe", "delegations/unsubscribe", "delegations/attach"),
    *("groups/get", "groups/list", "groups/wait", "groups/compare", "queue/get", "worktrees/list"),
    *("delegations/diff", "delegations/file", "delegations/logs", "delegations/evidence"),
)
ASKS = ("text/run", "delegations/cancel", "groups/cancel", "modelServers/test")
STARTS = ("delegations/start", "groups/create", "groups/start", "schedules/run", "schedules/serve")
ONLY_LOOKS = {
    "workspace/trust": ("trusted", None, True),
    "configuration/import": ("dry_run", True, False),
    "delegators/importProfile": ("dry_run", True, False),
    "delegators/test": ("delegator", None, "an unsaved one"),
    "checks/test": ("check", None, "an unsaved one"),
    "instructions/change": ("dry_run", True, False),
    "mcpClients/change": ("dry_run", True, False),
    "schedules/install": ("dry_run", True, False),
}
"""Method → the parameter that makes it only look, the value with which it does, and one with which it decides."""


@pytest.fixture(autouse=True)
def no_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    real = method_table.Method.handler.fget  # type: ignore[attr-defined]

    def handler(method: method_table.Method) -> Any:
        @functools.wraps(real(method))
        def reached(*_: Any) -> Any:
            raise UnderstudyError(ErrorKind.CONFLICT, "reached")

        return reached

    monkeypatch.setattr(method_table.Method, "handler", property(handler))


def kind_of(name: str, caller: Any = None, **given: Any) -> ErrorKind:
    params = method_table.METHODS[name].params
    required = {field.name: None for field in msgspec.structs.fields(params) if field.required}
    with pytest.raises(UnderstudyError) as refused:
        method_table.call(name, params(**(required | given)), caller or TerminalCaller())
    return refused.value.kind


def test_a_new_method_decides_unless_it_is_listed_here() -> None:
    found: dict[str, set[str]] = {}
    for name, method in method_table.METHODS.items():
        found.setdefault(method.effect, set()).add(name)
    found.pop("decides")
    assert found == {"reads": set(READS), "asks": set(ASKS), "delegates": set(STARTS)}
    with pytest.raises(TypeError):
        method_table.Method("new")  # type: ignore[call-arg]


@pytest.mark.parametrize("name", method_table.METHODS)
def test_what_decides_or_starts_is_refused_inside_a_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parameter, looks, decides = ONLY_LOOKS.get(name, (None, None, None))
    given = {} if parameter is None else {parameter: decides}
    assert kind_of(name, **given) is ErrorKind.CONFLICT, "outside"
    monkeypatch.setenv("UNDERSTUDY_DELEGATION", "20261127-101500-abcde")
    decided = ErrorKind.CONFLICT if name in {*READS, *ASKS} else ErrorKind.PERMISSION_DENIED
    assert kind_of(name, **given) is decided
    if parameter is not None:
        assert kind_of(name, **{parameter: looks}) is ErrorKind.CONFLICT


def test_a_server_outside_asks_where_its_caller_is() -> None:
    class Remote(TerminalCaller):
        run: str | None = None

        def surrounding_run(self) -> str | None:
            return self.run

    caller = Remote()
    assert kind_of("delegations/undo", caller) is ErrorKind.CONFLICT
    for caller.run in ("20261127-101500-abcde", ""):
        assert kind_of("delegations/undo", caller) is ErrorKind.PERMISSION_DENIED
