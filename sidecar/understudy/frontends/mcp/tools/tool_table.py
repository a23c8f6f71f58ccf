"""The tools: one declaration each, from which its name, description, schema and annotations come."""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from understudy.api.serving import mcp_permissions
from understudy.frontends.mcp.tools import seed_tools, tool_functions, tool_params
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.relay.relay_tools import parameters_of
from understudy.model.wire import ready

Effect = Literal["reads", "adds", "stops", "changes"]
"""Reads only; adds work; stops work, which stays restorable; changes the user's files."""


@dataclass(frozen=True)
class Tool:
    """One tool."""

    function: Callable[[Any, Any], Any]
    effect: Effect
    description: str
    decides: bool = False
    """Whether the user must have allowed it."""
    idempotent: bool = True
    """Whether the same call again does nothing more."""

    @property
    def name(self) -> str:
        """Return the name of its function."""
        return self.function.__name__

    @property
    def params(self) -> type[tool_params.Arguments]:
        """Return the structure of its parameters."""
        params: type[tool_params.Arguments] = typing.get_type_hints(self.function)["args"]
        return params

    @property
    def set(self) -> str:
        """Return ``own``, or the set that is listed only when asked for; its tools are answered all the same."""
        return "delegate-local" if self.function.__module__ == seed_tools.__name__ else "own"

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of its parameters."""
        return parameters_of(self.params)

    def decode(self, arguments: dict[str, Any] | None) -> Any:
        """Return the parameters; raise ``invalid_params``."""
        try:
            return msgspec.convert(arguments or {}, ready(self.params))
        except msgspec.ValidationError as error:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{self.name}: {error}",
                hint=f"Its parameters are {', '.join(self.params.__struct_fields__) or 'none'}.",
            ) from None


_ROWS: tuple[Tool, ...] = (
    Tool(
        tool_functions.start,
        "adds",
        "Delegate self-contained work (tests, docs, a fix, a well-described change) to a cheaper agent. Not for a few "
        "lines, or for what needs this conversation. Returns an id at once; then `wait`. An equal call attaches to it "
        "while it runs, and for minutes after.",
    ),
    Tool(tool_functions.batch, "adds", "Start independent tasks together. Returns a group id for `wait`."),
    Tool(
        tool_functions.wait,
        "reads",
        "Wait up to 45 s for a delegation or group: verdict, files and checks; or `running`: call again; or `asks`: "
        "`answer`.",
    ),
    Tool(tool_functions.show, "reads", "Like `wait`, without waiting."),
    Tool(tool_functions.diff, "reads", "A result as a patch. The user's files do not have it yet."),
    Tool(tool_functions.evidence, "reads", "What the verdict rests on."),
    Tool(tool_functions.reply, "adds", "Send a finished result back with instructions. Returns a new id."),
    Tool(tool_functions.answer, "adds", "Answer an agent's permission request; if in doubt, ask the user."),
    Tool(tool_functions.say, "adds", "Say something to a running agent.", idempotent=False),
    Tool(tool_functions.cancel, "stops", "Stop a delegation or group. Partial work is kept."),
    Tool(tool_functions.list_delegators, "reads", "Delegators, recipes and agents."),
    Tool(
        tool_functions.ask,
        "adds",
        "Let a cheap model read files and answer, instead of reading them yourself. Changes nothing.",
    ),
    Tool(
        tool_functions.decide,
        "changes",
        "Accept a result into the user's files, or reject it. Read its diff first.",
        decides=True,
        idempotent=False,
    ),
    Tool(
        seed_tools.delegate_to_local_agent,
        "adds",
        "Let an agent (see list_local_agents) do a task in its own worktree of workdir; returns its final response, or "
        "`running` with an id for `wait` after 45 s. max_turns 0: the configured limit.",
    ),
    Tool(
        seed_tools.delegate_batch,
        "adds",
        "Run delegate_to_local_agent for several tasks; results are in the order of the tasks.",
    ),
    Tool(
        seed_tools.delegate_to_provider,
        "adds",
        "Like delegate_to_local_agent, on the model server with this address; the user configures it and its key.",
    ),
    Tool(
        seed_tools.list_local_agents,
        "reads",
        "Names and descriptions of the agents that delegate_to_local_agent takes.",
    ),
    Tool(seed_tools.local_backend_status, "reads", "Whether the configured model servers answer, and their models."),
)

TOOLS: dict[str, Tool] = {row.name: row for row in _ROWS}
"""Every tool, by name."""


def listed(sets: tuple[str, ...]) -> list[Tool]:
    """Return the tools that clients see: our own, those of ``sets``, and ``decide`` if the user allows it."""
    may_decide = mcp_permissions.may_decide()
    return [tool for tool in _ROWS if tool.set in {"own", *sets} and (may_decide or not tool.decides)]


def tool(name: str) -> Tool:
    """Return a tool; raise ``unknown_method`` with similar names."""
    declared = TOOLS.get(name)
    if declared is None:
        import difflib

        raise UnderstudyError(
            ErrorKind.UNKNOWN_METHOD,
            f"There is no tool {name[:64]!r}.",
            hint="List the tools.",
            names=difflib.get_close_matches(name[:64], TOOLS, n=3),
        )
    return declared
