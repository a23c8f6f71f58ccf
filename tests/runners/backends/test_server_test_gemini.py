"""Test connection tests of servers that speak only Gemini's protocol."""

from __future__ import annotations

import agent_model_server as scripted
import pytest

from understudy.model.config.delegators import Delegator, KeyReference, ModelServer
from understudy.runners.backends import server_test

KEY = "AIza-right-0123456789"


@pytest.fixture
def server():
    with scripted.ModelServer(models=["gemini-good"], key=KEY) as running:
        yield running


def an_entry(server: scripted.ModelServer, end: str, protocols: list[str]) -> ModelServer:
    base = server.base_url.removesuffix("/v1") + f"/s/fix{end}"
    return ModelServer(name="g", kind="custom", base_url=base, protocols=protocols, api_key=KeyReference(from_env="X"))


@pytest.mark.parametrize("end", ["", "/v1beta", "/v1beta/"])
def test_a_good_server_of_gemini(server: scripted.ModelServer, end: str) -> None:
    entry = an_entry(server, end, ["gemini"])
    models = server_test.list_models(entry, key=lambda: KEY)
    assert [(one.id, one.context_tokens) for one in models] == [("gemini-good", 8192)]
    result = server_test.probe(entry, model="gemini-good", key=lambda: KEY, round_trip=True)
    assert [(step.name, step.ok) for step in result.steps] == [
        ("endpoint", True),
        ("key", True),
        ("model", True),
        ("round_trip", True),
    ], result
    last = server.requests[-1]
    assert last.path.endswith("/v1beta/models/gemini-good:generateContent")
    # Google's own server takes a bearer for a login, and refuses fields that it does not know.
    assert "authorization" not in {name.lower() for name in last.headers}
    assert sorted(last.body) == ["contents", "generationConfig"]


def test_a_wrong_key_of_gemini_fails_on_its_own(server: scripted.ModelServer) -> None:
    result = server_test.probe(an_entry(server, "", ["gemini"]), model="gemini-good", key=lambda: "AIza-wrong-SECRET")
    assert [(step.name, step.ok) for step in result.steps] == [("endpoint", True), ("key", False)]
    assert "SECRET" not in str(result)


def test_a_delegator_of_gemini_cli_is_tested_over_its_protocol(server: scripted.ModelServer) -> None:
    entry = an_entry(server, "", ["openai", "gemini"])
    delegator = Delegator(name="d", tool="gemini", model_server="g", model="gemini-good")
    result = server_test.probe(entry, model="gemini-good", delegator=delegator, key=lambda: KEY, round_trip=True)
    assert result.ok
    assert server.requests[-1].path.endswith(":generateContent")
