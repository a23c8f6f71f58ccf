"""Test limits, pauses and cancelling of coroutines that run without an event loop."""

import asyncio
import time

import pytest

from understudy.runners.driver import clock


def test_the_result_and_the_error_of_a_coroutine_come_back():
    async def works():
        await clock.sleep(0)
        return await clock.in_thread(lambda one: one + 1, 41)

    async def fails():
        await clock.sleep(0)
        raise ValueError("no")

    assert clock.run_alone(works()) == 42
    with pytest.raises(ValueError, match="no"):
        clock.run_alone(fails())
    assert clock.alone() is None


def test_a_limit_ends_what_runs_inside_and_only_once():
    seen = []

    async def work():
        async with clock.timeout(60):
            try:
                async with clock.timeout(0.02) as limit:
                    try:
                        await clock.sleep(30)
                    finally:
                        seen.append(limit.expired())
                        await clock.sleep(0.001)  # cleaning up is not ended again
                        seen.append("cleaned up")
            except TimeoutError:
                return "ended"

    began = time.monotonic()
    assert clock.run_alone(work()) == "ended"
    assert seen == [True, "cleaned up"]
    assert time.monotonic() - began < 20


def test_the_outer_limit_passes_through_inner_ones():
    async def work():
        try:
            async with clock.timeout(0.02) as outer:
                try:
                    async with clock.timeout(30):
                        await clock.sleep(60)
                except TimeoutError:
                    return "the inner one"
        except TimeoutError:
            return outer.expired()

    assert clock.run_alone(work()) is True


@pytest.mark.parametrize("alone", [True, False])
def test_a_limit_can_be_moved(alone):
    async def work():
        async with clock.timeout(0.01) as limit:
            limit.reschedule(None)
            await clock.sleep(0.03)
            limit.reschedule(clock.now() + 60)
            await clock.sleep(0.03)
            assert not limit.expired()
            limit.reschedule(clock.now())
            await clock.sleep(30)

    with pytest.raises(TimeoutError):
        clock.run_alone(work()) if alone else asyncio.run(work())


def test_what_looks_can_stop_it_and_is_asked_often():
    looks = []

    async def work():
        try:
            await clock.sleep(30)
        finally:
            await clock.sleep(0.01)  # stopped once, not again while it cleans up
            looks.append("cleaned up")

    def look():
        looks.append(time.monotonic())
        return len(looks) == 4

    with pytest.raises(clock.Stopped):
        clock.run_alone(work(), look)
    assert len(looks) == 5
    assert looks[-1] == "cleaned up"


def test_what_needs_an_event_loop_is_an_error():
    class Never:
        def __await__(self):
            yield

    async def work():
        await Never()

    with pytest.raises(RuntimeError, match="event loop"):
        clock.run_alone(work())
    assert clock.alone() is None
