"""The server of the official SDK, with our tools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import msgspec
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from understudy import __version__
from understudy.api.internal_errors import internal_error
from understudy.frontends.mcp import delegation_resources
from understudy.frontends.mcp.tools import following, tool_table
from understudy.frontends.mcp.tools.client_requests import Context, Inputs, NeedsInput
from understudy.frontends.mcp.tools.tool_caller import Client, ToolCaller
from understudy.frontends.mcp.tools.tool_functions import Follow
from understudy.model import wire
from understudy.model.errors import UnderstudyError

CALL_SECONDS = 45.0
"""The longest answer: clients give up after 60 s by default."""


def new_server(tool_sets: tuple[str, ...], here: Path | None, *, local: bool) -> Server[Any]:
    """Return a server for any number of clients; ``here`` is the workspace of those that name none.

    ``local``: the client started this process.
    """

    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        _ = context, params
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

    async def list_resources(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        _ = params
        caller = ToolCaller(Client(name=client_name(context), local=local, here=here))
        listed = await following.in_thread(caller, delegation_resources.listed, caller)
        entries = [types.Resource(uri=entry.uri, name=entry.title, mime_type=entry.mime_type) for entry in listed]
        return types.ListResourcesResult(resources=entries)

    async def list_templates(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        _ = context, params
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=f"{delegation_resources.PREFIX}{{id}}/{kind.name}",
                    name=kind.name,
                    description=kind.title,
                    mime_type=kind.mime_type,
                )
                for kind in delegation_resources.KINDS.values()
            ]
        )

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        caller = ToolCaller(Client(name=client_name(context), local=local, here=here))
        try:
            kind, text = await following.in_thread(caller, delegation_resources.read, caller, str(params.uri))
        except UnderstudyError as error:
            code = types.INVALID_PARAMS
            raise MCPError(code, error.message, msgspec.to_builtins(error.info())) from None
        contents = types.TextResourceContents(uri=params.uri, mime_type=kind.mime_type, text=text)
        return types.ReadResourceResult(contents=[contents])

    return Server(
        "understudy",
        version=__version__,
        title="Understudy",
        instructions=tool_table.INSTRUCTIONS,
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
    answer = await following.in_thread(caller, tool.function, caller, arguments)
    if isinstance(answer, Follow):
        return await following.follow(caller, answer, deadline, context.session.report_progress, inputs.option)
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
