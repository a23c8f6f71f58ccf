"""``review``: every undecided hunk shown and asked about, in the manner of `git add -p`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from understudy.faces.cli import deciding, editor, exits, hunks, lines, options, output, reviewing, targets, terminal
from understudy.faces.cli.calls import call, resolve
from understudy.faces.cli.reviewing import Next
from understudy.model.delegations import FileDiff, HunkState
from understudy.model.errors import ErrorKind, UnderstudyError


@click.command(
    epilog=options.examples(
        "understudy review k3f9q",
        "understudy review k3f9q src/",
        "understudy review k3f9q --list",
        "understudy review k3f9q --json | jq '.files[].hunks[].id'",
    )
)
@options.identifier
@targets.argument
@click.option("--list", "list_", is_flag=True, help="Only list the hunks with their ids and how they stand.")
@options.as_json
def review(*, identifier: str, chosen: tuple[str, ...], list_: bool, json_: bool) -> int:
    """Look at a result hunk by hunk and decide: accept, reject with a reason, edit, leave open.

    Decisions are sent together at the end; before that nothing changes but what you edit. `?` lists the keys. Without a
    terminal, or with --list, the hunks are listed; with --json: files and hunks as in `understudy diff --json`.
    """
    if list_ or json_ or not can_review():
        return show_list(resolve(identifier), chosen, as_json=json_)
    return run(identifier, chosen)


def can_review() -> bool:
    """Tell whether a person sits at a terminal that shows hunks and takes answers."""
    return terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stdout)


def run(identifier: str, chosen: Sequence[str], *, as_json: bool = False) -> int:
    """Review on this terminal, send what was decided, and say what came of it."""
    if as_json or not can_review():
        raise click.UsageError("a review needs a terminal; name PATH, PATH:HUNK or --all instead")
    whole = resolve(identifier)
    files = call("delegations/diff", id=whole).files
    found = _undecided(files, chosen)
    settled = len(hunks.items(files)) - len(hunks.pending(files))
    if settled:
        click.echo(f"{lines.plural(settled, 'hunk')} decided before; `understudy review {whole} --list` shows all.")
    dialogue = Dialogue(whole, reviewing.Review(found), chosen, call, _Terminal())
    decisions, flagged = dialogue.run()
    return dialogue.deliver(
        dialogue.files or files, decisions, lambda before, sent: deciding.send(whole, before, sent, flagged=flagged)
    )


def show_list(identifier: str, chosen: Sequence[str], *, as_json: bool) -> int:
    """Print the hunks with their names and how they stand."""
    found = call("delegations/diff", id=identifier)
    if chosen:
        wanted = {item.name for item in targets.named(found.files, chosen)}
        for file in found.files:
            file.hunks = [hunk for hunk in file.hunks if f"{file.path}:{hunk.id}" in wanted]
        found.files = [file for file in found.files if file.hunks]
    if as_json:
        output.json(found)
        return exits.Exit.OK
    rows = []
    for item in hunks.items(found.files):
        state = f"{item.hunk.state}{' (conflict)' if item.hunk.conflict else ''}"
        note = item.hunk.reason or item.file.flagged or ""
        rows.append((item.spelled, state, hunks.place(item), f"- {note}" if note else ""))
    output.table(("PATH:HUNK", "STATE", "WHERE", ""), rows)
    return exits.Exit.OK


class _Terminal:
    """The person at this terminal."""

    paint: terminal.Paint

    def __init__(self) -> None:
        self.paint = output.paint()

    def say(self, text: str) -> None:
        """Print text as it is."""
        click.echo(text, nl=not text.endswith("\n"))

    def ask(self, prompt: str) -> str | None:
        """Return the person's line, None at the end of their input."""
        click.echo(f"{self.paint(prompt, fg='blue', bold=True)} ", nl=False)
        line = sys.stdin.readline()
        if not line:
            click.echo()
            return None
        return line

    def edit(self, text: str, name: str) -> str | None:
        """Let the person edit a text; None where they changed nothing."""
        return editor.edited(text, name)


class Dialogue:
    """Carries the questions of a review to a person and their answers back; decides nothing."""

    def __init__(
        self, identifier: str, review: reviewing.Review, chosen: Sequence[str], call: Callable[..., Any], person: Any
    ) -> None:
        """Ask ``person`` (``say``, ``ask``, ``edit``, ``paint``) about ``review``; ``call`` reads and amends."""
        self._identifier = identifier
        self._review = review
        self._chosen = chosen
        self._call = call
        self._person = person
        self._sides = hunks.Sides(identifier, call)
        self.files: list[FileDiff] = []
        """The diff after an edit; empty where there was none."""

    def run(self) -> tuple[list[dict[str, Any]], bool]:
        """Ask until the review is over; return the decisions, and whether flagged files among them are meant."""
        step = Next.SHOW
        while step is not Next.DONE:
            if self._review.message:
                self._person.say(terminal.one_line(self._review.message))
            step = self._do(step)
        return self._review.decisions()

    def deliver(
        self,
        files: Sequence[FileDiff],
        decisions: list[dict[str, Any]],
        send: Callable[[Sequence[FileDiff], list[dict[str, Any]]], int],
    ) -> int:
        """Send what was decided until it is taken or the person gives up: an error does not cost them the review.

        What somebody else has settled meanwhile is left out and named.
        """
        while True:
            try:
                return send(files, decisions)
            except UnderstudyError as error:
                output.error(error, as_json=False)
            files = self._call("delegations/diff", id=self._identifier).files
            now = {(item.file.path, item.hunk.id): item for item in hunks.items(files)}
            lapsed = {
                (entry["path"], entry["hunk"]): why
                for entry in decisions
                if (why := _lapsed(now.get((entry["path"], entry["hunk"])), entry["decision"])) is not None
            }
            for (path, hunk), why in lapsed.items():
                self._person.say(f"left out: {terminal.path(path)}:{hunk} {why}")
            decisions = [entry for entry in decisions if (entry["path"], entry["hunk"]) not in lapsed]
            if not decisions:
                return exits.Exit.ERROR
            if not lapsed:
                count = lines.plural(len(decisions), "decision")
                answer = self._person.ask(f"Nothing was decided. Send your {count} again [y/n]?")
                if answer is None or answer.strip().lower() not in {"y", "yes"}:
                    return exits.Exit.ERROR

    def _do(self, step: Next) -> Next:
        review, person = self._review, self._person
        match step:
            case Next.EDIT:
                return self._edit()
            case Next.REASON:
                return review.answer(person.ask("Why is it rejected?"))
            case Next.CONFIRM:
                reason = review.current.file.flagged
                return review.answer(person.ask(f"This file {reason}. Accept it all the same [y/N]?"))
            case Next.LIST:
                person.say(self._list())
                return review.answer(person.ask("Go to which hunk?"))
            case Next.HELP:
                shown = review.keys().split(",")
                person.say("\n".join(f"{key}  {text}" for key, text in reviewing.KEYS.items() if key in shown))
            case Next.SHOW:
                person.say("\n" + hunks.render(review.current, self._sides, person.paint, review.heading))
                self._say_choice()
        return review.answer(person.ask(f"{review.heading}Accept this hunk [{review.keys()}]?"))

    def _say_choice(self) -> None:
        choice = self._review.choice(self._review.current)
        if choice is not None:
            because = f": {terminal.one_line(choice.reason)}" if choice.reason else ""
            self._person.say(f"so far: {choice.decision}{because}")

    def _list(self) -> str:
        rows = []
        for number, item in enumerate(self._review.items, 1):
            choice = self._review.choice(item)
            mark = {"accept": "+", "reject": "-"}[choice.decision] if choice else " "
            here = ">" if item is self._review.current else " "
            text = f"{terminal.path(item.file.path)}  {hunks.place(item)}"
            rows.append(f"{here}{mark} {number:>3}  {text}{'  !' if item.file.flagged else ''}")
        return "\n".join(rows)

    def _edit(self) -> Next:
        try:
            if not self._amend():
                self._person.say("nothing was changed")
                return Next.SHOW
            self._sides.forget()
            self.files = self._call("delegations/diff", id=self._identifier).files
        except UnderstudyError as error:
            # The review goes on: what was decided so far is not lost over an edit.
            hint = f" ({error.hint})" if error.hint else ""
            self._person.say(terminal.one_line(f"not edited: {error.message}{hint}"))
            return Next.SHOW
        try:
            return self._review.replace(_undecided(self.files, self._chosen))
        except UnderstudyError:  # the edit left nothing to decide
            return self._review.replace([])

    def _amend(self) -> bool:
        path = self._review.current.file.path
        head = self._call("delegations/diff", id=self._identifier).head
        found = self._call("delegations/file", id=self._identifier, path=path, side="result")
        if found.text is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS, f"{terminal.path(path)} is not UTF-8 text", hint="edit it in its tree"
            )
        text = self._person.edit(found.text, path)
        if text is None:
            return False
        self._call("delegations/amend", id=self._identifier, path=path, text=text, head=head)
        return True


def _undecided(files: Sequence[FileDiff], chosen: Sequence[str]) -> list[hunks.Item]:
    """Return the undecided hunks among the chosen; a hunk named by its id is asked about even if it was decided."""
    return targets.items(files, targets.find(files, chosen, everything=not chosen))


def _lapsed(item: hunks.Item | None, decision: str) -> str | None:
    """Return why a decision on a hunk is not possible any more; None where it is."""
    if item is None:
        return "is not in the result any more: it was edited"
    if item.hunk.state is HunkState.SUPERSEDED:
        return f"was taken over by {terminal.one_line(item.hunk.by or 'a follow-up')}"
    if item.hunk.state is HunkState.ACCEPTED and decision == "reject":
        return "is in your files already; undo that first"
    return None
