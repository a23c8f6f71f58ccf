"""The server of the official SDK, with our tools."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import anyio
import anyio.to_thread
import mcp_types as types
import msgspec
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from understudy import __version__
from understudy.api import result_files
from understudy.api.caller import current_folder
from understudy.api.error_answers import internal_error
from understudy.api.serving import waiting_delegations
from understudy.frontends.mcp.first_answer import INSTRUCTIONS, Wire
from understudy.frontends.mcp.tools import tool_functions, tool_table
from understudy.frontends.mcp.tools.client_requests import Context, Inputs, NeedsInput
from understudy.frontends.mcp.tools.tool_answers import Answer, brief, of_group, status_of
from understudy.frontends.mcp.tools.tool_caller import Client, ToolCaller
from understudy.frontends.mcp.tools.tool_functions import Follow
from understudy.model import wire
from understudy.model.delegation.delegations import Delegation, PermissionRequest
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.text import patches

CALL_SECONDS = 45.0
"""The longest answer: clients give up after 60 s by default."""


PREFIX = "understudy://delegations/"
MOST_LISTED = 20
MOST_CHARACTERS = 8_000_000
"""The longest resource; a longer transcript ends with its newest events."""
_PAGE = 1000


REPORT_SECONDS = 5.0
"""The longest time between two reports of progress."""
_Result = TypeVar("_Result")


def new_server(tool_sets: tuple[str, ...], here: Path | None, *, local: bool) -> Server[Any]:
    """Return a server for any number of clients; ``here`` is the workspace of those that name none.

    ``local``: the client started this process.
    """

    async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        tools = await anyio.to_thread.run_sync(tool_table.listed, tool_sets)
        return types.ListToolsResult(tools=[_declared(tool) for tool in tools])

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        try:
            return _result(await _call(context, params, here, local=local))
        except NeedsInput as asked:
            return asked.result
        except UnderstudyError as error:
            return _result({"error": error.info()}, is_error=True)
        except Exception as error:
            return _result({"error": internal_error(f"mcp {params.name[:64]}", error).info()}, is_error=True)

    async def list_resources(context: Context, _: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        caller = ToolCaller(Client(name=client_name(context), local=local, here=here))
        return types.ListResourcesResult(resources=await in_thread(caller, listed_resources, caller))

    async def list_templates(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=f"{PREFIX}{{id}}/{kind.name}",
                    name=kind.name,
                    description=kind.title,
                    mime_type=kind.mime_type,
                )
                for kind in KINDS.values()
            ]
        )

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        caller = ToolCaller(Client(name=client_name(context), local=local, here=here))
        try:
            kind, text = await in_thread(caller, resource_of, caller, str(params.uri))
        except UnderstudyError as error:
            code = types.INVALID_PARAMS
            raise MCPError(code, error.message, msgspec.to_builtins(error.info())) from None
        contents = types.TextResourceContents(uri=params.uri, mime_type=kind.mime_type, text=text)
        return types.ReadResourceResult(contents=[contents])

    return Server(
        "understudy",
        version=__version__,
        title="Understudy",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


async def _call(context: Context, params: types.CallToolRequestParams, here: Path | None, *, local: bool) -> Any:
    deadline = anyio.current_time() + CALL_SECONDS
    tool = tool_table.tool(params.name)
    arguments = tool.decode(params.arguments)
    inputs = Inputs(context, params)
    client = Client(name=client_name(context), local=local, roots=await inputs.roots(), here=here)
    caller = ToolCaller(client)
    answer = await in_thread(caller, tool.function, caller, arguments)
    if isinstance(answer, Follow):
        return await follow(caller, answer, deadline, context.session.report_progress, inputs.option)
    return answer


def client_name(context: Context) -> str | None:
    """Return name and version of the client, as it introduced itself."""
    params = context.session.client_params
    return None if params is None else f"{params.client_info.name} {params.client_info.version}".strip()


def _declared(tool: tool_table.Tool) -> types.Tool:
    reads = tool.effect == "reads"
    annotations = types.ToolAnnotations(
        read_only_hint=reads,
        destructive_hint=None if reads else tool.effect == "changes",
        idempotent_hint=None if reads else tool.idempotent,
        open_world_hint=False,
    )
    return types.Tool(name=tool.name, description=tool.description, input_schema=tool.schema, annotations=annotations)


def _result(answer: str | Mapping[str, Any], *, is_error: bool = False) -> types.CallToolResult:
    """Return an answer as one text: structured content beside it would be read twice by some clients."""
    text = answer if isinstance(answer, str) else wire.encode(answer).decode()
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)


@dataclass(frozen=True)
class Kind:
    """One kind of resource that every delegation has, or has once it is finished."""

    name: str
    title: str
    mime_type: str
    read: Callable[[ToolCaller, Delegation], str]
    at_end: bool = True


def _transcript(caller: ToolCaller, delegation: Delegation) -> str:
    lines: list[str] = []
    after, size = 0, 0
    while True:
        page = caller.call("delegations/events", id=delegation.id, after=after)
        if not page.events:
            return "".join(lines)
        for event in page.events:
            lines.append(wire.encode(event).decode() + "\n")
            size += len(lines[-1])
            while size > MOST_CHARACTERS:
                size -= len(lines.pop(0))
        after = page.last


def _diff(_: ToolCaller, delegation: Delegation) -> str:
    return patches.without_notes(result_files.read_review(delegation.id)).decode("utf-8", "replace")[:MOST_CHARACTERS]


def _evidence(caller: ToolCaller, delegation: Delegation) -> str:
    return str(caller.call("delegations/evidence", id=delegation.id).markdown)[:MOST_CHARACTERS]


def _answer(_: ToolCaller, delegation: Delegation) -> str:
    result = delegation.result
    return ((result.text or result.summary) if result is not None else None) or ""


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("transcript", "Every event, one JSON object a line", "application/jsonl", _transcript, at_end=False),
        Kind("diff", "The result as a patch", "text/x-diff", _diff),
        Kind("evidence", "What the verdict rests on", "text/markdown", _evidence),
        Kind("answer", "What the agent answered", "text/markdown", _answer),
    )
}


def listed_resources(caller: ToolCaller) -> list[types.Resource]:
    """Return the resources of the newest delegations."""
    return [
        types.Resource(
            uri=f"{PREFIX}{delegation.id}/{kind.name}",
            name=f"{kind.name}: {delegation.title}",
            mime_type=kind.mime_type,
        )
        for delegation in caller.call("delegations/list", limit=MOST_LISTED).delegations
        for kind in KINDS.values()
        if delegation.state is State.FINISHED or not kind.at_end
    ]


def resource_of(caller: ToolCaller, uri: str) -> tuple[Kind, str]:
    """Return a resource. Errors: ``invalid_params`` for an address that none has, and those of its request."""
    identifier, _, name = uri.removeprefix(PREFIX).partition("/")
    if not uri.startswith(PREFIX) or name not in KINDS:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"There is no resource {uri[:200]!r}.",
            hint=f"Read {PREFIX}ID/{{{','.join(KINDS)}}}.",
        )
    return KINDS[name], KINDS[name].read(caller, caller.call("delegations/get", id=identifier))


class Progress(Protocol):
    """Reports that the call makes progress."""

    def __call__(self, progress: float, total: float | None, message: str | None) -> Awaitable[None]:
        """Report ``progress``, of ``total`` if that is known."""
        ...


Asks = Callable[[str, PermissionRequest, float], Awaitable[tuple[str, str | None] | None]]


async def in_thread(caller: ToolCaller, function: Callable[..., _Result], *arguments: Any) -> _Result:
    """Call a function that blocks; a cancelled call lets it end by itself."""
    try:
        return await anyio.to_thread.run_sync(partial(function, *arguments), abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        caller.cancel()
        raise


async def follow(
    caller: ToolCaller, target: tool_functions.Follow, deadline: float, progress: Progress, asks: Asks
) -> Answer:
    """Wait until the deadline (of ``anyio.current_time``) at the latest, and answer with the state then."""
    deadline = min(deadline, anyio.current_time() + target.seconds)
    seen = 0
    answered: set[str] = set()
    while True:
        members = await in_thread(caller, _members, caller, target)
        finished = sum(status_of(member) == "finished" for member in members)
        if finished == len(members):
            break
        seen = max(seen + 1, sum(member.last_seq for member in members))
        await progress(seen, None, _activity(members, finished))
        left = deadline - anyio.current_time()
        if left <= 0:
            break
        # The worker needs a moment to pass an answer on; until then the question is still there.
        questions = [(member.id, member.waiting_for) for member in members if member.waiting_for is not None]
        new = next(
            ((id_, request) for id_, request in questions if f"{id_} {request.request_id}" not in answered), None
        )
        if new is not None:
            if not await _answered(caller, *new, asks, left):
                break
            answered.add(f"{new[0]} {new[1].request_id}")
            continue
        await in_thread(caller, _next_change, caller, target, members, min(left, REPORT_SECONDS))
    if target.render is not None:
        return target.render(members)
    return of_group(target.id, members) if target.group else brief(members[0])


def _members(caller: ToolCaller, target: tool_functions.Follow) -> list[Delegation]:
    if target.group:
        return list(caller.call("groups/wait", id=target.id, timeoutSeconds=0).delegations)
    return [caller.call("delegations/get", id=target.id)]


def _next_change(caller: ToolCaller, target: tool_functions.Follow, members: list[Delegation], seconds: float) -> None:
    """Wait for an event of a delegation, or for the end of a group."""
    try:
        if target.group:
            caller.call("groups/wait", id=target.id, timeoutSeconds=seconds)
        else:
            caller.call("delegations/events", id=target.id, after=members[0].last_seq, waitSeconds=seconds)
    except UnderstudyError as error:
        if error.kind is not ErrorKind.CANCELLED:
            raise


async def _answered(
    caller: ToolCaller, delegation: str, request: PermissionRequest, asks: Asks, seconds: float
) -> bool:
    """Return whether the user answered a permission request through the client, or someone did elsewhere."""
    chosen = await asks(delegation, request, seconds)
    if chosen is None:
        return False
    arguments = {"requestId": request.request_id, "option": chosen[0], "note": chosen[1]}
    answer = partial(caller.call, "delegations/answer", id=delegation, **arguments)
    try:
        await in_thread(caller, answer)
    except UnderstudyError as error:
        return error.kind is ErrorKind.CONFLICT
    return True


def _activity(members: list[Delegation], finished: int) -> str:
    if len(members) > 1:
        return f"{finished} of {len(members)} finished"
    return members[0].activity or str(members[0].state)


def serve_stdio(tool_sets: tuple[str, ...], wire: Wire) -> int:
    """Serve until stdin ends."""
    waiting_delegations.watch()
    with contextlib.suppress(KeyboardInterrupt):
        anyio.run(_serve_stdio, tool_sets, wire)
    return 0


async def _serve_stdio(tool_sets: tuple[str, ...], wire: Wire) -> None:
    server = new_server(tool_sets, current_folder(), local=True)
    async with stdio_server(cast("Any", wire.lines()), cast("Any", wire)) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
