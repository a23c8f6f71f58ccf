"""Test that code under test, called with invented arguments, does no harm: found statically, refused, and confined."""

import ast
import asyncio
import os
import socket
import sys
import textwrap

import pytest

from understudy.ghostwriter.confined_runs import ConfinedRuns
from understudy.ghostwriter.inside.audit import Effects
from understudy.process.programs.children import run

DANGEROUS = """
import os
import signal
import subprocess
import tempfile
import sqlite3
from os import remove as rm
from pathlib import Path
from shutil import rmtree


def a(path): rm(path)
def b(path): rmtree(path)
def c(pid): os.kill(pid, 9)
def d(name): return open(name).read()
def e(name): Path(name).write_text("x")
def f(name): sqlite3.connect(name)
def g(command): return subprocess.run(command)
def h(name): return i(name)
def i(name): return a(name)
def j(code): exec(code)
def k(name):
    import socket
    return socket.create_connection((name, 80))
def l(number): signal.raise_signal(number)
def m(): os._exit(0)

def fine(path): return os.path.join(path, os.sep)
def fine_too(text): return text.replace("a", "b")
"""


def test_functions_that_act_on_the_outside_are_found_in_the_source():
    effects = Effects(ast.parse(DANGEROUS))
    found = {name for name in effects.definitions if effects.reason(name)}
    assert found == set("abcdefghijklm")
    assert "through a" in effects.reason("h")
    assert {"os", "signal", "subprocess", "sqlite3", "shutil", "socket", "tempfile"} == set(effects.outside_imports())


@pytest.fixture
def confinement(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tmp_path / "top").mkdir()
    found = ConfinedRuns(tmp_path / "top", sys.executable, tree)
    found.import_path = [str(tree)]
    return found


def search(confinement, source, seconds=4.0, **more):
    path = confinement.root / "subject.py"
    path.write_text(textwrap.dedent(source))
    request = {
        "module": "subject",
        "file": str(path),
        "root": str(confinement.root),
        "documented": [],
        "provided": [],
        "calls": [],
        "mutants": [],
        "hypothesis": False,
        "confined": True,
        "seconds": seconds,
        "jobs": 2,
        **more,
    }
    return list(confinement.ask("search", request, seconds=seconds + 20))


def every_return(source):
    """One mutant for each ``return``: it returns None."""
    encoded = []
    for function in ast.parse(source).body:
        for node in ast.walk(function):
            if isinstance(node, ast.Return):
                start = sum(len(line) + 1 for line in source.split("\n")[: node.lineno - 1]) + node.col_offset
                end = start + len(ast.get_source_segment(source, node))
                encoded.append([start, end, "cmV0dXJuIE5vbmU=", function.name, node.lineno, node.lineno])
    return encoded


HIDDEN = """
import importlib


def swallows(name: str) -> str:
    try:
        getattr(__import__("o" + "s"), "mkdir")(name or "made")
    except BaseException:
        pass
    return name + "!"


def writes(name: str) -> str:
    getattr(__import__("i" + "o"), "open")("{outside}", "w")
    return name


def ends(name: str) -> str:
    getattr(__import__("o" + "s"), "_ex" + "it")(0)
    return name


def hangs(name: str) -> str:
    while name:
        pass
    return name + "?"


def fine(name: str) -> str:
    return name + "."
"""


def test_what_the_source_hides_is_refused_when_it_is_called(confinement, tmp_path):
    source = HIDDEN.replace("{outside}", str(tmp_path / "outside")).replace('__import__("o" + "s")', "module('os')")
    source = source.replace('__import__("i" + "o")', "module('io')").replace("import importlib", "import sys")
    source += "\n\ndef module(name):\n    return sys.modules[name]\n"
    source = source.replace("sys.modules", 'getattr(sys, "mod" + "ules")')
    answers = search(confinement, source, mutants=every_return(source))
    examples = {one["unit"] for one in answers if one["type"] == "example"}
    left_out = {one["unit"]: one["why"] for one in answers if one["type"] == "left_out"}
    assert "fine" in examples
    assert not examples & {"swallows", "writes", "ends"}
    assert {"swallows", "writes", "ends"} <= set(left_out), answers
    assert not (tmp_path / "outside").exists()
    assert list(confinement.scratch.iterdir()) == []
    assert {path.name for path in confinement.root.iterdir()} == {"subject.py"}


def test_without_namespaces_a_module_that_imports_os_is_left_alone(confinement):
    answers = search(confinement, "import os\n\n\ndef f(x: int) -> int:\n    return x\n", confined=False)
    assert [one["type"] for one in answers] == ["unconfined"]
    assert answers[0]["imports"] == ["os"]


CONFINED = """
import ctypes, os, socket, sys
from pathlib import Path
def tried(action):
    try:
        return action() and "done"
    except OSError as error:
        return type(error).__name__
print(tried(lambda: Path(sys.argv[1]).write_text("x")))
print(tried(lambda: Path("inside").write_text("x")))
print(tried(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 2)))
print(tried(lambda: os.kill(int(sys.argv[3]), 0) or True))
libc = ctypes.CDLL(None)
flags = ctypes.c_ulong(0x20)  # MS_REMOUNT, which would make it writable again
print(libc.mount(None, b"/", None, flags, None))
"""


def test_namespaces_hide_files_network_and_processes(confinement, tmp_path):
    if not confinement.namespaces:
        pytest.skip(confinement.reason)
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [
            sys.executable,
            "-c",
            CONFINED,
            str(tmp_path / "outside"),
            str(server.getsockname()[1]),
            str(os.getpid()),
        ]
        program = confinement.confined(command, confinement.environment(), b"", 30)
        done = asyncio.run(run(program, timeout_seconds=30))
    outside, inside, network, process, mount = done.stdout.decode().split("\n")[:5]
    assert outside == "OSError", done
    assert inside == "done"
    assert network in {"OSError", "ConnectionRefusedError"}
    assert process == "ProcessLookupError"
    assert mount == "-1"
    assert not (tmp_path / "outside").exists()


def test_memory_is_limited_and_nothing_survives(confinement):
    source = "def grow(count: int) -> int:\n    kept = [0] * (10**10)\n    return len(kept) + count\n"
    answers = search(confinement, source, mutants=every_return(source))
    assert [one["type"] for one in answers][-1] == "end"
    assert not [one for one in answers if one["type"] == "example"]
