"""Ask the client: for its folders, and for the user's answers to permission requests.

A client of the protocol since 2026-07-28 gets a result that names what is missing, and calls again; an earlier one gets
a request while its call waits. A client that cannot be asked is not asked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from understudy.frontends.mcp.tools.tool_answers import offered
from understudy.model.delegation.delegations import PermissionRequest
from understudy.model.text import path_quoting

Context = ServerRequestContext[Any, Any]

ROOTS_SECONDS = 2.0
"""How long a client may take to name its folders; then this process's folder counts."""
_ROOTS = "roots"
_PERMISSION = "permission"
_MOST_ROOTS = 20
_DETAIL = 4000


class NeedsInput(Exception):  # noqa: N818 - not an error
    """The answer to this call is a question to the client."""

    def __init__(self, result: types.InputRequiredResult) -> None:
        """Carry the result."""
        super().__init__()
        self.result = result


class Inputs:
    """What the client said for one call, in this and in earlier rounds."""

    def __init__(self, context: Context, params: types.CallToolRequestParams) -> None:
        """Read the answers that came with the call."""
        self._context = context
        self._responses = params.input_responses or {}
        self._state = _decoded(params.request_state)
        self._declined: set[str] = set(self._state.get("declined", []))

    async def roots(self) -> list[Path]:
        """Return the client's folders, none if it names none. Raises ``NeedsInput``."""
        capabilities = self._context.session.client_capabilities
        if capabilities is None or capabilities.roots is None:
            return []
        if _ROOTS not in self._state:
            answer = await self._request(_ROOTS, types.ListRootsRequest(), types.ListRootsResult, ROOTS_SECONDS)
            self._state[_ROOTS] = [str(root.uri) for root in answer.roots[:_MOST_ROOTS]] if answer is not None else []
        paths = [path_quoting.path_of(uri) for uri in self._state[_ROOTS] if isinstance(uri, str)]
        return [path for path in paths if path is not None]

    async def option(
        self, delegation: str, request: PermissionRequest, seconds: float
    ) -> tuple[str, str | None] | None:
        """Return the option that the user chose, and the text that is the answer to a question of the agent.

        None if the client cannot ask or the user did not choose.

        Raises ``NeedsInput``.
        """
        capabilities = self._context.session.client_capabilities
        asked = f"{delegation} {request.request_id}"
        if capabilities is None or capabilities.elicitation is None or asked in self._declined or not offered(request):
            return None
        if self._state.get(_PERMISSION) != asked:
            self._responses.pop(_PERMISSION, None)  # the answer to another question
        self._state[_PERMISSION] = asked
        options = [option.id for option in offered(request)]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                "option": {
                    "type": "string",
                    "title": "Answer",
                    "enum": options,
                    "enumNames": [option.title for option in offered(request)],
                }
            },
            "required": ["option"],
        }
        free = next((option.id for option in offered(request) if option.takes_text), None)
        if free is not None:
            schema["properties"]["text"] = {"type": "string", "title": "Your own answer"}
        message = f"{request.title}\n{request.detail[:_DETAIL]}"
        form = types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))
        answer = await self._request(_PERMISSION, form, types.ElicitResult, seconds)
        content = (answer.content or {}) if answer is not None and answer.action == "accept" else {}
        chosen, text = content.get("option"), content.get("text")
        if chosen not in options or (chosen == free and not (isinstance(text, str) and text.strip())):
            self._declined.add(asked)
            return None
        return str(chosen), text if chosen == free and isinstance(text, str) else None

    async def _request(self, key: str, request: Any, result: Any, seconds: float) -> Any:
        """Return the client's answer, None without one in time."""
        session = self._context.session
        if key in self._responses:
            return self._responses.pop(key)
        if not session.can_send_request:
            state = json.dumps(self._state | {"declined": sorted(self._declined)})
            raise NeedsInput(types.InputRequiredResult(input_requests={key: request}, request_state=state))
        with anyio.move_on_after(max(seconds, 0)):
            try:
                related = ServerMessageMetadata(related_request_id=self._context.request_id)
                return await session.send_request(request, result, metadata=related)
            except (MCPError, ValueError):
                return None  # it cannot, or sent something else
        return None


def _decoded(state: str | None) -> dict[str, Any]:
    """Return what an earlier round kept; it passes through the client, so it may be anything."""
    try:
        kept = json.loads(state) if state else {}
    except ValueError:
        kept = {}
    if not isinstance(kept, dict) or not isinstance(kept.get("declined", []), list):
        return {}
    return kept if isinstance(kept.get(_ROOTS, []), list) else {}
