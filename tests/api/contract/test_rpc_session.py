"""Test the real ``understudy rpc`` with a recorded session and with the examples of invalid requests."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import forked
import pytest

from understudy import __version__
from understudy.api import error_answers

EXAMPLES = Path(__file__).parents[3] / "protocol" / "examples"
SESSION = [json.loads(line) for line in (EXAMPLES / "session.jsonl").read_text(encoding="utf-8").splitlines()]
SECONDS = 240


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(tmp_path / "config"))
    process = forked.Forked(
        ["rpc"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=SECONDS)


def played(process: subprocess.Popen[str], lines: list[str]) -> list[Any]:
    """Send ``lines``, close the stream, and return all messages of the server."""
    out, err = process.communicate("".join(f"{line}\n" for line in lines), timeout=SECONDS)
    assert process.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


def in_order(messages: Iterable[Any]) -> list[Any]:
    """Sort messages; the members of one may come in any order."""
    return sorted(messages, key=functools.partial(json.dumps, sort_keys=True))


def for_programs(message: Any) -> Any:
    """Return a message without the texts for users, which may change at any time."""
    if isinstance(message, list):
        return in_order(for_programs(item) for item in message)
    if "error" not in message:
        return message
    error = message["error"]
    data = error.get("data")
    kept = {key: data[key] for key in ("kind", "names") if key in data} if isinstance(data, dict) else None
    return {**message, "error": {"code": error["code"], "data": kept}}


def test_the_recorded_session_gets_the_same_answers(server: subprocess.Popen[str]):
    expected = [for_programs(entry["server"]) for entry in SESSION if "server" in entry]
    answers = [
        for_programs(answer) for answer in played(server, [entry["client"] for entry in SESSION if "client" in entry])
    ]
    # Requests are answered when they finish; in the recording the client waits for each response.
    assert in_order(answers) == in_order(expected)
    assert {"version": __version__, "protocolVersion": 2} in [
        answer.get("result") for answer in answers if isinstance(answer, dict)
    ]


def test_the_session_contains_every_kind_of_answer():
    answers = [entry["server"] for entry in SESSION if "server" in entry]
    shown = {answer["error"]["code"] for answer in answers if isinstance(answer, dict) and "error" in answer}
    assert shown == {
        error_answers.PARSE_ERROR,
        error_answers.INVALID_REQUEST,
        error_answers.METHOD_NOT_FOUND,
        error_answers.INVALID_PARAMS,
        error_answers.UNDERSTUDY_ERROR,
    }
    assert any(isinstance(answer, list) for answer in answers)


def test_a_client_gets_the_errors_of_the_examples(server: subprocess.Popen[str]):
    examples = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in EXAMPLES.glob("*.json")}
    refused = {
        name: example
        for name, example in examples.items()
        if example.get("expect", {}).get("error", {}).get("code")
        in {error_answers.INVALID_PARAMS, error_answers.METHOD_NOT_FOUND}
    }
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": name, "method": example["method"], "params": example["params"]})
        for name, example in refused.items()
    ]
    answers = {answer["id"]: answer["error"] for answer in played(server, lines)}
    assert answers.keys() == refused.keys()
    for name, example in refused.items():
        expected = example["expect"]["error"]
        assert answers[name]["code"] == expected["code"], name
        assert {key: answers[name]["data"][key] for key in expected["data"]} == expected["data"], name
        assert answers[name]["message"], name
