"""A scripted agent that calls its MCP tools, as an agent CLI with relay tools does.

    python tests/support/relay_agent.py SCENARIO MCP_CONFIG

MCP_CONFIG is a file with ``mcpServers``, as for Claude Code. It prints the line format of
``understudy.runners.agent_clis.streams.event_stream``. Scenarios:

    forever     delegates its own task to its own delegator until that is refused three times, then waits for its
                delegations, and ends
    restless    the same, but goes on trying and never ends

A path instead of a name is your own scenario: JSON with a list of calls, ``[{"call": "ask_human", "arguments": {…}}]``.
A call that answers ``waiting`` or ``running`` is made again. ``"@child@"`` in an argument is the id that the last
``delegate`` returned, ``"@message@"`` the id of the last message that was read, ``"@peer@"`` the first peer. With
``"until": "messages"`` a call is repeated until its answer has a value for it. Each answer is printed as a
text; the last one is the result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_REFUSALS = 3
_AGAIN = {"waiting", "running"}


class Tools:
    """A client of the first server in a file; it knows no more of the protocol than it needs."""

    def __init__(self, config: Path) -> None:
        """Start the server and shake hands with it."""
        server = next(iter(json.loads(config.read_text())["mcpServers"].values()))
        self._process = subprocess.Popen(
            [server["command"], *server["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._number = 0
        client = {"name": "scripted", "version": "1"}
        self._ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.names = [tool["name"] for tool in self._ask("tools/list")["tools"]]

    def call(self, name: str, **arguments: Any) -> tuple[Any, bool]:
        """Call a tool; return its answer, decoded if it is JSON, and whether it succeeded."""
        response = self._ask("tools/call", name=name, arguments=arguments)
        text = "".join(part.get("text", "") for part in response["content"])
        try:
            return json.loads(text), not response.get("isError")
        except ValueError:
            return text, not response.get("isError")

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)

    def _ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == self._number and "method" not in message:
                if "error" in message:
                    return {"content": [{"type": "text", "text": json.dumps(message["error"])}], "isError": True}
                return message["result"]
        raise EOFError

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()


def say(**event: Any) -> None:
    """Print one event."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def delegate_forever(tools: Tools, task: str, *, ends: bool) -> None:
    """Delegate until that is refused, or endlessly."""
    delegator = os.environ.get("RELAY_DELEGATOR", "forever")
    children, refused = [], 0
    while not ends or refused < _REFUSALS:
        answer, ok = tools.call("delegate", task=task, recipe="implement", delegator=delegator)
        if ok:
            children.append(answer["id"])
        else:
            refused += 1
            say(type="text", text=f"{answer}\n")
            time.sleep(0.05)
    for child in children:
        while tools.call("wait", id=child, timeout_seconds=20)[0].get("status") == "running":
            pass
    say(type="result", ok=True, text=f"Started {len(children)}.")


def play(tools: Tools, steps: list[dict[str, Any]]) -> None:
    """Make the calls of a scenario."""
    names: dict[str, str] = {}
    answer: Any = ""
    for step in steps:
        arguments = json.loads(_filled(json.dumps(step.get("arguments", {})), names))
        while True:
            answer, ok = tools.call(step["call"], **arguments)
            fields = answer if isinstance(answer, dict) else {}
            if fields.get("status") in _AGAIN and step["call"] != "delegate":
                continue
            if ok and step.get("until") and not fields.get(step["until"]):
                time.sleep(0.05)
                continue
            break
        if step["call"] == "delegate" and "id" in fields:
            names["child"] = fields["id"]
        for message in fields.get("messages") or []:
            names["message"] = message["message_id"]
        for peer in (fields.get("peers") or [])[:1]:
            names["peer"] = peer["id"]
        say(type="text", text=json.dumps({"call": step["call"], "ok": ok, "answer": answer}) + "\n")
    say(type="result", ok=True, text=json.dumps(answer))


def _filled(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"@{name}@", value)
    return text


def main(argv: list[str]) -> int:
    """Play the scenario."""
    scenario, config = argv
    task = sys.stdin.read()
    tools = Tools(Path(config))
    if scenario in {"forever", "restless"}:
        delegate_forever(tools, task[:200], ends=scenario == "forever")
    else:
        play(tools, json.loads(Path(scenario).read_text()))
    tools.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
