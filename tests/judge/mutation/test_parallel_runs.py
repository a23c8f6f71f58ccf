"""Mutants in several copies of a result at a time: faster, with the same evidence, and nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from project_python import project_python
from wait_until import until

from understudy.engine.queueing.launcher import spare_slot
from understudy.engine.queueing.start_conditions import take_slot
from understudy.judge.mutant_runners import mutant_runs
from understudy.judge.mutant_runners.mutant_runs import (
    Lane,
    MutantResult,
    MutantRuns,
    PlannedRun,
    RecordedTests,
    copies_worth_having,
    run_mutants,
)
from understudy.judge.mutation import mutation_test as mutation_testing
from understudy.judge.mutation.mutation_test import MutationRequest, mutation_test
from understudy.judge.project import interpreter
from understudy.judge.project.interpreter import Interpreter
from understudy.judge.runs.check_run import CheckContext, SpareSlot
from understudy.judge.runs.judged_tree import copies_that_fit
from understudy.judge.runs.runner_registry import PreparedCheck
from understudy.model.delegation.delegations import Count
from understudy.model.evidence.checks import Check, Evidence, MutantStatus
from understudy.mutants.generate import Mutant
from understudy.store import store
from understudy.store.store import Entry

CODE = """\
def sign(x):
    if x < 0:
        return -1
    return 1


def clamp(x, low, high):
    return max(low, min(x, high))


def scale(x):
    return x * 3 + 1
"""
TESTS = """\
import os, pathlib
from calc import clamp, scale, sign

def seen():
    with open({seen!r}, "a") as stream:
        stream.write(os.getcwd() + "\\n")

def test_sign():
    seen()
    assert (sign(5), sign(-5)) == (1, -1)

def test_clamp():
    assert clamp(5, 1, 3) == 3

def test_scale():
    scale(2)
"""
PORT = """\
import socket, time
from calc import scale, sign

def test_serves():
    with socket.create_server(("127.0.0.1", {port})):
        time.sleep(0.1)
        scale(2), sign(1)
"""
UNITTEST = """\
import unittest
from calc import clamp, sign

class Sign(unittest.TestCase):
    def test_sign(self):
        self.assertEqual((sign(5), sign(-5)), (1, -1))

    def test_clamp(self):
        self.assertEqual(clamp(5, 1, 3), 3)
"""
MARK = f"20261122-100000-{os.getpid()}"


class Slots:
    """Free slots, which another delegation may want."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.wanted = False
        self.taken: list[Slots.Slot] = []

    class Slot:
        def __init__(self, slots: Slots) -> None:
            self._slots = slots
            self.closed = False

        @property
        def wanted(self) -> bool:
            return self._slots.wanted

        def close(self) -> None:
            self.closed = True

    def take(self) -> SpareSlot | None:
        if len(self.taken) == self.free:
            return None
        self.taken.append(Slots.Slot(self))
        return self.taken[-1]


class Place:
    """A result with a check that passed."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.scratch = folder / "trees" / "1", folder / "scratch"
        self.neutral, self.seen = folder / "neutral", folder / "seen"
        for made in (self.tree, self.scratch, self.neutral):
            made.mkdir(parents=True)
        self.facts = interpreter.describe(
            Interpreter(path=Path(project_python()), origin="configured"), neutral=self.neutral
        )
        (self.tree / "calc.py").write_text(CODE)
        self.slots = Slots(0)

    def request(self, tests: str, copies: int, *, kind: str = "pytest") -> MutationRequest:
        (self.tree / "test_calc.py").write_text(tests)
        self.seen.write_text("")
        self.slots = Slots(copies - 1)
        names = [line.split()[1].partition("(")[0] for line in tests.splitlines() if line.startswith("def test")]
        argv = ["{python}", "-m", kind, "{tests}"]
        return MutationRequest(
            plan=PreparedCheck(check=Check(name="suite", argv=argv), kind=kind, tests=("test_calc.py",)),
            passed=frozenset(f"test_calc.py::{name}" for name in names)
            or frozenset({"test_calc.Sign.test_sign", "test_calc.Sign.test_clamp"}),
            seconds=0.5,
            context=CheckContext(
                tree=self.tree,
                workspace=self.tree.parent.parent / "user",
                scratch=self.scratch,
                temporary=self.scratch,
                mark=MARK,
                facts=self.facts,
                spare_slot=self.slots.take,
            ),
            sources={"calc.py": CODE.encode()},
            seed="seed",
            evidence=Evidence(max_copies=copies),
        )

    async def shown(self, tests: str, copies: int, *, kind: str = "pytest") -> tuple[Any, int]:
        """Return what the tests notice, and in how many copies they ran."""
        outcome = await mutation_test(self.request(tests, copies, kind=kind))
        assert outcome.result is not None, outcome.why
        assert all(slot.closed for slot in self.slots.taken)
        assert list(self.scratch.iterdir()) == []
        result = msgspec.structs.replace(outcome.result, seconds=0.0)
        return (result, outcome.judged, outcome.flaky), len(set(self.seen.read_text().split()))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place in which a further copy is worth its costs also where tests are quick and the machine is busy."""
    monkeypatch.setattr(mutation_testing, "_RUNS_OF_A_COPY", 0.0)
    monkeypatch.setattr(mutation_testing, "_LEAST_SAVED_SECONDS", 0.0)
    return Place(tmp_path)


@pytest.mark.heavy
async def test_two_copies_show_the_same_as_one(place: Place) -> None:
    tests = TESTS.format(seen=str(place.seen))
    one, alone = await place.shown(tests, 1)
    two, together = await place.shown(tests, 2)
    # A fresh clone in which kills are confirmed writes elsewhere, where the machine can hide folders.
    assert (alone, together) in {(1, 2), (2, 3)}
    assert two == one
    assert one[0].killed > 5
    assert one[0].idle == ["test_calc.py::test_scale"]


async def test_no_second_copy_is_made_before_it_is_needed(place: Place) -> None:
    outcome = await mutation_test(place.request("def test_red():\n    assert False\n", 2))
    assert outcome.why == "its tests do not pass in a copy of the result"
    assert place.slots.taken == []
    assert list(place.scratch.iterdir()) == []
    assert marked() == []


@pytest.mark.heavy
async def test_two_copies_of_a_runner_without_a_kept_process(place: Place) -> None:
    one, _ = await place.shown(UNITTEST, 1, kind="unittest")
    two, _ = await place.shown(UNITTEST, 2, kind="unittest")
    assert len(place.slots.taken) == 1
    assert two == one
    assert one[0].killed > 1


async def test_tests_that_need_one_port_run_one_after_another(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (result, _, flaky), _ = await place.shown(PORT.format(port=port), 2)
    assert len(place.slots.taken) == 1
    assert (result.killed, result.viable, result.unreliable) == (0, 10, [])
    assert (result.unfinished, flaky) == (None, frozenset())


async def test_a_cancelled_judgement_leaves_no_process_and_no_copy(place: Place) -> None:
    stuck = TESTS.format(seen=str(place.seen)).replace(
        "    assert clamp",
        "    if clamp(5, 1, 3) != 3 or scale(1) != 4 or sign(0) != 1: seen(); time.sleep(600)\n    assert clamp",
    )
    request = place.request(f"import time\n{stuck}", 2)
    judging = asyncio.create_task(mutation_test(request))
    # Two lines from the unchanged code in each copy, the others from mutants that do not end by themselves.
    await asyncio.to_thread(until, lambda: len(place.seen.read_text().splitlines()) > 5 and len(marked()) >= 4)
    judging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await judging
    assert marked() == []
    assert list(place.scratch.iterdir()) == []
    assert [slot.closed for slot in place.slots.taken] == [True]


def marked() -> list[int]:
    """Return the processes of these tests' checks."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if MARK.encode() in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                    found.append(int(folder.name))
    return found


# -- the order of runs, without processes ---------------------------------------------------------------------------


def planned_run(index: int, *, sham: bool = False) -> PlannedRun:
    mutant = Mutant(start=index, end=index, text=b"", operator="", line=1, first_line=1, last_line=1, function="f")
    return PlannedRun(path="a.py", mutant=mutant, tests=("t",), sham=sham)


RECORDED = RecordedTests(passed={"t": 0.1}, failed=frozenset(), lines={}, modules=(), seconds=0.1)


class Runner:
    """Shows what was decided, except while another one runs if the tests disturb each other."""

    can_keep = keeps = False

    def __init__(self, world: World, steps: int) -> None:
        self._world = world
        self._steps = steps

    async def begin(self, *_: Any, warm: bool, **__: Any) -> bool:
        return warm or not (await self._disturbed() and self._world.from_the_start)

    async def judge(self, run: PlannedRun, *, seconds: float) -> MutantResult:
        disturbed = await self._disturbed()
        self._world.judged += 1
        killed = any(mutant.start in self._world.killed for mutant in (run.mutant, *run.beside))
        status = MutantStatus.KILLED if disturbed or killed else MutantStatus.SURVIVED
        killers = ("t",) if status is MutantStatus.KILLED else ()
        return MutantResult(path=run.path, mutant=run.mutant, status=status, killers=killers, sham=run.sham)

    async def _disturbed(self) -> bool:
        """Take some time; return whether another one used what both need meanwhile."""
        world = self._world
        world.inside += 1
        disturbed = False
        for _ in range(self._steps):
            await asyncio.sleep(0)
            disturbed = disturbed or (world.share and world.inside > 1)
        world.inside -= 1
        return disturbed

    async def close(self) -> None:
        self._world.closed += 1

    async def record(self, *_: Any, **__: Any) -> RecordedTests:
        return RECORDED


@dataclass
class World:
    """Which mutants are killed, and whether the tests need something that there is only once."""

    killed: frozenset[int]
    share: bool
    from_the_start: bool = True
    """Whether that shows on the unchanged code."""
    judged: int = 0
    """Runs that were made."""
    inside: int = 0
    closed: int = 0


def ran(
    world: World,
    steps: Sequence[int],
    count: int,
    slots: Slots | None = None,
    told: mutant_runs.Progress | None = None,
) -> MutantRuns:
    planned = [planned_run(index, sham=index % 7 == 3) for index in range(count)]
    further = slots or Slots(len(steps))
    lanes = [
        Lane(runner=Runner(world, one), slot=further.take() if index else None)  # type: ignore[arg-type]
        for index, one in enumerate(steps)
    ]
    return asyncio.run(run_mutants(lanes, RECORDED, planned, seconds=60, progress=told))


@given(
    st.frozensets(st.integers(0, 20).filter(lambda index: index % 7 != 3)),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.integers(1, 20),
)
def test_the_results_do_not_depend_on_the_number_of_copies(
    killed: frozenset[int], steps: list[int], count: int
) -> None:
    alone = ran(World(killed, share=False), [1], count)
    runs = ran(World(killed, share=False), steps, count)
    assert runs.results == alone.results
    assert (runs.copies, runs.complete) == (len(steps), True)


class SlowRunner(Runner):
    """Takes all of the time for the unchanged code."""

    async def begin(self, *_: Any, **__: Any) -> bool:
        await asyncio.sleep(1.0)
        return True

    async def judge(self, run: PlannedRun, *, seconds: float) -> MutantResult:
        await asyncio.sleep(min(0.2, seconds))
        return await super().judge(run, seconds=seconds)


@pytest.mark.parametrize(("fewest", "least", "most", "shams"), [(0, 0, 0, False), (2, 2, 3, True), (99, 4, 11, True)])
def test_the_fewest_mutants_and_all_sham_mutants_are_judged_where_the_code_loads_slowly(
    fewest: int, least: int, most: int, *, shams: bool
) -> None:
    planned = [planned_run(index, sham=index == 39) for index in range(40)]
    lanes = [Lane(runner=SlowRunner(World(frozenset(), share=False), 1))]
    runs = asyncio.run(run_mutants(lanes, RECORDED, planned, seconds=1.0, fewest=fewest))
    judged = [one for one in runs.results if one.status is not MutantStatus.PENDING]
    assert least <= sum(not one.sham for one in judged) <= most
    assert not runs.complete
    if fewest < 40:
        assert any(one.sham for one in judged) is shams


def test_runs_are_complete_if_all_mutants_were_judged_after_the_usual_time() -> None:
    lanes = [Lane(runner=SlowRunner(World(frozenset(), share=False), 1))]
    runs = asyncio.run(run_mutants(lanes, RECORDED, [planned_run(1), planned_run(2)], seconds=1.0, fewest=8))
    assert runs.complete


@pytest.mark.parametrize(
    ("killed", "made"), [({0}, [0, 1, 4, 5]), ({0, 1}, [0, 1, 4]), ({4}, [0, 1, 2, 3, 4, 5]), ((), [0, 1, 2, 3, 4, 5])]
)
def test_a_run_that_its_group_no_longer_needs_is_not_made(killed: Sequence[int], made: list[int]) -> None:
    """A mutant that was noticed makes others of its group needless; a changed place that was noticed does not."""
    groups = [
        (1, False, False),
        (2, False, False),
        (1, True, False),
        (1, True, True),
        (1, False, True),
        (2, True, False),
    ]
    planned = [
        replace(planned_run(index), group=group, only_if_missed=only, of_place=of_place)
        for index, (group, only, of_place) in enumerate(groups)
    ]
    lane = Lane(runner=Runner(World(frozenset(killed), share=False), 1))  # type: ignore[arg-type]
    runs = asyncio.run(run_mutants([lane], RECORDED, planned, seconds=60))
    assert [run.mutant.start for run in runs.planned] == made
    assert [run.mutant for run in runs.planned] == [result.mutant for result in runs.results]
    assert runs.complete


def undone_places(count: int, *, mutants: bool, hollow: bool) -> list[PlannedRun]:
    """Return runs for each place: a mutant, without the place, and with what it adds doing nothing."""
    numbers = range(count)
    runs = [replace(planned_run(100 + number), group=number) for number in numbers if mutants]
    runs += [replace(planned_run(2 * number), group=number, of_place=True) for number in numbers]
    emptied = (replace(planned_run(2 * number + 1), group=number, of_place=True) for number in numbers)
    return [*runs, *(replace(run, only_if_noticed=True) for run in emptied if hollow)]


@given(
    st.integers(1, 16),
    st.frozensets(st.integers(0, 15), max_size=4),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
)
def test_places_that_no_test_notices_are_undone_together(
    count: int, noticed: frozenset[int], mutants: bool, hollow: bool, steps: list[int]
) -> None:
    """Each place gets what it would get alone; with mutants that are noticed, in fewer runs."""
    noticed = frozenset(number for number in noticed if number < count)
    killed = {2 * number for number in noticed} | {100 + number for number in range(count)}
    world = World(frozenset(killed), share=False)
    slots = Slots(len(steps))
    lanes = [
        Lane(runner=Runner(world, one), slot=slots.take() if index else None)  # type: ignore[arg-type]
        for index, one in enumerate(steps)
    ]
    planned = undone_places(count, mutants=mutants, hollow=hollow)
    runs = asyncio.run(run_mutants(lanes, RECORDED, planned, seconds=60))
    of_places = [(run, result) for run, result in zip(runs.planned, runs.results, strict=True) if run.of_place]
    assert {run.group for run, result in of_places if result.noticed} == noticed
    assert {run.group for run, _ in of_places if run.only_if_noticed} == (noticed if hollow else set())
    assert [run.mutant for run in runs.planned] == [result.mutant for result in runs.results]
    assert runs.complete
    if mutants and len(steps) == 1:
        assert world.judged <= count + 1 + len(noticed) * 2 * count.bit_length() + hollow * len(noticed)


class HidingRunner(Runner):
    """Two places hide each other: a test notices each of them alone."""

    async def judge(self, run: PlannedRun, *, seconds: float) -> MutantResult:
        result = await super().judge(run, seconds=seconds)
        return replace(result, status=MutantStatus.SURVIVED, killers=()) if len(run.beside) == 1 else result


@pytest.mark.parametrize(("mutants", "noticed"), [(False, True), (True, False)])
def test_places_that_hide_each_other_are_undone_alone_if_nothing_else_shows_them(
    *, mutants: bool, noticed: bool
) -> None:
    lane = Lane(runner=HidingRunner(World(frozenset({0, 2, 100, 101}), share=False), 1))  # type: ignore[arg-type]
    planned = undone_places(2, mutants=mutants, hollow=False)
    runs = asyncio.run(run_mutants([lane], RECORDED, planned, seconds=60))
    of_places = [result for run, result in zip(runs.planned, runs.results, strict=True) if run.of_place]
    assert [result.noticed for result in of_places] == [noticed] * 2


class SeenRunner(Runner):
    """Keeps where the changes of each run begin."""

    seen: tuple[tuple[int, ...], ...] = ()

    async def judge(self, run: PlannedRun, *, seconds: float) -> MutantResult:
        self.seen += (tuple(mutant.start for mutant in (run.mutant, *run.beside)),)
        return await super().judge(run, seconds=seconds)


def test_changes_that_overlap_are_not_made_together() -> None:
    runner = SeenRunner(World(frozenset(), share=False), 1)
    wide = replace(planned_run(0), of_place=True, mutant=replace(planned_run(0).mutant, end=5))
    planned = [wide, *(replace(planned_run(start), of_place=True, group=start) for start in (4, 5, 5))]
    asyncio.run(run_mutants([Lane(runner=runner)], RECORDED, planned, seconds=60))  # type: ignore[arg-type]
    assert runner.seen == ((0,), (4, 5), (4,), (5,), (5,))


@pytest.mark.parametrize("begins", [True, False])
def test_what_is_to_be_run_then_depends_on_all_results(*, begins: bool) -> None:
    """If nothing could be run, it is asked for all the same, and learns nothing."""
    world = World(frozenset({1, 7}), share=not begins)
    lanes = [Lane(runner=Runner(world, 1)) for _ in range(1 if begins else 2)]  # type: ignore[arg-type]
    if not begins:
        lanes[0].runner.begin = lanes[1].runner.begin = never  # type: ignore[method-assign]
    seen: list[list[MutantStatus]] = []

    def follow_up(runs: MutantRuns) -> mutant_runs.FollowUp:
        seen.append([one.status for one in runs.results])
        seen.append([one.status for one in (yield [planned_run(7)])])
        seen.append([one.status for one in (yield [planned_run(8), planned_run(9)])])

    asyncio.run(run_mutants(lanes, RECORDED, [planned_run(0), planned_run(1)], seconds=60, follow_up=follow_up))
    survived, killed, pending = MutantStatus.SURVIVED, MutantStatus.KILLED, MutantStatus.PENDING
    expected = [[survived, killed], [killed], [survived, survived]]
    assert seen == (expected if begins else [[pending] * len(one) for one in expected])


async def never(*_: Any, **__: Any) -> bool:
    return False


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, range(3, 50, 3)), (60.0, ())])
def test_the_user_is_told_of_each_twentieth_of_the_mutants_when_they_take_long(
    monkeypatch: pytest.MonkeyPatch, seconds: float, expected: Sequence[int]
) -> None:
    monkeypatch.setattr(mutant_runs, "PROGRESS_SECONDS", seconds)
    told: list[tuple[str, Count]] = []
    progress = mutant_runs.Progress(lambda *what: told.append(what), run="again")
    ran(World(frozenset(), share=False), [1, 2], 58, told=progress)  # eight of these are sham mutants
    assert [text for text, _ in told] == [f"tried {done} of 50 small changes (again)" for done in expected]
    counts = [Count(of="small_changes", done=done, total=50, run="again") for done in expected]
    assert [count for _, count in told] == counts


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 20), st.booleans())
def test_tests_that_disturb_each_other_kill_nothing_for_that_reason(
    steps: list[int], count: int, from_the_start: bool
) -> None:
    runs = ran(World(frozenset(), share=True, from_the_start=from_the_start), steps, count)
    assert {one.status for one in runs.results} == {MutantStatus.SURVIVED}
    assert runs.complete


def test_a_copy_ends_when_a_delegation_waits_for_its_slot() -> None:
    slots, alone = Slots(2), ran(World(frozenset({1, 5}), share=False), [1], 20)
    slots.wanted = True
    runs = ran(World(frozenset({1, 5}), share=False), [5, 1, 1], 20, slots)
    assert (runs.results, runs.complete) == (alone.results, True)
    assert [slot.closed for slot in slots.taken] == [True, True]


@pytest.mark.parametrize(
    ("runs", "seconds", "copy_seconds", "copies"),
    [(7, 1.0, 0.0, 1), (8, 1.0, 0.0, 2), (40, 1.0, 0.0, 10), (40, 1.0, 3.0, 4), (40, 1.0, 30.0, 1), (40, 0.0, 1.5, 2)],
)
def test_a_copy_must_be_worth_its_cost(runs: int, seconds: float, copy_seconds: float, copies: int) -> None:
    assert copies_worth_having(runs, seconds, copy_seconds=copy_seconds) == copies


def test_copies_must_fit_on_the_disk(tmp_path: Path) -> None:
    assert copies_that_fit(1000, tmp_path) > 1000
    assert copies_that_fit(3 << 30, tmp_path) == 0


def test_a_spare_slot_goes_to_the_next_delegation(tmp_path: Path) -> None:
    own = take_slot(tmp_path, 2)
    assert own is not None
    spare = spare_slot(tmp_path, 2)
    assert spare is not None
    assert not spare.wanted
    assert spare_slot(tmp_path, 2) is None
    store.add(tmp_path, Entry("20261122-100000-aaaaa", 2), record=False)
    assert spare.wanted
    spare.close()
    spare.close()
    # The delegation that waited is gone: the slot is free, and so is the queue.
    assert store.waiting(tmp_path) == []
    again = spare_slot(tmp_path, 2)
    assert again is not None
    again.close()
    store.add(tmp_path, Entry("20261122-100000-aaaaa", 2), record=False)
    assert spare_slot(tmp_path, 2) is None
    own.close()
