"""What an agent can do with Understudy's own programs: read, but not start, decide, trust or configure."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from open_documents import Window, decide, states

from understudy.api.caller import TerminalCaller
from understudy.api.editor_files import accepted_documents
from understudy.api.editor_files.accepted_documents import AcceptedDocuments, reconcile
from understudy.journal import editor_saves
from understudy.model.delegation.delegations import AskedBy
from understudy.model.delegation.events import Decided
from understudy.model.errors import ErrorKind, UnderstudyError

pytestmark = pytest.mark.usefixtures("cold_workers")  # whose ancestors and environment tell where they are

CLI = [sys.executable, "-m", "understudy"]
REFUSED = "is for the user: the process that asks belongs to the run"

TRY = """
import subprocess
ENVIRONMENT = {environment!r}
TRIED = []
def attempt(name, argv, text=""):
    done = subprocess.run(argv, input=text, capture_output=True, text=True, env=ENVIRONMENT, cwd={top!r}, timeout=100)
    TRIED.append((name, done.returncode, done.stdout + done.stderr))
"""
"""The beginning of an agent that calls programs with the user's environment, without the mark of its run."""

ORPHAN = """
import os, sys
read, write = os.pipe()
if not os.fork():
    os.setsid()
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == middle:
        pass
    os.dup2(write, 1)
    os.dup2(write, 2)
    os.execvp(sys.argv[1], sys.argv[1:])
os.close(write)
while part := os.read(read, 999):
    os.write(1, part)
"""


PATIENT = """
import os, subprocess, sys
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
server.stdin.write(sys.stdin.buffer.read())
server.stdin.flush()
printed = b""
while not all(b'"id":%d' % number in printed for number in range(1, int(sys.argv[1]) + 1)):
    part = os.read(server.stdout.fileno(), 9999)
    if not part:
        break
    printed += part
server.stdin.close()
print((printed + server.stdout.read()).decode())
server.wait()
"""
"""A client that closes the input of its server after the answers to its first requests, as many as its argument says."""


@pytest.fixture
def inside(project: Any, tmp_path: Path) -> Any:
    """Let an agent execute attempts, each an argument vector and its input; return what each printed."""

    def run(attempts: dict[str, tuple[list[str], str]]) -> dict[str, tuple[int, str]]:
        answers = tmp_path / "answers.json"
        environment = {name: value for name, value in os.environ.items() if name != "UNDERSTUDY_DELEGATION"}
        calls = [f"attempt({name!r}, {argv!r}, {text!r})" for name, (argv, text) in attempts.items()]
        save = (
            f"pathlib.Path({str(answers)!r}).write_text(json.dumps(TRIED))\nsay(type='result', ok=True, summary='')\n"
        )
        begin = TRY.format(environment=environment, top=str(project.top))
        project.program("attacker", "\n".join([begin, *calls, save]))
        project.run("implement", "calc.py", task="x", delegator="attacker")
        return {name: (code, text) for name, code, text in json.loads(answers.read_text())}

    return run


@pytest.fixture
def finished(project: Any) -> str:
    """A result that waits for a decision."""
    project.program("worker", "pathlib.Path('calc.py').write_text('x = 1\\n'); say(type='result', ok=True, summary='')")
    return str(project.run("implement", "calc.py", task="x", delegator="worker").id)


def commands(*rows: list[str]) -> dict[str, tuple[list[str], str]]:
    return {" ".join(row): ([*CLI, *row], "") for row in rows}


@pytest.mark.heavy
def test_no_command_decides_trusts_or_configures_inside_a_run(
    project: Any, inside: Any, finished: str, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    rows = commands(
        *(["accept", finished, "--all"], ["reject", finished, "--all"], ["discard", finished]),
        *(["export", finished, "--to", "patch"], ["drop", finished], ["check", finished], ["retry", finished]),
        *(["reply", finished, "Go on."], ["say", finished, "Go on."], ["dismiss", finished, "all"]),
        *(["trust", str(other), "--yes"], ["queue", "pause"], ["init"], ["config", "default", "worker"]),
        ["delegators", "add", "mine", "--tool", "generic", "--command", "true"],
        ["delegators", "remove", "worker"],
        ["servers", "add", "mine", "--kind", "custom", "--url", "http://127.0.0.1:9/v1"],
        ["checks", "add", "fine", "--", "true"],
        ["instructions", "install"],
        ["mcp", "install", "claude", "--yes"],
        ["start", "implement", "calc.py", "--task", "x", "-d", "worker", "--detach"],
        ["start", "implement", "calc.py", "--task", "x", "-d", "worker", "--no-worktree"],
    )
    listed = project.call("delegations/list").delegations
    before = {path: path.read_bytes() for path in project.config.rglob("*") if path.is_file()}
    tried = inside(rows)
    assert len(tried) == len(rows)
    for name, (code, text) in tried.items():
        assert code != 0, (name, text)
        assert REFUSED in text, (name, text)
        assert ("hint: Do the work yourself, or use" if name.startswith("start") else "hint: Finish the work") in text
    now = project.call("delegations/list").delegations
    assert [row.delegator for row in now[: len(now) - len(listed)]] == ["attacker"], "nothing was started"
    attacker = {project.config / "attacker.py", project.config / "delegators" / "attacker.toml"}
    after = {path: path.read_bytes() for path in project.config.rglob("*") if path.is_file() and path not in attacker}
    assert after == before
    assert not project.call("workspace/trust", workspace=str(other)).trusted
    assert (project.top / "calc.py").read_text() != "x = 1\n"
    outside = subprocess.run([*CLI, "accept", finished, "--all"], cwd=project.top, check=False, capture_output=True)
    assert outside.returncode == 0, outside.stderr
    assert (project.top / "calc.py").read_text() == "x = 1\n"


@pytest.mark.heavy
def test_reading_stays_inside_a_run(project: Any, inside: Any, finished: str) -> None:
    tried = inside(
        commands(
            *(["list"], ["show", finished], ["diff", finished], ["evidence", finished], ["status"], ["ledger"]),
            *(["delegators", "list"], ["worktrees", "list"], ["queue"], ["mcp", "install", "claude", "--dry-run"]),
        )
    )
    assert not [(name, text) for name, (_, text) in tried.items() if "is for the user" in text]


def test_no_way_of_starting_a_command_hides_where_it_is(project: Any, inside: Any, finished: str) -> None:
    kept = [f"{name}={value}" for name, value in os.environ.items() if name in {"UNDERSTUDY_STATE", "HOME", "PATH"}]
    accept = ["env", "-i", *kept, *CLI, "accept", finished, "--all"]
    ways = {
        "without an environment": [],
        "in another session": ["setsid", "-w"],
        "as an orphan": [sys.executable, "-c", ORPHAN],
        "in a namespace of its own": ["unshare", "-pf", "--mount-proc"],
    }
    tried = inside({name: (way + accept, "") for name, way in ways.items()})
    for name, (_, text) in tried.items():
        assert REFUSED in text or (name == "in a namespace of its own" and "unshare" in text), (name, text)
    assert (project.top / "calc.py").read_text() != "x = 1\n"


@pytest.mark.heavy
def test_no_server_that_is_started_inside_a_run_decides(project: Any, inside: Any, finished: str) -> None:
    with (project.config / "config.toml").open("a") as file:
        file.write("[mcp]\ndecide = true\n")

    def lines(*messages: dict[str, Any]) -> list[str]:
        return [json.dumps({"jsonrpc": "2.0", **each}) for each in messages]

    params = {"workspace": str(project.top), "trusted": False}
    attack = lines(
        {"id": 2, "method": "understudy/workspace/trust", "params": params},
        {"id": 3, "method": "understudy/delegations/discard", "params": {"id": finished}},
    )
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    arguments = {"id": finished, "decision": "accept"}
    tool = lines(
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "decide", "arguments": arguments}},
    )
    editor = [
        *lines({"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}}),
        *(*lines({"method": "initialized", "params": {}}), *attack),
    ]
    tried = inside(
        {
            "rpc": ([*CLI, "rpc"], "\n".join(attack)),
            "mcp": ([sys.executable, "-c", PATIENT, "2", *CLI, "mcp"], "\n".join([*tool, ""])),
            "lsp": (
                [sys.executable, "-c", PATIENT, "3", *CLI, "serve"],
                "".join(f"Content-Length: {len(text)}\r\n\r\n{text}" for text in editor),
            ),
        }
    )
    for name, (_, text) in tried.items():
        assert REFUSED in text, (name, text)
        assert text.count("permission_denied") == (2 if name != "mcp" else 1)
    assert project.call("workspace/trust", workspace=str(project.top)).trusted


@contextlib.contextmanager
def serving(folder: Path, *namespace: str) -> Iterator[None]:
    """Serve at the socket ``s`` in ``folder``."""
    argv = [*namespace, *CLI, "rpc", "--socket", "s"]
    with subprocess.Popen(argv, cwd=folder, stderr=subprocess.PIPE) as server:
        try:
            assert server.stderr is not None
            server.stderr.readline()
            yield
        finally:
            (server.kill if namespace else server.terminate)()  # unshare ignores SIGTERM


def client(folder: Path, workspace: Path, then: str = "") -> list[str]:
    """Return a client of ``serving`` that revokes the trust of a workspace and prints the answer."""
    params = {"workspace": str(workspace), "trusted": False}
    request = {"jsonrpc": "2.0", "id": 1, "method": "understudy/workspace/trust", "params": params}
    steps = (
        f"import os, socket; os.chdir({str(folder)!r}); connection = socket.socket(socket.AF_UNIX)",
        "connection.connect('s')",
        then,
        f"connection.sendall({json.dumps(request).encode()!r})",
        "connection.shutdown(1)",
        "print(connection.recv(9999).decode())",
    )
    return [sys.executable, "-c", "\n".join(steps)]


def test_a_server_outside_refuses_a_client_inside(project: Any, inside: Any, tmp_path: Path) -> None:
    itself = client(tmp_path, project.top)
    handed_over = client(tmp_path, project.top, "if os.fork(): os._exit(0)")
    with serving(tmp_path):
        tried = inside({"itself": (["env", "-i", *itself], ""), "its child": (["env", "-i", *handed_over], "")})
        outside = subprocess.run(itself, capture_output=True, text=True, check=False)
    for name, (_, text) in tried.items():
        assert "permission_denied" in text, (name, text)
        assert "the process that asks belongs to" in text
    assert '"trusted":false' in outside.stdout, outside


def test_what_an_editor_inside_of_a_run_shows_decides_nothing(project: Any, inside: Any, finished: str) -> None:
    file = project.top / "calc.py"
    before, after = file.read_text(), "x = 1\n"
    window = Window(project.top)
    window.show("calc.py")
    project.caller = window
    project.id = finished
    decide(project, "calc.py")
    assert window.text("calc.py") == after
    accepts = AcceptedDocuments()

    def report(event: Literal["change", "save", "close"]) -> None:
        state = accepts.state_after(file, event, window.documents)
        assert state is not None
        reconcile(state, by="lsp")

    project.write("calc.py", after)
    report("save")
    window.texts.clear()
    report("close")  # any editor may report now what happens to the document

    def messages(*texts: dict[str, Any]) -> str:
        bodies = [json.dumps({"jsonrpc": "2.0", **text}) for text in texts]
        return "".join(f"Content-Length: {len(body)}\r\n\r\n{body}" for body in bodies)

    uri = file.as_uri()
    item = {"uri": uri, "languageId": "python", "version": 1, "text": after}
    changed = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": before}]}
    attack = messages(
        {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
        {"method": "initialized", "params": {}},
        {"method": "textDocument/didOpen", "params": {"textDocument": item}},
        {"method": "textDocument/didChange", "params": changed},
        {"id": 2, "method": "shutdown"},
        {"method": "exit"},
    )
    assert inside({"lsp": ([*CLI, "serve"], attack)})["lsp"][0] == 0
    decided = [event for event in project.call("delegations/events", id=finished).events if isinstance(event, Decided)]
    assert [event.decision for event in decided] == ["accept"]
    window.show("calc.py", before)
    report("change")
    assert states(project, "calc.py") == ["pending"], "outside, the same decides"


def test_a_server_refuses_a_client_that_it_cannot_see(project: Any, tmp_path: Path) -> None:
    namespace = ["unshare", "-pf", "--kill-child", "--mount-proc"]
    if shutil.which("unshare") is None or subprocess.run([*namespace, "true"], check=False).returncode:
        pytest.skip("no namespaces here")
    with serving(tmp_path, *namespace):
        outside = subprocess.run(client(tmp_path, project.top), capture_output=True, text=True, check=False)
    assert "belongs to a run of Understudy, is in a container, or has already ended." in outside.stdout, outside
    assert "must run outside containers until it has the answer" in outside.stdout
    assert project.call("workspace/trust", workspace=str(project.top)).trusted


class Relay(TerminalCaller):
    """A caller that starts on behalf of a run, as the relay tools do."""

    def __init__(self, top: Path, parent: str) -> None:
        super().__init__(top)
        self._parent = parent

    def asked_by(self) -> AskedBy:
        return msgspec.structs.replace(super().asked_by(), parent=self._parent)


def test_a_run_cancels_only_what_it_delegated(project: Any, finished: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def delegated(by: str, **params: Any) -> str:
        project.caller = Relay(project.top, by)
        try:
            return str(project.run("implement", "calc.py", task="x", delegator="worker", **params).id)
        finally:
            project.caller = TerminalCaller(project.top)

    child = delegated(finished)
    group = project.call("groups/create", kind="batch").id
    below = delegated(child, groupId=group)
    with monkeypatch.context() as inside_run:
        inside_run.setenv("UNDERSTUDY_DELEGATION", finished)
        for identifier in (child, below):
            assert project.call("delegations/cancel", id=identifier).id == identifier
        project.call("groups/cancel", id=group)
        inside_run.setenv("UNDERSTUDY_DELEGATION", child)
        for identifier in (finished, child):
            with pytest.raises(UnderstudyError, match="is for the user") as refused:
                project.call("delegations/cancel", id=identifier)
            assert refused.value.kind is ErrorKind.PERMISSION_DENIED
        inside_run.setenv("UNDERSTUDY_DELEGATION", below)
        with pytest.raises(UnderstudyError, match="is for the user"):
            project.call("groups/cancel", id=group)
    project.call("groups/cancel", id=group)


def test_what_an_editor_inside_a_run_says_was_saved_is_not_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("agent\n")
    with monkeypatch.context() as inside_run:
        inside_run.setenv("UNDERSTUDY_DELEGATION", "x")
        accepted_documents.file_saved(file)
    assert not editor_saves.is_known(file, editor_saves.read())
    accepted_documents.file_saved(file)
    assert editor_saves.is_known(file, editor_saves.read())
