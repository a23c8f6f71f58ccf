"""How much of a conversation of the tool loop a provider's cache can keep."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_model_server import ModelServer
from model_work import DONE, PROTOCOLS, Work, call

from understudy.runners.runner import Outcome

TURNS = 40
MARK = ', "cache_control": {"type": "ephemeral"}'


def prefix(row: Callable[..., None], scratch: Path) -> None:
    """Let a model work for 40 turns, in which its context is full twice; count the requests that the cache does not know."""
    full = {"refuse": [400, "This model's maximum context length is 131072 tokens."]}
    for protocol in PROTOCOLS:
        with ModelServer(answers={}) as server:
            work = Work(server, scratch / f"loop-{protocol}")
            (work.tree / "long.txt").write_text("z" * 9000)
            looking = {"thinking": "t", "calls": [call("read_file", path="long.txt"), call("list_files")]}
            turns = [looking] * (TURNS - 1)
            turns[15:15] = [full]
            turns[30:30] = [full]
            outcome = asyncio.run(work.run(*turns, DONE, protocol=protocol, limits={"max_turns": TURNS}))
        assert isinstance(outcome, Outcome), outcome
        sent = [json.loads(json.dumps(body).replace(MARK, "")) for body in work.requests]
        lost = sum(not begins_with(after, before) for before, after in itertools.pairwise(sent))
        row(
            "loop",
            f"{protocol}: turns of {TURNS} that lose the provider's cache, context full twice",
            lost / TURNS,
            0.1,
        )


def begins_with(after: dict[str, Any], before: dict[str, Any]) -> bool:
    """Return whether a request is an earlier one with more at its end."""
    name = "input" if "input" in before else "messages"
    history, rest = before[name], {key: value for key, value in before.items() if key != name}
    return after[name][: len(history)] == history and rest == {key: after[key] for key in after if key != name}
