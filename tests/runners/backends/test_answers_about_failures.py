"""An answer that talks about failures is an answer: only a status or the server's own error decides."""

from __future__ import annotations

from pathlib import Path

import agent_model_server as scripted
import pytest
from model_tasks import model_task, outcome_of

from understudy.model.config.delegators import ModelServer
from understudy.runners.runner import Outcome

TEXTS = (
    "The log says: HTTP 429 Too Many Requests, rate limit exceeded.",
    'It returned {"error": {"message": "insufficient_quota", "code": 401}} and a context_length_exceeded.',
    "overloaded_error",
)


@pytest.mark.parametrize("protocol", ["openai", "anthropic", "responses"])
@pytest.mark.parametrize("text", TEXTS)
async def test_an_answer_about_failures_is_an_answer(own_home: Path, tmp_path: Path, protocol: str, text: str) -> None:
    _ = own_home
    with scripted.ModelServer(answers={"talks": {"loop": [{"text": text, "piece": 5}]}}) as server:
        entry = ModelServer(name="s", kind="custom", base_url=server.base_url, protocols=[protocol])
        outcome, _ = await outcome_of(model_task(entry, tmp_path, model="talks"))
        assert isinstance(outcome, Outcome), outcome
        assert outcome.text == text
        assert len(server.requests) == 1
