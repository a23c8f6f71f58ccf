"""Review results in any editor: a result is a file, ``review.diff``, with diagnostics, code actions and lenses.

In this file, and in the open files that it changes, each pending hunk is a diagnostic ("next problem" goes to the next
hunk) with code actions and lenses. These run requests of the contract, so decisions are the same in all frontends.

Nothing opens automatically, because that would move the cursor while the user types; ``open`` is only for users who
asked for it. Decisions do not change ``review.diff``, because the user may be editing it; the diagnostic of a hunk
shows its state.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from understudy.api import result_files
from understudy.frontends.lsp.editor import user_messages
from understudy.frontends.lsp.editor.client import EditorRefused
from understudy.frontends.lsp.editor.line_alignment import lines_of
from understudy.frontends.lsp.review import document_view, hunk_positions, open_reviews, review_actions, survivor_hints
from understudy.frontends.lsp.review.document_view import Mark, View
from understudy.frontends.lsp.review.review_actions import OpenReview
from understudy.frontends.lsp.review.review_document import EditedReview, ReviewTarget
from understudy.frontends.lsp.review.survivor_hints import PathIndex, SurvivorHint
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import JudgedMutant
from understudy.model.hunks import FileDiff, HunkState
from understudy.model.states import State
from understudy.model.text import path_quoting, sanitize

if TYPE_CHECKING:
    from understudy.api.serving.request import InFlightRequest
    from understudy.frontends.lsp.editor.aggregator import Aggregator

OWNER = "review"
SETTLE_SECONDS = 0.15
"""Delay between the last keystroke and new diagnostics."""
NAMED_CONFLICTS = 3
KEPT_TEXTS = 64
"""How many texts of bases and results are cached."""
KEPT_TOKENS = 8
"""How many accepts of one file can be undone, one after the other."""
STOP_CHECKS = "Stop the Checks and Decide Now"
LARGE_CHARACTERS = 200_000
"""Longer texts are processed in a thread."""

_DECIDING = {
    review_actions.DECIDE,
    review_actions.DROP,
    review_actions.REPLY,
    review_actions.STRENGTHEN,
    review_actions.UNDO,
}


class ReviewFeature:
    """The review in one editor."""

    def __init__(self, shared: Aggregator) -> None:
        """Start with nothing to show."""
        self.client = shared.client
        self.aggregator = shared
        self._opened = PathIndex()
        """Open document → its path, with and without the links in its folders."""
        self._works = open_reviews.OpenReviews(shared.client, self._changed, self._opened.__contains__)
        self._reviews: dict[str, str | None] = {}
        """Open document → the delegation of which it is the review, None for other documents."""
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._views: dict[str, tuple[tuple[int | None, int], View | None]] = {}
        self._texts: dict[tuple[str, str, str], str | None] = {}
        """Delegation, path, and ``base`` or the commit of the result → the text."""
        self._tokens: dict[Path, list[str]] = {}
        """File → the undo tokens of accepts by this editor that changed it, oldest first."""
        self.client.on_document.append(self._document)
        self.aggregator.actions.append(self._actions)
        self.aggregator.lenses.append(self._lenses)
        self.client.on_command.append(self._done)

    # -- opening ---------------------------------------------------------------------------------------------------

    async def open(self, delegation: str, spot: ReviewTarget | None = None) -> None:
        """Show the review of a delegation, at ``spot`` if given; if the editor cannot, show a message with the path.

        Errors: ``unknown_delegation``.
        """
        path = await asyncio.to_thread(_review_of, delegation)
        current = await self.client.call("delegations/get", {"id": delegation})
        if path is not None and current.state is State.CHECKING:
            self.client.spawn(self._offer_to_stop_checks(delegation), f"checks of {delegation}")
        if path is None:
            why = "is not finished yet. You will get a message when it is."
            if current.state is State.FINISHED:
                why = "has no changes to review."
            self._say(types.MessageType.Info, f"{delegation} {why}")
            return
        line = 0 if spot is None else await self._line_of(delegation, path, spot)
        if not await user_messages.show_document(self.client, path, line):
            where = f"{path}, line {line + 1}" if line else str(path)
            self._say(types.MessageType.Info, f"The review is in {where}. Open that file in your editor.")

    async def _offer_to_stop_checks(self, delegation: str) -> None:
        """Say that nothing can be decided while checks run; stop them if the user wants that."""
        text = f"The checks of {delegation} still run. You can decide when they have ended"
        if not user_messages.can_ask(self.client):
            self._say(types.MessageType.Info, f"{text}, or stop them: understudy cancel {delegation} --checks")
            return
        try:
            chosen = await user_messages.choose(
                self.client, types.MessageType.Info, f"{text}.", [STOP_CHECKS], user_messages.PERSON_SECONDS
            )
            if chosen is not None:
                await self.client.call("delegations/cancel", {"id": delegation, "onlyChecks": True})
        except UnderstudyError as error:
            self._say(types.MessageType.Error, f"{error.message} {error.hint or ''}".strip())
        except (EditorRefused, TimeoutError):
            return

    async def open_command(self, *arguments: Any) -> None:
        """Run ``OPEN_REVIEW``: the ID of a delegation, and optionally a hunk."""
        params = arguments[0] if arguments and isinstance(arguments[0], dict) else {}
        if not isinstance(params.get("id"), str):
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS, "`id` is missing.", hint="Set `id` to the ID of the delegation."
            )
        path, hunk = params.get("path"), params.get("hunk")
        spot = ReviewTarget(path, hunk) if isinstance(path, str) and isinstance(hunk, str) else None
        await self.open(params["id"], spot)

    async def _line_of(self, delegation: str, path: Path, spot: ReviewTarget) -> int:
        work = await self._works.work(delegation)
        if work is None:
            return 0
        printed = await self._works.printed(work)
        text = self.client.documents.text(path_quoting.uri_of(path))
        if text is None:
            text = await asyncio.to_thread(_read, path)
        return EditedReview(printed, text).lines.get(spot, 0)

    # -- documents -------------------------------------------------------------------------------------------------

    async def _actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        view = await self._view(params.text_document.uri)
        return [] if view is None else view.actions(params)

    async def _lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        view = await self._view(params.text_document.uri)
        return [] if view is None else view.lenses()

    def _document(self, what: str, uri: str) -> None:
        """Handle a document that was opened, changed or closed."""
        if not self.client.options.review:
            return
        if what == "open":
            if uri not in self._reviews:
                self._reviews[uri] = reviewed = _delegation_of(uri)
                path = path_quoting.path_of(uri)
                self._opened.put(uri, [] if path is None else map(str, _spellings(path)))
                if reviewed is not None:
                    self._works.opened(reviewed)
                else:
                    self._works.consider(self._opened.of(uri))
            if self._has_review(uri):
                self._show_soon(uri, 0.0)
        elif what == "change" and self._has_review(uri):
            self._show_soon(uri, SETTLE_SECONDS)
        elif what == "close":
            delegation = self._reviews.pop(uri, None)
            self._opened.drop(uri)
            if (timer := self._waiting.pop(uri, None)) is not None:
                timer.cancel()
            self._views.pop(uri, None)
            self.aggregator.diagnostics.put(OWNER, uri, [])
            if delegation is not None:
                self._works.closed(delegation)

    def _has_review(self, uri: str) -> bool:
        """Return whether a document is a review, or a known result changes it; other documents show nothing."""
        return self._reviews.get(uri) is not None or bool(self._works.at(self._opened.of(uri)))

    def _show_soon(self, uri: str, seconds: float) -> None:
        if (timer := self._waiting.pop(uri, None)) is not None:
            timer.cancel()
        if uri in self._reviews:
            loop = asyncio.get_running_loop()
            self._waiting[uri] = loop.call_later(seconds, self._show_now, uri)

    def _show_now(self, uri: str) -> None:
        self._waiting.pop(uri, None)
        self.client.spawn(self._show(uri), "review of a document")

    async def _show(self, uri: str) -> None:
        view = await self._view(uri)
        if uri in self._reviews and uri not in self._waiting:
            self.aggregator.diagnostics.put(OWNER, uri, [] if view is None else view.diagnostics())

    def _changed(self, delegations: set[str], paths: set[str]) -> None:
        """Update the reviews of these delegations, and the documents of these files."""
        self._texts = {key: text for key, text in self._texts.items() if key[0] in self._works.known}
        reviews = [uri for uri, delegation in self._reviews.items() if delegation in delegations]
        for uri in dict.fromkeys((*reviews, *self._opened.at(paths))):
            self._show_soon(uri, 0.0)
        self.aggregator.refresh_lenses()

    # -- views -----------------------------------------------------------------------------------------------------

    async def _view(self, uri: str) -> View | None:
        """Return the current view of a document, None if it has nothing to do with a review."""
        if uri not in self._reviews or not self.client.options.review:
            return None
        await self._works.settled()
        version = self.client.documents.version(uri)
        state = version, self._works.generation
        cached = self._views.get(uri)
        if cached is not None and cached[0] == state:
            return cached[1]
        delegation = self._reviews[uri]
        view = await (self._view_of_file(uri) if delegation is None else self._view_of_review(uri, delegation))
        if uri in self._reviews and self.client.documents.version(uri) == version:
            self._views[uri] = state, view
        return view

    async def _view_of_review(self, uri: str, delegation: str) -> View | None:
        work = await self._works.work(delegation)
        if work is None:
            return None
        try:
            printed = await self._works.printed(work)
        except UnderstudyError:
            return None  # its worktree was removed
        text = self.client.documents.text(uri)
        if text is None:
            return None
        if len(text) > LARGE_CHARACTERS:
            sheet = await asyncio.to_thread(EditedReview, printed, text)
        else:
            sheet = EditedReview(printed, text)
        return document_view.view_of_review(work, sheet, self.client.encoding)

    async def _view_of_file(self, uri: str) -> View | None:
        path = path_quoting.path_of(uri)
        if path is None:
            return None
        marks: list[Mark] = []
        text = None
        for work, file in self._changes_of(path):
            base = await self._text_in(work, file.path, "base")
            text = self.client.documents.text(uri)
            if base is None or text is None:
                continue
            pending = [hunk for hunk in file.hunks if hunk.state is HunkState.PENDING]
            if len(text) > LARGE_CHARACTERS:
                positions = await asyncio.to_thread(hunk_positions.landings, base, text, pending)
            else:
                positions = hunk_positions.landings(base, text, pending)
            marks += [Mark(work, file, hunk, *lines) for hunk, lines in zip(pending, positions, strict=True)]
        hints: list[SurvivorHint] = []
        for work, mutants in self._missed_in(path):
            result = await self._text_in(work, mutants[0].path, "result")
            text = self.client.documents.text(uri)
            if result is not None and text is not None:
                hints += await asyncio.to_thread(survivor_hints.placed, work, mutants, result, text)
        tokens = next((kept for spelling in _spellings(path) if (kept := self._tokens.get(spelling))), [])
        if not marks and not tokens and not hints:
            return None
        text = self.client.documents.text(uri) if text is None else text
        marks.sort(key=lambda mark: (mark.first, mark.work.delegation.id))
        hints.sort(key=lambda hint: (hint.line, hint.work.delegation.id))
        return View(lines_of(text or ""), self.client.encoding, marks, tokens=tokens, hints=hints)

    def _changes_of(self, path: Path) -> list[tuple[OpenReview, FileDiff]]:
        """Return the results with pending hunks in an existing file."""
        changes = []
        for work in self._works.at(map(str, _spellings(path))):
            file = work.file(_path_in(work.delegation, path) or "")
            if file is not None and file.status == "modified" and not file.binary and work.pending(file.path):
                changes.append((work, file))
        return changes

    def _missed_in(self, path: Path) -> list[tuple[OpenReview, list[JudgedMutant]]]:
        """Return the results under review with the changes of a file that their tests do not notice."""
        missed = []
        for work in self._works.at(map(str, _spellings(path))):
            wire_path = _path_in(work.delegation, path) if work.pending() else None
            if wire_path is not None and (mutants := survivor_hints.survivors_in(work.delegation, wire_path)):
                missed.append((work, mutants))
        return missed

    async def _text_in(self, work: OpenReview, path: str, side: str) -> str | None:
        key = (work.delegation.id, path, side if side == "base" else work.delegation.head or "")
        if key not in self._texts:
            params = {"id": key[0], "path": path, "side": side}
            try:
                text = _text_of(await self.client.call("delegations/file", params))
            except UnderstudyError:
                return None
            while len(self._texts) >= KEPT_TEXTS:
                del self._texts[next(iter(self._texts))]
            self._texts[key] = text
        return self._texts[key]

    # -- results of commands ------------------------------------------------------------------------------------

    def _done(self, request: InFlightRequest, result: Any, error: UnderstudyError | None) -> None:
        """Show the outcome of a decision: editors do not show the result of a command."""
        method, params = request.method, request.params
        if method not in _DECIDING or not self.client.options.review:
            return
        fields: Mapping[str, Any] = params if isinstance(params, dict) else {}
        if error is not None:
            # Many editors only log the error of a command.
            if error.kind is not ErrorKind.CANCELLED:
                self._say(types.MessageType.Error, f"{error.message} {error.hint or ''}".strip())
            return
        if method == review_actions.DECIDE:
            self._decided(str(fields["id"]), fields, result)
        elif method == review_actions.UNDO:
            token = fields["undoToken"]
            for path, tokens in self._tokens.items():
                self._tokens[path] = [kept for kept in tokens if kept != token]
            self._views.clear()
            self._works.read({str(token).rpartition(".")[0]})
        elif method == review_actions.DROP:
            count = len(result.dropped)
            dropped = "1 test" if count == 1 else f"{count} tests"
            self._say(
                types.MessageType.Info, f"Dropped {dropped}. Run the checks again: understudy check {fields['id']}"
            )
            self._works.read({str(fields["id"])})
        else:
            self._say(types.MessageType.Info, f"Sent back as {result.id}.")
            self._works.read({str(fields["id"])})

    def _decided(self, delegation: str, params: Mapping[str, Any], result: Any) -> None:
        work = self._works.known.get(delegation)
        self._works.read({delegation})
        if work is not None and result.undo_token is not None:
            self._remember(work, params, result.undo_token)
        if result.conflicts:
            listed = ", ".join(_where(work, hunk) for hunk in result.conflicts[:NAMED_CONFLICTS])
            more = len(result.conflicts) - NAMED_CONFLICTS
            single = len(result.conflicts) == 1
            conflict = "1 hunk conflicts" if single else f"{len(result.conflicts)} hunks conflict"
            it = "it" if single else "them"
            self._say(
                types.MessageType.Warning,
                f"{conflict} with your version: {listed}{f' and {more} more' if more > 0 else ''}. Edit those lines "
                f"and accept again, merge {it} by hand, save and mark {it} as merged, or send {it} back.",
            )

    def _remember(self, work: OpenReview, params: Mapping[str, Any], token: str) -> None:
        """Keep the undo token of an accept, to offer it in the files that the accept changed."""
        accepted = [decision.get("path") for decision in params["decisions"] if decision["decision"] == "accept"]
        workspace = Path(work.delegation.workspace)
        for file in work.files:
            if None in accepted or file.path in accepted:
                path = workspace / os.fsdecode(path_quoting.unquote(file.path))
                self._tokens[path] = [*self._tokens.pop(path, []), token][-KEPT_TOKENS:]
        while len(self._tokens) > KEPT_TEXTS:
            del self._tokens[next(iter(self._tokens))]
        self._views.clear()

    def _say(self, severity: types.MessageType, text: str) -> None:
        user_messages.say(self.client, severity, text)


def _delegation_of(uri: str) -> str | None:
    path = path_quoting.path_of(uri)
    return None if path is None else result_files.delegation_of(path)


def _review_of(delegation: str) -> Path | None:
    path = result_files.review_file(delegation)
    return path if path.exists() and path.stat().st_size else None


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _text_of(file: Any) -> str | None:
    """Return the text of a file in any encoding; a wrong guess only moves positions in lines that are not ASCII."""
    text: str | None = file.text
    if text is not None or file.base64 is None:
        return text
    content = base64.b64decode(file.base64)
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if wide else "latin-1", "replace")


def _path_in(delegation: Delegation, path: Path) -> str | None:
    """Return the wire path of a file in the workspace of a delegation; None if it is elsewhere."""
    workspace = Path(delegation.workspace)
    inside = next((spelling for spelling in _spellings(path) if workspace in spelling.parents), None)
    return None if inside is None else path_quoting.quote(os.fsencode(inside.relative_to(workspace)))


@functools.lru_cache(1000)
def _spellings(path: Path) -> tuple[Path, Path]:
    """Return a path unchanged, and with the links in its folders resolved."""
    return path, _resolved(path.parent) / path.name


@functools.lru_cache(1000)
def _resolved(folder: Path) -> Path:
    return Path(os.path.realpath(folder))


def _where(work: OpenReview | None, conflict: Any) -> str:
    hunk = None
    if work is not None:
        hunk = next((hunk for _, hunk in work.hunks() if hunk.id == conflict.hunk), None)
    path = sanitize.path(conflict.path)
    return f"{path} line {hunk.old_start}" if hunk is not None and hunk.old_start else path
