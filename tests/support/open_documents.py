"""An editor with open documents, and decisions about the delegation of the fixture ``window``."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.api.caller import TerminalCaller
from understudy.engine.review.editor_documents import BufferEdit
from understudy.model.errors import ErrorKind, UnderstudyError


class Window(TerminalCaller):
    """A caller with open documents, which does what it is asked."""

    name = "lsp"

    def __init__(self, top: Path) -> None:
        super().__init__(top)
        self.top = top
        self.texts: dict[str, str] = {}
        self.fixed: set[str] = set()
        """What is open but cannot be changed."""
        self.asked: list[list[BufferEdit]] = []
        self.answers: list[object] = []
        """What ``edit`` does next: true, false, an error, or something to call before it does it."""

    def uri(self, path: str) -> str:
        return (self.top / path).as_uri()

    def show(self, path: str, text: str | None = None) -> None:
        self.texts[self.uri(path)] = (self.top / path).read_bytes().decode() if text is None else text

    def text(self, path: str) -> str:
        """Return the text that the user sees."""
        uri = self.uri(path)
        return self.texts[uri] if uri in self.texts else (self.top / path).read_bytes().decode()

    def documents(self) -> dict[str, str]:
        return dict(self.texts)

    def editor(self) -> Window:
        return self

    def editable(self) -> set[str]:
        return set(self.texts) - self.fixed

    def edit(self, edits: list[BufferEdit]) -> bool:
        self.asked.append(edits)
        answer = self.answers.pop(0) if self.answers else True
        if callable(answer):
            answer()
        elif isinstance(answer, Exception):
            raise answer
        elif not answer:
            return False
        for each in edits:
            if self.texts.get(each.uri) != each.before:
                raise UnderstudyError(ErrorKind.MERGE_CONFLICT, f"{each.uri} holds another text.")
        self.texts |= {each.uri: each.after for each in edits}
        return True


def decide(project, *paths: str, **more):
    decisions = [{"path": path, "decision": "accept"} for path in paths] or [{"decision": "accept"}]
    return project.call("delegations/decide", id=project.id, decisions=decisions, **more)


def undo(project, done) -> None:
    project.call("delegations/undo", undoToken=done.undo_token)


def states(project, path: str) -> list[str]:
    files = project.call("delegations/diff", id=project.id).files
    return [hunk.state for file in files for hunk in file.hunks if file.path == path]


def refused(kind: ErrorKind, call, *args, **kwargs) -> UnderstudyError:
    with pytest.raises(UnderstudyError) as caught:
        call(*args, **kwargs)
    assert caught.value.kind is kind, caught.value
    return caught.value
