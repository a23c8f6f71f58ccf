"""Record the output of a real agent CLI for the fast tests: `python tests/integration/agent_clis/record_streams.py
claude tests/runners/recordings/claude`.

Each file's first line is ``{"exit", "stderr"}``, the others are its standard output; the tree is `/tree`, the home `/home`.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import msgspec

sys.path.append(str(Path(__file__).parents[2] / "support"))

from agent_model_server import ModelServer

from understudy.model.config.delegators import Launch, Limits
from understudy.model.delegation.events import Session, ToolCall
from understudy.runners.runner import Question

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
OF_THE_MACHINE = {
    *("remoteControl/status/changed", "configWarning", "thread/started"),
    *("session.skills_loaded", "session.mcp_servers_loaded", "session.tools_updated", "session.info"),
    *("session.background_tasks_changed", "model.call_finished", "model.call_final_result"),
}
"""Messages that describe the machine, or repeat another one."""
PATIENT = Limits(total_seconds=180, first_event_seconds=120, idle_seconds=120, after_result_seconds=10)
"""For tools that try again for more than a minute, whatever their settings."""
LONGEST_STDERR = 1000
WAIT = Limits(total_seconds=60, first_event_seconds=30, idle_seconds=30, after_result_seconds=10)

FAILURES = ("400", "401", "404", "429", "500", "529", "quota", "context", "late_context", "cut")
"""Failures of the server that every agent meets."""
ENDINGS = ("length", "filter", "model_id")
"""Scenarios in which the model's answer is not an answer, or the text of a proxy refuses the model."""
CLAUDE: dict[str, tuple[str, dict[str, Any]]] = {
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
    **{name: (name, {}) for name in (*FAILURES, "413", "credit", *ENDINGS)},
}


UNTRUSTED = Launch(permission_mode="untrusted")
CODEX: dict[str, tuple[str, dict[str, Any]]] = {
    "edits": ("edits", {}),
    "allowed": ("shell", {"answer": "allow_once", "launch": UNTRUSTED}),
    "rejected": ("shell", {"answer": "reject_once", "launch": UNTRUSTED}),
    "failing_shell": ("failing_shell", {}),
    "interrupted": ("long_shell", {}),
    "unknown_session": ("good", {"session_id": "818b1c43-24ce-4388-aa1e-04851649671b"}),
    "refused": ("good", {"url": "http://127.0.0.1:9/v1"}),
    **{name: (name, {}) for name in (*FAILURES, "late_500", *ENDINGS)},
}
PI: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in ("edits", "reasoning", "failing_shell")},
    "interrupted": ("long_shell", {}),
    "unknown_session": ("good", {"session_id": "818b1c43-24ce-4388-aa1e-04851649671b"}),
    "refused": ("good", {"url": "http://127.0.0.1:9/v1"}),
    **{name: (name, {}) for name in (*FAILURES, *ENDINGS)},
}
SCRIPTED: dict[str, Any] = {"model": "scripted-model"}
"""Copilot offers other tools to the models that it knows."""
RUNS: dict[str, Any] = {"launch": Launch(permission_mode="allow-all-tools"), **SCRIPTED}
COPILOT: dict[str, tuple[str, dict[str, Any]]] = {
    "edits": ("edits", {**SCRIPTED}),
    "reasoning": ("reasoning", {**SCRIPTED}),
    "failing_shell": ("failing_shell", {**RUNS}),
    "denied": ("shell", {**SCRIPTED}),
    "interrupted": ("long_shell", {**RUNS}),
    "unknown_session": ("good", {"session_id": "818b1c43-24ce-4388-aa1e-04851649671b", **SCRIPTED}),
    "refused": ("good", {"url": "http://127.0.0.1:9/v1", "limits": PATIENT, **SCRIPTED}),
    **{name: (name, {"limits": PATIENT, **SCRIPTED}) for name in (*FAILURES, "filter", "model_id")},
}
OWN_LOGIN: dict[str, Any] = {"model": "anthropic/claude-sonnet-4-5", "served": False}
OPENCODE: dict[str, tuple[str, dict[str, Any]]] = {
    name: (scenario, {"model": "scripted", "limits": PATIENT, "env": {"XDG_CONFIG_HOME": None}, **more})
    for name, scenario, more in (
        ("reasoning", "reasoning", {}),
        ("edits", "edits", {}),
        ("shell", "shell", {}),
        ("failing_shell", "failing_shell", {}),
        ("interrupted", "long_shell", {}),
        ("denied", "shell", {"launch": Launch(permission_mode="edit")}),
        ("rejected", "outside", {}),
        ("unknown_session", "good", {"session_id": "ses_818b1c4324ce4388aa1e0485"}),
        ("refused", "good", {"url": "http://127.0.0.1:9/v1"}),
        ("priced", "good", OWN_LOGIN),
        ("no_login", "good", {**OWN_LOGIN, "env": {"XDG_CONFIG_HOME": None, "ANTHROPIC_API_KEY": None}}),
        *((name, name, {}) for name in (*FAILURES, "late_500", *ENDINGS)),
    )
}
QWEN: dict[str, tuple[str, dict[str, Any]]] = {
    "edits": ("edits", {}),
    "reasoning": ("reasoning", {}),
    "allowed": ("shell", {"answer": "allow_once"}),
    "rejected": ("shell", {"answer": "reject_once"}),
    "failing_shell": ("failing_shell", {"answer": "allow_once"}),
    "outside": ("outside", {"answer": "reject_once"}),
    "interrupted": ("long_shell", {"answer": "allow_once"}),
    "unknown_session": ("good", {"session_id": "818b1c43-24ce-4388-aa1e-04851649671b"}),
    "unknown_option": ("good", {"launch": Launch(flags=["--no-such-option"])}),
    "refused": ("good", {"url": "http://127.0.0.1:9/v1"}),
    **{name: (name, {"limits": PATIENT}) for name in (*FAILURES, "empty", "model_id")},
    "continued": ("length", {}),
}
YOLO: dict[str, Any] = {"launch": Launch(yolo=True)}
GEMINI: dict[str, tuple[str, dict[str, Any]]] = {
    name: (scenario, {"model": "gemini-2.5-flash", "limits": PATIENT, **more})
    for name, scenario, more in (
        ("edits", "edits", {}),
        ("shell", "shell", YOLO),
        ("failing_shell", "failing_shell", YOLO),
        ("denied", "outside", YOLO),
        ("interrupted", "long_shell", YOLO),
        ("empty", "empty", {}),
        ("unknown_session", "good", {"session_id": "818b1c43-24ce-4388-aa1e-04851649671b"}),
        ("unknown_option", "good", {"launch": Launch(flags=["--no-such-option"])}),
        ("no_login", "good", {"served": False}),
        ("refused", "good", {"url": "http://127.0.0.1:9/v1"}),
        *((name, name, {}) for name in FAILURES),
        *((name, name, {}) for name in ("filter", "model_id")),
    )
}
CASES = {
    "claude": CLAUDE,
    "codex": CODEX,
    "copilot": COPILOT,
    "gemini": GEMINI,
    "opencode": OPENCODE,
    "pi": PI,
    "qwen": QWEN,
}
"""Tool → case → its scenario, and what differs from the usual task."""


def without_repetition(value: dict[str, Any]) -> dict[str, Any]:
    """Return a line of pi without the copies of the message, and of the run, that most of its lines have."""
    value = {key: item for key, item in value.items() if key not in {"messages", "toolResults", "partialResult"}}
    if value["type"] in {"message_update", "turn_end"}:
        value.pop("message", None)
    if "assistantMessageEvent" in value:
        value["assistantMessageEvent"] = {
            key: item for key, item in value["assistantMessageEvent"].items() if key in {"type", "delta"}
        }
    if isinstance(value.get("data"), dict):
        value["data"] = {"sessionId": value["data"]["sessionId"]}
    return value


def without_details(value: dict[str, Any]) -> dict[str, Any]:
    """Return a line of Copilot without its own ids, texts that it repeats, and figures about itself."""
    unused = {"id", "timestamp", "parentId", "ephemeral", "toolTelemetry", "detailedContent", "transformedContent"}
    unused |= {"interactionId", "turnId", "originatingMessageId", "rte", "apiCallId", "usage"}

    def kept(one: Any) -> Any:
        return {key: kept(item) for key, item in one.items() if key not in unused} if isinstance(one, dict) else one

    return {key: kept(item) for key, item in value.items() if key not in unused}


def record(tool: str, case: str, into: Path, conftest: ModuleType, programs: Path) -> None:
    """Run one case and write its file."""
    scenario, more = CASES[tool][case]
    with tempfile.TemporaryDirectory() as name, ModelServer() as server:
        folder = Path(name)
        wrapped = folder / "bin"
        wrapped.mkdir()
        exit_file = folder / "exit"
        script = f'#!/bin/sh\n"{programs}/{tool}" "$@"\ncode=$?\necho $code > "{exit_file}"\nexit $code\n'
        (wrapped / tool).write_text(script)
        for path in wrapped.iterdir():
            path.chmod(0o755)
        if tool == "pi":  # its package must lie around it
            for entry in (programs / tool).resolve().parents[1].iterdir():
                (wrapped / entry.name).symlink_to(entry)
        lab = conftest.Lab(wrapped, folder, server)
        answer = more.pop("answer", None)

        async def ask(question: Question) -> tuple[Any, None]:
            return next(option for option in question.options if option.kind == answer), None

        make = lab.task if tool == "claude" else functools.partial(lab.tool_task, tool)
        served = more.pop("served", True)
        task = make(scenario, ask=ask if answer else None, limits=more.pop("limits", WAIT), **more)
        if not served:
            task = msgspec.structs.replace(task, model_server=None)

        async def run() -> None:
            work = asyncio.create_task(lab.run(task))
            if case == "interrupted":
                # opencode reports a call when it has ended.
                while not lab.of(Session if tool == "opencode" else ToolCall) and not work.done():
                    await asyncio.sleep(0.05)
                await asyncio.sleep(1)
                work.cancel()
            await asyncio.wait([work])

        with mock.patch("os.geteuid", return_value=1000) if case == "root" else mock.patch.dict(os.environ):
            asyncio.run(run())
        code = int(exit_file.read_text()) if exit_file.exists() else 143
        said = {path: path.read_text() if path.exists() else "" for path in (task.stdout_log, task.stderr_log)}

        def strip(text: str) -> str:
            address = f"127.0.0.1:{server.port}"
            for real, shown in (
                (str(lab.tree), "/tree"),
                (str(lab.home), "/home"),
                (name, "/lab"),
                (str(programs.parent), "/clis"),
                (address, "server"),
            ):
                text = text.replace(real, shown)
            return text

        lines = [
            json.dumps(
                {
                    "exit": code,
                    "stderr": strip(said[task.stderr_log])[:LONGEST_STDERR] if code or tool == "claude" else "",
                }
            )
        ]
        for line in strip(said[task.stdout_log]).splitlines():
            value = json.loads(line)
            if {value.get("method"), value.get("type")} & OF_THE_MACHINE:
                continue
            kept = {
                key: item
                for key, item in value.items()
                if key not in {*LONG_LISTS, "emittedAtMs", "uuid"} and not key.startswith("subagent")
            }
            if tool == "pi":
                kept = without_repetition(kept)
            elif tool == "copilot":
                kept = without_details(kept)
            elif tool == "gemini":
                kept.pop("timestamp", None)
                kept.get("stats", {}).pop("models", None)
            lines.append(json.dumps(kept, ensure_ascii=False))
        (into / f"{case}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Record everything, or the cases named."""
    tool, into = sys.argv[1], Path(sys.argv[2])
    into.mkdir(parents=True, exist_ok=True)
    spec = importlib.util.spec_from_file_location("clis_conftest", Path(__file__).with_name("conftest.py"))
    if spec is None or spec.loader is None:
        raise SystemExit("conftest.py is gone")
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    programs = conftest.install()
    if isinstance(programs, str):
        raise SystemExit(programs)
    for case in sys.argv[3:] or CASES[tool]:
        print(case, flush=True)
        record(tool, case, into, conftest, programs)


if __name__ == "__main__":
    main()
