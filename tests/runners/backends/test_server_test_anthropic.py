"""Test connection tests of servers with Anthropic's protocol."""

from __future__ import annotations

import agent_model_server as model_server
import pytest

from understudy.model.config.delegators import KeyReference, ModelServer
from understudy.runners.backends.server_test import probe


@pytest.mark.parametrize("ending", ["", "/v1"])
def test_a_server_of_the_other_protocol_is_probed_in_its_own_words(ending):
    with model_server.ModelServer() as scripted:
        base = scripted.base_url.removesuffix("/v1") + ending
        server = ModelServer(
            name="scripted", kind="custom", base_url=base, protocols=["anthropic"], api_key=KeyReference(from_env="X")
        )
        found = probe(server, key=lambda: "0123456789", model=None, round_trip=False)
        assert [(step.name, step.ok) for step in found.steps] == [("endpoint", True), ("key", True)], found
        [request] = scripted.requests
        assert request.path.endswith("/v1/models")
        assert request.headers.get("x-api-key") == "0123456789"
