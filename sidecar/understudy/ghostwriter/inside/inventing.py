"""Ask Hypothesis for values: many at random, or a simple one."""

from __future__ import annotations

from typing import Any, Callable

SHRINK_EXAMPLES = 120


class Late(BaseException):
    """Ends a run of Hypothesis, which catches exceptions of other kinds."""


def generated(strategy: Any, count: int, number: int, late: Callable[[], bool]) -> list[str]:
    """Return up to ``count`` different values of a strategy of texts; ``number`` selects the sequence."""
    found: dict[str, None] = {}

    def collect(text: str) -> None:
        if late():
            raise Late
        found[text] = None

    _completes(strategy, collect, count, number)
    return list(found)


def smallest(strategy: Any, condition: Callable[[str], bool]) -> None:
    """Let Hypothesis look for a simple text that meets a condition, which keeps what it has seen itself."""
    from hypothesis import HealthCheck, Phase, find, settings

    options = settings(
        max_examples=SHRINK_EXAMPLES,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    try:
        find(strategy, condition, settings=options)
    except (Exception, Late):
        return


def counter_example(
    strategies: list[str], holds: Callable[[tuple[Any, ...]], bool], count: int, number: int, late: Callable[[], bool]
) -> bool:
    """Return whether ``holds`` fails for one of ``count`` values, or cannot be decided; ``strategies`` are texts."""
    from hypothesis import strategies as st

    made = [eval(text, {"st": st}) for text in strategies]  # noqa: S307 - texts of this package

    def check(values: tuple[Any, ...]) -> None:
        if late() or not holds(values):
            raise Late

    return not _completes(st.tuples(*made), check, count, number)


def _completes(strategy: Any, take: Callable[[Any], None], count: int, number: int) -> bool:
    """Pass up to ``count`` values to ``take``; return whether neither it nor the strategy raised an exception."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(value: Any) -> None:
        take(value)

    try:
        run()
    except (Exception, Late):
        return False
    return True
