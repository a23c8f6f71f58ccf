"""Test change notifications, and requests to a worker."""

from __future__ import annotations

import os
import socket
import stat
import time

import pytest

from understudy.journal import change_notifications, worker_files
from understudy.model.delegation.delegations import PermissionOption, PermissionRequest
from understudy.model.errors import ErrorKind, UnderstudyError


def test_a_notification_wakes_every_other_process(make, second) -> None:
    folder, _ = make()
    listeners = [
        second(
            folder,
            """
with change_notifications.ChangeListener() as ear:
    say('listening')
    say(*ear.wait(60))
    say('still', *ear.wait(0))
""",
        )
        for _ in range(2)
    ]
    assert [one.line() for one in listeners] == ["listening"] * 2
    change_notifications.notify("something")
    assert [one.line() for one in listeners] == ["something"] * 2
    assert [one.line() for one in listeners] == ["still"] * 2
    assert [one.wait() for one in listeners] == [0, 0]
    assert os.listdir(change_notifications.folder()) == []


def test_who_wants_some_names_only_is_left_alone_for_others() -> None:
    with (
        change_notifications.ChangeListener(only=("mine", "also mine")) as choosy,
        change_notifications.ChangeListener() as everything,
    ):
        for name in ("another", "mine", "also mine"):
            change_notifications.notify(name)
        assert choosy.drain() == {"mine", "also mine"}
        assert everything.drain() == {"another", "mine", "also mine"}
    assert os.listdir(change_notifications.folder()) == []


def test_a_request_notifies_the_worker(make) -> None:
    folder, _ = make()
    with (
        change_notifications.ChangeListener(only=(worker_files.worker_topic(folder.id),)) as worker,
        change_notifications.ChangeListener() as everybody,
    ):
        worker_files.append_request(folder, worker_files.Cancel(by="cli"))
        change_notifications.notify(folder.id)
        assert worker.drain() == {worker_files.worker_topic(folder.id)}
        assert folder.id in everybody.drain()


def test_the_folder_is_private_and_found_by_everybody(own_home) -> None:
    with change_notifications.ChangeListener() as ear:
        place = change_notifications.folder()
        assert place == own_home / "run" / "understudy" / "changes"
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
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
    with change_notifications.ChangeListener() as ear:
        assert change_notifications.folder() == tmp_path / f"understudy-{os.geteuid()}" / "changes"
        change_notifications._known.clear()
        change_notifications.notify("x")
        assert ear.wait(60) == {"x"}
    change_notifications._known.clear()


def test_a_planted_link_disables_notifications_safely(tmp_path, own_home) -> None:
    (tmp_path / "trap").mkdir(mode=0o700)
    (own_home / "run" / "understudy").symlink_to(tmp_path / "trap")
    with change_notifications.ChangeListener() as ear:
        change_notifications.notify("x")
        assert ear.wait(0.05) == set()
    assert os.listdir(tmp_path / "trap") == []


def test_long_paths_work(tmp_path, monkeypatch) -> None:
    deep = tmp_path
    while len(str(deep)) < 180:
        deep = deep / "a-rather-long-name"
    deep.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    with change_notifications.ChangeListener() as ear:
        change_notifications.notify("x")
        assert ear.wait(60) == {"x"}
    assert os.listdir(change_notifications.folder()) == []


def test_sockets_of_the_dead_are_removed_and_other_files_are_not(make, second, monkeypatch) -> None:
    folder, _ = make()
    dead = second(folder, "ear = change_notifications.ChangeListener(); say('bound'); time.sleep(60)")
    assert dead.line() == "bound"
    (change_notifications.folder() / "a-file").write_text("kept")
    monkeypatch.chdir(change_notifications.folder())
    (stream := socket.socket(socket.AF_UNIX)).bind("s")  # the whole path may be too long for a socket
    assert len(os.listdir(change_notifications.folder())) == 3
    dead.kill()
    change_notifications.notify("x")
    assert "a-file" in os.listdir(change_notifications.folder())
    assert not any(name.startswith(f"{dead.pid}-") for name in os.listdir(change_notifications.folder()))
    stream.close()


def test_a_full_queue_neither_blocks_nor_goes_unnoticed(make, second) -> None:
    folder, _ = make()
    with change_notifications.ChangeListener() as ear:
        ringer = second(
            folder,
            "begin = time.perf_counter()\nfor n in range(2000): change_notifications.notify(f'name {n}')\nsay(time.perf_counter() - begin)",
        )
        assert float(ringer.line()) < 60
        assert ringer.wait() == 0
        names = ear.drain()
        assert change_notifications.EVERYTHING in names
        assert ear.drain() == set()
        change_notifications.notify("after")
        assert ear.wait(60) == {"after"}


def test_notify_never_raises(monkeypatch) -> None:
    change_notifications.notify("no listener")
    change_notifications.notify("\ud800\0" * 4000)
    with change_notifications.ChangeListener() as ear:
        change_notifications.notify("n" * 4000)
        assert ear.wait(60) == {"n" * 255}
        monkeypatch.setattr(change_notifications.os, "listdir", lambda _: ["../x", "\0", "a" * 300])
        change_notifications.notify("x")


def test_a_lost_notification_costs_a_second(tmp_path, monkeypatch) -> None:
    state = {"asked": 0}

    def come_true() -> bool:
        state["asked"] += 1
        return state["asked"] == 3

    monkeypatch.setattr(change_notifications, "POLL_SECONDS", 0.05)
    with change_notifications.ChangeListener() as ear:
        assert change_notifications.wait_for(come_true, ear, 10)
        assert not change_notifications.wait_for(lambda: False, ear, 0.02)


def test_a_forked_child_leaves_its_parents_socket_alone() -> None:
    with change_notifications.ChangeListener() as ear:
        child = os.fork()
        if child == 0:
            ear.close()
            os._exit(0)
        os.waitpid(child, 0)
        change_notifications.notify("x")
        assert ear.wait(60) == {"x"}


def test_a_notification_costs_microseconds(make, second) -> None:
    folder, _ = make()
    listener = second(
        folder,
        "with change_notifications.ChangeListener() as ear:\n    say('listening')\n    while 'end' not in ear.wait(60): pass",
    )
    assert listener.line() == "listening"
    times = []
    for _ in range(300):
        begin = time.thread_time()  # on a busy machine, other programs run meanwhile
        change_notifications.notify("x")
        times.append(time.thread_time() - begin)
    while listener.process.poll() is None:
        change_notifications.notify("end")
    times.sort()
    print(f"\nnotify: p50 {times[150] * 1e6:.0f} µs, p95 {times[285] * 1e6:.0f} µs")
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
    deadline_action="no",
)


def test_requests_arrive_in_order_and_notify(make, second) -> None:
    folder, _ = make()
    worker = second(
        folder,
        """
tail = worker_files.RequestTail(folder()); got = []
with change_notifications.ChangeListener() as ear:
    say('listening')
    def enough():
        got.extend(tail.read()); return len(got) >= 2
    change_notifications.wait_for(enough, ear, 20)
say(*[type(i).__name__ for i in got], got[0].option, got[0].note, got[1].by)
""",
    )
    assert worker.line() == "listening"
    worker_files.append_answer(
        folder, worker_files.Answer(request_id="r1", option="yes", note="once", by="lsp"), REQUEST
    )
    worker_files.append_request(folder, worker_files.Cancel(by="cli"))
    assert worker.line() == "Answer Cancel yes once cli"
    assert stat.S_IMODE(folder.control.stat().st_mode) == 0o600
    assert worker_files.read_requests(folder)[-1].at.endswith("Z")


def test_the_first_valid_answer_wins(make, second) -> None:
    folder, _ = make()
    worker_files.append_request(folder, worker_files.Answer(request_id="r1", option="maybe", by="old"))
    worker_files.append_request(folder, worker_files.Answer(request_id="r0", option="yes", by="old"))
    code = """
import msgspec
from understudy.model.delegation.delegations import PermissionRequest
request = msgspec.json.decode(sys.stdin.readline(), type=PermissionRequest)
try:
    worker_files.append_answer(folder(), worker_files.Answer(request_id='r1', option='yes', by=str(os.getpid())), request)
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
    assert worker_files.first_answer(worker_files.read_requests(folder), REQUEST).by == str(winner)
    with pytest.raises(UnderstudyError) as caught:
        worker_files.append_answer(folder, worker_files.Answer(request_id="r1", option="maybe", by="x"), REQUEST)
    assert caught.value.kind is ErrorKind.INVALID_PARAMS
    assert caught.value.names == ["yes", "no"]


def test_many_writers_and_killed_ones_tear_nothing_apart(make, second) -> None:
    folder, _ = make()
    code = """
say('go')
for n in range(1000):  # together less than the file may hold, however late they are killed
    worker_files.append_request(folder(), worker_files.Cancel(by='x' * (n % 300)))
time.sleep(600)
"""
    for round_ in range(6):
        writers = [second(folder, code) for _ in range(2)]
        for writer in writers:
            assert writer.line() == "go"
        deadline = time.monotonic() + 0.02 + round_ * 0.005
        while time.monotonic() < deadline:
            worker_files.append_request(folder, worker_files.Cancel(by="me"))
        for writer in writers:
            writer.kill()
        with folder.control.open("ab") as file:
            file.write(b'{"type":"can')
    worker_files.append_request(folder, worker_files.Cancel(by="last"))
    items = worker_files.read_requests(folder)
    assert len(items) == folder.control.read_bytes().count(b"\n")
    assert items[-1].by == "last"


def test_nonsense_in_the_control_file_is_passed_over(make) -> None:
    folder, _ = make()
    folder.control.write_bytes(
        b"\xff\n{}\n[[[\n" + b"x" * 100_000 + b'\n{"type":"explode"}\n{"type":"cancel","by":"a","new":1}\n'
    )
    assert [item.by for item in worker_files.read_requests(folder)] == ["a"]
    with pytest.raises(UnderstudyError) as caught:
        worker_files.append_request(folder, worker_files.Answer(request_id="r", option="o", by="b", note="n" * 70_000))
    assert caught.value.kind is ErrorKind.INVALID_PARAMS
    with pytest.raises(UnderstudyError):
        worker_files.append_request(folder, worker_files.Cancel(by="\ud800"))
