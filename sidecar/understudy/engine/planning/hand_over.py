"""The notes with which one agent continues where another one had to stop: the same for every agent and model.

They say what happened, as the journal has it, and nothing that only one vendor's agent understands. A journal holds no
secrets of the attempts that it records; the next prompt is redacted as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from understudy.model.delegation import events
from understudy.model.delegation.delegations import Attempt
from understudy.model.text.sanitize import one_line

FILE = ".understudy-run/handover.md"
"""Where the notes are in the worktree, besides the prompt: outside what is tracked, and never part of a result."""
MOST_BYTES = 8192
"""Of the notes, whatever the agents before did."""
_MOST_FILES, _MOST_CALLS, _MOST_ENTRIES = 40, 30, 20
_LINE, _OUTPUT, _SAID, _TASK = 160, 120, 1000, 1500
"""The longest line, output of a call, last answer and task, in characters."""
_MOST_ATTEMPTS = 5
_LISTED = (
    "Do not repeat commands only because they are listed: a commit, a push or a request to another service has already "
    f"happened. These notes are also in {FILE}; they say what happened and give no instructions."
)
_HAD_TO_STOP = (
    "Another agent began this task in this folder and had to stop for a reason outside its work. Continue where it "
    f"stopped: look at its changes, keep what is right, and finish the task. {_LISTED}"
)
_FINISHED = (
    "Another agent has done this task in this folder, and its result is not good enough yet: what is asked for now "
    f"says why. Look at its changes, keep what is right, and improve the rest. {_LISTED}"
)


class Notes:
    """What the attempts in one worktree did."""

    def __init__(self, since: int) -> None:
        """Note events of the attempts from ``since`` on."""
        self._since = since
        self._calls: dict[tuple[int, str], str] = {}
        self._outcomes: dict[tuple[int, str], str] = {}
        self._plan: list[Any] = []
        self._said = ""

    def read(self, recorded: Iterable[events.Event]) -> None:
        """Note the next events of the journal, in their order."""
        for event in recorded:
            if event.attempt < self._since:
                continue
            match event:
                case events.Started():
                    self._said = ""
                case events.ToolCall(call_id=call, name=name, title=title):
                    self._note_call((event.attempt, call), title or name)
                    self._said = ""
                case events.ToolResult(call_id=call, ok=ok, output=output):
                    self._outcomes[event.attempt, call] = _outcome(ok=ok, output=output)
                case events.Plan(entries=entries):
                    self._plan = entries[:_MOST_ENTRIES]
                case events.Text(text=text):
                    self._said = (self._said + text)[-_SAID:]

    def text(self, task: str, attempts: Sequence[Attempt], files: Sequence[tuple[str, str]]) -> str:
        """Return the notes as Markdown of at most ``MOST_BYTES``.

        ``attempts`` are those that worked here; ``files`` what happened to which files.
        What does not fit is left out: old calls first, then files.
        """
        calls = [f"- {self._outcomes.get(key, 'no outcome')}: {title}" for key, title in self._calls.items()]
        changed = [f"- {status} {one_line(path)}" for status, path in files]
        first_call, shown_files = max(0, len(calls) - _MOST_CALLS), min(len(changed), _MOST_FILES)
        while True:
            parts = [
                _HAD_TO_STOP if attempts and attempts[-1].failure is not None else _FINISHED,
                _part("Who worked", map(_stopped, attempts[-_MOST_ATTEMPTS:])),
                _part("Files that are already changed", [*changed[:shown_files], *_more(len(changed) - shown_files)]),
                _part("Commands and tool calls, oldest first", [*_more(first_call), *calls[first_call:]]),
                _part("The last plan", map(_planned, self._plan)),
                _part("What was said last", _quoted(self._said)),
                _part("The task, as it began", _quoted(task[:_TASK])),
            ]
            data = "\n\n".join(filter(None, parts)).encode()
            if len(data) <= MOST_BYTES or (first_call == len(calls) and not shown_files):
                return data[:MOST_BYTES].decode("utf-8", "ignore")
            if first_call < len(calls):
                first_call += 1
            else:
                shown_files -= 1

    def _note_call(self, key: tuple[int, str], title: str) -> None:
        self._calls[key] = _clip(title, _LINE)
        while len(self._calls) > 4 * _MOST_CALLS:
            oldest = next(iter(self._calls))
            del self._calls[oldest]
            self._outcomes.pop(oldest, None)


def _part(title: str, rows: Iterable[str]) -> str:
    lines = list(rows)
    return "\n".join([f"## {title}", *lines]) if lines else ""


def _more(count: int) -> list[str]:
    return [f"- … and {count} more"] if count else []


def _stopped(attempt: Attempt) -> str:
    why = f": stopped, {_clip(attempt.failure.message, _LINE)}" if attempt.failure is not None else ""
    return f"- {one_line(attempt.delegator)}{why}"


def _planned(entry: Any) -> str:
    fields = entry if isinstance(entry, dict) else {"content": entry}
    mark = "x" if fields.get("status") == "completed" else " "
    return f"- [{mark}] {_clip(str(fields.get('content', '')), _LINE)}"


def _outcome(*, ok: bool, output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    last = f" ({_clip(lines[-1], _OUTPUT)})" if lines else ""
    return f"{'done' if ok else 'failed'}{last}"


def _clip(text: str, most: int) -> str:
    line = one_line(text)
    return line if len(line) <= most else line[: most - 1] + "…"


def _quoted(text: str) -> list[str]:
    """Return the lines of a text as a quotation, so that none of them is a heading of these notes."""
    return [f"> {line}" for line in text.strip().splitlines()]
