"""The scripted model server as an Anthropic one."""

import json

import agent_model_server as scripted
import httpx
import pytest


@pytest.fixture
def server():
    with scripted.ModelServer(answers={"haiku": "Autumn"}, key="k") as running:
        yield running


def post(server, path="/v1/messages", **body):
    request = {"model": "write", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}], **body}
    url = f"http://127.0.0.1:{server.port}{path}"
    return httpx.post(url, json=request, headers={"x-api-key": "k"}, trust_env=False)


TOOLS = [{"name": "Write", "input_schema": {"type": "object"}}]
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "ok"}]}


def test_turns_follow_from_the_request_alone(server):
    system = "Primary working directory: /somewhere/tree\nand more"
    first = post(server, tools=TOOLS, system=system).json()
    assert first["stop_reason"] == "tool_use"
    assert first["content"][1]["input"]["file_path"] == "/somewhere/tree/hello.txt"
    before = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": first["content"]}, RESULT]
    assert post(server, tools=TOOLS, messages=before).json()["stop_reason"] == "end_turn"
    again = post(server, tools=TOOLS, messages=[*before, {"role": "user", "content": "Once more"}]).json()
    assert again["stop_reason"] == "tool_use"


def test_a_stream_tells_the_same(server):
    told = post(server, "/s/reasoning/v1/messages", stream=True).text
    events = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: ")]
    assert [event["type"] for event in events[:2]] == ["message_start", "ping"]
    assert events[-1]["type"] == "message_stop"
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(delta.get("thinking", "") for delta in deltas) == "Let me think."
    assert "".join(delta.get("text", "") for delta in deltas) == scripted.TEXT


def test_counts_own_answers_and_faults(server):
    assert post(server, "/v1/messages/count_tokens").json()["input_tokens"] > 0
    assert post(server, model="haiku").json()["content"][0]["text"] == "Autumn"
    for status in (400, 401, 404, 413, 429, 500, 529):
        refused = post(server, f"/s/{status}/v1/messages")
        assert refused.status_code == status
        assert refused.json()["type"] == "error"
    assert post(server, "/s/429_once/v1/messages", model="m1").status_code == 429
    assert post(server, "/s/429_once/v1/messages", model="m1").status_code == 200
    with pytest.raises(httpx.RemoteProtocolError):
        post(server, "/s/cut/v1/messages")
