"""Test the limits of a program and all that it starts."""

from __future__ import annotations

import errno
import shutil
import sys

import pytest
from programs import program

from understudy.model.confinement import Confinement
from understudy.model.errors import ErrorKind
from understudy.process.program_spec import TreeLimits
from understudy.process.programs.children import run

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


FORKS = """
import os, time
for _ in range(9):  # 512 processes, should nothing end them
    os.fork()
time.sleep(600)
"""
UNTIL_REFUSED = """
import sys
try:
    with open("file", "wb") as file:
        while True:
            file.write(b"x" * (1 << 20))
except OSError as error:
    print(error.errno)
"""
LARGE = {
    "itself": ["truncate", "-s", "1G", "file"],
    "its child": ["sh", "-c", "yes > file; exit"],
    "python": [sys.executable, "-I", "-c", "open('file', 'wb').truncate(1 << 30)"],
    "below python": [sys.executable, "-I", "-c", "import os; os.execvp('sh', ['sh', '-c', 'yes > file'])"],
}
HONEST = {
    "python": [sys.executable, "-c", "import asyncio, ssl; print('well')"],
    "node": ["node", "-e", "new WebAssembly.Memory({initial: 1, maximum: 65536}); console.log('well')"],
    "java": ["java", "-XshowSettings:none", "-version"],
    "go": ["go", "version"],
}


async def limited(code, folder, confinement, **limits):
    argv = [sys.executable, "-I", "-c", code]
    limited_program = program(argv, folder, confinement=confinement, limits=TreeLimits(**limits))
    return await run(limited_program, timeout_seconds=60)


@LEVELS
async def test_memory_is_counted_over_all_processes(tmp_path, confinement):
    done = await limited(EACH_ITS_OWN, tmp_path, confinement, memory_bytes=150 << 20)
    assert done.limit_error.kind is ErrorKind.RESOURCE_LIMIT
    assert "more than 150 MiB of memory" in done.limit_error.message
    assert "`max_memory_bytes` under [programs]" in done.limit_error.hint
    assert done.stdout == b"begun\n", "what it printed is kept"
    assert not done.timed_out


@LEVELS
async def test_pages_that_processes_share_are_counted_once(tmp_path, confinement):
    done = await limited(ALL_THE_SAME, tmp_path, confinement, memory_bytes=250 << 20)
    assert (done.limit_error, done.code) == (None, 0)
    assert b"done\n" in done.stdout


@LEVELS
async def test_the_number_of_processes_is_limited(tmp_path, confinement):
    done = await limited(MANY, tmp_path, confinement, processes=40)
    assert "more than 40 processes" in done.limit_error.message
    assert "`max_processes`" in done.limit_error.hint
    done = await limited("print(1)", tmp_path, confinement, processes=40, memory_bytes=1 << 30)
    assert (done.limit_error, done.code, done.stdout) == (None, 0, b"1\n")


@LEVELS
async def test_a_program_that_forks_and_forks_is_ended(tmp_path, tagged, confinement):
    argv = [sys.executable, "-I", "-c", FORKS, tagged.tag]
    forks = program(argv, tmp_path, confinement=confinement, limits=TreeLimits(processes=60))
    done = await run(forks, timeout_seconds=60)
    assert "more than 60 processes" in done.limit_error.message
    assert tagged.gone() == []


@LEVELS
async def test_no_file_is_larger_than_the_limit(tmp_path, confinement):
    done = await limited(UNTIL_REFUSED, tmp_path, confinement, file_bytes=3 << 20)
    assert (done.code, done.stdout, done.limit_error) == (0, b"%d\n" % errno.EFBIG, None), "it may handle the error"
    assert (tmp_path / "file").stat().st_size == 3 << 20


@LEVELS
@pytest.mark.parametrize("way", LARGE)
async def test_a_program_that_fails_because_of_a_large_file_is_reported(tmp_path, confinement, way):
    large = program(LARGE[way], tmp_path, confinement=confinement, limits=TreeLimits(file_bytes=3 << 20))
    done = await run(large, timeout_seconds=60)
    assert "a file of more than 3 MiB" in done.limit_error.message
    assert "`max_file_bytes`" in done.limit_error.hint
    assert (tmp_path / "file").stat().st_size <= 3 << 20


@pytest.mark.parametrize("name", HONEST)
async def test_honest_programs_do_not_meet_the_limits_that_all_have(tmp_path, name):
    if shutil.which(HONEST[name][0]) is None:
        pytest.skip(f"{name} is not installed")
    honest = program(HONEST[name], tmp_path)
    assert min(honest.limits.memory_bytes, honest.limits.processes, honest.limits.file_bytes) > 0
    done = await run(honest, timeout_seconds=60)
    assert (done.code, done.limit_error) == (0, None), done.stderr


@pytest.mark.parametrize("words", ["Error: upload: File too large", "ValueError: File too large", "errno 27"])
async def test_a_test_about_large_files_is_not_taken_for_the_limit(tmp_path, words):
    done = await run(program(["sh", "-c", f"echo '{words}' >&2; exit 1"], tmp_path), timeout_seconds=60)
    assert (done.code, done.limit_error) == (1, None)
