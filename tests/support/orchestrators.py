"""Real agent CLIs as orchestrators: they delegate over our MCP server, and a script plays their model.

The script sees only what a model sees: the tools that the request offers, and the results of its calls.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_RESULTS = 60
"""A model that gets more results of calls than this goes round in circles, and gives up."""
KEY = "test-key-of-nobody"


@dataclass(frozen=True)
class Orchestrator:
    """One agent CLI."""

    name: str
    """As ``understudy mcp install`` names it, and the name of its program."""
    file: str
    """Its configuration, in an empty home."""
    settings: Callable[[str], str]
    """What the user has configured before: where the model is."""
    arguments: Callable[[str], list[str]]
    environment: Callable[[str], dict[str, str]]


def _codex_settings(url: str) -> str:
    return f"""\
# The user's own
model = "gpt-5.5"
model_provider = "lab"

[model_providers.lab]
name = "Lab"
base_url = "{url}/v1"
wire_api = "responses"
request_max_retries = 0

[analytics]
enabled = false"""  # no final newline


def _opencode_settings(url: str) -> str:
    return f"""\
{{
  // The user's own
  "$schema": "https://opencode.ai/config.json",
  "provider": {{
    "lab": {{
      "npm": "@ai-sdk/openai-compatible",
      "options": {{ "baseURL": "{url}/v1", "apiKey": "{KEY}" }},
      "models": {{ "scripted": {{ "name": "Scripted", }}, }},
    }},
  }},
  "autoupdate": false,
  "share": "disabled",
}}
"""


ORCHESTRATORS = {
    one.name: one
    for one in (
        Orchestrator(
            "claude",
            ".claude.json",
            lambda url: '{\n  "hasCompletedOnboarding": true\n}\n',
            lambda prompt: ["-p", prompt, "--model", "claude-sonnet-4-5", "--allowedTools", "mcp__understudy",
                            "--output-format", "stream-json", "--verbose"],
            lambda url: {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY,
                         "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"},
        ),
        Orchestrator(
            "codex",
            ".codex/config.toml",
            _codex_settings,
            lambda prompt: ["exec", "--skip-git-repo-check", "--sandbox", "read-only", prompt],
            lambda url: {},
        ),
        Orchestrator(
            "opencode",
            ".config/opencode/opencode.jsonc",
            _opencode_settings,
            lambda prompt: ["run", "--model", "lab/scripted", prompt],
            lambda url: {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1"},
        ),
    )
}  # fmt: skip


def prepare(orchestrator: Orchestrator, url: str, home: Path) -> Path:
    """Write the user's own configuration into an empty home; return its file."""
    file = home / orchestrator.file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(orchestrator.settings(url))
    if orchestrator.name == "opencode":
        # opencode installs the types of its plugins from the network, unless they are there.
        there = {"dependencies": {"@opencode-ai/plugin": "*"}}
        (file.parent / "node_modules").mkdir()
        (file.parent / "package.json").write_text(json.dumps(there))
        (file.parent / "package-lock.json").write_text(json.dumps({"packages": {"": there}}))
    return file


def environment_for(orchestrator: Orchestrator, url: str, home: Path, programs: Path) -> dict[str, str]:
    """Return the environment of a person with an empty home; where Understudy keeps its files is passed on."""
    found = {name: value for name, value in os.environ.items() if name.startswith(("UNDERSTUDY_", "GIT_", "XDG_STATE"))}
    path = f"{programs}:{os.environ['PATH']}"
    return {**found, "HOME": str(home), "PATH": path, "LANG": "C.UTF-8", **orchestrator.environment(url)}


_OURS = re.compile(r"(?:mcp__)?understudy_{1,2}(\w+)")


@dataclass(frozen=True)
class Seen:
    """What the request of a model shows."""

    tools: Mapping[str, Mapping[str, str]]
    """The name of each of our tools → how this client calls it."""
    offered: frozenset[str]
    results: list[Any]
    """The results of calls, decoded, the oldest first."""

    def calls(self, *wanted: tuple[str, dict[str, Any]]) -> dict[str, Any]:
        """Return the turn that calls these tools of our server; those that are not loaded yet are searched for."""
        if any(name not in self.tools for name, _ in wanted):
            if "ToolSearch" in self.offered:
                query = ",".join(f"mcp__understudy__{name}" for name, _ in wanted)
                search = {"name": "ToolSearch", "arguments": {"query": f"select:{query}", "max_results": 5}}
            else:
                search = {"name": "tool_search", "arguments": {"query": "understudy delegate start wait", "limit": 20}}
            return {"calls": [{**search, "id": f"search_{len(self.results)}"}]}
        return {
            "calls": [
                {**self.tools[name], "arguments": arguments, "id": f"call_{len(self.results)}_{number}"}
                for number, (name, arguments) in enumerate(wanted)
            ]
        }


def seen(body: Mapping[str, Any]) -> Seen:
    """Read a request of any of the three dialects."""
    tools: dict[str, Mapping[str, str]] = {}
    offered = set()
    for namespace, name in _names(body):
        offered.add(name)
        if namespace is not None and namespace.startswith("mcp__understudy"):
            tools[name] = {"name": name, "namespace": namespace}
        elif (found := _OURS.fullmatch(name)) is not None:
            tools[found[1]] = {"name": name}
    results = [result for text in _outputs(body) if (result := _decoded(text)) is not None]
    return Seen(tools, frozenset(offered), results)


def _names(body: Mapping[str, Any]) -> Iterator[tuple[str | None, str]]:
    found = list(body.get("tools") or ())
    sent = body.get("input")
    for item in sent if isinstance(sent, list) else ():
        found += item.get("tools") or () if item.get("type") == "tool_search_output" else ()
    for tool in found:
        if tool.get("type") == "namespace":
            yield from ((str(tool.get("name")), str(one.get("name"))) for one in tool.get("tools") or ())
        elif not tool.get("defer_loading") or tool.get("name") in _referred(body):
            inner = tool["function"] if isinstance(tool.get("function"), dict) else tool
            yield None, str(inner.get("name") or tool.get("type"))


def _referred(body: Mapping[str, Any]) -> set[str]:
    """Return the tools that Claude Code's search has loaded."""
    return set(re.findall(r'"tool_name": "(\w+)"', json.dumps(body.get("messages"))))


def _outputs(body: Mapping[str, Any]) -> Iterator[str]:
    sent = body.get("messages") or body.get("input")
    for item in sent if isinstance(sent, list) else ():
        if item.get("role") == "tool":
            yield _plain(item.get("content"))
        elif item.get("type") == "function_call_output":
            yield _plain(item.get("output"))
        elif isinstance(item.get("content"), list):
            for block in item["content"]:
                if block.get("type") == "tool_result":
                    yield _plain(block.get("content"))


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or () if isinstance(part, dict))


def _decoded(text: str) -> Any:
    start = text.find("{")
    try:
        return json.JSONDecoder().raw_decode(text[start:])[0] if start >= 0 else None
    except ValueError:
        return None


def delegates(tasks: list[dict[str, Any]], ending: Callable[[list[Any]], str]) -> Callable[[Any], dict[str, Any]]:
    """Return a model that starts all tasks, waits for each, and then answers with ``ending`` of the results."""

    def turn(body: Any) -> dict[str, Any]:
        if not isinstance(body, dict) or not body.get("tools"):
            return {"text": "A title"}
        now = seen(body)
        found = [one for one in now.results if isinstance(one, dict)]
        latest = {one["id"]: one for one in found if "id" in one and "status" in one}
        if any("error" in one and "id" not in one for one in found) or len(found) > MOST_RESULTS:
            return {"text": f"It did not work: {json.dumps(found[-1])}"}
        if not latest:
            return now.calls(*(("start", task) for task in tasks))
        waiting = [one["id"] for one in latest.values() if one["status"] != "finished"]
        return now.calls(("wait", {"id": waiting[0]})) if waiting else {"text": ending(list(latest.values()))}

    return turn
