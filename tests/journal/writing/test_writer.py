"""Test the journal writer: appends, kills, tampering, and a full disk."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from understudy.journal import delegation_folder, reader, worker_files
from understudy.journal.summaries import fold
from understudy.journal.writing.writer import LONGEST_LINE, Writer
from understudy.model.delegation import events
from understudy.model.delegation.delegations import FileStat
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.verdicts import Reservation, Verdict
from understudy.model.wire import timestamp

STARTED = events.Started(delegator="quick", model="m", reason="asked for")


def finished(verdict: Verdict = Verdict.VERIFIED) -> events.Finished:
    return events.Finished(verdict=verdict, reservations=[])


def refold(folder: delegation_folder.Folder):
    delegation = reader.initial(delegation_folder.read_spec(folder))
    for event in reader.read_events(folder, limit=10**9):
        delegation = fold.fold(delegation, event)
    return delegation


def test_lines_carry_number_time_and_attempt(make) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        assert writer.append(events.Phase(text="copying"), attempt=0) == 1
        assert writer.append(STARTED, attempt=1) == 2
        writer.append(events.Text(text="hé\n\u2028"), attempt=1)
        assert writer.delegation.state is State.RUNNING
    raw = [json.loads(line) for line in folder.events.read_bytes().splitlines()]
    assert [(one["seq"], one["attempt"]) for one in raw] == [(1, 0), (2, 1), (3, 1)]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", one["at"]) for one in raw)
    assert raw == sorted(raw, key=lambda one: one["at"])
    assert reader.read_events(folder)[2].text == "hé\n\u2028"
    with Writer(folder, lock) as writer:
        assert writer.append(finished(Verdict.FAILED), attempt=1) == 4


def test_time_never_goes_back(make, monkeypatch) -> None:
    folder, lock = make()
    times = iter([timestamp(2_000_000_000), timestamp(1_000_000_000), timestamp(2_000_000_000.123)])
    monkeypatch.setattr("understudy.journal.writing.writer.timestamp", lambda: next(times))
    with Writer(folder, lock) as writer:
        writer.append(STARTED, attempt=1)
    with Writer(folder, lock) as writer:
        writer.append(events.Text(text="a"), attempt=1)
        writer.append(events.Text(text="b"), attempt=1)
    assert [event.at[10:] for event in reader.read_events(folder)] == [
        "T03:33:20.000Z",
        "T03:33:20.000Z",
        "T03:33:20.123Z",
    ]


def test_only_the_holder_writes(make, second) -> None:
    folder, lock = make()
    other = second(
        folder,
        """
fd = os.open(folder().lock, os.O_RDWR)
try: Writer(folder(), fd)
except UnderstudyError as e: say(e.kind)
""",
    )
    assert other.line() == "conflict"
    assert worker_files.holds(folder, lock)


def test_an_illegal_transition_is_refused_and_not_written(make) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        with pytest.raises(UnderstudyError) as caught:
            writer.append(events.CheckStarted(name="c"), attempt=0)
        assert caught.value.kind is ErrorKind.INTERNAL
        writer.append(STARTED, attempt=1)
        writer.append(finished(Verdict.FAILED), attempt=1)
        with pytest.raises(UnderstudyError):
            writer.append(STARTED, attempt=2)
        assert writer.last_seq == 2


@pytest.mark.parametrize("tail", [b'{"type":"finis', b"\0" * 5000, b"x" * (3 << 20)])
def test_a_torn_line_is_cut_before_the_next(make, tail: bytes) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(STARTED, attempt=1)
    with folder.events.open("ab") as file:
        file.write(tail)
    assert len(reader.read_events(folder)) == 1
    with Writer(folder, lock) as writer:
        assert writer.append(finished(Verdict.FAILED), attempt=1) == 2
        assert not writer.tampered
    assert [type(event) for event in reader.read_events(folder)] == [events.Started, events.Finished]


STREAM = """
lock = int(sys.argv[2])
n = 0
with Writer(folder(), lock) as writer:
    writer.append(events.Started(delegator='quick', model='m', reason='w'), attempt=1)
    say(1)
    while True:
        n += 1
        # Lines of all sizes: one above a page can tear.
        writer.append(events.Text(text=str(n) + 'x' * (n * 7919 % 60000)), attempt=1)
        say(writer.last_seq)
"""


def kill_and_judge(make, second, seed: int) -> None:
    """Kill a writer at a random time; acknowledged events must survive, and the end is written once."""
    folder, lock = make()
    writer = second(folder, STREAM, lock=lock)
    os.close(lock)
    chance = random.Random(seed)
    acknowledged = 0
    for _ in range(chance.randrange(1, 60)):
        acknowledged = int(writer.line())
    deadline = time.perf_counter() + chance.random() * 0.003
    while time.perf_counter() < deadline:
        pass
    writer.process.kill()
    rest = writer.process.stdout.read().split()
    writer.wait()
    acknowledged = max([acknowledged, *(int(number) for number in rest if number)])
    from understudy.journal.writing.dead_workers import recover

    assert recover(folder) is True
    assert recover(folder) is False
    found = reader.read_events(folder, limit=10**6)
    assert acknowledged + 1 <= len(found) <= acknowledged + 2
    assert [event.seq for event in found] == list(range(1, len(found) + 1))
    assert [type(event) for event in found].count(events.Finished) == 1
    assert isinstance(found[-1], events.Finished)
    assert found[-1].verdict is Verdict.INTERRUPTED
    assert [int(re.match(r"\d+", event.text)[0]) for event in found[1:-1]] == list(range(1, len(found) - 1))
    assert reader.load(folder) == refold(folder)
    assert reader.peek(folder).state is State.FINISHED


def test_fifteen_killed_writers_lose_nothing(make, second) -> None:
    for seed in range(15):
        kill_and_judge(make, second, seed)


@pytest.mark.heavy
def test_a_hundred_and_twenty_killed_writers_lose_nothing(make, second) -> None:
    for seed in range(120):
        kill_and_judge(make, second, 1000 + seed)


def test_a_summary_is_never_seen_half_written(make, second) -> None:
    folder, lock = make()
    writer = second(
        folder,
        """
lock = int(sys.argv[2])
with Writer(folder(), lock) as writer:
    writer.append(events.Started(delegator='quick', model='m', reason='w'), attempt=1)
    say('go')
    for n in range(400):
        writer.append(events.CheckFinished(name=f'c{n % 7}', argv=['a' * (n * 977 % 20000)], seconds=1.0, tree='t', output_tail='', flaky=False, fails_on_base=False, ok=True, required=True), attempt=1)
""",
        lock=lock,
    )
    assert writer.line() == "go"
    last = 0
    while writer.process.poll() is None:
        seen = msgspec.json.decode(folder.summary.read_bytes(), type=reader.Delegation).last_seq
        assert seen >= last
        last = seen
    assert writer.wait() == 0
    assert reader.load(folder).last_seq == 401


def test_the_summary_waits_a_second_for_what_lists_do_not_show(make) -> None:
    folder, lock = make()
    writer = Writer(folder, lock)
    writer.append(STARTED, attempt=1)
    before = folder.summary.stat().st_ino
    for _ in range(50):
        writer.append(events.Text(text="."), attempt=1)
    assert folder.summary.stat().st_ino == before
    assert reader.load(folder).last_seq == 51
    writer.append(finished(Verdict.FAILED), attempt=1)
    assert reader.peek(folder).last_seq == 52
    writer.close()


# Changes by other processes while the worker is alive.


def forge(folder: delegation_folder.Folder) -> None:
    with folder.events.open("ab") as file:
        file.write(
            b'{"type":"finished","seq":3,"at":"2026-11-21T00:00:00.000Z","attempt":1,"verdict":"verified","reservations":[]}\n'
        )


def forge_half(folder: delegation_folder.Folder) -> None:
    with folder.events.open("ab") as file:
        file.write(b"half a line")


def empty(folder: delegation_folder.Folder) -> None:
    os.truncate(folder.events, 0)


def shorten(folder: delegation_folder.Folder) -> None:
    os.truncate(folder.events, folder.events.stat().st_size - 7)


def remove(folder: delegation_folder.Folder) -> None:
    folder.events.unlink()


def exchange(folder: delegation_folder.Folder) -> None:
    data = folder.events.read_bytes()
    folder.events.unlink()
    folder.events.write_bytes(data + b'{"type":"note"}\n')


def insert(folder: delegation_folder.Folder) -> None:
    data = folder.events.read_bytes()
    folder.events.write_bytes(b'{"type":"note","level":"info","text":"mine"}\n' + data)


def change(folder: delegation_folder.Folder) -> None:
    data = folder.events.read_bytes()
    folder.events.write_bytes(data.replace(b"asked for", b"forged it"))


@pytest.mark.parametrize(
    "attack", [forge, forge_half, empty, shorten, remove, exchange, insert, change], ids=lambda f: f.__name__
)
def test_foreign_bytes_are_cut_noted_and_never_verified(make, second, attack) -> None:
    """The attack comes from another process than the worker's, between two of its events."""
    folder, lock = make()
    worker = second(
        folder,
        """
lock = int(sys.argv[2])
with Writer(folder(), lock) as writer:
    writer.append(events.Started(delegator='quick', model='m', reason='asked for'), attempt=1)
    writer.append(events.Text(text='answer'), attempt=1)
    say('ready'); sys.stdin.readline()
    writer.append(events.Checkpoint(commit='abc'), attempt=1)
    say(writer.verify())
    writer.append(events.Finished(verdict=Verdict.VERIFIED, reservations=[]), attempt=1)
    say(writer.tampered)
""",
        lock=lock,
    )
    assert worker.line() == "ready"
    attack(folder)
    worker.process.stdin.write("go\n")
    worker.process.stdin.flush()
    worker.line()
    assert worker.line() == "True"
    assert worker.wait() == 0
    found = reader.read_events(folder)
    assert [event.seq for event in found] == list(range(1, len(found) + 1))
    assert isinstance(found[0], events.Started)
    assert found[0].reason == "asked for"
    kinds = [type(event) for event in found]
    assert kinds.count(events.Finished) == 1
    assert kinds.count(events.Note) >= 1
    assert kinds.count(events.Checkpoint) == 1
    assert found[-1].reservations == [Reservation.TAMPERED]
    assert found[-1].verdict is Verdict.UNVERIFIED
    assert reader.load(folder) == reader.peek(folder)
    assert reader.load(folder).head == refold(folder).head == "abc"


def test_a_change_in_place_is_found_at_the_end_without_being_asked(make) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(STARTED, attempt=1)
        writer.append(events.Text(text="asked for"), attempt=1)
        change(folder)
        writer.append(finished(), attempt=1)
    found = reader.read_events(folder)
    assert (found[-1].verdict, found[-1].reservations) == (Verdict.UNVERIFIED, [Reservation.TAMPERED])
    # Events that determine the state are restored; pieces of the answer cannot be.
    assert found[0].reason == "asked for"
    assert found[1].text == "forged it"


def test_an_untouched_journal_is_not_suspected(make) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(STARTED, attempt=1)
        assert writer.verify()
        writer.append(finished(), attempt=1)
        assert not writer.tampered
    assert reader.read_events(folder)[-1].verdict is Verdict.VERIFIED


def test_a_flood_of_forgeries_makes_few_notes(make) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(STARTED, attempt=1)
        for _ in range(200):
            forge(folder)
            writer.append(events.Text(text="x"), attempt=1)
        writer.append(finished(), attempt=1)
    kinds = [type(event) for event in reader.read_events(folder)]
    assert kinds.count(events.Note) == 5
    assert kinds.count(events.Text) == 200
    assert kinds.count(events.Finished) == 1


def test_planted_links_and_pipes_are_not_followed(make, tmp_path) -> None:
    folder, lock = make()
    precious = tmp_path / "precious"
    precious.write_text("mine")
    folder.events.symlink_to(precious)
    with pytest.raises(UnderstudyError) as caught:
        Writer(folder, lock)
    assert caught.value.kind is ErrorKind.STATE_UNAVAILABLE
    folder.events.unlink()
    os.mkfifo(folder.events)
    with pytest.raises(UnderstudyError):
        Writer(folder, lock)
    with pytest.raises(UnderstudyError):
        reader.read_events(folder)
    assert precious.read_text() == "mine"


# What an agent may put into an event.


@pytest.mark.parametrize(
    "event",
    [
        events.Text(text="é" * 900_000),
        events.ToolResult(call_id="c", ok=True, output="x" * 5_000_000),
        events.ToolCall(call_id="c", name="n", title="t", input={"a": ["y" * 300_000] * 9, "b": 7}),
        events.ToolCall(call_id="c", name="n", title="t", input=list(range(400_000))),
        events.Result(
            files=[FileStat(path=f"p{n}" * 20, status="added", additions=1, deletions=0) for n in range(20_000)]
        ),
        events.Base(commit="c", files=1, left_out=["z" * 100] * 30_000),
    ],
    ids=["text", "result", "call", "numbers", "files", "names"],
)
def test_what_is_too_long_is_shortened_and_says_so(make, event) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(STARTED, attempt=1)
        writer.append(event, attempt=1)
    line = folder.events.read_bytes().splitlines()[1]
    assert len(line) < LONGEST_LINE
    read = reader.read_events(folder)[1]
    assert type(read) is type(event)
    assert reader.load(folder) == refold(folder)
    if isinstance(read, events.ToolResult):
        kept = read.output.index("…")
        assert read.truncated_bytes == 5_000_000 - kept
        assert read.output.endswith(f"[{5_000_000 - kept} characters left out]")


def nested(depth: int):
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "event",
    [
        events.Text(text="a\ud800b"),
        events.ToolCall(
            call_id="c", name="n", title="\udcff", input={"k\ud800": 2**70, "n": float("nan"), "s": {1, 2}}
        ),
        events.ToolCall(call_id="c", name="n", title="t", input=nested(5000)),
        events.ToolCall(call_id="c", name="n", title="t", input=nested(900)),
        events.Phase(text="\0\x1b[2J\u2028"),
    ],
    ids=["surrogate", "call", "deep", "less-deep", "controls"],
)
def test_values_that_json_cannot_hold_are_converted(make, event) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(STARTED, attempt=1)
        writer.append(event, attempt=1)
        writer.append(finished(), attempt=1)
    found = reader.read_events(folder)
    assert [type(one) for one in found] == [events.Started, type(event), events.Finished]
    assert reader.load(folder) == refold(folder)


# A full disk.


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch):
    """A file system of one MiB."""
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "none", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("no tmpfs can be mounted here")
    monkeypatch.setenv("UNDERSTUDY_STATE", str(place / "state"))
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def write_without_end(writer: Writer, size: int = 30_000) -> None:
    while True:
        writer.append(events.Text(text="y" * size), attempt=1)


def test_on_a_full_disk_nothing_is_half_done_and_the_end_still_fits(small_disk: Path, make, make_spec) -> None:
    folder, lock = make()
    ballast = small_disk / "ballast"
    with Writer(folder, lock) as writer:
        writer.append(STARTED, attempt=1)
        ballast.write_bytes(b"x" * 500_000)
        with pytest.raises(UnderstudyError) as caught:
            write_without_end(writer)
        assert caught.value.kind is ErrorKind.DISK_FULL
        assert caught.value.hint
        assert folder.events.read_bytes().endswith(b"\n")
        with pytest.raises(UnderstudyError):
            delegation_folder.create(make_spec, {"b": b"z" * 30_000})
        # Fill what the smaller writes would still find.
        with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        # The last page of the journal still has room for small lines: fill that, too.
        with pytest.raises(UnderstudyError):
            write_without_end(writer, 50)
        accepted = writer.last_seq - 1
        writer.append(finished(Verdict.FAILED), attempt=1)
    found = reader.read_events(folder)
    assert [type(one) for one in found] == [events.Started, *[events.Text] * accepted, events.Finished]
    assert reader.load(folder).state is State.FINISHED
    assert len(delegation_folder.ids()) == 1
    ballast.unlink()
    with Writer(folder, lock):
        assert reader.peek(folder).state is State.FINISHED


def test_a_file_limit_is_a_full_disk_and_lines_stay_whole(make, second) -> None:
    folder, lock = make()
    worker = second(
        folder,
        """
import resource
lock = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
with Writer(folder(), lock) as writer:
    writer.append(events.Started(delegator='quick', model='m', reason='w'), attempt=1)
    try:
        while True: writer.append(events.Text(text='y' * 7000), attempt=1)
    except UnderstudyError as e: say(e.kind, writer.last_seq)
    say(writer.append(events.Finished(verdict=Verdict.FAILED, reservations=[]), attempt=1))
""",
        lock=lock,
    )
    kind, seq = worker.line().split()
    assert kind == "disk_full"
    assert int(worker.line()) == int(seq) + 1
    assert worker.wait() == 0
    found = reader.read_events(folder)
    assert len(found) == int(seq) + 1
    assert not any(isinstance(one, events.Unknown) for one in found)


@pytest.mark.heavy
def test_a_hundred_thousand_events_in_order_with_flat_memory(make, second) -> None:
    folder, lock = make()
    worker = second(
        folder,
        """
lock = int(sys.argv[2])
def memory(): return int(Path('/proc/self/statm').read_text().split()[1]) * 4
with Writer(folder(), lock) as writer:
    writer.append(events.Started(delegator='quick', model='m', reason='w'), attempt=1)
    begin = None
    started = time.perf_counter()
    for n in range(100_000):
        writer.append(events.Text(text=f'delta {n} of a longer answer'), attempt=1)
        if n == 5_000: begin = memory()
    say(memory() - begin, round((time.perf_counter() - started) * 10, 1))
    writer.append(events.Finished(verdict=Verdict.FAILED, reservations=[]), attempt=1)
""",
        lock=lock,
    )
    tail = reader.Tail(folder)
    count = 0
    own = None

    def memory() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4

    while not tail.has_finished:
        for event in tail.read(500):
            count += 1
            assert event.seq == count
            if isinstance(event, events.Text):
                assert event.text.startswith(f"delta {count - 2} ")
        if own is None and count > 5000:
            own = memory()
    grown, microseconds = worker.line().split()
    print(f"\n100,000 events: {microseconds} µs each, writer grew {grown} KiB, reader {memory() - own} KiB")
    assert count == 100_002
    assert int(grown) < 2048
    assert memory() - own < 4096
