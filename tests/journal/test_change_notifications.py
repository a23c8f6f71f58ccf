"""Waking others, and the wishes that faces leave for a worker."""

from __future__ import annotations

import os
import socket
import stat
import time

import pytest

from understudy.journal import bell, control
from understudy.model.delegations import PermissionOption, PermissionRequest
from understudy.model.errors import ErrorKind, UnderstudyError


def test_a_ring_wakes_every_other_process(make, second) -> None:
    folder, _ = make()
    listeners = [
        second(
            folder,
            """
with bell.Bell() as ear:
    say('listening')
    say(*ear.wait(20))
    say('still', *ear.wait(0))
""",
        )
        for _ in range(2)
    ]
    assert [one.line() for one in listeners] == ["listening"] * 2
    bell.ring("something")
    assert [one.line() for one in listeners] == ["something"] * 2
    assert [one.line() for one in listeners] == ["still"] * 2
    assert [one.wait() for one in listeners] == [0, 0]
    assert os.listdir(bell.folder()) == []


def test_who_wants_some_names_only_is_left_alone_for_others() -> None:
    with bell.Bell(only=("mine", "also mine")) as choosy, bell.Bell() as everything:
        for name in ("another", "mine", "also mine"):
            bell.ring(name)
        assert choosy.drain() == {"mine", "also mine"}
        assert everything.drain() == {"another", "mine", "also mine"}
    assert os.listdir(bell.folder()) == []


def test_a_wish_rings_for_the_worker(make) -> None:
    folder, _ = make()
    with bell.Bell(only=(control.bell_of(folder.id),)) as worker, bell.Bell() as everybody:
        control.append_control(folder, control.Cancel(by="cli"))
        bell.ring(folder.id)
        assert worker.drain() == {control.bell_of(folder.id)}
        assert folder.id in everybody.drain()


def test_the_folder_is_private_and_found_by_everybody(own_home) -> None:
    with bell.Bell() as ear:
        place = bell.folder()
        assert place == own_home / "run" / "understudy" / "bell"
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert not ear.deaf
        assert not os.get_inheritable(ear.fileno())


@pytest.mark.parametrize("runtime", [None, "", "relative", "/nonexistent/run", "/"])
def test_without_a_usable_runtime_folder_the_temporary_one_serves(runtime, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if runtime is None:
        monkeypatch.delenv("XDG_RUNTIME_DIR")
    elif runtime == "/":
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(0o777)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "open"))
    else:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    with bell.Bell() as ear:
        assert bell.folder() == tmp_path / f"understudy-{os.geteuid()}" / "bell"
        bell._known.clear()
        bell.ring("x")
        assert ear.wait(5) == {"x"}
    bell._known.clear()


def test_a_planted_link_makes_the_bell_deaf_not_dangerous(tmp_path, own_home) -> None:
    (tmp_path / "trap").mkdir(mode=0o700)
    (own_home / "run" / "understudy").symlink_to(tmp_path / "trap")
    with bell.Bell() as ear:
        assert ear.deaf
        bell.ring("x")
        begin = time.monotonic()
        assert ear.wait(0.05) == set()
        assert time.monotonic() - begin >= 0.04
    assert os.listdir(tmp_path / "trap") == []


def test_long_paths_work(tmp_path, monkeypatch) -> None:
    deep = tmp_path
    while len(str(deep)) < 180:
        deep = deep / "a-rather-long-name"
    deep.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    with bell.Bell() as ear:
        assert not ear.deaf
        bell.ring("x")
        assert ear.wait(5) == {"x"}
    assert os.listdir(bell.folder()) == []


def test_sockets_of_the_dead_are_removed_and_other_files_are_not(make, second) -> None:
    folder, _ = make()
    dead = second(folder, "ear = bell.Bell(); say('bound'); time.sleep(60)")
    assert dead.line() == "bound"
    (bell.folder() / "a-file").write_text("kept")
    (stream := socket.socket(socket.AF_UNIX)).bind(str(bell.folder() / "s"))
    assert len(os.listdir(bell.folder())) == 3
    dead.kill()
    bell.ring("x")
    assert "a-file" in os.listdir(bell.folder())
    assert not any(name.startswith(f"{dead.pid}-") for name in os.listdir(bell.folder()))
    stream.close()


def test_a_full_queue_neither_blocks_nor_goes_unnoticed(make, second) -> None:
    folder, _ = make()
    with bell.Bell() as ear:
        ringer = second(
            folder,
            "begin = time.perf_counter()\nfor n in range(2000): bell.ring(f'name {n}')\nsay(time.perf_counter() - begin)",
        )
        assert float(ringer.line()) < 5
        assert ringer.wait() == 0
        names = ear.drain()
        assert bell.EVERYTHING in names
        assert ear.drain() == set()
        bell.ring("after")
        assert ear.wait(1) == {"after"}


def test_ringing_never_raises(monkeypatch) -> None:
    bell.ring("nobody listens")
    bell.ring("\ud800\0" * 4000)
    with bell.Bell() as ear:
        bell.ring("n" * 4000)
        assert ear.wait(5) == {"n" * 255}
        monkeypatch.setattr(bell.os, "listdir", lambda _: ["../x", "\0", "a" * 300])
        bell.ring("x")


def test_a_lost_bell_costs_a_second(tmp_path, monkeypatch) -> None:
    state = {"asked": 0}

    def come_true() -> bool:
        state["asked"] += 1
        return state["asked"] == 3

    monkeypatch.setattr(bell, "POLL_SECONDS", 0.05)
    with bell.Bell() as ear:
        assert bell.wait_for(come_true, ear, 10)
        assert not bell.wait_for(lambda: False, ear, 0.02)


def test_a_forked_child_leaves_its_parents_socket_alone() -> None:
    with bell.Bell() as ear:
        child = os.fork()
        if child == 0:
            ear.close()
            os._exit(0)
        os.waitpid(child, 0)
        bell.ring("x")
        assert ear.wait(5) == {"x"}


def test_a_ring_costs_microseconds(make, second) -> None:
    folder, _ = make()
    listener = second(
        folder, "with bell.Bell() as ear:\n    say('listening')\n    while 'end' not in ear.wait(20): pass"
    )
    assert listener.line() == "listening"
    times = []
    for _ in range(300):
        begin = time.perf_counter()
        bell.ring("x")
        times.append(time.perf_counter() - begin)
    while listener.process.poll() is None:
        bell.ring("end")
    times.sort()
    print(f"\nring: p50 {times[150] * 1e6:.0f} µs, p95 {times[285] * 1e6:.0f} µs")
    assert times[150] < 0.001


REQUEST = PermissionRequest(
    request_id="r1",
    attempt=1,
    title="May I?",
    detail="rm",
    options=[
        PermissionOption(id="yes", title="Yes", kind="allow_once"),
        PermissionOption(id="no", title="No", kind="reject_once"),
    ],
    on_deadline="no",
)


def test_wishes_arrive_in_order_and_ring(make, second) -> None:
    folder, _ = make()
    worker = second(
        folder,
        """
tail = control.ControlTail(folder()); got = []
with bell.Bell() as ear:
    say('listening')
    def enough():
        got.extend(tail.read()); return len(got) >= 2
    bell.wait_for(enough, ear, 20)
say(*[type(i).__name__ for i in got], got[0].option, got[0].note, got[1].by)
""",
    )
    assert worker.line() == "listening"
    control.append_answer(folder, control.Answer(request_id="r1", option="yes", note="once", by="lsp"), REQUEST)
    control.append_control(folder, control.Cancel(by="cli"))
    assert worker.line() == "Answer Cancel yes once cli"
    assert stat.S_IMODE(folder.control.stat().st_mode) == 0o600
    assert control.first_cancel(control.read_control(folder)).at.endswith("Z")


def test_the_first_valid_answer_wins_whoever_races(make, second) -> None:
    folder, _ = make()
    control.append_control(folder, control.Answer(request_id="r1", option="maybe", by="old"))
    control.append_control(folder, control.Answer(request_id="r0", option="yes", by="old"))
    code = """
import msgspec
from understudy.model.delegations import PermissionRequest
request = msgspec.json.decode(sys.stdin.readline(), type=PermissionRequest)
try:
    control.append_answer(folder(), control.Answer(request_id='r1', option='yes', by=str(os.getpid())), request)
    say('won')
except UnderstudyError as e: say(e.kind)
"""
    import msgspec

    racers = [second(folder, code) for _ in range(4)]
    for racer in racers:
        racer.process.stdin.write(msgspec.json.encode(REQUEST).decode() + "\n")
        racer.process.stdin.flush()
    answers = [racer.line() for racer in racers]
    assert sorted(answers) == ["conflict", "conflict", "conflict", "won"]
    winner = racers[answers.index("won")].pid
    assert control.first_answer(control.read_control(folder), REQUEST).by == str(winner)
    with pytest.raises(UnderstudyError) as caught:
        control.append_answer(folder, control.Answer(request_id="r1", option="maybe", by="x"), REQUEST)
    assert caught.value.kind is ErrorKind.INVALID_PARAMS
    assert caught.value.names == ["yes", "no"]


def test_many_writers_and_killed_ones_tear_nothing_apart(make, second) -> None:
    folder, _ = make()
    code = """
say('go')
n = 0
while True:
    control.append_control(folder(), control.Cancel(by='x' * (n % 3000))); n += 1
"""
    for round_ in range(6):
        writers = [second(folder, code) for _ in range(2)]
        for writer in writers:
            assert writer.line() == "go"
        deadline = time.monotonic() + 0.02 + round_ * 0.005
        while time.monotonic() < deadline:
            control.append_control(folder, control.Cancel(by="me"))
        for writer in writers:
            writer.kill()
        with folder.control.open("ab") as file:
            file.write(b'{"type":"can')
    control.append_control(folder, control.Cancel(by="last"))
    items = control.read_control(folder)
    assert len(items) == folder.control.read_bytes().count(b"\n")
    assert items[-1].by == "last"


def test_nonsense_in_the_control_file_is_passed_over(make) -> None:
    folder, _ = make()
    folder.control.write_bytes(
        b"\xff\n{}\n[[[\n" + b"x" * 100_000 + b'\n{"type":"explode"}\n{"type":"cancel","by":"a","new":1}\n'
    )
    assert [item.by for item in control.read_control(folder)] == ["a"]
    with pytest.raises(UnderstudyError) as caught:
        control.append_control(folder, control.Answer(request_id="r", option="o", by="b", note="n" * 70_000))
    assert caught.value.kind is ErrorKind.INVALID_PARAMS
    with pytest.raises(UnderstudyError):
        control.append_control(folder, control.Cancel(by="\ud800"))
