"""Test reading the results under review in the background: an error in one does not affect the others."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from understudy.frontends.lsp.review import open_reviews
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State


class FakeClient:
    """A client for ``OpenReviews`` with one result that cannot be read."""

    def __init__(self, broken: str) -> None:
        self.broken = broken
        self.options = SimpleNamespace(review=True)
        self.subscribed = False
        self.on_ready: list[Any] = []
        self.on_events: list[Any] = []
        self.on_changed: list[Any] = []
        self.tasks: list[asyncio.Task[Any]] = []

    def spawn(self, work: Any, name: str) -> asyncio.Task[Any]:
        self.tasks.append(asyncio.create_task(work, name=name))
        return self.tasks[-1]

    async def call(self, name: str, params: dict[str, Any]) -> Any:
        if params["id"] == self.broken:
            raise UnderstudyError(ErrorKind.TIMED_OUT, "Git took too long.", hint="Try again.")
        if name == "delegations/diff":
            return SimpleNamespace(files=[], undoable=[])
        review = SimpleNamespace(pending=1, accepted=0)
        return SimpleNamespace(
            id=params["id"], state=State.FINISHED, head="abc", review=review, last_seq=1, checks=[], reservations=[], workspace="/w",
            result=SimpleNamespace(files=[SimpleNamespace(path="f")]),
        )  # fmt: skip


@pytest.mark.parametrize("broken", ["a", "b", "c", "d"])
async def test_a_result_that_cannot_be_read_hides_no_other(broken: str, caplog: pytest.LogCaptureFixture) -> None:
    client, told = FakeClient(broken), []
    works = open_reviews.OpenReviews(client, lambda ids, _: told.append(ids), lambda _: True)
    works.read({"a", "b", "c", "d"})
    await asyncio.gather(*client.tasks)
    assert set(works.known) == {"a", "b", "c", "d"} - {broken}
    assert set().union(*told) == set(works.known)
    assert "Git took too long." in caplog.text
