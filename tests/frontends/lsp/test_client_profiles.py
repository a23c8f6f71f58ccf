"""Test with pytest-lsp as the client, which checks every message, and with the capabilities of known editors."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import pytest
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

pytestmark = pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")

SECONDS = 60
EDITORS = ["visual_studio_code@v1.65.2", "neovim@v0.11.0", "neovim@v0.6.1", "emacs@v29.1"]


@pytest.fixture(params=EDITORS)
def capabilities(request: pytest.FixtureRequest) -> types.ClientCapabilities:
    return client_capabilities(request.param)


@pytest.fixture
async def client(workshop: Any, capabilities: types.ClientCapabilities) -> Any:
    """Run one session from initialize to exit."""
    workshop.agent("worker", {"write": "calc.py", "text": "def add(a, b):\n    return b + a\n"}, {"result": True})
    config = ClientServerConfig(
        server_command=[sys.executable, "-m", "understudy", "serve"], server_env=dict(os.environ)
    )
    found = LanguageClient()
    found.protocol.fm._features.pop(types.PROGRESS, None)  # its own knows no partial results

    @found.feature(types.PROGRESS)
    def progress(params: types.ProgressParams) -> None:
        found.progress_reports.setdefault(params.token, []).append(params.value)

    @found.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)
    def create(params: types.WorkDoneProgressCreateParams) -> None:
        found.progress_reports[params.token] = []

    @found.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)
    def choose(params: types.ShowMessageRequestParams) -> None:
        found.messages.append(params)

    @found.feature(types.WORKSPACE_CODE_LENS_REFRESH)
    def refresh(_: None) -> None:
        """Whether a result is shown while the session lasts depends on the machine."""

    _ = progress, create, choose, refresh
    await found.start_io(*config.server_command, env=config.server_env)
    async with asyncio.timeout(SECONDS):
        await found.initialize_session(
            types.InitializeParams(
                capabilities=capabilities,
                process_id=os.getpid(),
                root_uri=workshop.top.as_uri(),
                workspace_folders=[types.WorkspaceFolder(uri=workshop.top.as_uri(), name="project")],
            )
        )
    yield found
    async with asyncio.timeout(SECONDS):
        await found.shutdown_session()
        await found.stop()


async def test_a_session_with_the_capabilities_of_an_editor(client: LanguageClient, workshop: Any):
    uri = (workshop.top / "calc.py").as_uri()
    text = (workshop.top / "calc.py").read_text(encoding="utf-8") + "# not saved\n"
    client.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 1, text)))
    start = types.Position(0, 0)
    async with asyncio.timeout(SECONDS):
        actions = await client.protocol.send_request_async(
            types.TEXT_DOCUMENT_CODE_ACTION,
            types.CodeActionParams(
                types.TextDocumentIdentifier(uri), types.Range(start, start), types.CodeActionContext([])
            ),
        )
        assert any("test" in action.title for action in actions or [])
        started = await client.workspace_execute_command_async(
            types.ExecuteCommandParams(
                "understudy/delegations/start", [{"recipe": "docs", "files": [uri], "delegator": "worker"}]
            )
        )
        identifier = started["id"]
        done = await client.workspace_execute_command_async(
            types.ExecuteCommandParams("understudy/delegations/wait", [{"id": identifier, "timeoutSeconds": 25}])
        )
    assert done["state"] == "finished"
    assert workshop.file(identifier, "calc.py", "base") == text
