"""What follows a failed attempt: another delegator, if it may not have the same failure."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from understudy.engine.running.attempts.failure_policy import Next, Stop, decide
from understudy.model.delegation.delegations import Attempt, no_usage
from understudy.model.errors import ErrorInfo, ErrorKind, ErrorScope

FAILURES = st.builds(
    ErrorInfo,
    kind=st.sampled_from(ErrorKind),
    message=st.text(max_size=20),
    retry_at=st.none() | st.datetimes().map(lambda moment: moment.isoformat() + "Z") | st.text(max_size=5),
    scope=st.none() | st.sampled_from(ErrorScope),
)
ATTEMPTS = st.lists(
    st.builds(
        Attempt,
        number=st.integers(1, 50),
        delegator=st.text(max_size=5),
        model=st.text(max_size=5),
        started_at=st.just("2026-11-22T04:00:00.000Z"),
        usage=st.builds(no_usage),
        failure=st.none() | FAILURES,
    ),
    max_size=5,
)


NEXT = {
    *("auth_failed", "quota_exhausted", "rate_limited", "overloaded", "connection_failed", "model_not_found"),
    *("tool_missing", "tool_crashed", "tool_no_result", "stream_truncated", "stalled", "timed_out"),
}
"""Written out: a new kind of error ends the delegation until someone decides otherwise."""


@given(ATTEMPTS, FAILURES, st.datetimes(timezones=st.just(UTC)))
def test_another_delegator_gets_what_it_may_be_able_to_do(
    attempts: list[Attempt], failure: ErrorInfo, clock: datetime
) -> None:
    before = msgspec.json.encode([attempts, failure])
    assert decide(attempts, failure, clock) == (Next() if failure.kind in NEXT else Stop())
    assert decide(attempts, failure, clock) == decide(attempts, failure, clock), "the same input, the same decision"
    assert msgspec.json.encode([attempts, failure]) == before, "the input is not changed"
