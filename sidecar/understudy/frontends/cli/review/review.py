"""``review``: show every pending hunk and ask for a decision, like `git add -p`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from understudy.frontends.cli.arguments import options
from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call, resolve
from understudy.frontends.cli.delegate import follower
from understudy.frontends.cli.output import event_lines, output, verdict_card
from understudy.frontends.cli.review import hunk_targets, hunk_view, review_steps, send_decisions
from understudy.frontends.cli.review.review_steps import Next
from understudy.frontends.cli.terminal import editor, terminal
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import FileDiff, HunkState
from understudy.model.states import State

VERDICT_QUESTION = "Wait for the verdict [Y/n/q]?"
VERDICT_HELP = (
    "y  wait until the checks have ended, then review (Ctrl-C: review at once)\n"
    "n  review now; your decisions are applied after the checks have ended\n"
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
    While the checks still run, you can wait for the verdict or review without it.
    Without a terminal, or with --list, the hunks are listed. With --json, prints files and hunks as a `DiffResult`.
    """
    if list_ or json_ or not can_review():
        show_list(resolve(identifier), chosen, as_json=json_)
        return exit_codes.Exit.OK
    return run(identifier, chosen)


def can_review() -> bool:
    """Return whether a review can run: stdin and stdout are a terminal."""
    return terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stdout)


def run(identifier: str, chosen: Sequence[str], *, as_json: bool = False) -> int:
    """Review on this terminal, send the decisions, and print the outcome."""
    if as_json or not can_review():
        raise click.UsageError("A review needs a terminal; name PATH, PATH:HUNK or --all instead.")
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
    dialogue = Dialogue(whole, review_steps.Review(items), chosen, call, person, news=notice.update)
    decisions, flagged = dialogue.run()
    if not notice.before_sending(len(decisions), lambda: _show_checks(whole)):
        decisions = []
    return dialogue.deliver(
        dialogue.files or files,
        decisions,
        lambda before, sent: send_decisions.send(whole, before, sent, flagged=flagged),
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
        note = item.hunk.reason or item.file.flag_reason or ""
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


class Dialogue:
    """Asks the questions of a review and passes the answers on; decides nothing."""

    def __init__(
        self,
        identifier: str,
        review: review_steps.Review,
        chosen: Sequence[str],
        call: Callable[..., Any],
        person: Any,
        *,
        news: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask ``person`` (``say``, ``ask``, ``edit``, ``paint``) about ``review``; ``call`` reads and amends.

        ``news`` is called before each hunk, and prints what has happened meanwhile.
        """
        self._identifier = identifier
        self._review = review
        self._chosen = chosen
        self._call = call
        self._person = person
        self._news = news
        self._sides = hunk_view.Sides(identifier, call)
        self.files: list[FileDiff] = []
        """The diff after an edit; empty without one."""

    def run(self) -> tuple[list[dict[str, Any]], bool]:
        """Ask until the review is over; return the decisions, and whether they include confirmed flagged files."""
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

    def _do(self, step: Next) -> Next:
        review, person = self._review, self._person
        match step:
            case Next.EDIT:
                return self._edit()
            case Next.REASON:
                return review.answer(person.ask("Reason:"))
            case Next.CONFIRM:
                reason = review.current.file.flag_reason
                return review.answer(person.ask(f"This file {reason}. Accept anyway [y/N]?"))
            case Next.LIST:
                person.say(self._list())
                return review.answer(person.ask("Go to which hunk?"))
            case Next.HELP:
                shown = review.keys().split(",")
                person.say("\n".join(f"{key}  {text}" for key, text in review_steps.KEYS.items() if key in shown))
            case Next.SHOW:
                self._news()
                person.say("\n" + hunk_view.render(review.current, self._sides, person.paint, review.heading))
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
            text = f"{terminal.path(item.file.path)}  {hunk_view.place(item)}"
            rows.append(f"{here}{mark} {number:>3}  {text}{'  !' if item.file.flag_reason else ''}")
        return "\n".join(rows)

    def _edit(self) -> Next:
        try:
            if not self._amend():
                self._person.say("Nothing was changed.")
                return Next.SHOW
            self._sides.forget()
            self.files = self._call("delegations/diff", id=self._identifier).files
        except UnderstudyError as error:
            # The review continues: a failed edit must not lose the decisions so far.
            hint = f" ({error.hint})" if error.hint else ""
            self._person.say(terminal.one_line(f"The edit failed: {error.message}{hint}"))
            return Next.SHOW
        try:
            return self._review.replace(_pending(self._identifier, self.files, self._chosen))
        except UnderstudyError:  # no hunk is pending after the edit
            return self._review.replace([])

    def _amend(self) -> bool:
        path = self._review.current.file.path
        head = self._call("delegations/diff", id=self._identifier).head
        original = self._call("delegations/file", id=self._identifier, path=path, side="result")
        if original.text is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS, f"{terminal.path(path)} is not UTF-8 text.", hint="Edit it in its worktree."
            )
        text = self._person.edit(original.text, path)
        if text is None:
            return False
        self._call("delegations/amend", id=self._identifier, path=path, text=text, head=head)
        return True


def _pending(identifier: str, files: Sequence[FileDiff], chosen: Sequence[str]) -> list[hunk_view.Item]:
    """Return the pending hunks among the chosen ones, and hunks named by their id even if they were decided."""
    return hunk_targets.items(files, hunk_targets.find(files, chosen, everything=not chosen, identifier=identifier))


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
                case "q":
                    return False
                case _:
                    self._person.say(VERDICT_HELP)

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
