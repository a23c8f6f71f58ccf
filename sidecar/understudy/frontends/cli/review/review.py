"""``review``: show every pending hunk and ask for a decision, like `git add -p`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import click

from understudy.frontends.cli.calls import exit_codes, options
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.frontends.cli.delegate import follower
from understudy.frontends.cli.output import event_lines, output, verdict_card
from understudy.frontends.cli.review import decide, hunk_targets, hunk_view
from understudy.frontends.cli.terminal import editor, terminal
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import UnderstudyError
from understudy.model.hunks import FileDiff, HunkState
from understudy.model.states import State

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
VERDICT_QUESTION = "Wait for the verdict [Y/n/s/q]?"
VERDICT_HELP = (
    "y  wait until the checks have ended, then review (Ctrl-C: review at once)\n"
    "n  review now; your decisions are applied after the checks have ended\n"
    "s  stop the checks, and decide now on what they have shown\n"
    "q  quit"
)


@click.command(
    epilog=options.examples(
        "understudy review k3f9q",
        "understudy review k3f9q src/",
        "understudy review k3f9q --list",
        "understudy review k3f9q --json | jq '.files[].hunks[].id'",
    )
)
@options.identifier
@hunk_targets.argument
@click.option("--list", "list_", is_flag=True, help="Only list the hunks with their IDs and states.")
@options.as_json
def review(*, identifier: str, chosen: tuple[str, ...], list_: bool, json_: bool) -> int:
    """Review a result hunk by hunk: accept, reject with a reason, edit, or leave pending.

    Decisions are sent together at the end; until then only your edits of the result take effect. `?` lists the keys.
    While the checks still run, you can wait for the verdict, stop them, or review without it.
    Without a terminal, or with --list, the hunks are listed. With --json, prints files and hunks as a `DiffResult`.
    """
    if list_ or json_ or not editor.can_edit():
        show_list(resolve(identifier), chosen, as_json=json_)
        return exit_codes.Exit.OK
    return run(identifier, chosen)


def run(identifier: str, chosen: Sequence[str]) -> int:
    """Review on this terminal, send the decisions, and print the outcome."""
    whole = resolve(identifier)
    person = _Terminal()
    notice = VerdictNotice(whole, call, person)
    call("delegations/diff", id=whole)  # fails if there is nothing to review
    if not notice.begin(lambda: _wait(whole)):
        click.echo("Nothing was decided.", err=True)
        return exit_codes.Exit.OK
    files = call("delegations/diff", id=whole).files  # a round of repair may have changed it
    items = _pending(whole, files, chosen)
    decided = len(hunk_view.items(files)) - len(hunk_view.pending(files))
    if decided:
        click.echo(
            f"{event_lines.plural(decided, 'hunk')} decided before; `understudy review {whole} --list` shows all."
        )
    dialogue = Dialogue(whole, items, chosen, call, person, news=notice.update)
    decisions, flagged = dialogue.run()
    if not notice.before_sending(len(decisions), lambda: _show_checks(whole)):
        decisions = []
    return dialogue.deliver(
        dialogue.files or files,
        decisions,
        lambda before, sent: decide.send(whole, before, sent, flagged=flagged),
    )


def _show_checks(identifier: str) -> None:
    """Show the checks until they have ended."""
    after = call("delegations/get", id=identifier).last_seq
    follower.Follower(identifier, follower.view_on(sys.stdout), after).run()


def _wait(identifier: str) -> None:
    """Show the checks until they have ended; Ctrl-C ends the waiting only."""
    try:
        _show_checks(identifier)
    except KeyboardInterrupt:
        click.echo("The checks keep running; the verdict is printed as soon as there is one.")


def show_list(identifier: str, chosen: Sequence[str], *, as_json: bool) -> None:
    """Print the hunks with their names and states."""
    diff = call("delegations/diff", id=identifier)
    delegation = call("delegations/get", id=identifier)
    if not as_json and delegation.state is not State.FINISHED:
        click.echo(no_verdict(delegation, terminal.Paint(on=terminal.has_colour(sys.stderr))), err=True)
    if chosen:
        names = {item.name for item in hunk_targets.named(diff.files, chosen)}
        for file in diff.files:
            file.hunks = [hunk for hunk in file.hunks if f"{file.path}:{hunk.id}" in names]
        diff.files = [file for file in diff.files if file.hunks]
    if as_json:
        output.json(diff)
        return
    rows = []
    for item in hunk_view.items(diff.files):
        state = f"{item.hunk.state}{' (conflict)' if item.hunk.conflict else ''}"
        untested = "not tested" if item.hunk.tested is False else ""
        evidence = "tested, but in doubt" if item.hunk.doubted else untested
        continued = f"decide in {item.hunk.by}" if item.hunk.state is HunkState.SUPERSEDED else ""
        rejection = item.hunk.reason or hunk_view.rejected_before(item.hunk)
        note = continued or rejection or item.file.flag_reason or evidence
        rows.append((item.spelled, state, hunk_view.place(item), f"- {note}" if note else ""))
    output.table(("PATH:HUNK", "STATE", "WHERE", ""), rows, wrap=True)


class _Terminal:
    """Questions and answers on this terminal."""

    paint: terminal.Paint

    def __init__(self) -> None:
        self.paint = output.paint()

    def say(self, text: str) -> None:
        """Print text unchanged."""
        click.echo(text, nl=not text.endswith("\n"))

    def ask(self, prompt: str) -> str | None:
        """Return the line typed by the user, None at the end of input."""
        click.echo(f"{self.paint(prompt, fg='blue', bold=True)} ", nl=False)
        line = sys.stdin.readline()
        if not line:
            click.echo()
            return None
        return line

    def edit(self, text: str, name: str) -> str | None:
        """Let the user edit a text; return None if it did not change."""
        return editor.edited(text, name)


class Choice(NamedTuple):
    """The decision on one hunk so far."""

    decision: str
    reason: str | None = None


class Dialogue:
    """Asks about one hunk after the other and collects the decisions; nothing is sent before the review is over."""

    def __init__(
        self,
        identifier: str,
        items: Sequence[hunk_view.Item],
        chosen: Sequence[str],
        call: Callable[..., Any],
        person: Any,
        *,
        news: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask ``person`` (``say``, ``ask``, ``edit``, ``paint``) about ``items``; ``call`` reads and amends.

        ``news`` is called before each hunk, and prints what has happened meanwhile.
        """
        self.items = list(items)
        self.files: list[FileDiff] = []
        """The diff after an edit; empty without one."""
        self._identifier = identifier
        self._chosen = chosen
        self._call = call
        self._person = person
        self._news = news
        self._sides = hunk_view.Sides(identifier, call)
        self._position = 0
        self._shown = False
        """Whether the hunk at the position was printed since the last decision, jump or edit."""
        self._choices: dict[str, Choice] = {}
        self._confirmed: set[str] = set()
        """Flagged files that the user has confirmed."""

    def run(self) -> tuple[list[dict[str, Any]], bool]:
        """Ask until the review is over; return the decisions, and whether they include confirmed flagged files.

        Hunks are named one by one: hunks that were not shown are not decided.
        """
        with contextlib.suppress(EOFError):
            while self._pending():
                item = self.items[self._position]
                if not self._shown:
                    self._show(item)
                if not self._answer(self._ask(f"{self._heading}Accept this hunk [{','.join(self._keys())}]?"), item):
                    break
        decisions: list[dict[str, Any]] = []
        for item in self.items:
            if (choice := self._choices.get(item.name)) is not None:
                entry = {"path": item.file.path, "hunk": item.hunk.id, "decision": choice.decision}
                decisions.append(entry | ({"reason": choice.reason} if choice.reason else {}))
        accepted = {entry["path"] for entry in decisions if entry["decision"] == "accept"}
        return decisions, bool(accepted & self._confirmed)

    def deliver(
        self,
        files: Sequence[FileDiff],
        decisions: list[dict[str, Any]],
        send: Callable[[Sequence[FileDiff], list[dict[str, Any]]], int],
    ) -> int:
        """Send the decisions until it succeeds or the user gives up, so that an error does not lose the review.

        Hunks that another process has decided in the meantime are left out and named.
        """
        while True:
            try:
                return send(files, decisions)
            except UnderstudyError as error:
                output.error(error, as_json=False)
            files = self._call("delegations/diff", id=self._identifier).files
            now = {(item.file.path, item.hunk.id): item for item in hunk_view.items(files)}
            lapsed = {
                (entry["path"], entry["hunk"]): why
                for entry in decisions
                if (why := _lapsed(now.get((entry["path"], entry["hunk"])), entry["decision"])) is not None
            }
            for (path, hunk), why in lapsed.items():
                self._person.say(f"left out: {terminal.path(path)}:{hunk} {why}")
            decisions = [entry for entry in decisions if (entry["path"], entry["hunk"]) not in lapsed]
            if not decisions:
                return exit_codes.Exit.ERROR
            if not lapsed:
                count = event_lines.plural(len(decisions), "decision")
                answer = self._person.ask(f"The decisions were not applied. Send your {count} again [y/n]?")
                if answer is None or answer.strip().lower() not in {"y", "yes"}:
                    return exit_codes.Exit.ERROR

    @property
    def _heading(self) -> str:
        return f"({self._position + 1}/{len(self.items)}) "

    def _keys(self) -> list[str]:
        """Return the keys that apply now, for the prompt."""
        file = self.items[self._position].file
        left_out = {"j", "k", "g"} if len(self.items) == 1 else set[str]()
        left_out |= {"e"} if file.binary or file.status == "deleted" else set()
        return [key for key in KEYS if key not in left_out]

    def _ask(self, question: str) -> str:
        """Return the line that the user types; raise ``EOFError`` at the end of input."""
        line = self._person.ask(question)
        if line is None:
            raise EOFError
        return str(line).strip()

    def _show(self, item: hunk_view.Item) -> None:
        self._shown = True
        self._news()
        self._person.say("\n" + hunk_view.render(item, self._sides, self._person.paint, self._heading))
        choice = self._choices.get(item.name)
        if choice is not None:
            because = f": {terminal.one_line(choice.reason)}" if choice.reason else ""
            self._person.say(f"so far: {choice.decision}{because}")

    def _answer(self, line: str, item: hunk_view.Item) -> bool:
        """Do what a line asks for; return false for the one that ends the review."""
        key, _, rest = line.partition(" ")
        rest = rest.strip()
        if key not in self._keys():
            self._person.say(f"Keys: {','.join(self._keys())}; ? explains them.")
        elif rest and key not in {"r", "g"}:
            self._person.say(f"{key} takes no argument.")
        elif key == "?":
            self._person.say("\n".join(f"{shown}  {KEYS[shown]}" for shown in self._keys()))
        elif key == "q":
            return False
        elif key == "e":
            self._edit(item)
        elif key in {"j", "k"}:
            self._move(1 if key == "j" else -1)
        elif key == "g":
            self._go(rest)
        elif key in {"y", "a"}:
            if self._may_accept(item):
                self._decide(self._rest_of_file(item) if key == "a" else [item], Choice("accept"))
        elif key == "r" and not (rest := rest or self._ask("Reason:")):
            self._person.say("No reason given; the hunk is still pending.")
        else:
            self._decide(self._rest_of_file(item) if key == "d" else [item], Choice("reject", rest or None))
        return True

    def _may_accept(self, item: hunk_view.Item) -> bool:
        """Return whether the user confirms a flagged file, once for all its hunks."""
        path, reason = item.file.path, item.file.flag_reason
        if reason and path not in self._confirmed:
            if self._ask(f"This file {reason}. Accept anyway [y/N]?").lower() not in {"y", "yes"}:
                self._person.say("Not accepted.")
                return False
            self._confirmed.add(path)
        return True

    def _decide(self, items: list[hunk_view.Item], choice: Choice) -> None:
        for item in items:
            self._choices[item.name] = choice
        self._after(self.items.index(items[-1]))

    def _after(self, behind: int) -> None:
        """Go to the first pending hunk after ``behind``, else to the first one, as git does."""
        pending = self._pending()
        self._turn_to(next((number for number in pending if number > behind), (pending or [0])[0]))

    def _turn_to(self, position: int) -> None:
        self._position, self._shown = position, False

    def _move(self, step: int) -> None:
        there = [number for number in self._pending()[::step] if (number - self._position) * step > 0]
        if there:
            self._turn_to(there[0])
        else:
            self._person.say(f"No pending hunk {'after' if step > 0 else 'before'} this one.")

    def _go(self, text: str) -> None:
        if not text:
            self._person.say("\n".join(self._rows()))
            text = self._ask("Go to which hunk?")
        if text.isdecimal() and 1 <= int(text[:9]) <= len(self.items):
            self._turn_to(int(text) - 1)
        elif text:
            self._person.say(terminal.one_line(f"There is no hunk {text!r}; choose 1 to {len(self.items)}."))

    def _rows(self) -> Iterator[str]:
        for number, item in enumerate(self.items):
            choice = self._choices.get(item.name)
            mark = {"accept": "+", "reject": "-"}[choice.decision] if choice else " "
            here = ">" if number == self._position else " "
            text = f"{terminal.path(item.file.path)}  {hunk_view.place(item)}"
            yield f"{here}{mark} {number + 1:>3}  {text}{'  !' if item.file.flag_reason else ''}"

    def _pending(self) -> list[int]:
        return [number for number, item in enumerate(self.items) if item.name not in self._choices]

    def _rest_of_file(self, item: hunk_view.Item) -> list[hunk_view.Item]:
        """Return a hunk and the pending ones after it in its file."""
        behind = [self.items[number] for number in self._pending() if number > self._position]
        return [item, *(other for other in behind if other.file.path == item.file.path)]

    def _edit(self, item: hunk_view.Item) -> None:
        """Let the user edit a file of the result; forget the decisions on it and ask about its hunks again."""
        path, self._shown = item.file.path, False
        try:
            if not self._amend(path):
                self._person.say("Nothing was changed.")
                return
            self._sides.forget()
            self.files = self._call("delegations/diff", id=self._identifier).files
        except UnderstudyError as error:
            # The review continues: a failed edit must not lose the decisions so far.
            hint = f" ({error.hint})" if error.hint else ""
            self._person.say(terminal.one_line(f"The edit failed: {error.message}{hint}"))
            return
        try:
            self.items = _pending(self._identifier, self.files, self._chosen)
        except UnderstudyError:  # no hunk is pending after the edit
            self.items = []
        names = {other.name for other in self.items if other.file.path != path}
        self._choices = {name: choice for name, choice in self._choices.items() if name in names}
        self._confirmed.discard(path)
        first = next((number for number, other in enumerate(self.items) if other.file.path == path), None)
        if first is None:
            self._person.say("No hunk of this file is pending now.")
            self._after(-1)
        else:
            self._turn_to(first)

    def _amend(self, path: str) -> bool:
        head = self._call("delegations/diff", id=self._identifier).head
        text = self._person.edit(hunk_targets.result_text(self._call, self._identifier, path), path)
        if text is None:
            return False
        self._call("delegations/amend", id=self._identifier, path=path, text=text, head=head)
        return True


def _pending(identifier: str, files: Sequence[FileDiff], chosen: Sequence[str]) -> list[hunk_view.Item]:
    """Return the pending hunks among the chosen ones, and hunks named by their id even if they were decided.

    Hunks that no test notices come first: they need the eyes of a person most.
    """
    targets = hunk_targets.find(files, chosen, everything=not chosen, identifier=identifier)
    return sorted(hunk_targets.items(files, targets), key=lambda item: item.hunk.tested is not False)


def _lapsed(item: hunk_view.Item | None, decision: str) -> str | None:
    """Return why a hunk can no longer be decided, None if it can."""
    if item is None:
        return "is no longer in the result: it was edited"
    if item.hunk.state is HunkState.SUPERSEDED:
        return f"is now part of {terminal.one_line(item.hunk.by or 'a follow-up')}"
    if item.hunk.state is HunkState.ACCEPTED and decision == "reject":
        return "is in your files; undo that accept first"
    return None


class VerdictNotice:
    """Says the verdict once: before the first hunk, or before the next one after the checks have ended."""

    def __init__(self, identifier: str, call: Callable[..., Any], person: Any) -> None:
        """Ask and tell ``person`` (``say``, ``ask``, ``paint``)."""
        self._identifier = identifier
        self._call = call
        self._person = person
        self._said = False

    def begin(self, wait: Callable[[], None]) -> bool:
        """Say the verdict; without one, ask whether to ``wait`` for it. Return False if the user quits."""
        delegation: Delegation = self._call("delegations/get", id=self._identifier)
        self._person.say(terminal.one_line(f"{delegation.id}  {delegation.title}"))
        if delegation.state is State.FINISHED:
            self._say(delegation)
            return True
        self._person.say(no_verdict(delegation, self._person.paint))
        while True:
            line = self._person.ask(VERDICT_QUESTION)
            match "q" if line is None else line.strip().lower():
                case "" | "y" | "yes":
                    wait()
                    self.update()
                    return True
                case "n" | "no":
                    return True
                case "s" | "stop":
                    if self._stop_checks():
                        return True
                case "q":
                    return False
                case _:
                    self._person.say(VERDICT_HELP)

    def _stop_checks(self) -> bool:
        try:
            self._call("delegations/cancel", id=self._identifier, onlyChecks=True)
        except UnderstudyError as error:
            self._person.say(terminal.one_line(error.message))
            return False
        self.update()
        return True

    def before_sending(self, decisions: int, wait: Callable[[], None]) -> bool:
        """Return whether to apply decisions; if they were made without the verdict, wait for it and ask again."""
        if self._said or not decisions:
            return True
        self.update()
        if not self._said:
            self._person.say("Your decisions are applied after the checks have ended (Ctrl-C: they are not applied).")
            wait()
            self.update()
        count = event_lines.plural(decisions, "decision")
        answer = self._person.ask(f"Apply your {count} [Y/n]?")
        return answer is not None and answer.strip().lower() in {"", "y", "yes"}

    def update(self) -> None:
        """Say the verdict if there is one now and it was not said."""
        if not self._said:
            delegation: Delegation = self._call("delegations/get", id=self._identifier)
            if delegation.state is State.FINISHED:
                self._say(delegation)

    def _say(self, delegation: Delegation) -> None:
        self._said = True
        self._person.say(verdict_card.verdict_line(delegation, self._person.paint))


def no_verdict(delegation: Delegation, paint: terminal.Paint) -> str:
    """Return the line that says why a result has no verdict yet."""
    why = "its checks still run" if delegation.state is State.CHECKING else "its agent works on it again"
    return f"{paint('NO VERDICT YET', fg='yellow', bold=True)}: {why}"
