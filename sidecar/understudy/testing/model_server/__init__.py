"""A scripted model server: chat completions on the loopback interface; the model's name selects the scenario.

    python -m understudy.testing.model_server --port 0 --port-file /tmp/port [--answers answers.json]

``--help`` lists the scenarios: answers in every form that servers send, and every way to fail. ``answers.json`` maps
further model names to their answers: a text, or ``{"text", "thinking", "usage", "finish_reason", "delta_characters",
"delay_seconds"}``.
"""

from understudy.testing.model_server.chat_scenarios import SCENARIOS
from understudy.testing.model_server.http_server import ModelServer
from understudy.testing.model_server.responses import TEXT, USAGE, Request

__all__ = ["SCENARIOS", "TEXT", "USAGE", "ModelServer", "Request"]
