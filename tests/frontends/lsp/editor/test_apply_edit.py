"""Test that open documents are changed together or not at all, and only if they still have the text that was read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from understudy.engine.review.editor_documents import BufferEdit
from understudy.frontends.lsp.editor import requests
from understudy.frontends.lsp.editor.client import EditorRefused
from understudy.frontends.lsp.editor.documents import Documents, fold
from understudy.model.errors import ErrorKind, UnderstudyError

A, B = "file:///w/a.txt", "file:///w/b.txt"


class FakeEditor:
    """A client for ``apply_edit``, with an editor that answers as the test defines."""

    def __init__(self, encoding: str = "utf-16", *, versioned: bool = True) -> None:
        self.encoding = encoding
        self.documents = Documents(encoding)
        self.versioned = versioned
        self.asked: list[Any] = []
        self.answers: list[Callable[[Any], Any]] = []
        for uri in (A, B):
            self.documents.open(uri, 1, "eins 🎉\nzwei\n")

    def can(self, path: str) -> bool:
        return path == "workspace.applyEdit" or (self.versioned and path == "workspace.workspaceEdit.documentChanges")

    async def ask(self, _method: str, params: Any, _limit: float) -> Any:
        self.asked.append(params["edit"])
        await asyncio.sleep(0)
        return (self.answers.pop(0) if self.answers else self.apply)(params["edit"])

    def apply(self, edit: Any, only: int | None = None) -> dict[str, Any]:
        found = edit.get("documentChanges") or [
            {"textDocument": {"uri": uri}, "edits": each} for uri, each in edit["changes"].items()
        ]
        for one in found[:only]:
            uri = one["textDocument"]["uri"]
            version, text = self.documents.look(uri) or (0, "")
            assert one["textDocument"].get("version") in {None, version}
            changes = [_change(each) for each in reversed(one["edits"])]
            self.write(uri, fold(text, changes, self.encoding))
        return {"applied": True}

    def write(self, uri: str, text: str) -> None:
        version = self.documents.version(uri) or 0
        self.documents.change(uri, version + 1, [{"text": text}])


def _change(edit: Any) -> Any:
    start, end = edit["range"]["start"], edit["range"]["end"]
    return (start["line"], start["character"], end["line"], end["character"]), edit["newText"]


def edit(uri: str, after: str = "eins 🎉\ndrei\n") -> BufferEdit:
    return BufferEdit(uri, "eins 🎉\nzwei\n", after)


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "SHOWN_SECONDS", 0.2)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
@pytest.mark.parametrize("versioned", [True, False])
async def test_documents_are_changed_in_every_encoding(encoding: str, versioned: bool) -> None:
    editor: Any = FakeEditor(encoding, versioned=versioned)
    assert await requests.apply_change(editor, [edit(A, "🎉 null\neins 🎉\nzwei"), edit(B)])
    assert editor.documents.text(A) == "🎉 null\neins 🎉\nzwei"
    assert editor.documents.text(B) == "eins 🎉\ndrei\n"
    assert len(editor.asked) == 1
    assert ("documentChanges" in editor.asked[0]) is versioned


async def test_a_document_with_another_text_is_not_changed() -> None:
    editor: Any = FakeEditor()
    editor.write(A, "other\n")
    with pytest.raises(UnderstudyError) as caught:
        await requests.apply_change(editor, [edit(B), edit(A)])
    assert caught.value.kind is ErrorKind.MERGE_CONFLICT
    assert not editor.asked


@pytest.mark.parametrize("refuse", [lambda _: {"applied": False}, lambda _: None, lambda _: 1 / 0])
async def test_a_refusal_returns_false(refuse: Callable[[Any], Any]) -> None:
    editor: Any = FakeEditor()

    def answer(params: Any) -> Any:
        try:
            return refuse(params)
        except ZeroDivisionError:
            raise EditorRefused(-32601, "unknown") from None

    editor.answers = [answer]
    assert await requests.apply_change(editor, [edit(A), edit(B)]) is False
    assert editor.documents.text(A) == editor.documents.text(B) == "eins 🎉\nzwei\n"


async def test_a_partial_edit_is_reverted() -> None:
    editor: Any = FakeEditor()

    def half(params: Any) -> Any:
        editor.apply(params, only=1)
        return {"applied": False, "failureReason": "b.txt is read-only"}

    editor.answers = [half]
    assert await requests.apply_change(editor, [edit(A), edit(B)]) is False
    assert editor.documents.text(A) == "eins 🎉\nzwei\n"


async def test_a_refusal_because_the_user_typed_is_retried() -> None:
    editor: Any = FakeEditor()

    def typed(_: Any) -> Any:
        editor.write(A, "typed\n")
        return {"applied": False}

    editor.answers = [typed]
    with pytest.raises(UnderstudyError) as caught:
        await requests.apply_change(editor, [edit(A)])
    assert caught.value.kind is ErrorKind.MERGE_CONFLICT
    assert editor.documents.text(A) == "typed\n"


async def test_the_change_counts_when_the_document_shows_it() -> None:
    editor: Any = FakeEditor()
    loop = asyncio.get_running_loop()

    def later(params: Any) -> Any:
        loop.call_later(0.05, editor.apply, params)
        return {"applied": True}

    editor.answers = [later]
    assert await requests.apply_change(editor, [edit(A)])
    assert editor.documents.text(A) == "eins 🎉\ndrei\n"

    # The editor may use other line breaks, and the user may type more right after the change.
    editor.write(A, "eins 🎉\nzwei\n")
    editor.answers = [lambda _: editor.write(A, "eins 🎉\r\ndrei\r\n") or {"applied": True}]
    assert await requests.apply_change(editor, [edit(A)])
    editor.write(A, "eins 🎉\nzwei\n")
    editor.answers = [lambda _: editor.write(A, "eins 🎉\ndrei\nvier") or {"applied": True}]
    assert await requests.apply_change(editor, [edit(A)])

    editor.write(A, "eins 🎉\nzwei\n")
    editor.answers = [lambda _: {"applied": True}]
    with pytest.raises(UnderstudyError, match="did not send it") as caught:
        await requests.apply_change(editor, [edit(A)])
    assert caught.value.kind is ErrorKind.TIMED_OUT


async def test_no_answer_does_not_mean_that_nothing_happened() -> None:
    editor: Any = FakeEditor()

    def silent(_: Any) -> Any:
        raise TimeoutError

    editor.answers = [silent]
    with pytest.raises(UnderstudyError) as caught:
        await requests.apply_change(editor, [edit(A)])
    assert caught.value.kind is ErrorKind.TIMED_OUT
