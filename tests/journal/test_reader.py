"""Test folding events, reading damaged journals, and listing many delegations."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from understudy.journal import delegation_folder, reader, worker_files
from understudy.journal.summaries import fold
from understudy.journal.writing.dead_workers import recover
from understudy.journal.writing.writer import Writer
from understudy.model.capabilities import Pane
from understudy.model.config.delegators import PermissionRule
from understudy.model.confinement import Confinement, Sandbox
from understudy.model.delegation import events
from understudy.model.delegation.delegations import CostSource, Delegation, FileStat, PermissionOption
from understudy.model.delegation.spec import Spec, initial
from understudy.model.errors import ErrorInfo, ErrorKind, ErrorScope, UnderstudyError
from understudy.model.evidence.checks import CheckResult
from understudy.model.states import STATES_WITH_WORKER, TRANSITIONS, State
from understudy.model.verdicts import Reservation, Verdict

SETTINGS = settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)

names = st.sampled_from(["a", "b", "lint", "tests"])
count = st.integers(0, 10**6)
short = st.text(max_size=20)
money = st.none() | st.decimals(0, 10, places=4).map(str) | st.sampled_from(["NaN", "1e999999", "much"])


def event_strategy() -> st.SearchStrategy[events.Event]:
    """One strategy per type of event; the test below shows that none is missing."""
    option = st.builds(PermissionOption, id=names, title=short, kind=st.sampled_from(["allow_once", "reject_once"]))
    stat = st.builds(FileStat, path=short, status=st.just("added"), additions=count, deletions=count)
    error = st.none() | st.builds(ErrorInfo, kind=st.sampled_from(ErrorKind), message=short)
    usage = dict.fromkeys(
        (
            "input_tokens",
            "output_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
            "reasoning_tokens",
            "turns",
            "tool_calls",
        ),
        count,
    )
    decision = st.sampled_from(["accept", "reject", "pending"])
    builders = {
        events.Base: {"commit": short, "files": count, "left_out": st.lists(short, max_size=2)},
        events.Worktree: {"path": short, "seconds": st.floats(0, 9)},
        events.Queued: {"position": count},
        events.Started: {"delegator": names, "model": short, "reason": short},
        events.AgentStarted: {
            "sandbox": st.builds(Sandbox, asked=st.sampled_from(Confinement), reached=st.sampled_from(Confinement)),
            "terminal": st.none() | st.builds(Pane, socket=short, id=short),
        },
        events.Phase: {"text": short},
        events.Prompt: {"tokens": count},
        events.Text: {"text": short},
        events.Thinking: {"text": short},
        events.ToolCall: {
            "call_id": short,
            "name": short,
            "title": short,
            "input": st.recursive(st.none() | count | short, lambda x: st.lists(x, max_size=2), max_leaves=4),
        },
        events.ToolResult: {"call_id": short, "ok": st.booleans(), "output": short},
        events.File: {"path": short, "change": st.just("added")},
        events.Plan: {"entries": st.lists(short, max_size=2)},
        events.UsageReport: {
            **usage,
            "cost_usd": money,
            "cost_source": st.none() | st.sampled_from(get_args(CostSource)),
            "price_date": st.none() | short,
            "estimated": st.booleans(),
        },
        events.Session: {"session_id": short},
        events.Permission: {
            "request_id": names,
            "title": short,
            "detail": short,
            "options": st.lists(option, max_size=2),
            "deadline_action": short,
            "rule": st.none() | st.builds(PermissionRule, decision=st.just("allow"), command=short),
        },
        events.PermissionAnswered: {"request_id": names, "option": short, "by": short},
        events.UserMessage: {
            "message_id": names,
            "text": short,
            "by": short,
            "delivery": st.sampled_from(["sent", "waiting", "kept"]),
        },
        events.MessageDelivered: {"message_id": names},
        events.AgentMessage: {
            "message_id": names,
            "sender": short,
            "kind": st.sampled_from(["message", "ask", "reply", "broadcast"]),
            "text": short,
            "reply_to": st.none() | names,
        },
        events.Grouped: {"group_id": short},
        events.AttemptFailed: {
            "error": st.builds(ErrorInfo, st.sampled_from(ErrorKind), short, retry_at=st.none() | short),
            "will_retry": st.booleans(),
        },
        events.Checkpoint: {"commit": short},
        events.Result: {
            "files": st.lists(stat, max_size=2),
            "head": st.none() | short,
            "text": st.none() | short,
            "hunks": st.integers(0, 5),
        },
        events.CheckStarted: {"name": names},
        events.CheckFinished: {
            "name": names,
            "argv": st.just(["x"]),
            "seconds": st.floats(0, 9),
            "tree": short,
            "output_tail": short,
            "flaky": st.booleans(),
            "fails_on_base": st.booleans(),
            "ok": st.booleans(),
            "required": st.booleans(),
        },
        events.PlacesJudged: {"places": st.just([]), "total": st.integers(0, 9)},
        events.RoundJudged: {
            "number": st.integers(0, 9),
            "killed": st.integers(0, 9),
            "viable": st.integers(0, 9),
            "kept": st.booleans(),
        },
        events.Note: {"level": st.just("info"), "text": short},
        events.Finished: {
            "verdict": st.sampled_from(Verdict),
            "reservations": st.lists(st.sampled_from(Reservation), max_size=2),
            "error": error,
        },
        events.Confirmed: {"tests": st.integers(0, 9)},
        events.Decided: {"path": short, "hunk": short, "decision": decision, "was": decision, "by": short},
        events.Applied: {"paths": st.lists(short, max_size=2), "undo_token": short, "by": short},
        events.Undone: {"undo_token": short},
        events.Amended: {"path": short, "head": short},
        events.Discarded: {"rescue_ref": short},
        events.Dismissed: {"by": short},
        events.Superseded: {"by": short},
        events.Unknown: {"original": short},
    }
    assert set(builders) == set(events.AnyEvent.__args__)
    return st.one_of([st.builds(kind, **fields) for kind, fields in builders.items()])


ANY_EVENT = event_strategy()


def refolded(folder: delegation_folder.Folder) -> Delegation:
    delegation = initial(delegation_folder.read_spec(folder))
    for event in reader.read_events(folder, limit=10**9):
        delegation = fold.fold(delegation, event)
    return delegation


@SETTINGS
@given(script=st.lists(st.tuples(ANY_EVENT, st.integers(0, 3)), max_size=25))
def test_writing_folding_and_loading_agree(make, script) -> None:
    folder, lock = make()
    writer = Writer(folder, lock)
    try:
        for event, attempt in script:
            if fold.state_after(writer.delegation.state, event) is not None:
                writer.append(event, attempt=attempt)
                continue
            with pytest.raises(UnderstudyError) as caught:
                writer.append(event, attempt=attempt)
            assert caught.value.kind is ErrorKind.INTERNAL
        assert writer.delegation == reader.load(folder) == refolded(folder)
    finally:
        writer.close()
        os.close(lock)
    assert reader.peek(folder) == refolded(folder)
    folder.summary.write_bytes(b"{}")
    assert reader.load(folder) == refolded(folder)


@SETTINGS
@given(script=st.lists(st.tuples(ANY_EVENT, st.integers(0, 3)), max_size=30))
def test_folding_is_pure_never_raises_and_moves_legally(make_spec, script) -> None:
    delegation = initial(make_spec("20261121-004512-k3f9q"))
    for seq, (event, attempt) in enumerate(script, 1):
        stamped = msgspec.structs.replace(event, seq=seq, at="2026-11-21T00:00:00.000Z", attempt=attempt)
        before = msgspec.json.encode(delegation)
        after = fold.fold(delegation, stamped)
        assert msgspec.json.encode(delegation) == before
        assert after.last_seq == seq
        assert after.state is delegation.state or after.state in TRANSITIONS[delegation.state]
        assert (after.verdict is None) == (after.state is not State.FINISHED)
        assert after.waiting_for is None or isinstance(event, events.Permission) or delegation.waiting_for is not None
        assert msgspec.json.decode(msgspec.json.encode(after), type=Delegation) == after
        delegation = after


def fold_all(spec: Spec, *script: tuple[int, events.Event]) -> Delegation:
    delegation = initial(spec)
    for seq, (attempt, event) in enumerate(script, 1):
        stamped = msgspec.structs.replace(event, seq=seq, at=f"2026-11-21T00:00:{seq:02d}.000Z", attempt=attempt)
        delegation = fold.fold(delegation, stamped)
    return delegation


def usage(tokens: int, cost: str | None, *, estimated: bool = False) -> events.UsageReport:
    return events.UsageReport(
        input_tokens=tokens,
        output_tokens=1,
        cache_read_tokens=0,
        cache_write_tokens=0,
        reasoning_tokens=0,
        turns=1,
        tool_calls=0,
        cost_usd=cost,
        estimated=estimated,
    )


def start(name: str) -> events.Started:
    return events.Started(delegator=name, model="m", reason="w")


def test_the_story_of_a_failover(make_spec) -> None:
    story = [
        (0, events.Base(commit="base", files=3, left_out=[])),
        (0, events.Worktree(path="/t/1", seconds=0.1)),
        (1, start("first")),
        (1, events.Session(session_id="s1")),
        (1, usage(10, "0.10")),
        (1, usage(25, "0.2")),
        (1, events.Checkpoint(commit="c1")),
        (
            1,
            events.AttemptFailed(
                error=ErrorInfo(ErrorKind.OVERLOADED, "busy", scope=ErrorScope.MODEL),
                will_retry=False,
                next_delegator="second",
            ),
        ),
        (2, start("second")),
        (2, usage(5, "0.05")),
        (2, events.Result(head="c2", files=[], hunks=3)),
        (2, events.CheckStarted(name="tests")),
        (2, events.CheckFinished.of(check(ok=False))),
        (2, events.CheckFinished.of(check(ok=True))),
    ]
    running = fold_all(make_spec("x"), *story)
    first, second = running.attempts
    assert (first.start_commit, first.end_commit, first.session_id, first.usage.input_tokens) == (
        "base",
        "c1",
        "s1",
        25,
    )
    assert first.failure.kind is ErrorKind.OVERLOADED
    assert (second.start_commit, second.end_commit) == ("c1", "c2")
    assert running.usage.input_tokens == 30
    assert (running.cost_usd, running.cost_known) == ("0.25", True)
    assert [one.ok for one in running.checks] == [True]
    assert (running.base, running.head, running.worktree, running.confined) == ("base", "c2", "/t/1", False)
    assert running.state is State.CHECKING
    done = fold_all(
        make_spec("x"),
        *story,
        (2, events.Finished(verdict=Verdict.VERIFIED, reservations=[])),
        (2, events.Decided(path="p", hunk="1", decision="accept", by="cli")),
        (2, events.Decided(path="p", hunk="2", decision="reject", by="cli")),
        (2, events.Decided(path="p", hunk="1", decision="pending", was="accept", by="cli")),
    )
    assert (done.review.pending, done.review.accepted, done.review.rejected) == (2, 0, 1)
    assert done.verdict is Verdict.VERIFIED
    assert done.attempts[1].finished_at
    again = fold_all(
        make_spec("x"),
        *story,
        (2, events.Finished(verdict=Verdict.VERIFIED, reservations=[])),
        (2, events.CheckStarted(name="tests")),
    )
    assert (again.state, again.verdict) == (State.CHECKING, None)


def check(*, ok: bool) -> CheckResult:
    return CheckResult(
        name="tests",
        argv=["x"],
        seconds=1.0,
        tree="t",
        output_tail="",
        flaky=False,
        fails_on_base=False,
        ok=ok,
        required=True,
    )


def test_an_unknown_or_estimated_cost_is_not_called_known(make_spec) -> None:
    one = fold_all(make_spec("x"), (1, start("a")), (1, usage(1, None)))
    assert (one.cost_usd, one.cost_known) == (None, False)
    two = fold_all(make_spec("x"), (1, start("a")), (1, usage(1, "1", estimated=True)))
    assert (two.cost_usd, two.cost_known) == ("1", False)
    three = fold_all(make_spec("x"), (1, start("a")), (1, usage(1, "1")), (2, start("b")))
    assert (three.cost_usd, three.cost_known, three.sandbox) == ("1", False, None)


# Damaged journals.

GOOD = b'{"type":"text","seq":1,"at":"2026-11-21T00:00:00.000Z","attempt":1,"text":"t"}\n'


@SETTINGS
@given(
    data=st.lists(
        st.binary(max_size=60)
        | st.just(GOOD)
        | st.just(b"\n")
        | st.just(b'{"type":"started","delegator":"d","model":"m","why":"w","attempt":99999999999}\n'),
        max_size=12,
    ).map(b"".join),
    after=st.integers(-3, 15),
    limit=st.integers(1, 5),
)
def test_readers_neither_raise_nor_hang(make, data: bytes, after: int, limit: int) -> None:
    folder, lock = make()
    os.close(lock)
    folder.events.write_bytes(data)
    lines = data.count(b"\n")
    tail = reader.Tail(folder, after)
    found = []
    while more := tail.read(limit):
        assert len(more) <= limit
        found += more
    assert [one.seq for one in found] == list(range(max(0, after) + 1, lines + 1))
    assert found == reader.read_events(folder, after, 10**6)
    delegation = reader.load(folder)
    assert delegation.last_seq == lines == reader.last_seq(folder)
    msgspec.json.encode(delegation)


@SETTINGS
@given(junk=st.binary(max_size=80) | st.just(b"[" * 100_000) | st.just(b"{}"))
def test_a_corrupt_summary_is_rebuilt(make, junk: bytes) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(start("a"), attempt=1)
    os.close(lock)
    true = reader.load(folder)
    folder.summary.write_bytes(junk)
    assert reader.load(folder) == reader.peek(folder) == true


def test_deep_wide_and_newer_lines_keep_their_place(make) -> None:
    folder, _lock = make()
    newer = b'{"type":"teleported","seq":2,"at":"2027-01-01T00:00:00.000Z","attempt":3,"to":"mars"}\n'
    wide = b'{"type":"text","text":"' + b"w" * (9 << 20) + b'"}\n'
    folder.events.write_bytes(b"[" * 200_000 + b"\n" + newer + wide + b"\xff\xfe\n" + GOOD)
    found = reader.read_events(folder)
    assert [type(one) for one in found] == [*[events.Unknown] * 4, events.Text]
    assert (found[1].at, found[1].attempt) == ("2027-01-01T00:00:00.000Z", 3)
    assert "mars" in found[1].original
    assert all(len(one.original) <= reader.ORIGINAL_CHARACTERS for one in found[:4])
    assert [one.seq for one in reader.read_events(folder, after=3)] == [4, 5]


def test_a_line_is_read_once_and_only_when_it_is_whole(make) -> None:
    folder, _lock = make()
    tail = reader.Tail(folder)
    assert tail.read() == []
    with folder.events.open("ab", buffering=0) as file:
        for piece in (GOOD[:10], GOOD[10:-1]):
            file.write(piece)
            assert tail.read() == []
        file.write(b"\n" + GOOD + GOOD[:5])
        assert [one.seq for one in tail.read()] == [1, 2]
        assert tail.read() == []
        file.write(GOOD[5:])
        assert [one.seq for one in tail.read()] == [3]


def test_a_forged_line_that_was_read_is_followed_by_the_true_one(make) -> None:
    folder, lock = make()
    tail = reader.Tail(folder)
    with Writer(folder, lock) as writer:
        writer.append(start("a"), attempt=1)
        assert len(tail.read()) == 1
        with folder.events.open("ab") as file:
            file.write(b'{"type":"finished","seq":2,"verdict":"verified","reservations":[]}\n' * 3)
        assert [one.seq for one in tail.read()] == [2, 3, 4]
        assert tail.has_finished
        for number in range(9):
            writer.append(events.Text(text=str(number)), attempt=1)
        true = tail.read()
        assert [one.seq for one in true] == list(range(2, 12))
        assert isinstance(true[0], events.Note)


def test_following_from_another_process_misses_nothing(make, second) -> None:
    folder, lock = make()
    follower = second(
        folder,
        """
tail = reader.Tail(folder())
seqs = []
with change_notifications.ChangeListener() as ear:
    say('listening')
    def done():
        seqs.extend(e.seq for e in tail.read(37))
        return tail.has_finished
    while not change_notifications.wait_for(done, ear, 20): pass
say(seqs == list(range(1, len(seqs) + 1)), len(seqs))
""",
    )
    assert follower.line() == "listening"
    with Writer(folder, lock) as writer:
        writer.append(start("a"), attempt=1)
        for number in range(3000):
            writer.append(events.Text(text="x" * (number * 31 % 5000)), attempt=1)
        writer.append(events.Finished(verdict=Verdict.FAILED, reservations=[]), attempt=1)
    assert follower.line() == "True 3002"


# Random interleavings of writing, dying, recovering and looking.


class Life(RuleBasedStateMachine):
    """One delegation whose worker (another process) writes, tears a line and dies; anybody recovers."""

    make_spec = None
    second = None

    def __init__(self) -> None:
        super().__init__()
        self.folder, self.lock = delegation_folder.create(Life.make_spec, {})
        self.worker = None
        self.expected: list[str] = []
        self.tail = reader.Tail(self.folder)
        self.seen: list[int] = []

    def teardown(self) -> None:
        if self.worker is not None:
            self.worker.kill()
        if self.lock is not None:
            os.close(self.lock)

    @property
    def finished(self) -> bool:
        return bool(self.expected) and self.expected[-1] == "finished"

    @precondition(lambda self: self.lock is not None)
    @rule()
    def hand_over(self) -> None:
        self.worker = Life.second(
            self.folder,
            """
with Writer(folder(), int(sys.argv[2])) as writer:
    say('ready')
    for word in sys.stdin:
        kind, _, size = word.strip().partition(' ')
        if kind == 'started': writer.append(events.Started(delegator='q', model='m', reason='w'), attempt=1)
        if kind == 'text': writer.append(events.Text(text='t' * int(size)), attempt=1)
        if kind == 'torn': os.pwrite(writer._journal, b'{"type":"fin' * int(size), writer._end)
        if kind == 'finished': writer.append(events.Finished(verdict=Verdict.FAILED, reservations=[]), attempt=1)
        say('ok')
""",
            lock=self.lock,
        )
        os.close(self.lock)
        self.lock = None
        assert self.worker.line() == "ready"

    def tell(self, word: str) -> None:
        self.worker.process.stdin.write(word + "\n")
        self.worker.process.stdin.flush()
        assert self.worker.line() == "ok"

    @precondition(lambda self: self.worker is not None and not self.finished)
    @rule(kind=st.sampled_from(["started", "text", "text", "finished"]), size=st.sampled_from([1, 5000, 300_000]))
    def write(self, kind: str, size: int) -> None:
        self.tell(f"{kind} {size}")
        self.expected.append(kind)

    @precondition(lambda self: self.worker is not None)
    @rule(torn=st.integers(0, 900))
    def die(self, torn: int) -> None:
        if torn and not self.finished:
            self.tell(f"torn {torn}")
        self.worker.process.send_signal(signal.SIGKILL)
        self.worker.wait()
        self.worker = None

    @rule()
    def somebody_recovers(self) -> None:
        dead = self.lock is None and self.worker is None and not self.finished
        assert recover(self.folder) is dead
        if dead:
            self.expected.append("finished")

    @invariant()
    def files_agree(self) -> None:
        found = self.tail.read(10**6)
        self.seen += [one.seq for one in found]
        assert self.seen == list(range(1, len(self.expected) + 1))
        delegation = reader.load(self.folder)
        assert delegation == refolded(self.folder)
        assert delegation.last_seq == len(self.expected)
        assert worker_files.is_held(self.folder) == (self.lock is not None or self.worker is not None)
        assert (delegation.state not in STATES_WITH_WORKER) == self.finished


def run_lives(make_spec, second, examples: int) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    Life.make_spec, Life.second = staticmethod(make_spec), staticmethod(second)
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=examples,
            stateful_step_count=14,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_lives_and_deaths(make_spec, second) -> None:
    run_lives(make_spec, second, 12)


@pytest.mark.heavy
def test_many_lives_and_deaths(make_spec, second) -> None:
    run_lives(make_spec, second, 120)


# Lists.


def plant(make_spec, root: Path, name: str, **fields) -> Delegation:
    """Put a folder there as creation leaves it, without its cost."""
    path = root / name
    path.mkdir()
    (path / "lock").touch()
    spec = make_spec(name)
    (path / "spec.json").write_bytes(msgspec.json.encode(spec))
    delegation = msgspec.structs.replace(initial(spec), **fields)
    (path / "summary.json").write_bytes(msgspec.json.encode(delegation))
    return delegation


@SETTINGS
@given(data=st.data())
def test_pages_are_stable_while_new_ones_arrive(make_spec, tmp_path_factory, data) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNDERSTUDY_STATE", str(tmp_path_factory.mktemp("state") / "s"))
        root = delegation_folder.delegations_root()
        numbers = iter(range(10_000))

        def arrive() -> str:
            # Later ones sort first.
            name = delegation_folder.new_id(1_800_000_000 + next(numbers))
            state = data.draw(st.sampled_from([State.RUNNING, State.FINISHED]))
            plant(make_spec, root, name, state=state)
            return name

        present = [arrive() for _ in range(data.draw(st.integers(0, 12)))]
        wanted = data.draw(st.sampled_from([None, [State.FINISHED], [State.RUNNING, State.FINISHED]]))
        expected = [
            name
            for name in reversed(present)
            if wanted is None or reader.peek(delegation_folder.open_folder(name)).state in wanted
        ]
        seen: list[str] = []
        cursor = None
        for _ in range(40):
            found, cursor = reader.page(states=wanted, limit=data.draw(st.integers(1, 5)), cursor=cursor)
            seen += [one.id for one in found]
            if cursor is None:
                break
            if data.draw(st.booleans()):
                arrive()
        assert cursor is None
        assert seen == expected


def test_lists_filter_and_skip_damaged_folders(make_spec, make) -> None:
    root = delegation_folder.delegations_root()
    one = plant(make_spec, root, "20260101-000000-00001", title="Größe of things", workspace="/w/1")
    two = plant(make_spec, root, "20260101-000000-00002", delegator="slow")
    for number, content in enumerate([None, b"", b"{}", b"\xff" * 90]):
        path = root / f"20260102-000000-0000{number}"
        path.mkdir()
        if content is not None:
            (path / "summary.json").write_bytes(content)
            (path / "spec.json").write_bytes(content)
    (root / "20260103-000000-00000").write_text("a file")
    (root / "20260103-000000-00001").symlink_to(root / one.id)
    (root / "README").write_text("x")

    def listed(**query) -> list[str]:
        return [found.id for found in reader.page(**query)[0]]

    assert listed() == [two.id, one.id]
    assert listed(text="GRÖSSE") == listed(text="grÖße") == [one.id]
    assert listed(text="nowhere") == []
    assert listed(workspace="/w/1") == [one.id]
    assert listed(delegator="slow") == [two.id]
    assert listed(states=[State.FINISHED]) == []
    assert listed(limit=1) == [two.id]
    for bad in ("", "x", "MTou", "!" * 9, "é"):
        with pytest.raises(UnderstudyError) as caught:
            reader.page(cursor=bad)
        assert caught.value.kind is ErrorKind.INVALID_PARAMS
    with pytest.raises(UnderstudyError):
        reader.page(limit=0)


_opened: list[Path] | None = None


def _note_opened(event: str, arguments: tuple) -> None:
    if event == "open" and _opened is not None and isinstance(arguments[0], str | Path):
        _opened.append(Path(arguments[0]))


sys.addaudithook(_note_opened)  # it cannot be removed


def test_the_first_page_of_two_thousand_reads_a_hundred(make_spec, monkeypatch) -> None:
    root = delegation_folder.delegations_root()
    for number in range(2000):
        plant(make_spec, root, delegation_folder.new_id(1_700_000_000 + number * 61))
    opened: list[Path] = []
    monkeypatch.setattr(sys.modules[__name__], "_opened", opened)
    found, cursor = reader.page(limit=100)
    assert {path.parent for path in opened if path.name == "summary.json"} == {root / one.id for one in found}
    assert len(opened) <= 4 * len(found)
    assert len(found) == 100
    assert len(json.dumps(cursor)) < 60


def agent_started(reached: Confinement) -> events.AgentStarted:
    return events.AgentStarted(sandbox=Sandbox(Confinement.BUBBLEWRAP, reached))


@pytest.mark.parametrize(
    ("levels", "weakest", "confined"),
    [
        ([Confinement.NONE], Confinement.NONE, False),
        ([Confinement.NAMESPACE], Confinement.NAMESPACE, False),
        ([Confinement.LANDLOCK], Confinement.LANDLOCK, True),
        ([Confinement.LANDLOCK, Confinement.NAMESPACE], Confinement.NAMESPACE, False),
        ([Confinement.LANDLOCK, Confinement.CONTAINER], Confinement.LANDLOCK, True),
    ],
)
def test_the_weakest_confinement_of_all_attempts_counts(make_spec, levels, weakest, confined):
    pairs = [(n, one) for n, level in enumerate(levels, 1) for one in (start(f"d{n}"), agent_started(level))]
    delegation = fold_all(make_spec("x"), *pairs)
    assert delegation.sandbox == Sandbox(Confinement.BUBBLEWRAP, weakest)
    assert delegation.confined is confined
