"""Opening documents while results are pending costs the same for each document, however many are open."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from operations import counted, require_linear

from understudy.frontends.lsp.editor.aggregator import Aggregator
from understudy.frontends.lsp.editor.client import Client
from understudy.frontends.lsp.review import review_feature
from understudy.model.delegation.delegations import FileStat
from understudy.model.hunks import FileDiff, Hunk, HunkState
from understudy.model.states import State

SIZE = 60


class Editor:
    """A client with one pending result that changes ``files`` files; the texts of the base are those on disk."""

    def __init__(self, top: Path, files: int) -> None:
        self.client = Client()
        self.top = top
        self.asked: list[str] = []
        stats = [
            FileStat(path=f"f{number}.txt", status="modified", additions=1, deletions=0) for number in range(files)
        ]
        review = SimpleNamespace(pending=files, accepted=0)
        self.delegation = SimpleNamespace(
            id="20260101-000000-aaaaa", state=State.FINISHED, head="abc", review=review, last_seq=1, checks=[],
            workspace=str(top), result=SimpleNamespace(files=stats), title="x", rounds=[], reservations=[],
        )  # fmt: skip
        self.client.call = self.call  # type: ignore[method-assign]
        self.feature = review_feature.ReviewFeature(Aggregator(self.client))

    async def call(self, name: str, params: dict[str, Any]) -> Any:
        self.asked.append(name)
        if name == "delegations/list":
            return SimpleNamespace(delegations=[self.delegation], cursor=None)
        if name == "delegations/get":
            return self.delegation
        if name == "delegations/diff":
            files = [self.diff(one.path) for one in self.delegation.result.files]
            return SimpleNamespace(files=files, undoable=[])
        return SimpleNamespace(text="line\n" * 3, base64=None)

    def diff(self, path: str) -> FileDiff:
        state = HunkState.PENDING
        hunk = Hunk(
            id=path, old_start=1, old_lines=0, new_start=1, new_lines=1, state=state, conflict=False, edited=False
        )
        return FileDiff(path=path, status="modified", binary=False, hunks=[hunk])

    def open(self, number: int) -> str:
        uri = (self.top / f"f{number}.txt").as_uri()
        self.client.documents.open(uri, 1, "line\n" * 3)
        self.client.run_hooks(self.client.on_document, "open", uri)
        return uri

    async def rest(self) -> None:
        """Wait for all background work."""
        while tasks := [task for task in self.client._tasks if not task.done()]:
            await asyncio.wait(tasks)
        await asyncio.sleep(0.02)


def cost(top: Path, documents: int, files: int) -> int:
    """Return the operations of opening documents, once the list was read."""

    async def run() -> int:
        editor = Editor(top, files)
        await editor.feature._works._list()
        await editor.rest()
        return counted(lambda: [editor.open(number) for number in range(documents)])

    review_feature._spellings.cache_clear()
    return asyncio.run(run())


def test_opening_documents_is_linear(tmp_path: Path) -> None:
    require_linear(lambda count: cost(tmp_path, count, 1), SIZE)


def test_opening_the_files_of_a_large_result_is_linear(tmp_path: Path) -> None:
    require_linear(lambda count: cost(tmp_path, count, count), SIZE)


async def test_a_document_gets_the_hunks_of_a_result_before_and_after_it_is_known(tmp_path: Path) -> None:
    editor = Editor(tmp_path, 3)
    early = editor.open(1)
    await editor.feature._works._list()
    await editor.rest()
    late = editor.open(2)
    other = editor.open(7)
    await editor.rest()
    for uri, hunks in ((early, 1), (late, 1), (other, 0)):
        view = await editor.feature._view(uri)
        assert (0 if view is None else len(view.marks)) == hunks
        assert (uri in editor.feature.aggregator.diagnostics._found) == bool(hunks)
