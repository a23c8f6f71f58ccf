"""Text recipes of editors and scripts: one request to a model server from this process, without a delegation."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from understudy.api import messages, text_requests
from understudy.api.caller import Caller
from understudy.engine.text_recipes import corpus as corpora
from understudy.engine.text_recipes import text_request
from understudy.git import repository
from understudy.model.delegation import events
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting

PIECE_SECONDS = 0.05
"""Shortest time between two notifications of one answer."""


def preview(caller: Caller, params: messages.TextParams) -> messages.PreviewResult:
    """Return exactly what `text/run` would send; refused if the delegator runs an agent CLI."""
    return text_requests.preview_of(_prepare(caller, params)[0])


def run(caller: Caller, params: messages.TextParams) -> messages.TextResult:
    """Send a text recipe to a model server from this process and return the answer; nothing else is started.

    Cancelling the request ends it at once.
    """
    began = time.monotonic()
    prepared, notes = _prepare(caller, params)
    pieces = _Pieces(caller, params.stream)

    def tell(event: events.Event) -> None:
        if isinstance(event, events.Text):
            pieces.add(event.text)
        elif isinstance(event, events.Note):
            notes.append(event.text)
            if event.begins_again:
                pieces.begin_again()

    def is_cancelled() -> bool:
        pieces.send()
        return pieces.is_gone or caller.cancelled()

    answered = text_request.run(
        prepared,
        caller.asked_by(),
        on_event=tell,
        deliver=lambda _: pieces.send(at_once=True),
        is_cancelled=is_cancelled,
    )
    return messages.TextResult(
        id=answered.id,
        text=answered.text,
        delegator=answered.by.delegator.name,
        model=answered.by.delegator.model or "",
        usage=answered.usage,
        cost_usd=answered.cost_usd,
        seconds=round(time.monotonic() - began, 3),
        notes=notes,
    )


class _Pieces:
    """The answer on its way to the client, in pieces that are not smaller than they have to be."""

    def __init__(self, caller: Caller, stream: str | None) -> None:
        self.is_gone = False
        """Whether the client can no longer be reached."""
        self._caller = caller
        self._stream = stream
        self._waiting: list[str] = []
        self._next_at = 0.0
        self._restarts = False
        """Whether the client must clear what it has, before the next piece."""
        self._was_sent = False

    def add(self, text: str) -> None:
        if self._stream is not None:
            self._waiting.append(text)
            self.send()

    def begin_again(self) -> None:
        """Drop what has arrived: another answer begins."""
        self._waiting.clear()
        self._restarts = self._was_sent

    def send(self, *, at_once: bool = False) -> None:
        """Send what has arrived, unless the last piece was sent only just now."""
        now = time.monotonic()
        if self._stream is None or not self._waiting or self.is_gone or (now < self._next_at and not at_once):
            return
        text = "".join(self._waiting)
        self._waiting.clear()
        self._next_at = now + PIECE_SECONDS
        try:
            notification = messages.TextNotification(stream=self._stream, text=text, restart=self._restarts)
            self._restarts, self._was_sent = False, True
            self._caller.tell("text", notification)
        except OSError:
            self.is_gone = True


def _prepare(caller: Caller, params: messages.TextParams) -> tuple[text_request.PreparedRequest, list[str]]:
    """Read the files, choose the delegator and build the prompt; return it with warnings for the user."""
    files = params.files or []
    workspace = repository.workspace_of(files, params.workspace, caller.folder(), caller.opened())
    named = [repository.require_path(uri) for uri in files]
    documents = dict(caller.documents()) | {buffer.uri: buffer.text for buffer in params.buffers or []}
    configured = text_request.configured(workspace)
    limits = text_request.bounds_of(configured[1])
    corpus = corpora.collect([str(path) for path in named], workspace, limits, unsaved=_unsaved(documents))
    if not named and params.task is None and params.input is None:
        raise UnderstudyError(
            ErrorKind.INPUT_EMPTY, "Nothing is named to work on.", hint="Name files, or describe the work in `task`."
        )
    prepared = text_request.prepare(
        text_request.TextRequest(
            recipe=params.recipe,
            folder=workspace,
            task=params.task,
            input=params.input,
            corpus=corpus,
            range=params.range,
            diagnostics=params.diagnostics,
            subject=_subject(named, corpus),
            delegator=params.delegator,
            fallback=params.fallback,
            launch=params.launch,
            limits=params.limits,
            bounds=limits,
            configured=configured,
        )
    )
    if prepared.recipe.returns != "text":
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"The recipe {prepared.recipe.name!r} changes files, so it needs a delegation.",
            hint="Start it with delegations/start.",
            parameter="recipe",
        )
    left_out = [f"{skipped.name} is not sent: {skipped.why}." for skipped in corpus.left_out]
    return prepared, [*prepared.notes, *left_out]


def _subject(named: list[Path], corpus: corpora.Corpus) -> str | None:
    """Return the name that the prompt has for the first file; None if it names a folder."""
    if not named:
        return None
    return next((file.name for file in corpus.files if file.real == os.path.realpath(named[0])), None)


def _unsaved(documents: Mapping[str, str]) -> dict[str, bytes]:
    """Return the text of open documents by their real path."""
    contents = {}
    for uri, text in documents.items():
        path = path_quoting.path_of(uri)
        if path is not None:
            contents[os.path.realpath(path)] = text.encode("utf-8", "replace")
    return contents
