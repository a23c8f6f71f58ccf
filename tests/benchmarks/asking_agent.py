"""Stands for Claude Code and asks a person COUNT times, each question holding the moment at which it was written."""

import json
import os
import sys
import time


def say(line: dict[str, object]) -> None:
    """Write one line."""
    print(json.dumps(line), flush=True)


sys.stdin.readline()
say({"type": "system", "subtype": "init", "session_id": "s", "claude_code_version": "2.1.329"})
for number in range(int(os.environ["ASKER_COUNT"])):
    time.sleep(0.2)
    given = {"command": f"asked {time.monotonic_ns()}"}
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": given, "tool_use_id": f"t{number}"}
    say({"type": "control_request", "request_id": f"q{number}", "request": request})
    sys.stdin.readline()
say({"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "s"})
