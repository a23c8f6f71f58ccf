"""Test the limits that all processes of a program have together."""

from __future__ import annotations

import sys
import time

import pytest

from understudy.model.confinement import Confinement
from understudy.process.environment import base_environment
from understudy.process.programs.children import TreeLimits, run

LEVELS = pytest.mark.parametrize("confinement", [Confinement.NAMESPACE, Confinement.NONE])
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits need /proc")

EACH_ITS_OWN = """
import os, time
print("begun", flush=True)
for _ in range(4):
    if os.fork() == 0:
        held = b"x" * (60 << 20)
        time.sleep(600)
time.sleep(600)
"""
ALL_THE_SAME = """
import os, time
held = b"x" * (80 << 20)
for _ in range(5):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
print("done")
"""
MANY = """
import os, time
for _ in range(60):
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
time.sleep(600)
"""


async def limited(code, folder, confinement, **limits):
    argv = [sys.executable, "-I", "-c", code]
    env = base_environment()
    began = time.monotonic()
    done = await run(
        argv,
        cwd=folder,
        env=env,
        mark="m",
        timeout_seconds=60,
        confinement=confinement,
        tree_limits=TreeLimits(**limits),
    )
    return done, time.monotonic() - began


@LEVELS
async def test_memory_is_counted_over_all_processes(tmp_path, confinement):
    done, seconds = await limited(EACH_ITS_OWN, tmp_path, confinement, memory_bytes=150 << 20)
    assert done.exceeded == "memory"
    assert done.stdout == b"begun\n", "what it printed is kept"
    assert not done.timed_out
    assert seconds < 50


@LEVELS
async def test_pages_that_processes_share_are_counted_once(tmp_path, confinement):
    done, _ = await limited(ALL_THE_SAME, tmp_path, confinement, memory_bytes=250 << 20)
    assert (done.exceeded, done.code) == ("", 0)
    assert b"done\n" in done.stdout


@LEVELS
async def test_the_number_of_processes_is_limited(tmp_path, confinement):
    done, _ = await limited(MANY, tmp_path, confinement, processes=40)
    assert done.exceeded == "processes"
    done, _ = await limited("print(1)", tmp_path, confinement, processes=40, memory_bytes=1 << 30)
    assert (done.exceeded, done.code, done.stdout) == ("", 0, b"1\n")
