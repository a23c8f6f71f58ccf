"""The course of an interactive review, without a terminal: what each answer of the person leads to.

``answer`` takes one line and returns what the face has to do next; nothing is sent before the review is over::

    SHOW ─► answer ─► SHOW … ─► DONE
              │ r ─► REASON ─► answer ─► SHOW
              │ y, a on a flagged file ─► CONFIRM ─► answer ─► SHOW
              │ e ─► EDIT ─► SHOW (``replace``: the file's hunks are asked anew)
              └ ?, g ─► HELP, LIST ─► answer
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

from understudy.faces.cli.hunks import Item

KEYS: dict[str, str] = {
    "y": "accept this hunk: it is merged into your file",
    "n": "reject this hunk",
    "r": "reject it with a reason, which a reply tells the agent (`r too slow` at once)",
    "a": "accept this hunk and all that follow in this file",
    "d": "reject this hunk and all that follow in this file",
    "e": "edit the result's file in your editor, then look at its hunks anew",
    "j": "leave it undecided, go to the next undecided hunk",
    "k": "leave it undecided, go to the undecided hunk before",
    "g": "list all hunks and go to one (`g 3` at once); a decision can be changed until the end",
    "q": "end: what was decided happens now, the rest stays undecided (so does Ctrl-D; Ctrl-C: nothing happens)",
    "?": "print this help",
}


class Next(enum.Enum):
    """What the face does next."""

    SHOW = "show"
    """Show the current hunk and ask."""
    ASK = "ask"
    """Ask again, after ``message``."""
    HELP = "help"
    """Print the keys and ask."""
    LIST = "list"
    """Print all hunks and ask which."""
    REASON = "reason"
    """Ask why."""
    CONFIRM = "confirm"
    """Ask whether a flagged file is meant."""
    EDIT = "edit"
    """Open the result's file in the editor, ``replace`` or not, then show."""
    DONE = "done"
    """Send ``decisions``."""


class Choice(NamedTuple):
    """What the person said about one hunk."""

    decision: str
    reason: str | None = None


class Review:
    """Walks through hunks; ``current`` is the one in question."""

    def __init__(self, items: Sequence[Item]) -> None:
        """Begin at the first of ``items``, all of them undecided; there must be one."""
        self.items = list(items)
        self.position = 0
        self.message = ""
        """What to tell the person before the next question."""
        self._choices: dict[str, Choice] = {}
        self._meant: set[str] = set()
        """Flagged files that the person has confirmed."""
        self._waits: tuple[Next, str] | None = None
        """The further question that the next line answers, and the key that led to it."""

    @property
    def current(self) -> Item:
        """Return the hunk in question."""
        return self.items[self.position]

    @property
    def heading(self) -> str:
        """Return how far it is: ``(2/7) ``."""
        return f"({self.position + 1}/{len(self.items)}) "

    def choice(self, item: Item) -> Choice | None:
        """Return what was said about a hunk, None where nothing was."""
        return self._choices.get(item.name)

    def keys(self) -> str:
        """Return the keys that make sense now, for the prompt."""
        alone = len(self.items) == 1
        binary = self.current.file.binary or self.current.file.status == "deleted"
        left_out = {"j", "k", "g"} if alone else set()
        return ",".join(key for key in KEYS if key not in left_out and not (key == "e" and binary))

    def answer(self, line: str | None) -> Next:
        """Take a line of the person (None: the end of their input) and return what is next."""
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
                self.message = "no reason given; nothing was decided"
                return Next.ASK
            return self._decide([self.current], Choice("reject", text))
        if step is Next.CONFIRM:
            if text.lower() not in {"y", "yes"}:
                self.message = "not accepted"
                return Next.ASK
            self._meant.add(self.current.file.path)
            return self._key(key)
        return self._go(text)

    def replace(self, items: Sequence[Item]) -> Next:
        """Go on with the hunks of an edited result: what was said about the edited file's hunks is asked anew."""
        path = self.current.file.path
        self._choices = {
            item.name: self._choices[item.name]
            for item in items
            if item.name in self._choices and item.file.path != path
        }
        self._meant.discard(path)
        self.items = list(items)
        self.message = ""
        own = [number for number, item in enumerate(self.items) if item.file.path == path]
        if own:
            self.position = own[0]
            return Next.SHOW
        self.position = 0
        self.message = "nothing of this file is undecided any more"
        return self._after_decision(-1)

    def decisions(self) -> tuple[list[dict[str, Any]], bool]:
        """Return the decisions as the contract has them, and whether flagged files among them are meant.

        Hunks are named one by one: what was not shown is not decided.
        """
        found: list[dict[str, Any]] = []
        for item in self.items:
            choice = self.choice(item)
            if choice is None:
                continue
            entry = {"path": item.file.path, "hunk": item.hunk.id, "decision": choice.decision}
            found.append(entry | ({"reason": choice.reason} if choice.reason else {}))
        accepted = {entry["path"] for entry in found if entry["decision"] == "accept"}
        return found, bool(accepted & self._meant)

    def _key(self, line: str) -> Next:
        key, _, rest = line.partition(" ")
        rest = rest.strip()
        if not key or key not in self.keys().split(","):
            self.message = f"keys: {self.keys()}; ? explains them" if key != "?" else ""
            return Next.ASK
        if rest and key not in {"r", "g"}:
            self.message = f"{key} takes nothing behind it"
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
        if self.current.file.flagged and self.current.file.path not in self._meant:
            return self._wait(Next.CONFIRM, key)
        return self._decide(chosen, Choice("accept"))

    def _decide(self, chosen: list[Item], choice: Choice) -> Next:
        for item in chosen:
            self._choices[item.name] = choice
        return self._after_decision(self.items.index(chosen[-1]))

    def _after_decision(self, behind: int) -> Next:
        """Go to the first undecided hunk behind ``behind``, else to the first of all, as git does; or end."""
        undecided = self._undecided()
        if not undecided:
            return Next.DONE
        self.position = next((number for number in undecided if number > behind), undecided[0])
        return Next.SHOW

    def _move(self, step: int) -> Next:
        undecided = self._undecided()
        there = [number for number in undecided if (number > self.position if step > 0 else number < self.position)]
        if not there:
            self.message = f"no undecided hunk {'behind' if step > 0 else 'before'} this one"
            return Next.ASK
        self.position = there[0] if step > 0 else there[-1]
        return Next.SHOW

    def _go(self, text: str) -> Next:
        if not text.isdecimal() or not 1 <= int(text[:9]) <= len(self.items):
            self.message = f"there is no hunk {text!r}: 1 to {len(self.items)}" if text else ""
            return Next.ASK
        self.position = int(text) - 1
        return Next.SHOW

    def _undecided(self) -> list[int]:
        return [number for number, item in enumerate(self.items) if item.name not in self._choices]

    def _rest_of_file(self) -> list[Item]:
        """Return this hunk and the undecided ones behind it in its file."""
        path = self.current.file.path
        behind = [
            item for item in self.items[self.position + 1 :] if item.file.path == path and self.choice(item) is None
        ]
        return [self.current, *behind]
