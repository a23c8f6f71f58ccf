"""State machine of an interactive review, without a terminal.

``answer`` takes one line of input and returns the next step; nothing is sent before the review is over::

    SHOW ─► answer ─► SHOW … ─► DONE
              │ r ─► REASON ─► answer ─► SHOW
              │ y, a on a flagged file ─► CONFIRM ─► answer ─► SHOW
              │ e ─► EDIT ─► SHOW (``replace``: ask about the file's hunks again)
              └ ?, g ─► HELP, LIST ─► answer
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

from understudy.frontends.cli.review.hunk_view import Item

KEYS: dict[str, str] = {
    "y": "accept this hunk and merge it into your file",
    "n": "reject this hunk",
    "r": "reject it with a reason for the agent (short form: `r too slow`)",
    "a": "accept this and all later hunks of this file",
    "d": "reject this and all later hunks of this file",
    "e": "edit the result's file in your editor, then review its hunks again",
    "j": "leave it pending, go to the next pending hunk",
    "k": "leave it pending, go to the previous pending hunk",
    "g": "list all hunks and go to one (short form: `g 3`); decisions can be changed until the end",
    "q": "quit: apply your decisions, leave the rest pending (also Ctrl-D; Ctrl-C applies nothing)",
    "?": "print this help",
}


class Next(enum.Enum):
    """What the caller does next."""

    SHOW = "show"
    """Show the current hunk and ask."""
    ASK = "ask"
    """Print ``message`` and ask again."""
    HELP = "help"
    """Print the keys and ask."""
    LIST = "list"
    """Print all hunks and ask for a number."""
    REASON = "reason"
    """Ask for the reason."""
    CONFIRM = "confirm"
    """Ask whether to accept a flagged file."""
    EDIT = "edit"
    """Open the result's file in the editor, call ``replace`` if it changed, then show."""
    DONE = "done"
    """Send ``decisions``."""


class Choice(NamedTuple):
    """The decision on one hunk so far."""

    decision: str
    reason: str | None = None


class Review:
    """Walks through hunks; ``current`` is the one to decide."""

    def __init__(self, items: Sequence[Item]) -> None:
        """Begin at the first of ``items``, which are all pending; there must be one."""
        self.items = list(items)
        self.position = 0
        self.message = ""
        """A message to print before the next question."""
        self._choices: dict[str, Choice] = {}
        self._meant: set[str] = set()
        """Flagged files that the user has confirmed."""
        self._waits: tuple[Next, str] | None = None
        """The question that the next line answers, and the key that led to it."""

    @property
    def current(self) -> Item:
        """Return the hunk to decide."""
        return self.items[self.position]

    @property
    def heading(self) -> str:
        """Return the progress: ``(2/7) ``."""
        return f"({self.position + 1}/{len(self.items)}) "

    def choice(self, item: Item) -> Choice | None:
        """Return the decision on a hunk so far, None if there is none."""
        return self._choices.get(item.name)

    def keys(self) -> str:
        """Return the keys that apply now, for the prompt."""
        alone = len(self.items) == 1
        binary = self.current.file.binary or self.current.file.status == "deleted"
        left_out = {"j", "k", "g"} if alone else set()
        return ",".join(key for key in KEYS if key not in left_out and not (key == "e" and binary))

    def answer(self, line: str | None) -> Next:
        """Handle a line of input (None: the end of input) and return the next step."""
        self.message = ""
        waits, self._waits = self._waits, None
        if line is None:
            return Next.DONE
        if waits is None:
            return self._key(line.strip())
        step, key = waits
        text = line.strip()
        if step is Next.REASON:
            if not text:
                self.message = "No reason given; the hunk is still pending."
                return Next.ASK
            return self._decide([self.current], Choice("reject", text))
        if step is Next.CONFIRM:
            if text.lower() not in {"y", "yes"}:
                self.message = "Not accepted."
                return Next.ASK
            self._meant.add(self.current.file.path)
            return self._key(key)
        return self._go(text)

    def replace(self, items: Sequence[Item]) -> Next:
        """Continue with the hunks of an edited result; forget the decisions on the edited file."""
        path = self.current.file.path
        self._choices = {
            item.name: self._choices[item.name]
            for item in items
            if item.name in self._choices and item.file.path != path
        }
        self._meant.discard(path)
        self.items = list(items)
        self.message = ""
        positions = [number for number, item in enumerate(self.items) if item.file.path == path]
        if positions:
            self.position = positions[0]
            return Next.SHOW
        self.position = 0
        self.message = "No hunk of this file is pending now."
        return self._after_decision(-1)

    def decisions(self) -> tuple[list[dict[str, Any]], bool]:
        """Return the decisions for ``delegations/decide``, and whether they include confirmed flagged files.

        Hunks are named one by one: hunks that were not shown are not decided.
        """
        decisions: list[dict[str, Any]] = []
        for item in self.items:
            choice = self.choice(item)
            if choice is None:
                continue
            entry = {"path": item.file.path, "hunk": item.hunk.id, "decision": choice.decision}
            decisions.append(entry | ({"reason": choice.reason} if choice.reason else {}))
        accepted = {entry["path"] for entry in decisions if entry["decision"] == "accept"}
        return decisions, bool(accepted & self._meant)

    def _key(self, line: str) -> Next:
        key, _, rest = line.partition(" ")
        rest = rest.strip()
        if not key or key not in self.keys().split(","):
            self.message = f"Keys: {self.keys()}; ? explains them." if key != "?" else ""
            return Next.ASK
        if rest and key not in {"r", "g"}:
            self.message = f"{key} takes no argument."
            return Next.ASK
        match key:
            case "y":
                return self._accept([self.current], key)
            case "a":
                return self._accept(self._rest_of_file(), key)
            case "n":
                return self._decide([self.current], Choice("reject"))
            case "d":
                return self._decide(self._rest_of_file(), Choice("reject"))
            case "r" if rest:
                return self._decide([self.current], Choice("reject", rest))
            case "g" if rest:
                return self._go(rest)
            case "j" | "k":
                return self._move(1 if key == "j" else -1)
            case "r":
                return self._wait(Next.REASON, key)
            case "g":
                return self._wait(Next.LIST, key)
            case "e":
                return Next.EDIT
            case "q":
                return Next.DONE
            case _:
                return Next.HELP

    def _wait(self, step: Next, key: str) -> Next:
        self._waits = (step, key)
        return step

    def _accept(self, chosen: list[Item], key: str) -> Next:
        if self.current.file.flag_reason and self.current.file.path not in self._meant:
            return self._wait(Next.CONFIRM, key)
        return self._decide(chosen, Choice("accept"))

    def _decide(self, chosen: list[Item], choice: Choice) -> Next:
        for item in chosen:
            self._choices[item.name] = choice
        return self._after_decision(self.items.index(chosen[-1]))

    def _after_decision(self, behind: int) -> Next:
        """Go to the first pending hunk after ``behind``, else to the first one, as git does; or end."""
        pending = self._pending()
        if not pending:
            return Next.DONE
        self.position = next((number for number in pending if number > behind), pending[0])
        return Next.SHOW

    def _move(self, step: int) -> Next:
        pending = self._pending()
        there = [number for number in pending if (number > self.position if step > 0 else number < self.position)]
        if not there:
            self.message = f"No pending hunk {'after' if step > 0 else 'before'} this one."
            return Next.ASK
        self.position = there[0] if step > 0 else there[-1]
        return Next.SHOW

    def _go(self, text: str) -> Next:
        if not text.isdecimal() or not 1 <= int(text[:9]) <= len(self.items):
            self.message = f"There is no hunk {text!r}; choose 1 to {len(self.items)}." if text else ""
            return Next.ASK
        self.position = int(text) - 1
        return Next.SHOW

    def _pending(self) -> list[int]:
        return [number for number, item in enumerate(self.items) if item.name not in self._choices]

    def _rest_of_file(self) -> list[Item]:
        """Return this hunk and the pending ones after it in its file."""
        path = self.current.file.path
        behind = [
            item for item in self.items[self.position + 1 :] if item.file.path == path and self.choice(item) is None
        ]
        return [self.current, *behind]
