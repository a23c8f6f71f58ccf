"""Review in every editor: a result is a file, ``review.diff``, and what editors know to do with a file.

On that file, and at the same places of files that are open, each undecided hunk is a diagnostic ("next problem" is
"next hunk"), and what can be done about it are code actions and lenses. Each runs a request of the contract, so there
is no other way to decide than the one that every face has.

Nothing opens by itself: a person who types must not find the cursor elsewhere. ``open`` is for whoever was just told
that they want it. Nothing is ever written into ``review.diff`` because of a decision, since a person may be writing
into it: how a hunk stands, its diagnostic says.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import functools
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from understudy.faces import harmless
from understudy.faces.lsp import hunks, places, review_offers, review_views, review_works, saying
from understudy.faces.lsp.client import Refused
from understudy.faces.lsp.review_offers import Work
from understudy.faces.lsp.review_text import Sheet, Spot, lines_of
from understudy.faces.lsp.review_views import Mark, View
from understudy.git import names
from understudy.journal import store
from understudy.model.delegations import Delegation, FileDiff, HunkState
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

if TYPE_CHECKING:
    from understudy.faces.lsp.server import Server

log = logging.getLogger(__name__)

OWNER = "review"
SETTLE_SECONDS = 0.15
"""After the last keystroke, until the diagnostics follow."""
NAMED_CONFLICTS = 3
KEPT_BASES = 64
"""Files whose base is remembered."""
KEPT_TOKENS = 8
"""Accepts a file that can be taken back in it, one after the other."""
LARGE_CHARACTERS = 200_000
"""From here on a text is looked through in a thread."""

_DECIDING = {review_offers.DECIDE, review_offers.REPLY, review_offers.UNDO}


class Surface:
    """The review surface of one editor."""

    def __init__(self, server: Server) -> None:
        """Show nothing yet."""
        self.client = server.client
        self.gathered = server.gathered
        self._works = review_works.Works(server.client, self._changed, self._concerns)
        self._reviews: dict[str, str | None] = {}
        """The open documents → the delegation whose review they are."""
        self._opened: dict[str, frozenset[str]] = {}
        """A workspace → the paths in it that are open; asked for every undecided result whenever a file is opened."""
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._views: dict[str, tuple[tuple[int | None, int], View | None]] = {}
        self._bases: dict[tuple[str, str], str | None] = {}
        self._tokens: dict[Path, list[str]] = {}
        """A file → the undo tokens of what this editor accepted into it, the last one last."""
        self.client.on_document.append(self._document)
        self.gathered.actions.append(self._actions)
        self.gathered.lenses.append(self._lenses)
        server.on_command.append(self._done)

        async def opened(*arguments: Any) -> None:
            await self._open_command(*arguments)

        server.command(review_views.OPEN)(opened)

    # -- opening ---------------------------------------------------------------------------------------------------

    async def open(self, delegation: str, spot: Spot | None = None) -> None:
        """Show the review of a delegation in the editor, at a hunk if one is given; else say where the file lies.

        Raises ``unknown_delegation``.
        """
        path = await asyncio.to_thread(_review_of, delegation)
        if path is None:
            found = await self.client.call("delegations/get", {"id": delegation})
            why = "is not finished; a message will say so"
            if found.state is State.FINISHED:
                why = "changed nothing, so there is nothing to review"
            self._say(types.MessageType.Info, f"{delegation} {why}.")
            return
        line = 0 if spot is None else await self._line_of(delegation, path, spot)
        if not await self._shown(path, line):
            where = f"{path}, line {line + 1}" if line else str(path)
            self._say(types.MessageType.Info, f"The review is in {where}. Open that file in your editor.")

    async def _open_command(self, *arguments: Any) -> None:
        params = arguments[0] if arguments and isinstance(arguments[0], dict) else {}
        if not isinstance(params.get("id"), str):
            raise UnderstudyError(ErrorKind.INVALID_PARAMS, "No delegation is named.", hint="Give `id`.")
        path, hunk = params.get("path"), params.get("hunk")
        spot = Spot(path, hunk) if isinstance(path, str) and isinstance(hunk, str) else None
        await self.open(params["id"], spot)

    async def _line_of(self, delegation: str, path: Path, spot: Spot) -> int:
        work = await self._works.work(delegation)
        if work is None:
            return 0
        printed = await self._works.printed(work)
        text = self.client.documents.text(places.uri_of(path))
        if text is None:
            text = await asyncio.to_thread(_read, path)
        return Sheet(printed, text).lines.get(spot, 0)

    async def _shown(self, path: Path, line: int) -> bool:
        if not self.client.can("window.showDocument.support"):
            return False
        at = types.Position(line, 0)
        wanted = types.ShowDocumentParams(places.uri_of(path), take_focus=True, selection=types.Range(at, at))
        try:
            answer = await self.client.ask(types.WINDOW_SHOW_DOCUMENT, wanted)
        except (Refused, TimeoutError) as error:
            log.warning("%s could not be shown: %s", path, error)
            return False
        return isinstance(answer, dict) and answer.get("success") is True

    # -- what documents show ---------------------------------------------------------------------------------------

    async def _actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        view = await self._view(params.text_document.uri)
        return [] if view is None else view.actions(params)

    async def _lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        view = await self._view(params.text_document.uri)
        return [] if view is None else view.lenses()

    def _document(self, what: str, uri: str) -> None:
        """Follow what is open."""
        if not self.client.options.review:
            return
        if what == "open":
            if uri not in self._reviews:
                self._reviews[uri] = found = review_works.delegation_of(uri)
                self._opened.clear()
                if found is not None:
                    self._works.opened(found)
                else:
                    self._works.consider()
            self._show_soon(uri, 0.0)
        elif what == "change":
            self._show_soon(uri, SETTLE_SECONDS)
        elif what == "close":
            delegation = self._reviews.pop(uri, None)
            self._opened.clear()
            if (timer := self._waiting.pop(uri, None)) is not None:
                timer.cancel()
            self._views.pop(uri, None)
            self.gathered.diagnostics.put(OWNER, uri, [])
            if delegation is not None:
                self._works.closed(delegation)

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
            self.gathered.diagnostics.put(OWNER, uri, [] if view is None else view.diagnostics())

    def _changed(self, delegations: set[str]) -> None:
        """Show how it stands now, wherever it was decided."""
        self._bases = {key: text for key, text in self._bases.items() if key[0] in self._works.known}
        for uri, delegation in self._reviews.items():
            if delegation is None or delegation in delegations:
                self._show_soon(uri, 0.0)
        self.gathered.refresh_lenses()

    # -- views -----------------------------------------------------------------------------------------------------

    async def _view(self, uri: str) -> View | None:
        """Return what a document shows now, as far as it shows anything of a review."""
        if uri not in self._reviews or not self.client.options.review:
            return None
        await self._works.settled()
        version = self.client.documents.version(uri)
        state = version, self._works.generation
        known = self._views.get(uri)
        if known is not None and known[0] == state:
            return known[1]
        delegation = self._reviews[uri]
        found = await (self._view_of_file(uri) if delegation is None else self._view_of_review(uri, delegation))
        if uri in self._reviews and self.client.documents.version(uri) == version:
            self._views[uri] = state, found
        return found

    async def _view_of_review(self, uri: str, delegation: str) -> View | None:
        work = await self._works.work(delegation)
        if work is None:
            return None
        try:
            printed = await self._works.printed(work)
        except UnderstudyError:
            return None  # its tree was taken away
        text = self.client.documents.text(uri)
        if text is None:
            return None
        if len(text) > LARGE_CHARACTERS:
            sheet = await asyncio.to_thread(Sheet, printed, text)
        else:
            sheet = Sheet(printed, text)
        return review_views.view_of_review(work, sheet, self.client.encoding)

    async def _view_of_file(self, uri: str) -> View | None:
        path = places.path_of(uri)
        if path is None:
            return None
        marks: list[Mark] = []
        text = None
        for work, file in self._changes_of(path):
            base = await self._base(work, file)
            text = self.client.documents.text(uri)
            if base is None or text is None:
                continue
            pending = [hunk for hunk in file.hunks if hunk.state is HunkState.PENDING]
            if len(text) > LARGE_CHARACTERS:
                found = await asyncio.to_thread(hunks.landings, base, text, pending)
            else:
                found = hunks.landings(base, text, pending)
            marks += [Mark(work, file, hunk, at.first, at.last) for hunk, at in zip(pending, found, strict=True)]
        tokens = next((own for each in _spellings(path) if (own := self._tokens.get(each))), [])
        if not marks and not tokens:
            return None
        text = self.client.documents.text(uri) if text is None else text
        marks.sort(key=lambda mark: (mark.first, mark.work.delegation.id))
        return View(lines_of(text or ""), self.client.encoding, marks, tokens=tokens)

    def _concerns(self, delegation: Delegation) -> bool:
        """Tell whether a file that a result changes is open."""
        if delegation.result is None:
            return False
        opened = self._opened.get(delegation.workspace)
        if opened is None:
            opened = self._opened[delegation.workspace] = self._open_in(Path(delegation.workspace))
        return any(file.path in opened for file in delegation.result.files)

    def _open_in(self, workspace: Path) -> frozenset[str]:
        paths = [path for uri in self._reviews if (path := places.path_of(uri)) is not None]
        inside = {own.relative_to(workspace) for path in paths for own in _spellings(path) if workspace in own.parents}
        return frozenset(names.quote(os.fsencode(one)) for one in inside)

    def _changes_of(self, path: Path) -> list[tuple[Work, FileDiff]]:
        """Return the results that have undecided hunks in a file that is there already."""
        found = []
        for work in self._works.known.values():
            workspace = Path(work.delegation.workspace)
            own = next((own for own in _spellings(path) if workspace in own.parents), None)
            if own is None:
                continue
            file = work.file(names.quote(os.fsencode(own.relative_to(workspace))))
            if file is not None and file.status == "modified" and not file.binary and work.pending(file.path):
                found.append((work, file))
        return found

    async def _base(self, work: Work, file: FileDiff) -> str | None:
        key = (work.delegation.id, file.path)
        if key not in self._bases:
            wanted = {"id": key[0], "path": key[1], "side": "base"}
            try:
                text = _text_of(await self.client.call("delegations/file", wanted))
            except UnderstudyError:
                return None
            while len(self._bases) >= KEPT_BASES:
                del self._bases[next(iter(self._bases))]
            self._bases[key] = text
        return self._bases[key]

    # -- what came of a command ------------------------------------------------------------------------------------

    def _done(self, method: str, params: Any, result: Any, error: UnderstudyError | None) -> None:
        """Tell the person what a decision came to, where the editor only hears that it is over."""
        if method not in _DECIDING or not self.client.options.review:
            return
        given: Mapping[str, Any] = params if isinstance(params, dict) else {}
        if error is not None:
            # Many editors write the error of a command into a log that nobody reads.
            if error.kind is not ErrorKind.CANCELLED:
                self._say(types.MessageType.Error, f"{error.message} {error.hint or ''}".strip())
            return
        if method == review_offers.DECIDE:
            self._decided(str(given["id"]), given, result)
        elif method == review_offers.UNDO:
            token = given["undoToken"]
            for path, tokens in self._tokens.items():
                self._tokens[path] = [one for one in tokens if one != token]
            self._views.clear()
            self._works.read({str(token).rpartition(".")[0]})
        else:
            self._say(types.MessageType.Info, f"It is sent back, as {result.id}.")
            self._works.read({str(given["id"])})

    def _decided(self, delegation: str, params: Mapping[str, Any], result: Any) -> None:
        work = self._works.known.get(delegation)
        self._works.read({delegation})
        if work is not None and result.undo_token is not None:
            self._remember(work, params, result.undo_token)
        if result.conflicts:
            told = ", ".join(_where(work, one) for one in result.conflicts[:NAMED_CONFLICTS])
            more = len(result.conflicts) - NAMED_CONFLICTS
            count = "1 hunk does" if len(result.conflicts) == 1 else f"{len(result.conflicts)} hunks do"
            stays = "It stays undecided" if len(result.conflicts) == 1 else "They stay undecided"
            self._say(
                types.MessageType.Warning,
                f"{count} not fit what you have now: {told}{f' and {more} more' if more > 0 else ''}. {stays}: change "
                "that place so that it fits and accept again, take the change over by hand, or send it back.",
            )

    def _remember(self, work: Work, params: Mapping[str, Any], token: str) -> None:
        """Offer to take an accept back in the files that it changed."""
        accepted = [one.get("path") for one in params["decisions"] if one["decision"] == "accept"]
        workspace = Path(work.delegation.workspace)
        for file in work.files:
            if None in accepted or file.path in accepted:
                path = workspace / os.fsdecode(names.unquote(file.path))
                self._tokens[path] = [*self._tokens.pop(path, []), token][-KEPT_TOKENS:]
        while len(self._tokens) > KEPT_BASES:
            del self._tokens[next(iter(self._tokens))]
        self._views.clear()

    def _say(self, severity: types.MessageType, text: str) -> None:
        saying.say(self.client, severity, text)


def register(server: Server) -> None:
    """Make the surface, as ``server.review``."""
    server.review = Surface(server)


def _review_of(delegation: str) -> Path | None:
    path = store.open_folder(delegation).review
    return path if path.exists() and path.stat().st_size else None


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _text_of(file: Any) -> str | None:
    """Return the text of a file that need not be UTF-8; a wrong guess costs places in lines that are not ASCII."""
    text: str | None = file.text
    if text is not None or file.base64 is None:
        return text
    content = base64.b64decode(file.base64)
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if wide else "latin-1", "replace")


@functools.lru_cache(1000)
def _spellings(path: Path) -> tuple[Path, Path]:
    """Return a path as it was given, and with the links in its folders followed."""
    return path, Path(os.path.realpath(path.parent)) / path.name


def _where(work: Work | None, conflict: Any) -> str:
    hunk = None
    if work is not None:
        hunk = next((hunk for _, hunk in work.hunks() if hunk.id == conflict.hunk), None)
    path = harmless.path(conflict.path)
    return f"{path} line {hunk.old_start}" if hunk is not None and hunk.old_start else path
