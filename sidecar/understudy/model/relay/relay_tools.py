"""The relay tools, with which an agent asks the user, reports progress, delegates, and talks to its peers.

Each is declared once; agents get them as an MCP server, our own loop gets them directly.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import msgspec

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready

SERVER = "understudy_relay"
"""The name of the MCP server; not that of `understudy mcp`, which users configure for themselves."""
CALL_SECONDS = 45.0
"""The longest answer: clients give up after 60 s by default."""
MOST_CHOICES = 10
LONGEST_TEXT = 16_000
"""Characters of a question, a task, or a message."""

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT)]
_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=CALL_SECONDS)]


class Arguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The base of all: a parameter that a tool does not have is an error."""


class AskHuman(Arguments):
    """A question for the user."""

    question: _Text
    choices: Annotated[list[_Text], msgspec.Meta(max_length=MOST_CHOICES)] = []


class ReportProgress(Arguments):
    """What the agent does now."""

    text: _Text
    done: float | None = None
    total: float | None = None


class Delegate(Arguments):
    """A piece of the agent's work."""

    task: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT, description="Complete instructions.")]
    recipe: Annotated[str, msgspec.Meta(description="implement, fix, tests, docs, review …")] = "implement"
    files: Annotated[list[str], msgspec.Meta(max_length=100)] = []
    context_files: Annotated[list[str], msgspec.Meta(max_length=100)] = []
    delegator: str | None = None


class Named(Arguments):
    """One of the agent's own delegations."""

    id: _Id


class Wait(Named):
    """Wait for one."""

    timeout_seconds: _Seconds = CALL_SECONDS


class Diff(Named):
    """The patch of one."""

    files: Annotated[list[str], msgspec.Meta(max_length=100)] = []


class NoArguments(Arguments):
    """None."""


class Message(Arguments):
    """A message to one peer."""

    to: _Id
    text: _Text


class Messages(Arguments):
    """Read messages."""

    wait_seconds: _Seconds = 0


class Reply(Arguments):
    """An answer to a message."""

    message_id: _Id
    text: _Text


class Broadcast(Arguments):
    """A message to all peers."""

    text: _Text


class RelayTool(msgspec.Struct, frozen=True):
    """One tool."""

    name: str
    params: type[Arguments]
    description: str
    delegates: bool = False
    """Whether it is for agents that may delegate further."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the JSON Schema of its parameters."""
        return parameters_of(self.params)

    def decode(self, arguments: Any) -> Any:
        """Return the parameters; raise ``invalid_params``."""
        try:
            # Models write 10 as "10", and leave a parameter out with null.
            present = {name: value for name, value in dict(arguments or {}).items() if value is not None}
            return msgspec.convert(present, ready(self.params), strict=False)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{self.name}: {error}",
                hint=f"Its parameters are {', '.join(self.params.__struct_fields__) or 'none'}.",
            ) from None


TOOLS: dict[str, RelayTool] = {
    tool.name: tool
    for tool in (
        RelayTool(
            "ask_human",
            AskHuman,
            "Ask the user what only the user can decide. Answers with `answer`, or after 45 s with `waiting`: make the "
            "same call again. `unanswered`: decide yourself.",
        ),
        RelayTool("report_progress", ReportProgress, "Tell the user briefly what you are doing."),
        RelayTool(
            "delegate",
            Delegate,
            "Give a self-contained piece of your work to another agent. It starts from the files that you started "
            "from, without your changes, and works in its own worktree. Returns an id at once; then `wait`. What still "
            "runs when you finish is cancelled.",
            delegates=True,
        ),
        RelayTool("wait", Wait, "Wait up to 45 s for one of your delegations; `running`: call again.", delegates=True),
        RelayTool("show", Named, "Like `wait`, without waiting.", delegates=True),
        RelayTool(
            "diff",
            Diff,
            "What one of your delegations changed, as a patch. Apply what you want to keep.",
            delegates=True,
        ),
        RelayTool("cancel", Named, "Stop one of your delegations.", delegates=True),
        RelayTool("peers", NoArguments, "List the agents of your group that you can talk to."),
        RelayTool("message", Message, "Send a message to a peer, who reads it with `messages`."),
        RelayTool("messages", Messages, "Read messages of your peers that you have not read yet."),
        RelayTool(
            "ask",
            Message,
            "Ask a peer, and wait up to 45 s for its `reply`; `waiting`: make the same call again.",
        ),
        RelayTool("reply", Reply, "Answer a message of a peer."),
        RelayTool("broadcast", Broadcast, "Send a message to all peers."),
    )
}
"""The tools, by name."""


@cache
def parameters_of(params: type[msgspec.Struct]) -> dict[str, Any]:
    """Return a schema without what a model does not need: titles, docstrings, null alternatives and defaults."""
    whole = msgspec.json.schema(params)
    root: dict[str, Any] = _inlined(whole, whole.get("$defs", {}))
    return root


def _inlined(value: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_inlined(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        referred = _inlined(definitions[value["$ref"].rpartition("/")[2]], definitions)
        return {key: part for key, part in referred.items() if key != "description"}
    if "anyOf" in value:
        kinds = [item for item in value["anyOf"] if item != {"type": "null"}]
        rest = {key: part for key, part in value.items() if key not in {"anyOf", "default"}}
        return _inlined({**kinds[0], **rest} if len(kinds) == 1 else {"anyOf": kinds, **rest}, definitions)
    schema = {key: part for key, part in value.items() if key not in {"title", "default", "$defs"}}
    if "properties" in schema:
        schema["properties"] = {key: _inlined(part, definitions) for key, part in schema["properties"].items()}
        schema.pop("description", None)
        return schema
    return {key: _inlined(part, definitions) for key, part in schema.items()}
