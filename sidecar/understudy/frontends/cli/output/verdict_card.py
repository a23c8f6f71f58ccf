"""The verdict card: what came of a delegation, how far it can be believed, and what to do next."""

from __future__ import annotations

from datetime import datetime

from understudy.faces.cli import lines, questions
from understudy.faces.cli.live import duration, thousands
from understudy.faces.cli.terminal import Paint, clean, one_line, path
from understudy.faces.words import RESERVATIONS, VERDICTS
from understudy.model.delegations import CheckResult, Delegation
from understudy.model.states import State, Verdict

_GOOD = {
    Verdict.VERIFIED: "green",
    Verdict.ANSWERED: "green",
    Verdict.UNVERIFIED: "yellow",
    Verdict.NO_CHANGES: "yellow",
}
_SHOWN = 10
"""How many files or tests are listed before ``and N more``."""


def card(delegation: Delegation, paint: Paint, *, shown_answer: str = "") -> str:
    """Return the card as text with a final newline; an answer already shown to the person is not repeated."""
    parts = [_head(delegation, paint), _question(delegation, paint)]
    answer = delegation.result.text if delegation.result and delegation.result.text else ""
    if answer and answer.strip() != shown_answer.strip():
        parts.append(clean(answer).rstrip("\n"))
    parts += [_reservations(delegation, paint), _error(delegation, paint), _checks(delegation, paint)]
    parts += [_files(delegation, paint), _facts(delegation), _next_steps(delegation)]
    return "\n\n".join(part for part in parts if part) + "\n"


def state_word(delegation: Delegation) -> str:
    """Return the verdict, or the state while there is none, as words."""
    return lines.words(delegation.verdict or delegation.state)


def verdict_colour(verdict: Verdict | None) -> str:
    """Return the colour of a verdict; None (not finished) is blue."""
    return "blue" if verdict is None else _GOOD.get(verdict, "red")


def control(result: CheckResult) -> str | None:
    """Return in words what the control run showed, None where there was none."""
    if result.control is None:
        return None
    bitten, survived = result.control.bitten, result.control.survived
    total = bitten + len(survived)
    if total == 1:
        verb = "fails" if bitten else "passes even"
        name = f": {_some(survived)}" if survived else ""
        return f"the new test {verb} when the code under test is broken{name}"
    if not survived:
        return f"all {total} new tests fail when the code under test is broken"
    verb = "fails" if bitten == 1 else "fail"
    these = "this one survived" if len(survived) == 1 else "these survived"
    return f"{bitten} of {total} new tests {verb} when the code under test is broken; {these}: {_some(survived)}"


def _head(delegation: Delegation, paint: Paint) -> str:
    word = state_word(delegation)
    meaning = (
        VERDICTS[delegation.verdict] if delegation.verdict else one_line(delegation.activity or "not finished yet")
    )
    title = f"{delegation.id}  {one_line(delegation.title)}"
    return f"{title}\n{paint(word.upper(), fg=verdict_colour(delegation.verdict), bold=True)}: {meaning}"


def _question(delegation: Delegation, paint: Paint) -> str:
    request = delegation.waiting_for
    if request is None:
        return ""
    first, *rest = questions.rows(request.title, request.detail, request.options)
    limit = [f"  until {request.deadline}, then {one_line(request.on_deadline)}"] if request.deadline else []
    return "\n".join([paint(f"? {first}", fg="yellow", bold=True), *rest, *limit])


def _reservations(delegation: Delegation, paint: Paint) -> str:
    rows = []
    for reservation in delegation.reservations:
        what, todo = RESERVATIONS[reservation]
        mark = paint("!", fg="yellow", bold=True)
        rows.append(f"{mark} {lines.words(reservation)}: {what}\n    {todo.replace('ID', delegation.id)}")
    return "\n".join(rows)


def _error(delegation: Delegation, paint: Paint) -> str:
    error = delegation.error
    if error is None:
        return ""
    hint = f"\n    {one_line(error.hint)}" if error.hint else ""
    return f"{paint('✗', fg='red', bold=True)} {lines.words(error.kind)}: {one_line(error.message)}{hint}"


def _checks(delegation: Delegation, paint: Paint) -> str:
    rows = []
    for result in delegation.checks:
        rows.append(paint(lines.check(result), fg="green" if result.ok else "red"))
        shown = control(result)
        if shown:
            rows.append(f"    control: {shown}")
        if result.wrong_tree:
            rows.append(f"    loaded from your checkout: {_some(result.wrong_tree)}")
        if not result.ok and result.output_tail.strip():
            tail = clean(result.output_tail).rstrip().splitlines()[-_SHOWN:]
            rows += [f"    | {row}" for row in tail]
    return "\n".join(rows)


def _files(delegation: Delegation, paint: Paint) -> str:
    files = delegation.result.files if delegation.result else []
    rows = [
        f"{file.status:<8} {path(file.path)}  "
        f"{paint(f'+{file.additions}', fg='green')} {paint(f'-{file.deletions}', fg='red')}"
        for file in files[:_SHOWN]
    ]
    if len(files) > _SHOWN:
        rows.append(f"and {lines.plural(len(files) - _SHOWN, 'more file')}")
    return "\n".join(rows)


def _facts(delegation: Delegation) -> str:
    rows = []
    seconds = _seconds(delegation)
    who = " → ".join(dict.fromkeys(attempt.delegator for attempt in delegation.attempts)) or delegation.delegator
    took = f" in {duration(seconds)}" if seconds is not None else ""
    sandbox = "" if delegation.confined or delegation.worktree is None else ", not confined"
    rows.append(f"by {who}{took}{sandbox}")
    decided = [
        f"{count} {word}"
        for count, word in (
            (delegation.review.accepted, "accepted"),
            (delegation.review.rejected, "rejected"),
            (delegation.review.pending, "undecided"),
        )
        if count
    ]
    if decided:
        rows.append(f"hunks: {', '.join(decided)}")
    if delegation.superseded_by:
        rows.append(f"sent back: goes on as {one_line(delegation.superseded_by)}")
    if delegation.parent_id:
        rows.append(f"goes on from {one_line(delegation.parent_id)}")
    spent = _spent(delegation)
    if spent:
        rows.append(spent)
    if delegation.worktree:
        rows.append(f"tree: {one_line(delegation.worktree)}")
    elif delegation.rescue_ref:
        rows.append(f"tree: removed; back with: understudy restore {one_line(delegation.rescue_ref)}")
    return "\n".join(rows)


def _spent(delegation: Delegation) -> str:
    usage = delegation.usage
    parts = []
    if usage.input_tokens or usage.output_tokens:
        cached = f" ({thousands(usage.cache_read_tokens)} cached)" if usage.cache_read_tokens else ""
        parts.append(f"{thousands(usage.input_tokens)} tokens in{cached}, {thousands(usage.output_tokens)} out")
    if delegation.cost_usd is not None:
        estimated = " (estimated)" if any(attempt.cost_estimated for attempt in delegation.attempts) else ""
        parts.append(f"{'' if delegation.cost_known else 'at least '}${delegation.cost_usd}{estimated}")
    return ", ".join(parts)


def _next_steps(delegation: Delegation) -> str:
    identifier = delegation.id
    if delegation.waiting_for is not None:
        return f"next: understudy answer {identifier}"
    if delegation.state is not State.FINISHED:
        return f"next: understudy watch {identifier}   understudy cancel {identifier}"
    if delegation.rescue_ref and delegation.worktree is None:
        back = f"understudy restore {one_line(delegation.rescue_ref)}"
        return f"next: {back}   understudy diff {identifier}"
    if delegation.superseded_by:
        return f"next: understudy show {one_line(delegation.superseded_by)}"
    if delegation.review.pending:
        every = f"understudy accept {identifier} --all"
        return f"next: understudy review {identifier}   {every}   understudy diff {identifier}"
    if delegation.review.rejected:
        return f"next: understudy reply {identifier} 'what to do instead'"
    if delegation.result and delegation.result.files:
        return f"next: understudy diff {identifier}   understudy check {identifier}"
    if delegation.verdict is Verdict.ANSWERED:
        return ""
    return f"next: understudy watch {identifier}   (what happened, event by event)"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(one_line, names[:_SHOWN])) + more


def _seconds(delegation: Delegation) -> float | None:
    """Return how long the attempts took together: checks that ran again an hour later are not the agent's time."""
    total = 0.0
    for attempt in delegation.attempts:
        if attempt.finished_at is None:
            return None
        try:
            began, ended = datetime.fromisoformat(attempt.started_at), datetime.fromisoformat(attempt.finished_at)
        except ValueError:
            return None
        total += (ended - began).total_seconds()
    return total if delegation.attempts else None
