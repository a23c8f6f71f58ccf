"""Show the hunks of a review in one open document, as diagnostics, code actions and lenses. No I/O."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lsprotocol import types

from understudy.frontends.lsp.editor.client import OPEN_REVIEW
from understudy.frontends.lsp.review import review_actions
from understudy.frontends.lsp.review.review_actions import OpenReview, ReviewAction
from understudy.frontends.lsp.review.review_document import WHOLE, EditedReview, ReviewTarget, letter
from understudy.frontends.lsp.review.survivor_hints import SurvivorHint
from understudy.model.hunks import FileDiff, Hunk, HunkState
from understudy.model.text.sanitize import one_line

SOURCE = "Understudy"


@dataclass(frozen=True, slots=True)
class Mark:
    """A hunk and its lines in a document, first and last, from zero."""

    work: OpenReview
    file: FileDiff
    hunk: Hunk
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class View:
    """A document: ``review.diff`` (with ``sheet``), or a file of the workspace with pending hunks."""

    lines: Sequence[str]
    encoding: str
    marks: list[Mark]
    work: OpenReview | None = None
    sheet: EditedReview | None = None
    tokens: list[str] = field(default_factory=list)
    """Undo tokens of accepts in this file."""
    hints: list[SurvivorHint] = field(default_factory=list)
    """Changes of this file that no test noticed."""

    def diagnostics(self) -> list[types.Diagnostic]:
        """Return one for each hunk; decided ones are hints, so that "next problem" goes to the next pending hunk."""
        return [
            types.Diagnostic(
                self._line(mark.first),
                review_actions.describe(mark.work, mark.file, mark.hunk),
                severity=_severity(mark.hunk),
                source=SOURCE,
                code=mark.hunk.id,
            )
            for mark in self.marks
        ] + [
            types.Diagnostic(
                self._line(hint.line),
                hint.message,
                severity=types.DiagnosticSeverity.Hint,
                source=SOURCE,
                code=hint.mutant.id,
            )
            for hint in self.hints
        ]

    def offers(self, first: int, last: int) -> list[tuple[ReviewAction, frozenset[str]]]:
        """Return the actions for a range of lines, each with the ids of its hunks."""
        if self.work is not None and self.sheet is not None:
            return self._offers_of_review(self.work, self.sheet, first, last)
        offered: list[tuple[ReviewAction, frozenset[str]]] = []
        here = [mark for mark in self.marks if mark.first <= last and first <= mark.last]
        works = list({mark.work.delegation.id: mark.work for mark in here}.values())
        for work in works:
            marks = [mark for mark in here if mark.work is work]
            ids = frozenset(mark.hunk.id for mark in marks)
            offers = [*review_actions.on_hunks(work, [(mark.file, mark.hunk) for mark in marks], _nothing)]
            for path in dict.fromkeys(mark.file.path for mark in marks):
                if len(work.pending(path)) > len(marks):
                    offers += review_actions.on_file(work, path, _nothing)
                offers += review_actions.drop(work, path)
            offers.append(_look(work, marks[0]))
            offered += [(_named(offer, work) if len(works) > 1 else offer, ids) for offer in offers]
        missed = [hint for hint in self.hints if first <= hint.line <= last]
        reviews = {hint.work.delegation.id: hint.work for hint in missed}
        for identifier, work in reviews.items():
            ids = frozenset(hint.mutant.id for hint in missed if hint.work.delegation.id == identifier)
            offers = review_actions.strengthen(work)
            offered += [(_named(offer, work) if len(reviews) > 1 else offer, ids) for offer in offers]
        return [*offered, *((review_actions.take_back(token), frozenset[str]()) for token in self.tokens[-1:])]

    def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Return code actions."""
        start, end = params.range.start, params.range.end
        # A selection of whole lines ends at the beginning of the next one.
        last = end.line - 1 if end.line > start.line and end.character == 0 else end.line
        by_itself = params.context.trigger_kind == types.CodeActionTriggerKind.Automatic
        actions = []
        for offer, hunks in self.offers(start.line, last):
            if by_itself and self.sheet is None and not hunks:
                continue  # no light bulb on lines without hunks
            action = types.CodeAction(title=offer.title, kind=offer.kind)
            if offer.refused is None:
                action.command = command_of(offer, offer.title)
            else:
                action.disabled = types.CodeActionDisabled(offer.refused)
            about = [
                diagnostic
                for diagnostic in params.context.diagnostics
                if diagnostic.source == SOURCE and diagnostic.code in hunks
            ]
            action.diagnostics = about or None
            actions.append(action)
        return actions

    def lenses(self) -> list[types.CodeLens]:
        """Return the lenses: for the whole result at the top, and above each pending hunk."""
        lenses: list[tuple[int, ReviewAction]] = []
        if self.work is not None and self.sheet is not None:
            lenses += [(0, offer) for offer in _on_whole(self.work, self.sheet)]
        several = len({mark.work.delegation.id for mark in self.marks}) > 1
        for mark in self.marks:
            if mark.hunk.state is HunkState.PENDING:
                why = self.sheet.why if self.sheet is not None else _nothing
                offers = [*review_actions.on_hunks(mark.work, [(mark.file, mark.hunk)], why)]
                if self.sheet is None:
                    offers.append(_look(mark.work, mark))
                lenses += [(mark.first, _named(offer, mark.work) if several else offer) for offer in offers]
        return [
            types.CodeLens(_at(line), command_of(offer, offer.short))
            for line, offer in lenses
            if offer.short and not offer.refused
        ]

    def _offers_of_review(
        self, work: OpenReview, sheet: EditedReview, first: int, last: int
    ) -> list[tuple[ReviewAction, frozenset[str]]]:
        spots = sheet.at(first, last)
        keys = {(spot.path, spot.hunk) for spot in spots}
        chosen = [(file, hunk) for file, hunk in work.hunks() if (file.path, hunk.id) in keys]
        ids = frozenset(hunk.id for _, hunk in chosen)
        offered = [(offer, ids) for offer in review_actions.on_hunks(work, chosen, sheet.why)]
        for path in dict.fromkeys(spot.path for spot in spots):
            pending = work.pending(path)
            if path is not None and not {(file.path, hunk.id) for file, hunk in pending} <= keys:
                offered += [(offer, ids) for offer in review_actions.on_file(work, path, sheet.why)]
        return [*offered, *((offer, frozenset[str]()) for offer in _on_whole(work, sheet))]

    def _line(self, number: int) -> types.Range:
        text = self.lines[number] if number < len(self.lines) else ""
        return types.Range(types.Position(number, 0), types.Position(number, units(text, self.encoding)))


def view_of_review(work: OpenReview, sheet: EditedReview, encoding: str) -> View:
    """Return the view of a ``review.diff``."""
    marks = [
        Mark(work, file, hunk, place, place)
        for file, hunk in work.hunks()
        if (place := sheet.lines.get(ReviewTarget(file.path, hunk.id))) is not None
    ]
    return View(sheet.texts, encoding, sorted(marks, key=lambda mark: mark.first), work, sheet)


def command_of(offer: ReviewAction, title: str) -> types.Command:
    """Return the command of an action."""
    return types.Command(title=title, command=offer.method, arguments=[offer.params])


def units(text: str, encoding: str) -> int:
    """Return the length of a line in the units of positions."""
    if encoding == "utf-32":
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8", "replace"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def words_of(work: OpenReview, sheet: EditedReview) -> str:
    """Return the user's comments as the text of a reply, without reasons that the agent gets with rejected hunks."""
    lines: dict[ReviewTarget, int] = {}
    reasons: dict[ReviewTarget, str | None] = {}
    for file, hunk in work.hunks():
        spot = ReviewTarget(file.path, hunk.id)
        if file.status == "modified" and hunk.new_start:
            lines[spot] = hunk.new_start
        if hunk.state is HunkState.REJECTED:
            reasons[spot] = hunk.reason
    return letter(sheet.words, lines, reasons)


def _on_whole(work: OpenReview, sheet: EditedReview) -> Iterable[ReviewAction]:
    yield from review_actions.on_everything(work, lambda spot: sheet.why(spot) or sheet.words.get(WHOLE))
    states = {hunk.state for _, hunk in work.hunks()}
    words = words_of(work, sheet)
    if HunkState.SUPERSEDED not in states and (words or states & {HunkState.PENDING, HunkState.REJECTED}):
        yield review_actions.send_back(work, words)
    if work.pending():
        yield from review_actions.strengthen(work)
        yield from review_actions.drop(work)
    newer = next((hunk.by for _, hunk in work.hunks() if hunk.state is HunkState.SUPERSEDED and hunk.by), None)
    if newer is not None:
        title = f"Continue in the review of {newer}, which took over the pending hunks"
        yield ReviewAction(
            title, f"{review_actions.KIND}.open", OPEN_REVIEW, {"id": newer}, short="Continue in newer review"
        )
    if work.undo_token is not None:
        yield review_actions.take_back(work.undo_token)


def _look(work: OpenReview, mark: Mark) -> ReviewAction:
    params: dict[str, Any] = {"id": work.delegation.id, "path": mark.file.path, "hunk": mark.hunk.id}
    title = "Open this hunk in the review, to add a reason or send it back"
    return ReviewAction(title, f"{review_actions.KIND}.open", OPEN_REVIEW, params, short="Review")


def _named(offer: ReviewAction, work: OpenReview) -> ReviewAction:
    """Add the delegation to the titles of an action, for lines with hunks of several results."""
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


def _nothing(_: ReviewTarget) -> str | None:
    return None
