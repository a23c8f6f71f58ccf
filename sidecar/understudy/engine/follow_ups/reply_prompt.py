"""Tell the agent which of its earlier changes were accepted or rejected, and what to do now."""

from __future__ import annotations

import contextlib
import secrets

from understudy.engine.review import review_state
from understudy.git.object_store import ObjectStore
from understudy.model.errors import UnderstudyError
from understudy.model.hunks import FileDiff, Hunk, HunkState
from understudy.model.text import path_quoting

SHOWN_LINES = 60
"""Lines of one hunk in a prompt; a longer hunk is cut in the middle, because the agent has the file."""
SHOWN_BYTES = 60_000
"""All hunks in a prompt together."""


def words(objects: ObjectStore, sides: tuple[str, str], files: list[FileDiff], earlier: list[str], text: str) -> str:
    """Return the prompt of a reply: the decisions on the agent's changes, and the new request."""
    room = SHOWN_BYTES
    parts = ["# What happened to your changes"]
    for state, title in (
        (HunkState.ACCEPTED, "Accepted. These are in the files that you see, perhaps edited since; leave them."),
        (HunkState.REJECTED, "Rejected. These are no longer in the files; do not make them again in the same way."),
        (HunkState.PENDING, "Not decided yet. These are in the files that you see; continue from them."),
    ):
        lines = []
        for file in files:
            for hunk in file.hunks:
                if hunk.state is state:
                    shown = _shown(objects, sides, file, hunk) if state is HunkState.REJECTED and room > 0 else ""
                    room -= len(shown)
                    lines.append(_described(file, hunk) + shown)
        if lines:
            parts.append(f"## {title}\n\n" + "\n".join(lines))
    if len(parts) == 1:
        parts = []
    if earlier:
        parts.append("# What was asked for before\n\n" + "\n\n".join(item.strip() for item in earlier))
    return "\n\n".join([*parts, "# What is asked for now\n\n" + text.strip()])


def about_answer(answer: str, earlier: list[str], text: str) -> str:
    """Return the prompt of a reply to a text answer."""
    boundary = secrets.token_hex(6)
    parts = [f"# Your previous answer\n\n<<<{boundary}\n{answer[:SHOWN_BYTES].rstrip()}\n{boundary}>>>"]
    if earlier:
        parts.append("# What was asked for before\n\n" + "\n\n".join(item.strip() for item in earlier))
    return "\n\n".join([*parts, "# What is asked for now\n\n" + text.strip()])


def _described(file: FileDiff, hunk: Hunk) -> str:
    if hunk.old_lines or hunk.new_lines:
        where = f"line {hunk.old_start}" if file.status == "modified" else f"the file was {file.status}"
    else:
        where = "the whole file" if file.binary else f"{file.status}"
    reason = f" Why: {hunk.reason.strip()}" if hunk.reason and hunk.reason.strip() else ""
    return f"- `{path_quoting.readable(file.path)}`, {where}.{reason}"


def _shown(objects: ObjectStore, sides: tuple[str, str], file: FileDiff, hunk: Hunk) -> str:
    if file.binary:
        return ""
    with contextlib.suppress(UnderstudyError):
        old, new = review_state.lines_of(objects, *sides, file, hunk)
        lines = [
            f"{sign}{line.decode('utf-8', 'replace')}"
            for sign, side, count in (("-", old, hunk.old_lines), ("+", new, hunk.new_lines))
            for line in (side.split(b"\n") if count else [])
        ]
        if len(lines) > SHOWN_LINES:
            half = SHOWN_LINES // 2
            lines = [*lines[:half], f"… {len(lines) - SHOWN_LINES} lines …", *lines[-half:]]
        boundary = secrets.token_hex(6)
        return f"\n<<<{boundary}\n" + "\n".join(lines)[:SHOWN_BYTES] + f"\n{boundary}>>>"
    return ""
