"""Show a result: each changed file as a tool call with one diff for each hunk, then the verdict and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acp import helpers, schema

from understudy.api.messages import DiffResult
from understudy.frontends.acp.event_updates import Update
from understudy.frontends.acp.session_caller import SessionCaller
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import UnderstudyError
from understudy.model.hunks import FileDiff, Hunk, HunkState
from understudy.model.text import path_quoting, sanitize
from understudy.model.text.delegation_text import test_counts, verdict_sentence
from understudy.model.text.patches import lines_of
from understudy.model.verdicts import check_outcome

CONTEXT_LINES = 3
MOST_HUNKS = 300
MOST_CHARACTERS = 1_000_000
"""Of all diffs of one result; what is left out is named."""


@dataclass(frozen=True)
class Numbered:
    """A hunk, with the number by which commands name it."""

    number: int
    file: FileDiff
    hunk: Hunk


def numbered(diff: DiffResult) -> list[Numbered]:
    """Return all hunks of a result; the numbers do not depend on decisions."""
    pairs = [(file, hunk) for file in diff.files for hunk in file.hunks]
    return [Numbered(number, file, hunk) for number, (file, hunk) in enumerate(pairs, 1)]


def diff_calls(caller: SessionCaller, delegation: Delegation) -> list[Update]:
    """Return a tool call for each file that has hunks to decide on; blocks. Errors: those of ``delegations/diff``."""
    result: DiffResult = caller.call("delegations/diff", id=delegation.id)
    pending = [entry for entry in numbered(result) if entry.hunk.state is HunkState.PENDING]
    room = MOST_CHARACTERS
    calls: list[Update] = []
    for file in result.files:
        hunks = [entry for entry in pending[:MOST_HUNKS] if entry.file is file]
        if not hunks:
            continue
        place = str(Path(delegation.workspace) / path_quoting.unquote(file.path).decode("utf-8", "replace"))
        sides = _sides(caller, delegation.id, file)
        content: list[Any] = []
        for entry in hunks:
            diff = _diff(place, sides, file, entry.hunk)
            room -= len(diff.new_text) + len(diff.old_text or "") if diff is not None else 0
            shown = diff if room >= 0 else None
            content.append(shown or helpers.tool_content(helpers.text_block(_without_text(file, entry))))
        numbers = ", ".join(str(entry.number) for entry in hunks)
        calls.append(
            schema.ToolCallStart(
                session_update="tool_call",
                tool_call_id=call_id(delegation.id, file),
                title=f"[{numbers}] {file.status.capitalize()} {sanitize.path(file.path)}"[:200],
                kind="delete" if file.status == "deleted" else "edit",
                status="pending",
                content=content,
                locations=[schema.ToolCallLocation(path=place, line=max(entry.hunk.old_start, 1)) for entry in hunks],
            )
        )
    return calls


def call_id(delegation: str, file: FileDiff) -> str:
    """Return the id of the tool call that shows a file of a result."""
    return f"{delegation}:result:{file.path}"


def decided_calls(delegation: str, before: Sequence[Numbered], after: DiffResult) -> Iterator[Update]:
    """Yield how the calls of files ended in which every hunk is decided."""
    left = {file.path: {hunk.state for hunk in file.hunks} for file in after.files}
    for file in {entry.file.path: entry.file for entry in before}.values():
        states = left.get(file.path, set())
        if HunkState.PENDING not in states:
            yield schema.ToolCallProgress(
                session_update="tool_call_update",
                tool_call_id=call_id(delegation, file),
                status="completed" if HunkState.ACCEPTED in states else "failed",
            )


def verdict_text(delegation: Delegation) -> str:
    """Return the verdict, the checks, what failed, and how to decide."""
    assert delegation.verdict is not None  # noqa: S101 - the delegation has finished
    if str(delegation.verdict) == "answered":
        return ""
    sentence = verdict_sentence(delegation)
    name, _, meaning = sentence.partition(": ")
    lines = [f"**{name.capitalize()}**: {meaning}."]
    lines += [
        f"- check {sanitize.one_line(check.name)}: {check_outcome(check.ok, delegation.reservations)} "
        f"({test_counts(check)})"
        for check in delegation.checks
    ]
    if delegation.error is not None and delegation.error.hint:
        lines.append(sanitize.one_line(delegation.error.hint))
    if delegation.review.pending:
        files = delegation.result.files if delegation.result is not None else []
        changes = f"{delegation.review.pending} {'change' if delegation.review.pending == 1 else 'changes'}"
        in_files = f" in {len(files)} {'file' if len(files) == 1 else 'files'}" if files else ""
        lines.append(
            f"\n{changes}{in_files} to decide on: `/accept`, `/accept 1 3`, `/accept PATH`, `/reject 2 REASON`, "
            f"`/diff`, or `understudy review {delegation.id}`. Your files have none of them yet."
        )
    return "\n\n" + "\n".join(lines) + "\n"


def _sides(caller: SessionCaller, delegation: str, file: FileDiff) -> tuple[list[str] | None, list[str] | None]:
    """Return the lines of the base and of the result; None for a side without text."""
    sides: list[list[str] | None] = []
    for side, path in (("base", file.from_ or file.path), ("result", file.path)):
        if file.binary or (side, file.status) in {("base", "added"), ("result", "deleted")}:
            sides.append(None)
            continue
        try:
            text = caller.call("delegations/file", id=delegation, path=path, side=side).text
        except UnderstudyError:
            text = None
        sides.append(None if text is None else lines_of(text))
    return sides[0], sides[1]


def _diff(
    place: str, sides: tuple[list[str] | None, list[str] | None], file: FileDiff, hunk: Hunk
) -> schema.FileEditToolCallContent | None:
    """Return a hunk with some lines around it; None for one without lines, such as a binary file's."""
    old, new = sides
    if file.binary or (not hunk.old_lines and not hunk.new_lines) or (old is None and new is None):
        return None
    # A position of no lines is that of the line before.
    old_from = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
    new_from = hunk.new_start - 1 if hunk.new_lines else hunk.new_start
    before = old[old_from : old_from + hunk.old_lines] if old is not None else []
    after = new[new_from : new_from + hunk.new_lines] if new is not None else []
    source, at, count = (old, old_from, hunk.old_lines) if old is not None else (new or [], new_from, hunk.new_lines)
    above = "".join(source[max(at - CONTEXT_LINES, 0) : at]) if old is not None else ""
    below = "".join(source[at + count : at + count + CONTEXT_LINES]) if old is not None else ""
    return schema.FileEditToolCallContent(
        type="diff",
        path=place,
        old_text=None if old is None else above + "".join(before) + below,
        new_text=above + "".join(after) + below,
    )


def _without_text(file: FileDiff, entry: Numbered) -> str:
    what = "binary file" if file.binary else f"lines {entry.hunk.new_start} and following"
    return f"{sanitize.path(file.path)}: {what}, {file.status}; not shown here. See it with: understudy diff"
