"""From which process another one descends, and how a program inside a run is recognised."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from programs import program

from understudy.model.confinement import Confinement
from understudy.process import identity
from understudy.process.guardian import marked_processes
from understudy.process.programs.children import run, start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

LEVELS = pytest.mark.parametrize("confinement", [Confinement.NAMESPACE, Confinement.NONE])
LOOK = "from understudy.process.guardian import marked_processes; print(marked_processes.surrounding_run())"
FORKED = """
import os, sys
read, write = os.pipe()
parent = os.getpid()
if not os.fork():
    os.setsid()
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == middle:
        pass
    os.dup2(write, 1)
    os.execve(sys.executable, [sys.executable, "-c", sys.argv[1]], {})
os.close(write)
while part := os.read(read, 999):
    os.write(1, part)
"""
WAYS = {
    "as it is": ["{python}", "-c", LOOK],
    "without an environment": ["env", "-i", "{python}", "-c", LOOK],
    "in another session": ["env", "-i", "setsid", "-w", "{python}", "-c", LOOK],
    "as an orphan without an environment": ["{python}", "-c", FORKED, LOOK],
    "in a namespace of its own": ["unshare", "-pf", "--mount-proc", "env", "-i", "{python}", "-c", LOOK],
}


def missing(way: str) -> str:
    """Return why a way cannot be tried on this machine."""
    if "namespace" not in way:
        return ""
    program = shutil.which("unshare")
    refused = program is None or subprocess.run([program, "-pf", "--mount-proc", "true"], check=False).returncode
    return "no namespaces here" if refused else ""


@LEVELS
@pytest.mark.parametrize("way", WAYS)
async def test_a_program_inside_a_run_is_recognised(tmp_path: Path, way: str, confinement: Confinement) -> None:
    if why := missing(way):
        pytest.skip(why)
    if "namespace" in way and confinement is Confinement.NONE:
        pytest.skip("it sees neither its ancestors nor a mark: this needs a sandbox")
    argv = [part.format(python=sys.executable) if part == "{python}" else part for part in WAYS[way]]
    path = {"PATH": os.environ["PATH"]}
    done = await run(
        program(argv, tmp_path, path, mark="20261127-101500-mark", confinement=confinement), timeout_seconds=60
    )
    assert done.stdout.decode().strip() == "20261127-101500-mark", done.stderr


def test_this_process_is_outside_of_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert marked_processes.surrounding_run() is None
    assert marked_processes.surrounding_run(os.getpid()) is None
    with monkeypatch.context() as inside_run:
        inside_run.setenv("UNDERSTUDY_DELEGATION", "x")
        assert marked_processes.surrounding_run() == "x"
    monkeypatch.delattr(marked_processes, "_run_of")
    assert marked_processes.surrounding_run() is None, "each process is asked once: it cannot change its run"


@pytest.mark.parametrize("ends", ["the process", "its parent"])
def test_a_process_that_ends_while_it_is_looked_at_is_not_taken_for_one_outside(
    monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    code = "import os, sys; child = os.fork(); print(child, flush=True) if child else None; sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        asked = parent.pid if ends == "the process" else child
        looked: list[int] = []

        def end_first(pid: int) -> bool:
            if pid == parent.pid and not looked:
                looked.append(pid)
                parent.kill()
                parent.wait()
            # The process that adopts the orphan is taken for the guardian of a run.
            return bool(looked) and pid not in {parent.pid, child}

        monkeypatch.setattr(marked_processes, "_is_guardian", end_first)
        assert marked_processes.surrounding_run(asked) == ""
        assert looked == [parent.pid]


def test_an_ancestor_that_is_hidden_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    of = identity.of
    monkeypatch.setattr(identity, "of", lambda pid: None if pid == os.getppid() else of(pid))
    assert marked_processes.surrounding_run(os.getpid()) is None


WITHOUT_PROC = """
import os
from understudy.process.guardian import marked_processes
print(marked_processes.surrounding_run(), marked_processes.surrounding_run(os.getppid()), marked_processes.is_below(os.getppid(), os.getpid()))
os.environ["UNDERSTUDY_DELEGATION"] = "x"
print(marked_processes.surrounding_run())
"""


def test_without_proc_only_the_environment_tells() -> None:
    hidden = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if shutil.which("unshare") is None or subprocess.run([*hidden, "true"], check=False).returncode:
        pytest.skip("no namespaces here")
    seen = subprocess.run([*hidden, sys.executable, "-c", WITHOUT_PROC], capture_output=True, text=True, check=False)
    assert seen.stdout == "None None True\nx\n", seen.stderr


@LEVELS
async def test_a_process_outside_recognises_one_inside(tmp_path: Path, confinement: Confinement) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert identity.peer_pid(ours) == os.getpid()
    place = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(place))
        listener.listen()
        code = "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.connect('s'); s.recv(1)"
        argv = ["env", "-i", sys.executable, "-c", code]
        path = {"PATH": os.environ["PATH"]}
        async with await start(program(argv, tmp_path, path, confinement=confinement)) as child:
            connection = listener.accept()[0]
            pid = identity.peer_pid(connection)
            assert pid is not None
            assert marked_processes.surrounding_run(pid) == "m"
            assert child.program == identity.of(pid), "env became it"
            assert marked_processes.is_below(pid, os.getpid())
            assert not marked_processes.is_below(os.getpid(), pid)
            connection.close()
            await child.wait()
            assert marked_processes.surrounding_run(pid) == "", "it has ended: who has its connection now is unknown"
            assert child.program is None
            assert list(marked_processes.lineage(pid)) == []
