"""A worktree and a scripted model, for the tests of the tool loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_model_server import ModelServer as ScriptedServer

from understudy.model.config.delegators import AppliesTo, Delegator, Limits, ModelServer, Recipe, Scope
from understudy.model.delegation.events import ToolResult
from understudy.model.errors import UnderstudyError
from understudy.runners.model_loop.loop_runner import Runner
from understudy.runners.runner import Task

PROTOCOLS = ["openai", "anthropic", "responses"]
KEY = "sk-test-SECRET/SECRET+SECRET1234567"
DONE = {"text": "Done."}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


class Work:
    """A worktree, and a model whose turns a test writes."""

    def __init__(self, server: ScriptedServer, folder: Path) -> None:
        self.server = server
        self.tree = folder / "tree"
        (self.tree / ".git").mkdir(parents=True)
        (self.tree / ".git" / "config").write_text("[core]\n")
        (self.tree / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        self.events: list[Any] = []
        self.requests: list[dict[str, Any]] = []

    async def run(self, *turns: dict[str, Any], protocol: str = "openai", recipe: str = "fix", **more: Any) -> Any:
        limits = more.pop("limits", {})
        self.server.answers = {**self.server.answers, "m": {"loop": list(turns)}}
        self.server.times.clear()
        self.server.requests.clear()
        values: dict[str, Any] = {
            "delegation_id": "d1",
            "recipe": Recipe(
                name=recipe,
                title="Fix",
                returns="tree",
                applies_to=AppliesTo(on=["file"]),
                judged_by="new_tests" if recipe == "tests" else "checks",
                scope=Scope.BUILTIN,
            ),
            "prompt": "Fix calc.py.",
            "prompt_file": self.tree.parent / "prompt.md",
            "worktree": self.tree,
            "delegator": Delegator(name="cheap", model="m", model_server="scripted"),
            "model_server": ModelServer(
                name="scripted", kind="custom", base_url=self.server.base_url, protocols=[protocol]
            ),
            "limits": Limits(total_seconds=60, idle_seconds=60, first_event_seconds=60, **limits),
            "key": lambda: KEY,
            "trusted": True,
        }
        self.events.clear()
        try:
            return await Runner(backoff_seconds=0.01).run(Task(**(values | more)), self.events.append)
        except UnderstudyError as error:
            return error
        finally:
            self.requests = [one.body for one in self.server.requests]

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def results(self) -> list[str]:
        return [event.output for event in self.of(ToolResult)]
