"""Test model lists and connection tests of model servers."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import agent_model_server as scripted
import pytest

from understudy.model.config.delegators import KeyReference, ModelServer
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.backends import server_test
from understudy.runners.backends.http import http_errors

KEY = "sk-right-0123456789"


@pytest.fixture
def server():
    with scripted.ModelServer(models=["good", "stall"], key=KEY) as running:
        yield running


def an_entry(server, **more) -> ModelServer:
    values = {"name": "scripted", "kind": "custom", "base_url": server.base_url, "api_key": KeyReference(from_env="X")}
    return ModelServer(**(values | more))


def steps_of(result) -> dict[str, bool]:
    return {step.name: step.ok for step in result.steps}


def test_models_are_listed(server):
    models = server_test.list_models(an_entry(server), key=lambda: KEY)
    assert [(model.id, model.context_tokens) for model in models] == [("good", 8192), ("stall", 8192)]


def test_a_good_server(server):
    result = server_test.probe(an_entry(server), model="good", key=lambda: KEY, round_trip=True)
    assert result.ok
    assert steps_of(result) == {"endpoint": True, "key": True, "model": True, "round_trip": True}


def test_each_step_fails_on_its_own(server):
    wrong = server_test.probe(an_entry(server), model="good", key=lambda: "sk-wrong-SECRET-123", round_trip=True)
    assert steps_of(wrong) == {"endpoint": True, "key": False}
    assert "SECRET" not in str(wrong)
    unknown = server_test.probe(an_entry(server), model="other", key=lambda: KEY, round_trip=True)
    assert steps_of(unknown) == {"endpoint": True, "key": True, "model": False, "round_trip": False}
    slow = server_test.probe(an_entry(server), model="stall", key=lambda: KEY, round_trip=True, timeout_seconds=4)
    assert steps_of(slow) == {"endpoint": True, "key": True, "model": True, "round_trip": False}
    nobody = server_test.probe(an_entry(server, base_url="http://127.0.0.1:9/v1"), model="good", round_trip=True)
    assert steps_of(nobody) == {"endpoint": False}
    no_list = server_test.probe(an_entry(server, base_url=server.base_url + "/x"), key=lambda: KEY)
    assert no_list.ok
    far = server_test.probe(an_entry(server, base_url="http://192.0.2.7/v1", locality="local"))
    assert steps_of(far) == {"endpoint": False}


@contextlib.asynccontextmanager
async def answering(kind: bytes, body: bytes) -> AsyncIterator[str]:
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\nConnection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listener:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"


@pytest.mark.parametrize(
    ("body", "description"),
    [
        (b"<html>hello</html>", "It sent a web page."),
        (b'{"object": "x", "usage": {}}', "It sent JSON with the fields object, usage."),
        (
            b'data: {"choices": [{"finish_reason": null}]}\n\ndat',
            "It sent a stream of events, although none was asked for.",
        ),
        (b'{"choices": [', "It sent JSON that is cut off or invalid."),
        (
            b"not found\n" * 20,
            "It sent: “not found not found not found not found not found not found not found not found”.",
        ),
        (b"", "It sent nothing."),
    ],
)
async def test_what_is_no_list_of_models_is_described_in_words(server, body, description):
    async with answering(b"text/html", body) as url:
        with pytest.raises(UnderstudyError) as caught:
            await asyncio.to_thread(server_test.list_models, an_entry(server, base_url=url))
    assert caught.value.kind is ErrorKind.MALFORMED_OUTPUT
    assert caught.value.message == f"Model server 'scripted' did not send a list of models. {description}"


async def test_prices_per_token_become_prices_per_million_tokens(server):
    def model(name: str, prompt: object, completion: object) -> dict[str, object]:
        return {"id": name, "pricing": {"prompt": prompt, "completion": completion}}

    listed = [
        model("text", "0.000003", "0.000015"),
        model("cheap", "0.00000007", "0"),
        model("number", 2.5e-07, 1),
        model("half", "-1", "0.000001"),
        model("none", "-1", "a lot"),
    ]
    async with answering(b"application/json", json.dumps({"data": listed}).encode()) as url:
        models = await asyncio.to_thread(server_test.list_models, an_entry(server, base_url=url))
    found = {one.id: one.price and (one.price.input, one.price.output) for one in models}
    assert found == {
        "text": ("3", "15"),
        "cheap": ("0.07", "0"),
        "number": ("0.25", "1000000"),
        "half": (None, "1"),
        "none": None,
    }


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"llm_provider-retry-after": "3"}, 3),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 10),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": "1e9"}, None),
        ({"retry-after": "soon"}, None),
    ],
)
def test_pauses_that_servers_ask_for(headers, seconds):
    assert http_errors.asked_wait(headers, now=lambda: 50.0) == seconds


def test_reasons_end_as_sentences_do():
    def scrub(text):
        return text.replace("sk-1", "")

    refused = http_errors.refusal(401, '{"error":{"message":"Incorrect API key provided: sk-1"}}', "s", scrub)
    assert refused.message == "Model server 's' answered 401: Incorrect API key provided"
    reason = http_errors.reason_of(OSError("[Errno -2] Name or\n service not known."), scrub)
    assert reason == "Name or service not known"
    assert http_errors.reason_of(OSError(), scrub) == "OSError"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (
            400,
            '{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}',
            "context_too_long",
        ),
        (400, '{"error":{"message":"x","code":"content_filter"}}', "content_refused"),
        (400, '{"detail":"Incorrect API key provided"}', "auth_failed"),
        (402, "", "quota_exhausted"),
        (403, "<html><body>Forbidden</body></html>", "auth_failed"),
        (404, '{"error":"model \\"x\\" not found, try pulling it first"}', "model_not_found"),
        (404, "Not Found", "bad_request"),
        (429, "<html><h1>429 Too Many Requests</h1></html>", "rate_limited"),
        (
            429,
            '{"error":{"message":"Rate limit reached; add a payment method at example.com/account/billing"}}',
            "rate_limited",
        ),
        (500, '{"error":{"message":"Rate limit reached"}}', "rate_limited"),
        (502, "<html><h1>502 Bad Gateway</h1></html>", "overloaded"),
        (529, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', "overloaded"),
        (422, '{"detail":[{"loc":["body"],"msg":"extra"}]}', "bad_request"),
    ],
)
def test_refusals(status, body, kind):
    error = http_errors.refusal(status, body, "s", lambda text: text)
    assert error.kind == kind
    assert "<" not in error.message
    assert str(status) in error.message
