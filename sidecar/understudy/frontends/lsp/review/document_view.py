"""What one open document shows of a review: hunks with their lines, as diagnostics, code actions and lenses. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lsprotocol import types

from understudy.faces.harmless import one_line
from understudy.faces.lsp import review_offers
from understudy.faces.lsp.review_offers import Offer, Work
from understudy.faces.lsp.review_text import WHOLE, Sheet, Spot, letter
from understudy.model.delegations import FileDiff, Hunk, HunkState

SOURCE = "Understudy"
OPEN = "understudy-review/open"
"""A command beside the contract's: to show a document is the editor's business, and no request of the table."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A hunk and where it is in a document: first and last line, from zero."""

    work: Work
    file: FileDiff
    hunk: Hunk
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class View:
    """A document: ``review.diff`` (with its ``sheet``), or a file of the workspace with undecided hunks."""

    lines: Sequence[str]
    encoding: str
    marks: list[Mark]
    work: Work | None = None
    sheet: Sheet | None = None
    tokens: list[str] = field(default_factory=list)
    """Of accepts in this file that can be taken back."""

    def diagnostics(self) -> list[types.Diagnostic]:
        """Return one for each hunk; what is decided is only a hint, so that "next problem" is the next to decide."""
        return [
            types.Diagnostic(
                self._line(mark.first),
                review_offers.describe(mark.work, mark.file, mark.hunk),
                severity=_severity(mark.hunk),
                source=SOURCE,
                code=mark.hunk.id,
            )
            for mark in self.marks
        ]

    def offers(self, first: int, last: int) -> list[tuple[Offer, frozenset[str]]]:
        """Return what can be done at these lines, each with the hunks that it is about."""
        if self.work is not None and self.sheet is not None:
            return self._offers_of_review(self.work, self.sheet, first, last)
        found: list[tuple[Offer, frozenset[str]]] = []
        here = [mark for mark in self.marks if mark.first <= last and first <= mark.last]
        works = list({mark.work.delegation.id: mark.work for mark in here}.values())
        for work in works:
            own = [mark for mark in here if mark.work is work]
            ids = frozenset(mark.hunk.id for mark in own)
            offers = review_offers.on_hunks(work, [(mark.file, mark.hunk) for mark in own], _nothing)
            for path in dict.fromkeys(mark.file.path for mark in own):
                if len(work.pending(path)) > len(own):
                    offers += review_offers.on_file(work, path, _nothing)
            offers.append(_look(work, own[0]))
            found += [(_named(one, work) if len(works) > 1 else one, ids) for one in offers]
        return [*found, *((review_offers.take_back(token), frozenset[str]()) for token in self.tokens[-1:])]

    def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Return code actions."""
        start, end = params.range.start, params.range.end
        # A selection of whole lines ends at the beginning of the next one.
        last = end.line - 1 if end.line > start.line and end.character == 0 else end.line
        by_itself = params.context.trigger_kind == types.CodeActionTriggerKind.Automatic
        found = []
        for offer, hunks in self.offers(start.line, last):
            if by_itself and self.sheet is None and not hunks:
                continue  # a light bulb on every line of a file says nothing
            action = types.CodeAction(title=offer.title, kind=offer.kind)
            if offer.refused is None:
                action.command = command_of(offer, offer.title)
            else:
                action.disabled = types.CodeActionDisabled(offer.refused)
            about = [one for one in params.context.diagnostics if one.source == SOURCE and one.code in hunks]
            action.diagnostics = about or None
            found.append(action)
        return found

    def lenses(self) -> list[types.CodeLens]:
        """Return lenses: above everything what is about all of it, and above each undecided hunk what is about it."""
        found: list[tuple[int, Offer]] = []
        if self.work is not None and self.sheet is not None:
            found += [(0, one) for one in _on_whole(self.work, self.sheet)]
        several = len({mark.work.delegation.id for mark in self.marks}) > 1
        for mark in self.marks:
            if mark.hunk.state is HunkState.PENDING:
                why = self.sheet.why if self.sheet is not None else _nothing
                offers = review_offers.on_hunks(mark.work, [(mark.file, mark.hunk)], why)
                if self.sheet is None:
                    offers.append(_look(mark.work, mark))
                found += [(mark.first, _named(one, mark.work) if several else one) for one in offers]
        return [
            types.CodeLens(_at(line), command_of(one, one.short))
            for line, one in found
            if one.short and not one.refused
        ]

    def _offers_of_review(self, work: Work, sheet: Sheet, first: int, last: int) -> list[tuple[Offer, frozenset[str]]]:
        spots = sheet.at(first, last)
        wanted = {(spot.path, spot.hunk) for spot in spots}
        chosen = [(file, hunk) for file, hunk in work.hunks() if (file.path, hunk.id) in wanted]
        ids = frozenset(hunk.id for _, hunk in chosen)
        found = [(one, ids) for one in review_offers.on_hunks(work, chosen, sheet.why)]
        for path in dict.fromkeys(spot.path for spot in spots):
            pending = work.pending(path)
            if path is not None and not {(file.path, hunk.id) for file, hunk in pending} <= wanted:
                found += [(one, ids) for one in review_offers.on_file(work, path, sheet.why)]
        return [*found, *((one, frozenset[str]()) for one in _on_whole(work, sheet))]

    def _line(self, number: int) -> types.Range:
        text = self.lines[number] if number < len(self.lines) else ""
        return types.Range(types.Position(number, 0), types.Position(number, units(text, self.encoding)))


def view_of_review(work: Work, sheet: Sheet, encoding: str) -> View:
    """Return what a ``review.diff`` shows."""
    marks = [
        Mark(work, file, hunk, place, place)
        for file, hunk in work.hunks()
        if (place := sheet.lines.get(Spot(file.path, hunk.id))) is not None
    ]
    return View(sheet.texts, encoding, sorted(marks, key=lambda mark: mark.first), work, sheet)


def command_of(offer: Offer, title: str) -> types.Command:
    """Return the command that does it."""
    return types.Command(title=title, command=offer.method, arguments=[offer.params])


def units(text: str, encoding: str) -> int:
    """Return the length of a line in the units of positions."""
    if encoding == "utf-32":
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8", "replace"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def words_of(work: Work, sheet: Sheet) -> str:
    """Return what the person wrote as the words of a reply; reasons that the agent is told anyway are left out."""
    lines: dict[Spot, int] = {}
    told: dict[Spot, str | None] = {}
    for file, hunk in work.hunks():
        spot = Spot(file.path, hunk.id)
        if file.status == "modified" and hunk.new_start:
            lines[spot] = hunk.new_start
        if hunk.state is HunkState.REJECTED:
            told[spot] = hunk.reason
    return letter(sheet.words, lines, told)


def _on_whole(work: Work, sheet: Sheet) -> Iterable[Offer]:
    yield from review_offers.on_everything(work, lambda spot: sheet.why(spot) or sheet.words.get(WHOLE))
    states = {hunk.state for _, hunk in work.hunks()}
    words = words_of(work, sheet)
    if HunkState.SUPERSEDED not in states and (words or states & {HunkState.PENDING, HunkState.REJECTED}):
        yield review_offers.send_back(work, words)
    newer = next((hunk.by for _, hunk in work.hunks() if hunk.state is HunkState.SUPERSEDED and hunk.by), None)
    if newer is not None:
        title = f"Go on in the review of {newer}, which took over what was undecided here"
        yield Offer(title, f"{review_offers.KIND}.open", OPEN, {"id": newer}, short="Go on in the newer review")
    if work.undo_token is not None:
        yield review_offers.take_back(work.undo_token)


def _look(work: Work, mark: Mark) -> Offer:
    params: dict[str, Any] = {"id": work.delegation.id, "path": mark.file.path, "hunk": mark.hunk.id}
    title = "Look at this hunk in the review, to say why or to send it back"
    return Offer(title, f"{review_offers.KIND}.open", OPEN, params, short="Review")


def _named(offer: Offer, work: Work) -> Offer:
    """Say which of several results an offer is about."""
    title = one_line(work.delegation.title)
    return dataclasses.replace(
        offer,
        title=f"{offer.title} ({title}, {work.delegation.id})",
        short=f"{offer.short} ({title})" if offer.short else "",
    )


def _severity(hunk: Hunk) -> types.DiagnosticSeverity:
    if hunk.state is not HunkState.PENDING:
        return types.DiagnosticSeverity.Hint
    return types.DiagnosticSeverity.Warning if hunk.conflict else types.DiagnosticSeverity.Information


def _at(line: int) -> types.Range:
    return types.Range(types.Position(line, 0), types.Position(line, 0))


def _nothing(_: Spot) -> str | None:
    return None
