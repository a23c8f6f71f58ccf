"""Record the output of a real Claude Code for the fast tests: `python tests/integration/agent_clis/record_claude.py
tests/runners/recordings/claude`.

Each file's first line is ``{"exit", "stderr"}``, the others are its standard output; the tree is `/tree`, the home `/home`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from understudy.model.config.delegators import Launch, Limits
from understudy.model.events import ToolCall
from understudy.runners.runner import Question
from understudy.testing.model_server import ModelServer

LONG_LISTS = {
    "messaging_socket_path",
    "tools",
    "slash_commands",
    "skills",
    "agents",
    "plugins",
    "memory_paths",
    "capabilities",
}
"""Fields of the first line that are long or differ with every version and machine, and that are not used."""
WAIT = Limits(total_seconds=60, first_event_seconds=30, idle_seconds=30, after_result_seconds=10)

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "edits": ("edits", {}),
    "reasoning": ("reasoning", {}),
    "allowed": ("shell", {"answer": "allow_once"}),
    "rejected": ("shell", {"answer": "reject_once"}),
    "two_questions": ("two_shells", {"answer": "allow_once"}),
    "interrupted": ("long_shell", {"answer": "allow_once"}),
    "max_turns": (
        "endless_tools",
        {"answer": "allow_always", "limits": Limits(max_turns=3, total_seconds=60, idle_seconds=30)},
    ),
    "max_usd": (
        "endless_tools",
        {"answer": "allow_once", "limits": Limits(max_usd="0.001", total_seconds=60, idle_seconds=30)},
    ),
    "unknown_session": ("good", {"session_id": "818b1c43-24ce-4388-aa1e-04851649671b"}),
    "unknown_option": ("good", {"launch": Launch(flags=["--no-such-option"])}),
    "root": ("good", {"launch": Launch(yolo=True)}),
    "no_login": ("good", {"env": {"ANTHROPIC_API_KEY": None}}),
    "refused": ("good", {"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}}),
    **{
        name: (name, {})
        for name in (
            "400",
            "401",
            "404",
            "413",
            "429",
            "500",
            "529",
            "quota",
            "credit",
            "context",
            "late_context",
            "cut",
        )
    },
}


def record(case: str, into: Path, conftest: ModuleType, programs: Path) -> None:
    """Run one case and write its file."""
    scenario, more = CASES[case]
    with tempfile.TemporaryDirectory() as name, ModelServer() as server:
        folder = Path(name)
        wrapped = folder / "bin"
        wrapped.mkdir()
        exit_file = folder / "exit"
        script = f'#!/bin/sh\n"{programs}/claude" "$@"\ncode=$?\necho $code > "{exit_file}"\nexit $code\n'
        (wrapped / "claude").write_text(script)
        (wrapped / "claude").chmod(0o755)
        lab = conftest.Lab(wrapped, folder, server)
        answer = more.pop("answer", None)

        async def ask(question: Question) -> tuple[Any, None]:
            return next(option for option in question.options if option.kind == answer), None

        task = lab.task(scenario, ask=ask if answer else None, limits=more.pop("limits", WAIT), **more)

        async def run() -> None:
            work = asyncio.create_task(lab.run(task))
            if case == "interrupted":
                while not lab.of(ToolCall):
                    await asyncio.sleep(0.05)
                await asyncio.sleep(1)
                work.cancel()
            await asyncio.wait([work])

        with mock.patch("os.geteuid", return_value=1000) if case == "root" else mock.patch.dict(os.environ):
            asyncio.run(run())
        code = int(exit_file.read_text()) if exit_file.exists() else 143
        said = {path: path.read_text() if path.exists() else "" for path in (task.stdout_log, task.stderr_log)}

        def strip(text: str) -> str:
            for real, shown in ((str(lab.tree), "/tree"), (str(lab.home), "/home"), (name, "/lab")):
                text = text.replace(real, shown)
            return text

        lines = [json.dumps({"exit": code, "stderr": strip(said[task.stderr_log])})]
        for line in strip(said[task.stdout_log]).splitlines():
            value = json.loads(line)
            kept = {
                key: item for key, item in value.items() if key not in LONG_LISTS and not key.startswith("subagent")
            }
            lines.append(json.dumps(kept, ensure_ascii=False))
        (into / f"{case}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Record everything, or the cases named."""
    into = Path(sys.argv[1])
    into.mkdir(parents=True, exist_ok=True)
    spec = importlib.util.spec_from_file_location("clis_conftest", Path(__file__).with_name("conftest.py"))
    if spec is None or spec.loader is None:
        raise SystemExit("conftest.py is gone")
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    programs = conftest.install()
    if isinstance(programs, str):
        raise SystemExit(programs)
    for case in sys.argv[2:] or CASES:
        print(case, flush=True)
        record(case, into, conftest, programs)


if __name__ == "__main__":
    main()
