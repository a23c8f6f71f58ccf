"""Children with a terminal, and panes that show them: sizes, bounds, and ends on both sides."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from programs import program
from tmux_server import TMUX, tmux_server
from wait_until import until

from understudy.model.capabilities import Pane
from understudy.model.confinement import Confinement
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process import identity
from understudy.process.pipes import socket_folder
from understudy.process.programs.children import Child, start
from understudy.process.terminals import tmux
from understudy.process.terminals.pane_link import PaneSocket, Size

LEVELS = pytest.mark.parametrize("confinement", [Confinement.NAMESPACE, Confinement.NONE])
needs_tmux = pytest.mark.skipif(not TMUX, reason="tmux is not installed")


async def begin(code: str, tmp_path: Path, confinement: Confinement = Confinement.NAMESPACE) -> Child:
    argv = [sys.executable, "-I", "-c", code]
    return await start(program(argv, tmp_path, terminal=(30, 100), confinement=confinement))


async def until_shown(child: Child, text: bytes) -> bytes:
    shown = b""
    async with asyncio.timeout(60):
        while text not in shown:
            data = await child.read_stdout()
            assert data, shown
            shown += data
    return shown


# Neither signal can be missed: the first one waits, and the second one needs no handler of Python, which a signal just
# before the program waits would not wake.
RESIZED = """
import os, signal, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
print("began", tuple(os.get_terminal_size()), os.tcgetpgrp(os.open("/dev/tty", os.O_RDWR)) == os.getpgrp(), flush=True)
signal.sigwait({signal.SIGWINCH})
print("now", tuple(os.get_terminal_size()), flush=True)
time.sleep(600)
"""


@LEVELS
async def test_a_terminal_is_the_controlling_one_and_changes_its_size(tmp_path, confinement):
    async with await begin(RESIZED, tmp_path, confinement) as child:
        assert child.terminal is not None
        await until_shown(child, b"began (100, 30) True")
        child.terminal.resize(40, 120)
        await until_shown(child, b"now (120, 40)")
        await child.terminal.write(b"\x03")  # as the terminal has it: an interrupt
        async with asyncio.timeout(60):
            assert (await child.wait()).signal == signal.SIGINT


@LEVELS
async def test_a_program_that_ignores_the_hang_up_ends_with_its_terminal(tmp_path, confinement):
    code = (
        "import signal, time; signal.signal(signal.SIGHUP, signal.SIG_IGN); print('began', flush=True); time.sleep(600)"
    )
    child = await begin(code, tmp_path, confinement)
    await until_shown(child, b"began")
    child.close()
    async with asyncio.timeout(60):
        await asyncio.shield(child._guard.exited)


async def test_output_waits_for_its_reader_and_input_for_the_program(tmp_path):
    async with await begin("print('x' * 600_000); print('end', flush=True); input()", tmp_path) as child:
        shown = await until_shown(child, b"end")
        assert shown.count(b"x") == 600_000
        assert child.terminal is not None
        writing = asyncio.create_task(child.terminal.write(b"y" * 1_000_000))
        await asyncio.sleep(0)
        await child.end(0)
        await asyncio.wait([writing], timeout=60)
        assert writing.done(), "a program that no longer reads does not keep the writer"
        writing.exception()


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="understudy-test-", dir="/tmp") as name:
        yield Path(name)


@needs_tmux
async def test_a_pane_shows_and_sends_in_order_and_without_loss(folder):
    with tmux_server() as server:
        async with PaneSocket(folder) as waiting:
            opened = await asyncio.to_thread(
                tmux.open_beside, TMUX, server.pane, waiting.argv(), cwd=folder, mark="m", title="one"
            )
            link = await waiting.connected(60)
        assert opened.pane.id in server.panes()
        assert server("display-message", "-p", "-t", opened.pane.id, "#{pane_title}") == "one"
        heard = link.heard()
        lines = b"".join(b"%d\r\n" % number for number in range(20_000))
        await link.show(lines)
        await asyncio.to_thread(server.shows, opened.pane.id, "19999")
        server("send-keys", "-t", opened.pane.id, "-l", "abc")
        typed = b""
        async with asyncio.timeout(60):
            while typed != b"abc":
                typed += await anext(heard)
            before = link.size
            server("resize-pane", "-t", opened.pane.id, "-x", "70")
            sizes = [await anext(heard)]
        assert sizes == [Size(rows=before.rows, columns=70)]
        await link.close(60)
        assert opened.pane.id not in server.panes()
        await heard.aclose()


@needs_tmux
async def test_a_window_without_room_gets_a_neighbour(folder):
    with tmux_server() as server:
        server("resize-window", "-t", server.first, "-x", "2", "-y", "2")
        argv = ["sleep", "600"]
        opened = await asyncio.to_thread(tmux.open_beside, TMUX, server.pane, argv, cwd=folder, mark="m", title="one")
        assert server.panes() == [server.first]
        assert opened.pane.id in server("list-panes", "-s", "-F", "#{pane_id}").splitlines()


@needs_tmux
async def test_what_tmux_says_is_in_the_error(folder):
    with pytest.raises(UnderstudyError) as wrong:
        tmux.open_beside(TMUX, Pane(socket=str(folder / "none"), id="%1"), ["true"], cwd=folder, mark="m", title="x")
    assert wrong.value.kind is ErrorKind.TOOL_CRASHED
    assert "could not open a pane: " in wrong.value.message


async def test_a_pane_that_does_not_come_is_an_error(folder):
    async with PaneSocket(folder) as waiting:
        with pytest.raises(UnderstudyError) as wrong:
            await waiting.connected(0.05)
    assert wrong.value.kind is ErrorKind.TOOL_CRASHED
    assert list(folder.iterdir()) == []


async def test_what_is_not_the_program_of_a_pane_is_not_taken_for_it(folder):
    async with PaneSocket(folder) as waiting:
        other = b'{"pid": 1, "term": "x", "rows": 1, "columns": 1}\n'  # a process that it is not
        for said in (b"hello\n", b"{}\n", b"x" * 200_000 + b"\n", other):
            reader, writer = await asyncio.open_unix_connection(waiting.argv()[-1])
            writer.write(said)
            async with asyncio.timeout(60):
                with suppress(ConnectionError):
                    assert await reader.read() == b""
            writer.close()
        reader, writer = await asyncio.open_unix_connection(waiting.argv()[-1])
        writer.write(b'{"pid": %d, "term": "x\\u001b[", "rows": 0, "columns": 99999}\n' % os.getpid())
        link = await waiting.connected(60)
        assert (link.term, link.size) == ("screen", Size(rows=2, columns=2000))
        writer.write(b"I\xff\xff\xff\xff")  # a frame beyond all bounds
        assert [heard async for heard in link.heard()] == []
        writer.close()
        link.drop()


@pytest.mark.parametrize(
    ("variable", "pane", "found"),
    [
        ("/tmp/tmux-1/default,12,0", "%3", Pane(socket="/tmp/tmux-1/default", id="%3")),
        ("/tmp/a,b,12,0", "%3", Pane(socket="/tmp/a,b", id="%3")),
        (None, "%3", None),
        ("/tmp/tmux-1/default,12,0", None, None),
        ("relative,12,0", "%3", None),
        ("/tmp/tmux-1/default,12,0", "%3; kill-server", None),
    ],
)
def test_the_pane_of_the_caller_comes_from_its_variables(variable, pane, found):
    assert tmux.pane_of(variable, pane) == found


def test_sockets_of_a_deep_folder_are_elsewhere(tmp_path):
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    made = socket_folder(deep / "terminal")
    assert len(str(made)) < 80
    assert made.stat().st_mode & 0o077 == 0
    made.rmdir()


@needs_tmux
def test_the_name_of_a_folder_is_not_a_format_of_tmux(folder):
    odd = folder / "a #(touch ran) #{pid};"
    odd.mkdir()
    code = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(os.getcwd()); input()"
    told = folder / "told"
    opened = tmux.open_detached(
        TMUX, folder / "s.sock", [sys.executable, "-I", "-c", code, str(told)], cwd=odd, mark="m", title="t"
    )
    try:
        until(lambda: told.exists() and told.read_text(), "the program runs")
        assert told.read_text() == str(odd)
        assert sorted(path.name for path in folder.iterdir()) == sorted([odd.name, "s.sock", "told"])
        assert not Path("/ran").exists()
    finally:
        tmux.end_server(TMUX, opened)
    assert not identity.alive(opened.own_server), "tmux reports the end of its server before that has ended"
