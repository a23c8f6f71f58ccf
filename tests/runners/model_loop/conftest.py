"""Fixtures of the tests of the tool loop."""

from __future__ import annotations

import pytest
from agent_model_server import ModelServer as ScriptedServer
from model_work import Work


@pytest.fixture(scope="module")
def server():
    with ScriptedServer(answers={}) as running:
        yield running


@pytest.fixture
def work(server, tmp_path):
    return Work(server, tmp_path / "work")
