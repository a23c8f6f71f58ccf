"""The commands that decide on a result, and the question after it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from acp.helpers import update_agent_message_text as message

from understudy.frontends.acp.event_updates import Update
from understudy.frontends.acp.result_updates import Numbered, decided_calls, diff_calls, numbered
from understudy.frontends.acp.session_caller import SessionCaller
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import HunkState
from understudy.model.text import sanitize
from understudy.model.text.sanitize import one_line

Decision = Literal["accept", "reject"]

_LISTED = 20
_LIKE_A_PATH = re.compile(r"/|\.\w{1,5}$")


@dataclass(frozen=True)
class Choice:
    """Hunks to decide on, and why they are rejected."""

    hunks: Sequence[Numbered]
    reason: str | None = None


def flagged(choice: Choice) -> dict[str, str]:
    """Return the files whose accept needs confirmation → why."""
    return {
        sanitize.path(entry.file.path): one_line(entry.file.flag_reason)
        for entry in choice.hunks
        if entry.file.flag_reason is not None
    }


def choose(caller: SessionCaller, delegation: Delegation, words: Sequence[str], *, with_reason: bool = False) -> Choice:
    """Return the pending hunks that the words after a command name by number or path, all of them without a name.

    What follows the names is the reason, if there may be one. Errors: ``invalid_params`` for a name that the result
    does not have, ``conflict`` if nothing is pending.
    """
    entries = numbered(caller.call("delegations/diff", id=delegation.id))
    pending = [entry for entry in entries if entry.hunk.state is HunkState.PENDING]
    if not pending:
        raise UnderstudyError(
            ErrorKind.CONFLICT, "No change is waiting for a decision.", hint="/undo undoes the last accept."
        )
    chosen: list[Numbered] = []
    taken = 0
    for word in words:
        name = word.strip(",`'\"").removeprefix("#")
        if name.isdecimal():
            matching = [entry for entry in entries if entry.number == int(name)]
            if not matching:
                raise UnderstudyError(
                    ErrorKind.INVALID_PARAMS,
                    f"There is no change {name[:20]}.",
                    hint=f"The changes are numbered 1 to {len(entries)}.",
                )
        else:
            matching = [entry for entry in entries if _names(name, entry.file.path, delegation.workspace)]
            if not matching and name == "all" and not taken:
                matching = pending
            if not matching and with_reason and (taken or not _LIKE_A_PATH.search(name)):
                break
            if not matching:
                raise UnderstudyError(
                    ErrorKind.INVALID_PARAMS,
                    f"The result has no file {name[:200]!r}.",
                    hint="Use the number of a change or the path of a file, as /diff shows them.",
                    names=sorted({sanitize.path(entry.file.path) for entry in entries})[:_LISTED],
                )
        chosen += [entry for entry in matching if entry not in chosen]
        taken += 1
    reason = " ".join(words[taken:]) or None
    left = [entry for entry in chosen if entry in pending]
    if chosen and not left:
        raise UnderstudyError(ErrorKind.CONFLICT, "These changes are decided.", hint="/diff shows what is left.")
    return Choice(left or pending, reason)


def decide(
    caller: SessionCaller,
    delegation: Delegation,
    choice: Choice,
    decision: Decision,
    *,
    include_flagged: bool = False,
) -> list[Update]:
    """Accept or reject hunks, and return what happened; blocks. Errors: those of ``delegations/decide``."""
    outcome = caller.call(
        "delegations/decide",
        id=delegation.id,
        decisions=[
            {
                "path": entry.file.path,
                "hunk": entry.hunk.id,
                "decision": decision,
                **({"reason": choice.reason} if choice.reason and decision == "reject" else {}),
            }
            for entry in choice.hunks
        ],
        includeFlagged=include_flagged,
    )
    after = caller.call("delegations/diff", id=delegation.id)
    count = len(outcome.decided)
    changes = f"{count} {'change' if count == 1 else 'changes'}"
    text = f"{decision.capitalize()}ed {changes}."
    if outcome.undo_token is not None:
        text += " `/undo` undoes it; your later edits stay."
    if outcome.conflicts:
        paths = sorted({sanitize.path(conflict.path) for conflict in outcome.conflicts})
        shown = ", ".join(f"`{path}`" for path in paths[:_LISTED])
        text += (
            f" {len(outcome.conflicts)} could not be merged, because you changed the same lines in {shown}; "
            f"your version stays, and they are still pending: understudy review {delegation.id}"
        )
    pending = sum(hunk.state is HunkState.PENDING for file in after.files for hunk in file.hunks)
    if pending:
        text += f" {pending} still to decide."
    return [*decided_calls(delegation.id, choice.hunks, after), message(f"{text}\n")]


def undo(caller: SessionCaller, delegation: Delegation) -> list[Update]:
    """Undo the newest accept; blocks. Errors: ``conflict`` if there is none."""
    undoable = caller.call("delegations/diff", id=delegation.id).undoable
    if not undoable:
        raise UnderstudyError(
            ErrorKind.CONFLICT, "There is no accept to undo.", hint="/accept merges changes into your files."
        )
    caller.call("delegations/undo", undoToken=undoable[0].undo_token)
    paths = ", ".join(f"`{sanitize.path(path)}`" for path in undoable[0].paths[:_LISTED])
    return [*diff_calls(caller, delegation), message(f"Undone in {paths}. The changes are to decide on again.\n")]


def show(caller: SessionCaller, delegation: Delegation) -> list[Update]:
    """Return the pending changes; blocks."""
    calls = diff_calls(caller, delegation)
    return calls or [message("No change is waiting for a decision.\n")]


def evidence(caller: SessionCaller, delegation: Delegation) -> list[Update]:
    """Return everything the verdict rests on; blocks."""
    return [message(sanitize.sanitize(caller.call("delegations/evidence", id=delegation.id).markdown))]


def _names(name: str, path: str, workspace: str) -> bool:
    shown = sanitize.path(path)
    target = name.removeprefix(f"{workspace}/").removeprefix("./").rstrip("/")
    return bool(target) and (target in {path, shown} or shown.startswith(f"{target}/") or target == ".")
