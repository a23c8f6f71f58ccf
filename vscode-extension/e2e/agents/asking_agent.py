"""Scripted Claude Code for tests: one permission request, then a new file.

It is started as ``claude`` from the PATH of the fixture and implements the part of Claude Code's two-way protocol that
the runner uses, so that the request is sent like a real one. With ``--edits`` it also changes ``tests/test_prices.py``
in two places, and its second turn follows the instructions. It answers the connection test.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

VERSION = "2.1.329"
SESSION = "5e5510f0-0000-4000-8000-000000000001"
COMMAND = "rm -rf build"
TEST = '''"""Totals of a cart."""

from shop.prices import total


def test_an_empty_cart_costs_nothing():
    assert total([]) == 0


def test_prices_add_up():
    assert total([100, 250]) == 350
'''

OLD_IMPORT = "from shop.prices import discounted\n"
NEW_IMPORT = "import pytest\n\nfrom shop.prices import discounted\n"
REFUSAL = """

def test_more_than_everything_is_refused():
    with pytest.raises(ValueError):
        discounted(1000, 101)
"""
DOUBLED = """

def test_doubled():
    from shop.prices import doubled

    assert doubled(2) == 4
"""
"""For a function that only the editor has, when the test begins."""


def main() -> int:
    """Print the version, or run one conversation."""
    if "--version" in sys.argv:
        print(f"{VERSION} (Claude Code)")
        return 0
    prompt = sys.stdin.readline()
    say(
        {
            "type": "system",
            "subtype": "init",
            "session_id": SESSION,
            "claude_code_version": VERSION,
            "cwd": str(Path.cwd()),
        }
    )
    if "single word: ready" in prompt:
        return end("ready")
    if any(argument.startswith("--resume") for argument in sys.argv):
        file = Path("tests/test_prices.py")
        text = file.read_text(encoding="utf-8")
        text += "" if "(ValueError)" in text else REFUSAL  # the rejected change may have been removed
        file.write_text(text.replace("(ValueError)", '(ValueError, match="101")'), encoding="utf-8")
        return end("The test names the percentage now.")
    tell("I will look at the module, and clean the build folder first.")
    tool = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": COMMAND}}
    say({"type": "assistant", "message": {"id": "m2", "model": "claude-sonnet-4-5", "content": [tool]}})
    allowed = ask()
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": "" if allowed else "Denied",
        "is_error": not allowed,
    }
    say({"type": "user", "message": {"role": "user", "content": [result]}})
    Path("tests").mkdir(exist_ok=True)
    Path("tests/test_total.py").write_text(TEST, encoding="utf-8")
    if "--edits" in sys.argv:
        edit()
    return end(
        "Wrote two tests for `total`." if allowed else "Wrote two tests; I left the build folder alone, as you said."
    )


def edit() -> None:
    """Change the existing tests at the top and at the end."""
    file = Path("tests/test_prices.py")
    text = file.read_text(encoding="utf-8").replace(OLD_IMPORT, NEW_IMPORT) + REFUSAL
    if "def doubled" in Path("shop/prices.py").read_text(encoding="utf-8"):
        text += DOUBLED
    file.write_text(text, encoding="utf-8")


def end(result: str) -> int:
    """Print the result, then wait until the runner closes standard input."""
    tell(result)
    usage = {"input_tokens": 2100, "output_tokens": 180}
    say(
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "result": result,
            "num_turns": 2,
            "session_id": SESSION,
            "stop_reason": "end_turn",
            "total_cost_usd": 0.0123,
            "usage": usage,
        }
    )
    while sys.stdin.readline():
        pass
    return 0


def ask() -> bool:
    """Ask whether the command may run, and wait for the answer."""
    request = {
        "subtype": "can_use_tool",
        "tool_name": "Bash",
        "display_name": "Bash",
        "tool_use_id": "t1",
        "input": {"command": COMMAND, "description": "Remove the build folder"},
        "decision_reason": "This command requires approval",
    }
    say({"type": "control_request", "request_id": "q1", "request": request})
    for line in sys.stdin:
        answer = json.loads(line)
        if answer.get("type") == "control_response":
            return bool(answer["response"]["response"]["behavior"] == "allow")
    sys.exit(0)


def tell(text: str) -> None:
    """Say one message of text."""
    content = [{"type": "text", "text": text}]
    say({"type": "assistant", "message": {"id": f"m{hash(text)}", "model": "claude-sonnet-4-5", "content": content}})


def say(line: dict[str, Any]) -> None:
    """Print one line of the protocol."""
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
