"""The actions on hunks, each with a title and a request of the contract. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from understudy.api import method_table
from understudy.frontends.lsp.review.review_document import ReviewTarget
from understudy.model.delegation.delegations import Delegation
from understudy.model.evidence.checks import noticed
from understudy.model.hunks import FileDiff, Hunk, HunkState
from understudy.model.places import described, untested, without_tests
from understudy.model.text import sanitize
from understudy.model.verdicts import Reservation

DECIDE = method_table.PREFIX + "delegations/decide"
DROP = method_table.PREFIX + "delegations/drop"
REPLY = method_table.PREFIX + "delegations/reply"
STRENGTHEN = method_table.PREFIX + "delegations/strengthen"
UNDO = method_table.PREFIX + "delegations/undo"
KIND = "quickfix.review"
"""The common prefix of the kinds of these actions; every editor shows quick fixes."""
SHORT_CHARACTERS = 40
NAMED_FILES = 3

Why = Callable[[ReviewTarget], str | None]
"""Returns the user's comment on a target."""


@dataclass(frozen=True, slots=True)
class OpenReview:
    """A snapshot of a result under review."""

    delegation: Delegation
    files: list[FileDiff]
    undo_token: str | None = None
    """The token of the last accept that can be undone."""
    _by_path: dict[str, FileDiff] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the files: those of a large result are looked up one by one."""
        object.__setattr__(self, "_by_path", {file.path: file for file in self.files})

    def file(self, path: str) -> FileDiff | None:
        """Return a changed file by its path."""
        return self._by_path.get(path)

    def hunks(self) -> Iterator[tuple[FileDiff, Hunk]]:
        """Return every hunk with its file."""
        return ((file, hunk) for file in self.files for hunk in file.hunks)

    def pending(self, path: str | None = None) -> list[tuple[FileDiff, Hunk]]:
        """Return the pending hunks of one file or of all."""
        single = self._by_path.get(path) if path is not None else None
        files = self.files if path is None else [] if single is None else [single]
        return [(file, hunk) for file in files for hunk in file.hunks if hunk.state is HunkState.PENDING]


@dataclass(frozen=True, slots=True)
class ReviewAction:
    """A title and a command; ``refused`` is the reason why it is not available now."""

    title: str
    kind: str
    method: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    refused: str | None = None
    short: str = ""
    """The title of a lens; empty: there is no lens."""


def on_hunks(work: OpenReview, chosen: Sequence[tuple[FileDiff, Hunk]], why: Why) -> Iterator[ReviewAction]:
    """Yield the actions on the hunks at a position."""
    open_ = [(file, hunk) for file, hunk in chosen if hunk.state is HunkState.PENDING]
    rejected = [(file, hunk) for file, hunk in chosen if hunk.state is HunkState.REJECTED]
    flags = flagged(file for file, _ in open_ or rejected)
    accepts = [_one(file, hunk, "accept") for file, hunk in open_ or rejected]
    if open_:
        it, although = _it(open_), _although(flags)
        yield _decision(work, f"Accept {it}{although}", accepts, flagged=bool(flags), short=f"Accept{although}")
        if all(hunk.conflict for _, hunk in open_):
            merged = [accept | {"mergedManually": True} for accept in accepts]
            yield _decision(work, f"Mark {it} as merged by hand", merged, short="Mark as merged")
        because = _because({why(ReviewTarget(file.path, hunk.id)) for file, hunk in open_})
        rejects = [_reject(file, hunk, why) for file, hunk in open_]
        yield _decision(work, f"Reject {it}{because}", rejects, kind="reject", short=f"Reject{because}")
    elif rejected:
        yield _decision(work, f"Accept {_it(rejected)} after all{_although(flags)}", accepts, flagged=bool(flags))


def on_file(work: OpenReview, path: str, why: Why) -> Iterator[ReviewAction]:
    """Yield the actions on all pending hunks of a file."""
    open_ = work.pending(path)
    if not open_:
        return
    flags = flagged([open_[0][0]])
    because = _because({why(ReviewTarget(path, hunk.id)) for _, hunk in open_})
    it = f"{sanitize.path(path)} ({_count(len(open_))})"
    accept = {"path": path, "decision": "accept"}
    although = _although(flags, named=False)
    yield _decision(work, f"Accept the file {it}{although}", [accept], flagged=bool(flags))
    rejects = _reject_all(open_, why, {"path": path}, why(ReviewTarget(path)))
    yield _decision(work, f"Reject the file {it}{because}", rejects, kind="reject")


def on_everything(work: OpenReview, why: Why) -> Iterator[ReviewAction]:
    """Yield the actions on all pending hunks."""
    open_ = work.pending()
    if not open_:
        return
    flags = flagged(file for file, _ in open_)
    plain = [(file, hunk) for file, hunk in open_ if file.path not in flags]
    if plain:
        paths = list(dict.fromkeys(file.path for file, _ in plain))
        accepts = [{"path": path, "decision": "accept"} for path in paths] if flags else [{"decision": "accept"}]
        but = f" except {_named(flags)}" if flags else ""
        title = f"Accept all ({_count(len(plain))}){but}"
        yield _decision(work, title, accepts, short=f"Accept all ({len(plain)}){but}")
    if flags:
        title = f"Accept all ({_count(len(open_))}){_although(flags)}"
        yield _decision(work, title, [{"decision": "accept"}], flagged=True)
    tested = [(file, hunk) for file, hunk in plain if hunk.tested]
    if tested and len(tested) < len(open_):
        accepts = [_one(file, hunk, "accept") for file, hunk in tested]
        yield _decision(work, f"Accept all verified ({_count(len(tested))})", accepts)
    whole = why(ReviewTarget())
    because = _because({why(ReviewTarget(file.path, hunk.id)) or whole for file, hunk in open_})
    title = f"Reject all ({_count(len(open_))}){because}"
    rejects = _reject_all(open_, why, {}, whole)
    yield _decision(work, title, rejects, kind="reject", short=f"Reject all{because}")


def send_back(work: OpenReview, words: str) -> ReviewAction:
    """Return the action that sends a result back with the user's comments."""
    who = f"Send back to {work.delegation.delegator}"
    kind = f"{KIND}.reply"
    if words:
        title = f"{who} with your comments: {_short(words)}"
        return ReviewAction(
            title, kind, REPLY, {"id": work.delegation.id, "text": words}, short="Send back with your comments"
        )
    if any(hunk.state is HunkState.REJECTED and hunk.reason for _, hunk in work.hunks()):
        return ReviewAction(
            f"{who} with the reasons for the rejected hunks",
            kind,
            REPLY,
            {"id": work.delegation.id, "text": "Redo the rejected changes; the reasons are above."},
            short="Send back with the reasons",
        )
    return ReviewAction(who, kind, refused='First write what should change, on lines that begin with "> ".')


def strengthen(work: OpenReview) -> list[ReviewAction]:
    """Return the action that asks for tests that notice more, if there is something that no test noticed."""
    evidence = noticed(check.mutation for check in work.delegation.checks)
    places = without_tests(work.delegation.places)
    if not places and (evidence is None or not evidence.can_be_better):
        return []
    if places:
        missed = "1 place without a test" if len(places) == 1 else f"{len(places)} places without a test"
    elif evidence is not None and evidence.survivors:
        missed = "1 missed change" if len(evidence.survivors) == 1 else f"{len(evidence.survivors)} missed changes"
    else:
        missed = "they do not run the code"
    return [
        ReviewAction(
            f"Strengthen the tests with {work.delegation.delegator} ({missed})",
            f"{KIND}.strengthen",
            STRENGTHEN,
            {"id": work.delegation.id},
            short=f"Strengthen tests ({missed})",
        )
    ]


def drop(work: OpenReview, path: str | None = None) -> list[ReviewAction]:
    """Return the action that removes the new tests which notice nothing, if checks of this result found any.

    ``path``: only if some of them are in this file, as far as their ids tell.
    """
    delegation = work.delegation
    evidence = noticed(check.mutation for check in delegation.checks)
    if evidence is None or Reservation.NO_CHECKS in delegation.reservations:
        return []
    if not any(path is None or _is_in(test, path) for test in evidence.idle):
        return []
    count = len(evidence.idle)
    what = "1 test that notices nothing" if count == 1 else f"{count} tests that notice nothing"
    return [ReviewAction(f"Drop {what}", f"{KIND}.drop", DROP, {"id": delegation.id}, short=f"Drop {what}")]


def _is_in(test: str, path: str) -> bool:
    """Return whether the id of a test names a file, or its module."""
    return test.startswith((f"{path}:", f"{path.rpartition('.')[0].replace('/', '.')}."))


def take_back(token: str) -> ReviewAction:
    """Return the action that undoes an accept."""
    title = "Undo the last accept"
    return ReviewAction(title, f"{KIND}.undo", UNDO, {"undoToken": token}, short=title)


def flagged(files: Iterator[FileDiff] | Sequence[FileDiff]) -> dict[str, str]:
    """Return the flagged paths, each with the reason."""
    return {
        file.path: file.flag_reason
        for file in sorted(files, key=lambda file: file.path)
        if file.flag_reason is not None
    }


def describe(work: OpenReview, file: FileDiff, hunk: Hunk) -> str:
    """Return the message of a diagnostic: the hunk's state, path and size, and what to do about a conflict."""
    state = {
        HunkState.PENDING: "Pending",
        HunkState.ACCEPTED: "Accepted",
        HunkState.REJECTED: "Rejected",
        HunkState.SUPERSEDED: f"Taken over by {hunk.by}",
    }[hunk.state]
    if hunk.state is HunkState.REJECTED and hunk.reason:
        state += f" ({_short(hunk.reason)})"
    what = f"{state}: {sanitize.path(file.path)}, {size(file, hunk)}"
    if hunk.rejected_before is not None:
        what += f", rejected before ({_short(hunk.rejected_before.reason or hunk.rejected_before.id)})"
    if hunk.edited:
        what += ", edited by hand"
    flags = flagged([file]) if hunk.state is HunkState.PENDING else {}
    parts = [what + "."]
    parts += [f"{sanitize.path(path)} {reason}." for path, reason in flags.items()]
    if hunk.conflict and hunk.state is HunkState.PENDING:
        parts.append(
            "It conflicts with your version. Edit those lines and accept again, merge it by hand, save the file and "
            "mark it as merged, or send it back."
        )
    parts += [f"Not tested: {sanitize.one_line(described(place))}." for place in untested(hunk.places)]
    parts.append(f"{sanitize.one_line(work.delegation.title)} ({work.delegation.id})")
    return " ".join(parts)


def size(file: FileDiff, hunk: Hunk) -> str:
    """Return the kind and size of a change as text."""
    lines = f"+{hunk.new_lines} -{hunk.old_lines}"
    if file.status == "renamed":
        return f"renamed from {sanitize.path(file.from_ or '')}" + (
            f", {lines}" if hunk.new_lines or hunk.old_lines else ""
        )
    if file.binary:
        return f"{file.status}, binary"
    if hunk.new_lines or hunk.old_lines:
        return lines if file.status == "modified" else f"{file.status}, {lines}"
    return {"added": "added, empty", "deleted": "deleted, was empty"}.get(file.status, "file mode changed")


# -- parts ---------------------------------------------------------------------------------------------------------


def _decision(
    work: OpenReview,
    title: str,
    decisions: list[dict[str, Any]],
    *,
    kind: str = "accept",
    flagged: bool = False,
    short: str = "",
) -> ReviewAction:
    params = {"id": work.delegation.id, "decisions": decisions} | ({"includeFlagged": True} if flagged else {})
    return ReviewAction(title, f"{KIND}.{kind}", DECIDE, params, short=short)


def _one(file: FileDiff, hunk: Hunk, decision: str) -> dict[str, Any]:
    return {"path": file.path, "hunk": hunk.id, "decision": decision}


def _reject(file: FileDiff, hunk: Hunk, why: Why) -> dict[str, Any]:
    reason = why(ReviewTarget(file.path, hunk.id))
    return _one(file, hunk, "reject") | ({"reason": reason} if reason else {})


def _reject_all(
    open_: Sequence[tuple[FileDiff, Hunk]], why: Why, where: dict[str, Any], common: str | None
) -> list[dict[str, Any]]:
    """Return one rejection for all, then one for each hunk with another reason: the last decision on a hunk counts."""
    rejections = [
        _reject(file, hunk, why) for file, hunk in open_ if why(ReviewTarget(file.path, hunk.id)) not in {None, common}
    ]
    return [{**where, "decision": "reject"} | ({"reason": common} if common else {}), *rejections]


def _it(chosen: Sequence[tuple[FileDiff, Hunk]]) -> str:
    return "this hunk" if len(chosen) == 1 else f"these {len(chosen)} hunks"


def _count(number: int) -> str:
    return "1 hunk" if number == 1 else f"{number} hunks"


def _named(flags: dict[str, str]) -> str:
    paths = list(flags)
    more = f" and {len(paths) - NAMED_FILES} more" if len(paths) > NAMED_FILES else ""
    return ", ".join(sanitize.path(path) for path in paths[:NAMED_FILES]) + more


def _although(flags: dict[str, str], *, named: bool = True) -> str:
    """Return the reason why these files are flagged, as the end of a title."""
    if not flags:
        return ""
    (first, reason), *others = flags.items()
    path = sanitize.path(first)
    if not others:
        return f" although {path if named else 'it'} {reason}"
    return f" although {path} {reason} (also: {_named(dict(others))})"


def _because(reasons: set[str | None]) -> str:
    stated = [reason for reason in reasons if reason]
    if not stated:
        return ""
    return f" because: {_short(stated[0])}" if len(stated) == 1 else f" with your {len(stated)} reasons"


def _short(text: str) -> str:
    words = sanitize.one_line(text)
    return words if len(words) <= SHORT_CHARACTERS else words[: SHORT_CHARACTERS - 1].rstrip() + "…"
