"""The scripted model server, with what agents and our own tool loop need: three more APIs, and tools.

Agents choose other models for side requests, so a base URL with ``/s/<scenario>`` can select the scenario instead of
the model. It is a script of turns, one after each round of tool results: of ``messages_scenarios.SCRIPTS`` for the
Messages API (``FAULTS`` there has its errors), of ``responses_scenarios.SCRIPTS`` for the Responses API, of
``agent_scripts.SCRIPTS`` for chat completions and the Gemini API, with whatever tools an agent offers. ``late_<fault>``
fails after a first round of edits. An answer of a test may be such a script:

- ``{"turns": [{"text", "thinking", "tools": [{"name", "input"}]}, …]}`` (messages); ``{cwd}`` is the client's folder;
- ``{"script": [{"text", "tools": [[what, values], …]}, …]}`` (chat completions and messages);
- ``{"loop": [turn, …]}``, or a function, in every dialect (``tool_turns``).
"""

from __future__ import annotations

from agent_model_server.chat_agents import send_agent_chat
from agent_model_server.gemini_agents import send_gemini
from agent_model_server.messages_scenarios import send_messages
from agent_model_server.responses_scenarios import send_responses
from agent_model_server.tool_turns import send_turn
from understudy.testing import model_server
from understudy.testing.model_server import SCENARIOS, TEXT, USAGE, Request
from understudy.testing.model_server.responses import Answer

__all__ = ["SCENARIOS", "TEXT", "USAGE", "ModelServer", "Request"]


class ModelServer(model_server.ModelServer):
    """The server of all these APIs."""

    def answered(self, answer: Answer) -> bool:
        """Send the answer to a request of an agent or of the tool loop; return whether it is one."""
        path = answer.request.path.split("?")[0]
        if path.endswith(("/messages", "/responses", "/chat/completions")) and send_turn(answer):
            return True
        if path.endswith(("/messages", "/messages/count_tokens")):
            send_messages(answer)
        elif path.endswith("/responses"):
            send_responses(answer)
        elif path.endswith((":streamGenerateContent", ":generateContent")):
            send_gemini(answer)
        else:
            return path.endswith("/chat/completions") and send_agent_chat(answer)
        return True
