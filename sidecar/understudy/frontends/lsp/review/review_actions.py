"""What a person can do about hunks, in words, each with the request of the contract that does it. Pure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from understudy.api import table
from understudy.faces import harmless
from understudy.faces.lsp.review_text import Spot
from understudy.git import names
from understudy.model.delegations import Delegation, FileDiff, Hunk, HunkState

DECIDE = table.PREFIX + "delegations/decide"
REPLY = table.PREFIX + "delegations/reply"
UNDO = table.PREFIX + "delegations/undo"
KIND = "quickfix.review"
"""Above every kind of these actions: plain editors show quick fixes."""
SHORT_CHARACTERS = 40
NAMED_FILES = 3

Why = Callable[[Spot], str | None]
"""What the person wrote about a spot."""


@dataclass(frozen=True, slots=True)
class Work:
    """A result under review, as it stood when it was read."""

    delegation: Delegation
    files: list[FileDiff]
    undo_token: str | None = None
    """Of the last accept that can still be taken back."""

    def file(self, path: str) -> FileDiff | None:
        """Return a changed file by its path."""
        return next((file for file in self.files if file.path == path), None)

    def hunks(self) -> Iterator[tuple[FileDiff, Hunk]]:
        """Return every hunk with its file."""
        return ((file, hunk) for file in self.files for hunk in file.hunks)

    def pending(self, path: str | None = None) -> list[tuple[FileDiff, Hunk]]:
        """Return what is undecided, in one file or in all."""
        return [
            (file, hunk) for file, hunk in self.hunks() if hunk.state is HunkState.PENDING and path in {None, file.path}
        ]


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing to do: a title, and a command; ``refused`` says why it cannot be done now."""

    title: str
    kind: str
    method: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    refused: str | None = None
    short: str = ""
    """For a lens."""


def on_hunks(work: Work, chosen: Sequence[tuple[FileDiff, Hunk]], why: Why) -> list[Offer]:
    """Return what can be done about the hunks at a place."""
    open_ = [(file, hunk) for file, hunk in chosen if hunk.state is HunkState.PENDING]
    turned_down = [(file, hunk) for file, hunk in chosen if hunk.state is HunkState.REJECTED]
    found = []
    if open_:
        it = _it(open_)
        flags = flagged(file for file, _ in open_)
        found.append(
            Offer(
                f"Accept {it}{_although(flags)}",
                f"{KIND}.accept",
                DECIDE,
                _decide(work, [_one(file, hunk, "accept") for file, hunk in open_], flagged=bool(flags)),
                short="Accept" if not flags else f"Accept{_although(flags)}",
            )
        )
        if all(hunk.conflict for _, hunk in open_):
            found.append(
                Offer(
                    f"Accept {it} as you have merged {'it' if len(open_) == 1 else 'them'} by hand",
                    f"{KIND}.accept",
                    DECIDE,
                    _decide(work, [_one(file, hunk, "accept") | {"byHand": True} for file, hunk in open_]),
                    short="Merged by hand",
                )
            )
        reasons = {why(Spot(file.path, hunk.id)) for file, hunk in open_} - {None}
        because = _because(reasons)
        found.append(
            Offer(
                f"Reject {it}{because}",
                f"{KIND}.reject",
                DECIDE,
                _decide(work, [_reject(file, hunk, why) for file, hunk in open_]),
                short=f"Reject{because}",
            )
        )
    elif turned_down:
        flags = flagged(file for file, _ in turned_down)
        found.append(
            Offer(
                f"Accept {_it(turned_down)} after all{_although(flags)}",
                f"{KIND}.accept",
                DECIDE,
                _decide(work, [_one(file, hunk, "accept") for file, hunk in turned_down], flagged=bool(flags)),
            )
        )
    return found


def on_file(work: Work, path: str, why: Why) -> list[Offer]:
    """Return what can be done about everything undecided in a file."""
    open_ = work.pending(path)
    if not open_:
        return []
    flags = flagged([open_[0][0]])
    reasons = {why(Spot(path, hunk.id)) for _, hunk in open_} - {None}
    it = f"{harmless.path(path)} ({_count(len(open_))})"
    return [
        Offer(
            f"Accept the file {it}{_although(flags, named=False)}",
            f"{KIND}.accept",
            DECIDE,
            _decide(work, [{"path": path, "decision": "accept"}], flagged=bool(flags)),
        ),
        Offer(
            f"Reject the file {it}{_because(reasons)}",
            f"{KIND}.reject",
            DECIDE,
            _decide(work, _reject_all(open_, why, {"path": path}, why(Spot(path)))),
        ),
    ]


def on_everything(work: Work, why: Why) -> list[Offer]:
    """Return what can be done about everything undecided."""
    open_ = work.pending()
    if not open_:
        return []
    flags = flagged(file for file, _ in open_)
    plain = [(file, hunk) for file, hunk in open_ if not flags.keys() & _paths([file])]
    found = []
    if plain:
        paths = list(dict.fromkeys(file.path for file, _ in plain))
        decisions = [{"path": path, "decision": "accept"} for path in paths] if flags else [{"decision": "accept"}]
        but = f" but not {_named(flags)}" if flags else ""
        found.append(
            Offer(
                f"Accept all ({_count(len(plain))}){but}",
                f"{KIND}.accept",
                DECIDE,
                _decide(work, decisions),
                short=f"Accept all ({len(plain)}){but}",
            )
        )
    if flags:
        found.append(
            Offer(
                f"Accept all ({_count(len(open_))}){_although(flags)}",
                f"{KIND}.accept",
                DECIDE,
                _decide(work, [{"decision": "accept"}], flagged=True),
            )
        )
    whole = why(Spot())
    reasons = {why(Spot(file.path, hunk.id)) or whole for file, hunk in open_} - {None}
    found.append(
        Offer(
            f"Reject all ({_count(len(open_))}){_because(reasons)}",
            f"{KIND}.reject",
            DECIDE,
            _decide(work, _reject_all(open_, why, {}, whole)),
            short=f"Reject all{_because(reasons)}",
        )
    )
    return found


def send_back(work: Work, words: str) -> Offer:
    """Return how to send it back with what the person wrote."""
    who = f"Send back to {work.delegation.delegator}"
    kind = f"{KIND}.reply"
    if words:
        title = f"{who} with these words: {_short(words)}"
        return Offer(title, kind, REPLY, {"id": work.delegation.id, "text": words}, short="Send back with these words")
    if any(hunk.state is HunkState.REJECTED and hunk.reason for _, hunk in work.hunks()):
        return Offer(
            f"{who} with the reasons for what was rejected",
            kind,
            REPLY,
            {"id": work.delegation.id, "text": "Do this again where it was rejected; the reasons are above."},
            short="Send back with the reasons",
        )
    return Offer(who, kind, refused='Say first what should change, on lines that begin with "> ".')


def take_back(token: str) -> Offer:
    """Return how to undo an accept."""
    title = "Undo the last accept"
    return Offer(title, f"{KIND}.undo", UNDO, {"undoToken": token}, short=title)


def flagged(files: Iterator[FileDiff] | Sequence[FileDiff]) -> dict[str, str]:
    """Return the paths whose change deserves a second look, with the reason."""
    return {path: reason for path in sorted(_paths(files)) if (reason := _flag(path)) is not None}


def describe(work: Work, file: FileDiff, hunk: Hunk) -> str:
    """Return what a diagnostic says of a hunk: how it stands, where, how large, and what to do about a conflict."""
    state = {
        HunkState.PENDING: "Not decided",
        HunkState.ACCEPTED: "Accepted",
        HunkState.REJECTED: "Rejected",
        HunkState.SUPERSEDED: f"Taken over by {hunk.by}",
    }[hunk.state]
    if hunk.state is HunkState.REJECTED and hunk.reason:
        state += f" ({_short(hunk.reason)})"
    what = f"{state}: {harmless.path(file.path)}, {size(file, hunk)}"
    if hunk.edited:
        what += ", edited by hand"
    flags = flagged([file]) if hunk.state is HunkState.PENDING else {}
    parts = [what + "."]
    parts += [f"{harmless.path(path)} {reason}." for path, reason in flags.items()]
    if hunk.conflict and hunk.state is HunkState.PENDING:
        parts.append(
            "It does not fit what you have there now. Change that place so that it fits and accept again, take the "
            "change over by hand and say so, or send it back."
        )
    parts.append(f"{harmless.one_line(work.delegation.title)} ({work.delegation.id})")
    return " ".join(parts)


def size(file: FileDiff, hunk: Hunk) -> str:
    """Return what a hunk is, in a few words."""
    lines = f"+{hunk.new_lines} -{hunk.old_lines}"
    if file.status == "renamed":
        return f"renamed from {harmless.path(file.from_ or '')}" + (
            f", {lines}" if hunk.new_lines or hunk.old_lines else ""
        )
    if file.binary:
        return f"{file.status}, not text"
    if hunk.new_lines or hunk.old_lines:
        return lines if file.status == "modified" else f"{file.status}, {lines}"
    return {"added": "added, empty", "deleted": "deleted, was empty"}.get(file.status, "whether it can be executed")


@functools.lru_cache(1000)
def _flag(path: str) -> str | None:
    return names.flagged(names.unquote(path))


# -- parts ---------------------------------------------------------------------------------------------------------


def _decide(work: Work, decisions: list[dict[str, Any]], *, flagged: bool = False) -> dict[str, Any]:
    return {"id": work.delegation.id, "decisions": decisions} | ({"flagged": True} if flagged else {})


def _one(file: FileDiff, hunk: Hunk, decision: str) -> dict[str, Any]:
    return {"path": file.path, "hunk": hunk.id, "decision": decision}


def _reject(file: FileDiff, hunk: Hunk, why: Why) -> dict[str, Any]:
    reason = why(Spot(file.path, hunk.id))
    return _one(file, hunk, "reject") | ({"reason": reason} if reason else {})


def _reject_all(
    open_: Sequence[tuple[FileDiff, Hunk]], why: Why, where: dict[str, Any], common: str | None
) -> list[dict[str, Any]]:
    """Reject everything at once; hunks with a reason of their own follow by name, and the last word counts."""
    own = [_reject(file, hunk, why) for file, hunk in open_ if why(Spot(file.path, hunk.id)) not in {None, common}]
    return [{**where, "decision": "reject"} | ({"reason": common} if common else {}), *own]


def _paths(files: Iterator[FileDiff] | Sequence[FileDiff]) -> set[str]:
    return {path for file in files for path in (file.path, file.from_) if path is not None}


def _it(chosen: Sequence[tuple[FileDiff, Hunk]]) -> str:
    return "this hunk" if len(chosen) == 1 else f"these {len(chosen)} hunks"


def _count(number: int) -> str:
    return "1 hunk" if number == 1 else f"{number} hunks"


def _named(flags: dict[str, str]) -> str:
    paths = list(flags)
    more = f" and {len(paths) - NAMED_FILES} more" if len(paths) > NAMED_FILES else ""
    return ", ".join(harmless.path(path) for path in paths[:NAMED_FILES]) + more


def _although(flags: dict[str, str], *, named: bool = True) -> str:
    """Say why these files deserve a second look."""
    if not flags:
        return ""
    (first, reason), *others = flags.items()
    path = harmless.path(first)
    if not others:
        return f" although {path if named else 'it'} {reason}"
    return f" although {path} {reason} (also: {_named(dict(others))})"


def _because(reasons: set[str | None]) -> str:
    said = [reason for reason in reasons if reason]
    if not said:
        return ""
    return f" because: {_short(said[0])}" if len(said) == 1 else f" with your {len(said)} reasons"


def _short(text: str) -> str:
    words = harmless.one_line(text)
    return words if len(words) <= SHORT_CHARACTERS else words[: SHORT_CHARACTERS - 1].rstrip() + "…"
