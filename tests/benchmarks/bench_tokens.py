"""Count the tokens that a session of Claude Code costs its model, with and without delegating over our MCP server.

    .venv/bin/python tests/benchmarks/bench_tokens.py

The real Claude Code works on the scripted model server; the script plays the model, so each session is always the same:

- tests: write tests for three modules. Alone, it reads them, writes three test files, runs them, corrects one and runs
  them again. With Understudy, it delegates the three in one group and waits; a second session also reads the patches.
- question: answer a question about three long documents. Alone, it reads them. With Understudy, it calls ``ask``.

Input is everything that each request contains (instructions, tools, messages), output what the model writes; both are
counted with o200k_base. The instructions and tools of Claude Code are in each request; what is beyond them is counted
as the work's, with the first request of a session that does nothing as the measure.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
TOP = HERE.parents[2]
sys.path.insert(0, str(HERE.parents[1] / "support"))

from agent_model_server import ModelServer  # noqa: E402
from agent_model_server.messages_scenarios import turn_due  # noqa: E402
from agent_programs import install, install_tokenizer  # noqa: E402 - the support modules are beside this folder
from count_tokens import count_tokens  # noqa: E402
from orchestrators import ORCHESTRATORS, environment_for, prepare, seen  # noqa: E402

from understudy.api import method_table  # noqa: E402
from understudy.api.caller import TerminalCaller  # noqa: E402

MODULES = {
    "path_rules.py": ("sidecar/understudy/git/path_rules.py", "tests/git/test_path_rules.py"),
    "locality.py": ("sidecar/understudy/config/locality.py", "tests/config/test_locality.py"),
    "line_edits.py": ("sidecar/understudy/git/merge/line_edits.py", "tests/git/merge/test_line_edits.py"),
}
DOCUMENTS = ("configuration.md", "evidence.md", "agents.md")
ANSWER = (
    "Set `idle_seconds` under [limits]; a delegation that is silent for longer ends as `stalled`. See configuration.md."
)
OUTPUT = "\n".join(f"tests/test_{name}::test_case_{number} PASSED" for name in MODULES for number in range(8))
SECONDS = 120

Turn = dict[str, Any]
Model = Callable[[Any], Turn]


@dataclass
class Session:
    """What one session sent and got."""

    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


def project(folder: Path) -> Path:
    """Make a trusted project with the modules and documents, and delegators for it."""
    top = folder / "project"
    top.mkdir(parents=True)
    for name, (source, _) in MODULES.items():
        shutil.copyfile(TOP / source, top / name)
    for name in DOCUMENTS:
        shutil.copyfile(TOP / "docs" / name, top / name)
    (top / "test-output.txt").write_text(OUTPUT)
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "Start"]):
        subprocess.run(["git", *arguments], cwd=top, check=True)
    return top


def configure(folder: Path, server: ModelServer) -> None:
    """Write the delegators: one for each module, which writes its tests, and a model for questions."""
    config = folder / "config"
    for kind in ("delegators", "model-servers"):
        (config / kind).mkdir(parents=True)
    for name, (_, tests) in MODULES.items():
        program = (
            "import json, pathlib\n"
            f"pathlib.Path('test_{name}').write_bytes(pathlib.Path({str(TOP / tests)!r}).read_bytes())\n"
            "print(json.dumps({'type': 'result', 'text': 'The tests are written.', 'ok': True}))\n"
        )
        command = json.dumps([sys.executable, "-c", program])
        lines = f'tool = "generic"\n[launch]\noutput = "events"\ncommand = {command}\n'
        (config / f"delegators/{name[:-3]}.toml").write_text(f'name = "{name[:-3]}"\n{lines}')
    (config / "model-servers/local.toml").write_text(
        f'name = "local"\nkind = "custom"\nbase_url = "{server.base_url}"\n'
    )
    (config / "delegators/reader.toml").write_text('name = "reader"\nmodel_server = "local"\nmodel = "reader"\n')


def alone(*turns: list[tuple[str, dict[str, Any]]]) -> Model:
    """Return a model that makes these calls of Claude Code's own tools, one list after the other, and then ends."""

    def turn(body: Any) -> Turn:
        due = turn_due(body)
        if due >= len(turns):
            return {"text": ANSWER}
        calls = [
            {"name": name, "arguments": given, "id": f"own_{due}_{n}"} for n, (name, given) in enumerate(turns[due])
        ]
        return {"calls": calls}

    return turn


def writes_tests(top: Path) -> Model:
    """Return the model that writes the tests itself."""
    tests = {name: (TOP / tests).read_text() for name, (_, tests) in MODULES.items()}
    run = ("Bash", {"command": "cat test-output.txt", "description": "Run the tests"})
    writes = [[("Write", {"file_path": f"{top}/test_{name}", "content": text})] for name, text in tests.items()]
    name, text = next(iter(tests.items()))
    old = text.splitlines()[0]
    edit = ("Edit", {"file_path": f"{top}/test_{name}", "old_string": old, "new_string": old + " "})
    return alone([("Read", {"file_path": f"{top}/{one}"}) for one in MODULES], *writes, [run], [edit], [run])


def delegates_tests(*, reads: bool) -> Model:
    """Return the model that delegates the tests in one group; ``reads``: and reads the patches."""
    tasks = [
        {"task": f"Write tests for {name}. Cover its limits and errors.", "files": [name], "delegator": name[:-3]}
        for name in MODULES
    ]

    def turn(body: Any) -> Turn:
        now = seen(body)
        found = [one for one in now.results if isinstance(one, dict) and "results" in one]
        if not found:
            return (
                now.calls(("batch", {"tasks": tasks}), ("wait", {"id": ""}))
                if not now.tools
                else now.calls(("batch", {"tasks": tasks}))
            )
        if found[-1]["status"] != "finished":
            return now.calls(("wait", {"id": found[-1]["id"]}))
        if reads and "diff --git" not in json.dumps(body["messages"]):
            return now.calls(*(("diff", {"id": one["id"]}) for one in found[-1]["results"]))
        return {"text": ANSWER}

    return turn


def asks() -> Model:
    """Return the model that lets another one read."""
    given = {"question": "Which setting ends a silent delegation?", "files": list(DOCUMENTS), "delegator": "reader"}

    def turn(body: Any) -> Turn:
        now = seen(body)
        found = [one for one in now.results if isinstance(one, dict) and "status" in one]
        if found and found[-1]["status"] == "finished":
            assert found[-1]["text"] == ANSWER, found
            return {"text": ANSWER}
        return now.calls(("ask", given))

    return turn


def run(model: Model, prompt: str, *, with_understudy: bool, programs: Path) -> Session:
    """Run one session of Claude Code in an empty home."""
    session = Session()

    def recorded(body: Any) -> Turn:
        found = model(body) if isinstance(body, dict) and body.get("tools") else {"text": "A title"}
        assert len(session.inputs) < 40, "it goes round in circles"
        sent = {key: body.get(key) for key in ("system", "tools", "messages")}
        session.inputs.append(json.dumps(sent, ensure_ascii=False))
        session.outputs.append(json.dumps(found, ensure_ascii=False))
        return found

    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
        ModelServer(answers={"session": recorded, "reader": ANSWER}) as server,
    ):
        folder = Path(name).resolve()
        os.environ |= {"UNDERSTUDY_STATE": f"{folder}/state", "UNDERSTUDY_CONFIG": f"{folder}/config"}
        configure(folder, server)
        top = project(folder)
        method_table.call("workspace/trust", {"workspace": str(top), "trusted": True}, TerminalCaller(top))
        claude = ORCHESTRATORS["claude"]
        home = folder / "home"
        url = f"http://127.0.0.1:{server.port}/s/session"
        prepare(claude, url, home)
        environment = environment_for(claude, url, home, programs)
        if with_understudy:
            command = [sys.executable, "-m", "understudy", "mcp", "install", "claude", "--yes"]
            subprocess.run(command, cwd=top, env=environment, check=True, capture_output=True)
        argv = [str(programs / "claude"), *claude.arguments(prompt.replace("{top}", str(top)))]
        argv[argv.index("mcp__understudy")] = "mcp__understudy,Read,Write,Edit,Bash"
        done = subprocess.run(
            argv,
            check=False,
            cwd=top,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert ANSWER in done.stdout, done.stdout[-3000:]
    return session


def main() -> int:
    """Print a table."""
    programs, modules = install(), install_tokenizer()
    if isinstance(programs, str) or isinstance(modules, str):
        print(f"Cannot measure: {programs if isinstance(programs, str) else modules}")
        return 3
    place: list[Path] = []

    def here(make: Callable[[Path], Model]) -> Model:
        """Make the model when the folder is known: it is in the first request."""

        def turn(body: Any) -> Turn:
            if not place or not place[0].exists():
                place[:] = [Path(os.environ["UNDERSTUDY_STATE"]).parent / "project"]
            return make(place[0])(body)

        return turn

    reading = here(lambda top: alone([("Read", {"file_path": f"{top}/{one}"}) for one in DOCUMENTS]))
    write, question = "Write tests for the three modules.", "Which setting ends a silent delegation?"
    sessions = (
        ("nothing, one request", "Say hello.", alone(), False),
        ("tests, alone", write, here(writes_tests), False),
        ("tests, delegated", write, delegates_tests(reads=False), True),
        ("tests, delegated, patches read", write, delegates_tests(reads=True), True),
        ("question, alone", question, reading, False),
        ("question, delegated with ask", question, asks(), True),
    )
    print("| session | requests | input | of it the work's | output | context at the end |\n|---|---|---|---|---|---|")
    fixed = 0
    for title, prompt, model, delegates in sessions:
        found = run(model, prompt, with_understudy=delegates, programs=programs)
        counts = count_tokens([*found.inputs, "\n".join(found.outputs)], modules)
        inputs, output = counts[:-1], counts[-1]
        fixed = fixed or inputs[-1]
        row = (title, len(inputs), sum(inputs), sum(inputs) - fixed * len(inputs), output, max(inputs))
        print("| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else cell for cell in row) + " |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
