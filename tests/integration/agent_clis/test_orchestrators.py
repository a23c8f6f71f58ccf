"""Test real agent CLIs as orchestrators: they delegate over our MCP server, are killed, and lose and repeat nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_model_server import ModelServer
from orchestrators import ORCHESTRATORS, Orchestrator, delegates, environment_for, prepare, seen

from understudy.api import method_table
from understudy.api.caller import TerminalCaller

pytestmark = pytest.mark.heavy

PATIENCE = 120.0
FILES = ("area.py", "price.py", "words.py")
TASKS = [{"task": f"Document {name}.", "files": [name], "delegator": "patient"} for name in FILES]
AGENT = """
import json, pathlib, time, uuid
stage = pathlib.Path({stage!r})
(stage / "started" / uuid.uuid4().hex).touch()  # processes may be numbered for each agent
pathlib.Path("notes.md").write_text("Documented.\\n")
while not (stage / "go").exists():
    time.sleep(0.05)
print(json.dumps({{"type": "result", "text": "All is documented.", "ok": True}}), flush=True)
"""


class Bench:
    """A home, a trusted project, a delegator that waits for a word, and a scripted model."""

    def __init__(self, orchestrator: Orchestrator, folder: Path, programs: Path, server: ModelServer) -> None:
        self.orchestrator, self.folder, self.server = orchestrator, folder, server
        self.home, self.project = folder / "person", folder / "project"
        for path in (self.home, self.project, folder / "started", folder / "config/delegators"):
            path.mkdir(parents=True)
        url = f"http://127.0.0.1:{server.port}/s/orchestrator"
        self.file = prepare(orchestrator, url, self.home)
        command = json.dumps([sys.executable, "-c", AGENT.format(stage=str(folder))])
        (folder / "config/delegators/patient.toml").write_text(
            f'name = "patient"\ntool = "generic"\n[launch]\noutput = "events"\ncommand = {command}\n'
        )
        (folder / "config/config.toml").write_text("[limits]\nslots = 3\n")
        subprocess.run(["git", "init", "-q"], cwd=self.project, check=True)
        for name in FILES:
            (self.project / name).write_text("def one():\n    return 1\n")
        subprocess.run(["git", "add", "-A"], cwd=self.project, check=True)
        subprocess.run(["git", "commit", "-qm", "Start"], cwd=self.project, check=True)
        self.call("workspace/trust", workspace=str(self.project), trusted=True)
        self.environment = environment_for(orchestrator, url, self.home, programs)
        self.program = str(programs / orchestrator.name)

    def call(self, method: str, **params: Any) -> Any:
        return method_table.call(method, params, TerminalCaller(self.project))

    def understudy(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "understudy", "mcp", *arguments]
        return subprocess.run(
            command, cwd=self.project, env=self.environment, check=True, capture_output=True, text=True, timeout=60
        ).stdout

    def register(self) -> None:
        (change,) = json.loads(self.understudy("install", self.orchestrator.name, "--yes", "--json"))["changes"]
        if "snippet" in change:  # for an existing file, which the user changes
            entry = change["snippet"].strip()[1:-1].rstrip()
            self.file.write_text(self.file.read_text().replace("{\n", f"{{{entry},\n", 1))

    @contextlib.contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """Run the agent CLI in a session of its own, so that it can be killed with its MCP server."""
        argv = [self.program, *self.orchestrator.arguments("Document the modules.")]
        log = self.folder / "stderr.log"
        with (
            log.open("a") as errors,
            subprocess.Popen(
                argv, cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True,
            ) as process,
        ):  # fmt: skip
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def until(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < end, (self.state(), (self.folder / "stderr.log").read_text()[-2000:])
            time.sleep(0.05)

    def state(self) -> Any:
        listed = self.call("delegations/list").delegations
        return self.started, [(one.id, one.state, one.activity, one.error) for one in listed]

    @property
    def started(self) -> int:
        return len(list((self.folder / "started").iterdir()))

    def results(self, since: int = 0) -> list[Any]:
        """Return what the last request since then shows the model."""
        bodies = [
            request.body for request in self.server.requests[since:] if request.body and request.body.get("tools")
        ]
        return seen(bodies[-1]).results if bodies else []


@pytest.fixture
def bench(request, programs, tmp_path, own_home, monkeypatch) -> Iterator[Bench]:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(tmp_path / "config"))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name)

    def ending(results: list[Any]) -> str:
        return "Delegated: " + ", ".join(f"{one['title']}: {one['verdict']}" for one in results)

    with ModelServer(answers={"orchestrator": delegates(TASKS, ending)}) as server:
        yield Bench(ORCHESTRATORS[request.param], tmp_path, programs, server)


@pytest.mark.smoke
@pytest.mark.parametrize("bench", sorted(ORCHESTRATORS), indirect=True)
def test_a_killed_orchestrator_loses_and_repeats_nothing(bench):
    before = bench.file.read_bytes()
    bench.register()
    assert bench.file.read_bytes() != before

    with bench.running() as process:
        bench.until(lambda: bench.started == len(TASKS))
        bench.until(lambda: len(bench.results()) >= len(TASKS))  # the model asks to wait now
        first = {one["id"] for one in bench.results() if "id" in one}
        assert len(first) == len(TASKS)
        os.killpg(process.pid, signal.SIGKILL)
    (bench.folder / "go").touch()

    since = len(bench.server.requests)
    with bench.running() as process:
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, (bench.folder / "stderr.log").read_text()[-2000:]
    finished = {one["id"]: one for one in bench.results(since) if one.get("status") == "finished"}
    assert set(finished) == first, "the results of the first run"
    assert said.count("unverified") >= len(TASKS), "the answer has every verdict"
    assert all(one["files"][0]["path"] == "notes.md" for one in finished.values())
    assert bench.started == len(TASKS), "nothing was done twice"
    listed = bench.call("delegations/list").delegations
    assert {one.id for one in listed} == first

    said = bench.understudy("uninstall", bench.orchestrator.name, "--yes")
    if bench.orchestrator.name == "opencode":
        assert "Remove the entry `understudy` from `mcp` in " in said
    else:
        assert "understudy" not in bench.file.read_text() or bench.orchestrator.name == "claude"
    if bench.orchestrator.name == "claude":  # it keeps its own state in the same file
        assert "understudy" not in json.loads(bench.file.read_bytes()).get("mcpServers", {})
        assert json.loads(bench.file.read_bytes())["hasCompletedOnboarding"]
