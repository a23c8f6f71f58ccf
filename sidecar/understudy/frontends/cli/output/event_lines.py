"""Render an event as one line for people."""

from __future__ import annotations

from understudy.frontends.cli.terminal import terminal
from understudy.frontends.cli.terminal.terminal import one_line, visible
from understudy.model.delegation import events
from understudy.model.errors import ErrorInfo
from understudy.model.evidence.checks import CheckResult, Round
from understudy.model.places import news
from understudy.model.text.delegation_text import cause, test_counts
from understudy.model.verdicts import Reservation

LEFT_OUT_SHOWN = 5
_SAID_SHOWN = 500


def line(event: events.Event) -> str | None:
    """Return the line for one event, None for events that are not shown (deltas, usage, sessions)."""
    match event:
        case events.Base(commit=commit, files=files, left_out=left_out):
            return f"starts from {commit[:10]} ({plural(files, 'file')}){_left_out(left_out)}"
        case events.Worktree(path=path, seconds=seconds):
            return f"worktree ready in {seconds:.1f} s: {terminal.short_path(path)}"
        case events.Queued(position=position):
            return f"number {position} in the queue"
        case events.Started(delegator=delegator, model=model, reason=reason, tool=tool):
            told = {delegator, events.CUSTOM_COMMAND}  # the latter says nothing
            with_ = ", ".join(one_line(part) for part in (tool, model) if part and part not in told)
            return f"{delegator}{f' ({with_})' if with_ else ''} started: {one_line(reason)}"
        case events.AgentStarted(terminal=pane) if pane is not None:
            return "working in a tmux pane, which `understudy attach` shows"
        case events.Phase(text=text):
            return one_line(text)
        case events.ToolCall(title=title, name=name):
            return f"→ {one_line(title or name)}"
        case events.ToolResult(ok=False, output=output):
            return f"  ✗ {one_line(output)[:200]}"
        case events.File(path=path, change=change):
            return f"{change} {terminal.path(path)}"
        case events.Permission(title=title):
            return f"asks: {' '.join(map(visible, title.splitlines()))}"
        case events.PermissionAnswered(option=option, by=by):
            return f"answered: {one_line(option)} (by {one_line(by)})"
        case events.UserMessage(text=text, by=by, delivery=delivery):
            return f"you said ({one_line(by)}; {delivery}): {one_line(text)[:_SAID_SHOWN]}"
        case events.AgentMessage(sender=sender, kind=kind, text=text):
            return f"{kind} of {one_line(sender)}: {one_line(text)[:_SAID_SHOWN]}"
        case events.Grouped(group_id=group):
            return f"delegates, in the group {one_line(group)}"
        case events.AttemptFailed(error=failure, will_retry=again, next_delegator=following, wait_seconds=wait):
            text, after = f"failed: {_first_line(failure.message)}", _what_next(again, following, wait)
            after += " and continues its work" if event.continues else ""
            return f"{text.removesuffix('.')}{after}" if after else text
        case events.Result(files=files) if files:
            added, removed = sum(file.additions for file in files), sum(file.deletions for file in files)
            return f"result: {plural(len(files), 'file')}, +{added} -{removed}"
        case events.CheckStarted(name=name):
            return f"running check {name}"
        case events.CheckFinished():
            return check(event.check_result())
        case events.PlacesJudged(places=places, total=total):
            return one_line(news(places, total))
        case events.RoundJudged():
            return round_of_tests(event)
        case events.Note(level=level, text=text, hint=hint):
            sentence = one_line(f"{text} {hint}" if hint else text)
            return sentence if level == "info" else f"{level}: {sentence}"
        case events.Finished(verdict=verdict, reservations=reservations, error=failure):
            because = reasons(failure, reservations)
            return f"finished: {words(verdict)}" + (f" ({because})" if because else "")
        case events.Unknown():
            return "event of a newer version of Understudy"
        case _:
            return _decision(event)


def _first_line(text: str) -> str:
    """Return the first line: what follows is output of a program, which the card shows."""
    return one_line(text.strip().partition("\n")[0])


def words(name: str) -> str:
    """Return an enum value as words (``checks_failed`` → ``checks failed``)."""
    return name.replace("_", " ")


def reasons(failure: ErrorInfo | None, reservations: list[Reservation]) -> str:
    """Return why a delegation ended as it did: the cause of a failure and the names of the reservations."""
    return ", ".join([*([cause(failure)] if failure is not None else []), *map(words, reservations)])


def plural(count: int, noun: str) -> str:
    """Return ``1 file``, ``2 files``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def next_commands(*commands: str) -> str:
    """Return the commands that a person may run next, one on each line so that they can be copied."""
    return "next: " + "\n      ".join(commands)


def check(result: CheckResult, *, outdated: bool = False) -> str:
    """Return a check's outcome as one line; ``outdated``: the result was edited since."""
    mark = "○" if outdated else "✓" if result.ok else "✗"
    extra = "".join(
        f", {text}"
        for text, applies in (
            (f"judged in {result.judging_seconds or 0:.1f} s", (result.judging_seconds or 0) > result.seconds),
            ("flaky", result.flaky),
            ("fails on the base, too", result.fails_on_base),
            ("not required", not result.required),
            ("before your edits", outdated),
        )
        if applies
    )
    return f"{mark} check {one_line(result.name)}: {test_counts(result)} in {result.seconds:.1f} s{extra}"


def round_of_tests(judged: events.RoundJudged | Round) -> str:
    """Return what the tests noticed in one round."""
    name = "first result" if judged.number == 0 else f"round {judged.number}"
    text = f"{name}: {judged.killed} of {plural(judged.viable, 'small change')} noticed"
    return text if judged.kept else f"{text}; not kept: {one_line(judged.why or '')}"


def _left_out(paths: list[str]) -> str:
    if not paths:
        return ""
    shown = ", ".join(map(terminal.path, paths[:LEFT_OUT_SHOWN]))
    more = f" and {len(paths) - LEFT_OUT_SHOWN} more" if len(paths) > LEFT_OUT_SHOWN else ""
    return f"; left out: {shown}{more}"


def _what_next(again: bool, following: str | None, wait: float | None) -> str:
    after = f" in {wait:.0f} s" if wait else ""
    if following:
        return f"; {following} is next{after}"
    return f"; retrying{after}" if again else ""


def _decision(event: events.Event) -> str | None:
    match event:
        case events.Decided(path=path, decision=decision, by=by):
            return f"{decision}: {terminal.path(path)} (by {one_line(by)})"
        case events.Applied(paths=paths, by=by, undo_token=token):
            merged = f"merged into {', '.join(map(terminal.path, paths))} (by {one_line(by)})"
            return f"{merged}; undo with: understudy undo {one_line(token)}"
        case events.Confirmed(tests=tests):
            return f"confirmed {plural(tests, 'changed test')}" if tests else "changed tests are a question again"
        case events.Undone():
            return "undone"
        case events.Amended(path=path, undoes=str()):
            return f"edit undone: {terminal.path(path)}"
        case events.Dismissed(by=by):
            return f"dismissed (by {one_line(by)})"
        case events.Amended(path=path):
            return f"edited: {terminal.path(path)}"
        case events.Discarded(rescue_ref=ref):
            return f"discarded; restore with: understudy restore {one_line(ref)}"
        case events.Superseded(by=by):
            return f"continued by {one_line(by)}"
        case _:
            return None
