"""What agents are told to do, independent of their tools: each turn is turned into a call of a tool that they offer.

A turn has ``thinking``, ``text`` and ``tools``: pairs of what to do (``write``, ``edit``, ``read``, ``shell``) and its
values. The name of the tool and of its arguments are taken from what the request offers, so one script serves every
agent whose tools have ordinary names.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from understudy.testing.model_server.responses import TEXT

_WRITE = ("write", {"path": "{cwd}/hello.txt", "content": "hello from the scripted model\n"})
_EDIT = ("edit", {"path": "{cwd}/hello.txt", "old": "hello from the scripted model", "new": "good morning"})
_READ = ("read", {"path": "{cwd}/hello.txt"})
_SHELL = ("shell", {"command": "python3 -c \"open('asked.txt', 'w').close()\""})
_DONE_FILE = ".understudy-run/done.md"
_REPORT = (
    "shell",
    {"command": f"printf 'I wrote nothing.' > {_DONE_FILE}.tmp && mv {_DONE_FILE}.tmp {_DONE_FILE}"},
)
_OUTSIDE = ("write", {"path": "/tmp/understudy-outside.txt", "content": "outside\n"})
_DONE = {"text": "Done: it is as you asked."}

ENDS: dict[str, list[dict[str, Any]]] = {
    "length": [{"text": TEXT, "finish": "length"}],
    "filter": [{"text": "", "finish": "filter"}],
}
"""Scenario → an answer that the model's output limit cuts, and one that a filter stops."""

SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "good": [{"text": TEXT}],
    "reasoning": [{"thinking": "Let me think.", "text": TEXT}],
    "edits": [{"tools": [_WRITE]}, {"tools": [_READ]}, {"tools": [_EDIT]}, _DONE],
    "shell": [{"text": "I need a command.", "tools": [_SHELL]}, _DONE],
    "report": [{"tools": [_REPORT]}, _DONE],
    "failing_shell": [{"tools": [("shell", {"command": "echo oops >&2; exit 3"})]}, _DONE],
    "long_shell": [{"tools": [("shell", {"command": "tail -f /dev/null"})]}, _DONE],
    "outside": [{"tools": [_OUTSIDE]}, _DONE],
    "environment": [{"tools": [("shell", {"command": "env > environment.txt"})]}, _DONE],
    "endless_tools": [{"tools": [_SHELL]}] * 1000,
    "empty": [{"text": ""}],
    **ENDS,
}
"""Scenario → its turns."""

FAULTS: dict[str, tuple[int, str, str]] = {
    "400": (400, "Something is wrong with the request.", "invalid_request_error"),
    "401": (401, "Incorrect API key provided.", "invalid_api_key"),
    "404": (404, "The model `scripted` does not exist or you do not have access to it.", "model_not_found"),
    "429": (429, "Rate limit reached for requests.", "rate_limit_exceeded"),
    "quota": (
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
    ),
    "500": (500, "Internal server error.", "server_error"),
    "529": (529, "The engine is currently overloaded, please try again later.", "overloaded"),
    "model_id": (400, "scripted is not a valid model ID", "invalid_request_error"),
    "context": (400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded"),
}
"""Scenario → HTTP status, message, code; ``late_<name>``: only after a first round of tools."""

SUBMITS = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""What mini-swe-agent has its model print as its last command, before the answer."""

_NAMES = {
    "write": ("write_file", "write", "create", "Write"),
    "edit": ("edit", "replace", "edit_file", "Edit"),
    "read": ("read_file", "read", "view", "Read"),
    "shell": ("run_shell_command", "bash", "shell", "run_command", "Bash"),
}
"""What to do → the names of tools that do it."""
_ARGUMENTS = {
    "path": ("file_path", "filePath", "path"),
    "content": ("content", "file_text", "contents"),
    "old": ("old_string", "oldString", "oldText", "old_str"),
    "new": ("new_string", "newString", "newText", "new_str"),
    "command": ("command", "cmd"),
}
_CWD = re.compile(
    r"(?:[Ww]orking(?: in the)? directory(?: is)?: *|Workspace Directories:\*\*\s*- )[`\"]?(/[^\s`<\"\\]+)"
)


def script_of(name: str, answers: Mapping[str, Any] | None = None) -> list[dict[str, Any]] | None:
    """Return the turns of a scenario; those of a ``late_…`` one begin with an edit.

    ``answers`` may have a scenario of the test: ``{"script": [turn, …]}``.
    """
    scripted = (answers or {}).get(name)
    if isinstance(scripted, dict) and "script" in scripted:
        return list(scripted["script"])
    return SCRIPTS.get("edits" if name.startswith("late_") else name)


def fault_of(name: str, rounds: int) -> tuple[int, str, str] | None:
    """Return the refusal that a scenario sends after ``rounds`` rounds of tool results."""
    return FAULTS.get(name.removeprefix("late_")) if not name.startswith("late_") or rounds else None


def calls(
    turn: Mapping[str, Any], offered: Iterable[Mapping[str, Any]], request_text: str
) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls of a turn: the name of an offered tool, and its arguments.

    ``offered`` has a ``name`` and a JSON schema (``parameters``, ``input_schema``) for each tool, ``request_text`` is
    the text of the request, which names the working folder.
    """
    tools = {str(tool["name"]): tool for tool in offered}
    match = _CWD.search(request_text.replace("\\n", "\n"))
    result = []
    for what, values in turn.get("tools", ()):
        name = next((name for name in _NAMES[what] if name in tools), None)
        if name is None:
            if set(tools) == {"bash"}:
                result.append(("bash", {"command": _as_command(what, values)}))
            continue
        declared = tools[name]
        schemas = [declared.get(field) for field in ("parameters", "parametersJsonSchema", "input_schema")]
        schema: dict[str, Any] = next((candidate for candidate in schemas if candidate), {})
        properties = schema.get("properties", {})
        arguments: dict[str, Any] = {}
        for key, value in values.items():
            argument = next((spelling for spelling in _ARGUMENTS[key] if spelling in properties), _ARGUMENTS[key][0])
            # An agent that does not name its folder takes paths relative to it.
            arguments[argument] = value.replace("{cwd}", match[1]) if match else value.replace("{cwd}/", "")
        if what == "edit" and "edits" in properties:  # several replacements at once
            arguments = {"path": arguments["path"], "edits": [{"oldText": values["old"], "newText": values["new"]}]}
        for required in schema.get("required", ()):
            if required not in arguments:
                arguments[required] = False if properties.get(required, {}).get("type") == "boolean" else "As asked"
        result.append((name, arguments))
    return result


def without_tools(name: str, turn: Mapping[str, Any], request_text: str) -> str:
    """Return the answer for an agent without tools: its edits are in the text, in the format of aider."""
    if name.startswith("edits") and "*file listing*" in request_text:
        return "It is easy:\n\nhello.txt\n```\ngood morning\n```\n\nDone: it is as you asked."
    return str(turn.get("text", "Scripted title"))


def _as_command(what: str, values: Mapping[str, str]) -> str:
    """Return the shell command that writes, edits or reads a file, for an agent that has only a shell."""
    path = shlex.quote(values.get("path", "").removeprefix("{cwd}/"))
    if what == "write":
        return f"printf %s {shlex.quote(values['content'])} > {path}"
    if what == "edit":
        return f"sed -i {shlex.quote('s/' + values['old'] + '/' + values['new'] + '/')} {path}"
    return f"cat {path}"


def text_of(body: Any) -> str:
    """Return a request's JSON as text."""
    return json.dumps(body, ensure_ascii=False)
