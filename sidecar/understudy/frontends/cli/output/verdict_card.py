"""Render the verdict card: the result of a delegation, its verdict, and the next step."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import datetime

from understudy.frontends.cli.output import event_lines
from understudy.frontends.cli.output.output import cost_origin, review_counts, thousands
from understudy.frontends.cli.terminal import permission_prompt
from understudy.frontends.cli.terminal.terminal import Paint, local_time, one_line, path, sanitize, short_path
from understudy.model.delegation.delegations import Attempt, Delegation
from understudy.model.errors import ErrorKind, class_of
from understudy.model.evidence.checks import BaseComparison, JudgedMutant, MutantStatus, MutationResult
from understudy.model.places import described, share, untested, without_tests
from understudy.model.states import State
from understudy.model.text import delegation_text
from understudy.model.text.delegation_text import duration
from understudy.model.text.sanitize import name_list
from understudy.model.verdicts import DOUBTED, RESERVATIONS, Reservation, Verdict

_GOOD = {
    Verdict.VERIFIED: "green",
    Verdict.ANSWERED: "green",
    Verdict.UNVERIFIED: "yellow",
    Verdict.NO_CHANGES: "yellow",
}
_ENDED_EARLY = frozenset(
    {Verdict.FAILED, Verdict.TIMED_OUT, Verdict.BUDGET_EXHAUSTED, Verdict.INTERRUPTED, Verdict.CANCELLED}
)
"""Verdicts on work that did not finish: its parts can be reviewed, but another attempt helps more."""
_RETRY_IS_USELESS = frozenset({ErrorKind.BASE_UNAVAILABLE, ErrorKind.INPUT_EMPTY, ErrorKind.INPUT_TOO_LARGE})
"""Errors that a retry repeats, because it starts from the same base with the same input."""
_SUMMARY_ROWS, _SUMMARY_CHARACTERS = 60, 6000
"""How much of an agent's summary is shown; some print their whole session."""
_SHOWN = 10
"""How many files or tests are listed before ``and N more``."""


_LISTED = 5
"""How many missed changes and idle tests a card lists."""


def card(
    delegation: Delegation,
    paint: Paint,
    *,
    shown_answer: str = "",
    alternative: Callable[[Delegation], str | None] = lambda _: None,
    follows: Callable[[Delegation], bool] = lambda _: True,
    fit: Callable[[str], str] = lambda text: text,
) -> str:
    """Return the card as text with a final newline; an answer that was already shown is not repeated.

    ``alternative`` returns the delegator that could try instead, if any, and ``follows`` whether the agent would follow
    a reply; they are called only where it matters. ``fit`` wraps prose; an answer that is the result stays as it is.
    """
    # What a person approves is shown exactly: not wrapped, and with whole IDs.
    parts = [fit(_head(delegation, paint)), _question(delegation, paint), fit(_messages(delegation, paint))]
    answer = delegation.result.text if delegation.result and delegation.result.text else ""
    if answer and answer.strip() != shown_answer.strip():
        text = _answer(delegation, answer)
        is_prose = delegation.verdict is not Verdict.ANSWERED and "```" not in text
        parts.append(fit(text) if is_prose else text)
    parts += [fit(about(delegation, paint)) for about in (_reservations, _places, _checks, _files)]
    parts += [fit(_facts(delegation)), fit(_next_steps(delegation, alternative, follows))]
    return "\n\n".join(part for part in parts if part) + "\n"


def state_word(delegation: Delegation) -> str:
    """Return the verdict, or the state of an unfinished delegation, as words."""
    return event_lines.words(delegation.verdict or delegation.state)


def state_and_kind(delegation: Delegation) -> str:
    """Return the state word for a list: a failure with the kind of its error."""
    kind = f": {event_lines.words(delegation.error.kind)}" if delegation.error is not None else ""
    return f"{state_word(delegation)}{kind if delegation.verdict is Verdict.FAILED else ''}"


def verdict_line(delegation: Delegation, paint: Paint) -> str:
    """Return how a delegation ended and why, on one line; its state if it has not ended."""
    word = paint(state_word(delegation).upper(), fg=verdict_colour(delegation.verdict), bold=True)
    if delegation.verdict is None:
        return word
    told = delegation_text.verdict_sentence(delegation)
    return f"{word}: {told.partition(': ')[2]}"


def verdict_colour(verdict: Verdict | None) -> str:
    """Return the colour of a verdict; None (not finished) is blue."""
    return "blue" if verdict is None else _GOOD.get(verdict, "red")


def comparison_text(base: BaseComparison) -> str:
    """Return how many earlier tests depend on what the result changed."""
    if not base.earlier:
        return "the check passes only with what the result changed"
    return f"{base.lost} of {base.earlier} do not pass as they were, or no longer run (as they were → in the result)"


def _head(delegation: Delegation, paint: Paint) -> str:
    word = state_word(delegation)
    error = delegation.error
    if delegation.verdict:
        meaning = delegation_text.meaning(delegation.verdict, error)
    elif delegation.waiting_for is not None:  # shown below, exactly
        meaning = "its agent needs your answer"
    else:
        meaning = one_line(delegation.activity or "not finished yet")
    if delegation.verdict in _ENDED_EARLY and delegation.result and delegation.result.files:
        meaning += "; partial work is kept"
    if delegation.confirmed_tests:
        meaning += f"; you confirmed {event_lines.plural(delegation.confirmed_tests, 'changed test')}"
    title = f"{delegation.id}  {one_line(delegation.title)}"
    rows = [title, f"{paint(word.upper(), fg=verdict_colour(delegation.verdict), bold=True)}: {meaning}"]
    if error is not None:
        # The last lines of a program that crashed keep their line breaks.
        rows += [f"    | {row}" for row in sanitize(error.message).strip().splitlines()[1:]]
        rows += [f"    {one_line(error.hint)}"] if error.hint else []
    return "\n".join(rows)


def _answer(delegation: Delegation, text: str) -> str:
    """Return what the agent wrote; only the start of a long text, unless it is the result itself."""
    rows = sanitize(text).rstrip("\n").splitlines()
    if delegation.verdict is Verdict.ANSWERED:
        return "\n".join(rows)
    kept, room = 0, _SUMMARY_CHARACTERS
    while kept < min(len(rows), _SUMMARY_ROWS) and len(rows[kept]) <= room:
        room -= len(rows[kept])
        kept += 1
    if kept == len(rows):
        return "\n".join(rows)
    start = rows[:kept] or [f"{rows[0][:room].rstrip()}…"]
    return "\n".join([*start, f"… the whole text: understudy evidence {delegation.id}"])


def _question(delegation: Delegation, paint: Paint) -> str:
    request = delegation.waiting_for
    if request is None:
        return ""
    first, *rest = permission_prompt.rows(request)
    limit = (
        [f"  until {local_time(request.deadline)}, then {one_line(request.deadline_action)}"]
        if request.deadline
        else []
    )
    return "\n".join([paint(f"? {first}", fg="yellow", bold=True), *rest, *limit])


def _messages(delegation: Delegation, paint: Paint) -> str:
    kept = [message for message in delegation.messages if not message.delivered]
    if not kept:
        return ""
    ended = delegation.state is State.FINISHED
    todo = (
        f"part of your next reply: understudy reply {delegation.id} TEXT" if ended else "its agent has not got it yet"
    )
    return "\n".join(
        f"{paint('→', fg='yellow', bold=True)} you said: {one_line(message.text)}\n    {todo}" for message in kept
    )


def _reservations(delegation: Delegation, paint: Paint) -> str:
    rows = []
    for reservation in delegation.reservations:
        what, todo = RESERVATIONS[reservation]
        if reservation is Reservation.NOT_ISOLATED and delegation.review.pending and not delegation.review.accepted:
            todo = "you undid its changes: your files no longer contain them"
        mark = paint("!", fg="yellow", bold=True)
        hints = [fact.hint for fact in delegation.reservation_facts if fact.reservation is reservation and fact.hint]
        todo = one_line(hints[0]) if hints else todo
        facts = [one_line(fact) for fact in delegation_text.facts_of(reservation, delegation)[:_SHOWN]]
        if reservation is Reservation.CHANGE_NOT_TESTED and untested(delegation.places):
            of_places = share(delegation.places)
            facts = [*_untested(delegation), *(fact for fact in facts if not fact.startswith(of_places))]
        about = [f"    {fact}" for fact in facts]
        rows += [f"{mark} {event_lines.words(reservation)}: {what}", *about, f"    {todo.replace('ID', delegation.id)}"]
    return "\n".join(rows)


def _places(delegation: Delegation, paint: Paint) -> str:
    """Return how many of all changed places are tested, unless a reservation says what is missing."""
    elsewhere = {Reservation.CHECKS_OUTDATED, Reservation.CHANGE_NOT_TESTED}.intersection(delegation.reservations)
    return "" if elsewhere or not delegation.places else paint(share(delegation.places), fg="green")


def _untested(delegation: Delegation) -> list[str]:
    """Return how many of all changed places are tested, and each of the others."""
    missing = untested(delegation.places)
    rows = [share(delegation.places), *(f"  not {one_line(described(place))}" for place in missing[:_SHOWN])]
    return [*rows, *([f"  and {len(missing) - _SHOWN} more"] if len(missing) > _SHOWN else [])]


def _checks(delegation: Delegation, paint: Paint) -> str:
    rows = []
    outdated = Reservation.CHECKS_OUTDATED in delegation.reservations
    for result in delegation.checks:
        colour = "yellow" if outdated else "green" if result.ok else "red"
        rows.append(paint(event_lines.check(result, outdated=outdated), fg=colour))
        if result.mutation is not None:
            rows += mutation_rows(result.mutation, paint)
        if result.base is not None:
            rows.append(f"    earlier tests: {comparison_text(result.base)}")
            rows += [
                f"      {one_line(difference.test)}: {difference.restored} → {difference.result}"
                for difference in result.base.tests[:_SHOWN]
            ]
        if result.checkout_files:
            rows.append(f"    loaded from your checkout: {_some(result.checkout_files)}")
        if result.flaky_tests:
            rows.append(f"    passed once and failed once: {_some(result.flaky_tests)}")
        if result.changed_files:
            rows.append(f"    changed while it ran: {_some(result.changed_files)}")
        rows += [f"    not to be trusted: {one_line(text)}" for text in result.tampered or ()]
        if not result.ok and result.output_tail.strip():
            rows += [f"    | {row}" for row in _telling(sanitize(result.output_tail).rstrip().splitlines())]
    for judged in delegation.rounds:
        rows.append(paint(event_lines.round_of_tests(judged), fg="green" if judged.kept else "yellow"))
    return "\n".join(rows)


def _telling(output: list[str]) -> list[str]:
    """Return the last lines of a check that failed; of TAP, whose end has only counts, those of the first failure."""
    failure = next((number for number, line in enumerate(output) if line.lstrip().startswith("not ok ")), None)
    return output[-_SHOWN:] if failure is None else output[failure:][:_SHOWN]


def _files(delegation: Delegation, paint: Paint) -> str:
    files = delegation.result.files if delegation.result else []
    rows = [
        f"{file.status:<8} {path(file.path)}  "
        f"{paint(f'+{file.additions}', fg='green')} {paint(f'-{file.deletions}', fg='red')}"
        for file in files[:_SHOWN]
    ]
    if len(files) > _SHOWN:
        rows.append(f"and {event_lines.plural(len(files) - _SHOWN, 'more file')}")
    return "\n".join(rows)


def _facts(delegation: Delegation) -> str:
    rows = []
    seconds = _seconds(delegation)
    who = " → ".join(dict.fromkeys(attempt.delegator for attempt in delegation.attempts)) or delegation.delegator
    took = f" in {duration(seconds)}" if seconds is not None else ""
    sandbox = "" if delegation.confined or delegation.sandbox is None else ", without a sandbox"
    rows.append(f"by {who}{took}{sandbox}")
    rows += _attempts(delegation)
    decided = review_counts(delegation.review)
    if decided:
        rows.append(f"hunks: {decided}")
    if delegation.superseded_by:
        rows.append(f"continued by {one_line(delegation.superseded_by)}")
    if delegation.parent_id:
        rows.append(f"follows {one_line(delegation.parent_id)}")
    spent = _spent(delegation)
    if spent:
        rows.append(spent)
    if delegation.worktree:
        rows.append(f"worktree: {short_path(delegation.worktree)}")
    elif delegation.rescue_ref:
        rows.append(f"worktree: removed; restore with: understudy restore {one_line(delegation.rescue_ref)}")
    return "\n".join(rows)


def _attempts(delegation: Delegation) -> list[str]:
    """Return why each delegator that another one took over from could not work, and where its files are kept."""
    rows = []
    for attempt, following in zip(delegation.attempts, delegation.attempts[1:], strict=False):
        if attempt.failure is None or attempt.delegator == following.delegator:
            continue
        failure = attempt.failure
        rows.append(f"  {attempt.delegator}: {event_lines.words(failure.kind)}: {one_line(failure.message)[:200]}")
        if attempt.rescue_ref is not None:
            rows.append(f"    what it changed is kept as {one_line(attempt.rescue_ref)}")
        elif attempt.files and following.start_commit == attempt.end_commit:
            rows.append(f"    {following.delegator} continued with {_names(attempt)}")
    if rows and delegation.attempts[-1].failure is None and delegation.attempts[-1].files:
        rows.append(f"  {delegation.attempts[-1].delegator}: changed {_names(delegation.attempts[-1])}")
    return rows


def _names(attempt: Attempt) -> str:
    return name_list(map(path, attempt.files), _SHOWN)


def _spent(delegation: Delegation) -> str:
    usage = delegation.usage
    parts = []
    if usage.input_tokens or usage.output_tokens:
        cached = f" ({thousands(usage.cache_read_tokens)} cached)" if usage.cache_read_tokens else ""
        parts.append(f"{thousands(usage.input_tokens)} tokens in{cached}, {thousands(usage.output_tokens)} out")
    if delegation.cost_usd is not None and (parts or delegation.cost_usd.strip("0.")):  # not the $0 of no model
        priced = [attempt for attempt in delegation.attempts if attempt.cost_usd is not None]
        # Earlier versions recorded no source.
        sourced = [attempt for attempt in priced if attempt.cost_source != "unknown"]
        origins = dict.fromkeys(cost_origin(attempt.cost_source, attempt.price_date) for attempt in sourced)
        notes = [*(["estimated"] if any(attempt.cost_estimated for attempt in priced) else []), *origins]
        shown = f" ({', '.join(notes)})" if notes else ""
        parts.append(f"{'' if delegation.cost_known else 'at least '}${delegation.cost_usd}{shown}")
    elif parts:
        parts.append("cost unknown")
    return ", ".join(parts)


def _next_steps(
    delegation: Delegation, alternative: Callable[[Delegation], str | None], follows: Callable[[Delegation], bool]
) -> str:
    identifier = delegation.id
    show, watch = f"understudy diff {identifier}", f"understudy watch {identifier}"
    if delegation.waiting_for is not None:
        return event_lines.next_commands(f"understudy answer {identifier}")
    if delegation.state is not State.FINISHED:
        return event_lines.next_commands(watch, f"understudy cancel {identifier}")
    if delegation.rescue_ref and delegation.worktree is None:
        return event_lines.next_commands(f"understudy restore {one_line(delegation.rescue_ref)}", show)
    if delegation.superseded_by:
        return event_lines.next_commands(f"understudy show {one_line(delegation.superseded_by)}")
    review, reply = f"understudy review {identifier}", f"understudy reply {identifier} 'what to do instead'"
    if delegation.verdict in _ENDED_EARLY and not delegation.review.accepted:
        partial = delegation.review.pending or delegation.review.rejected
        again = _retries(delegation, alternative, follows) or _further(delegation, alternative, follows)
        return event_lines.next_commands(*again, *_read_logs(delegation), review if partial else watch)
    if Reservation.CHECKS_OUTDATED in delegation.reservations:
        reviewed = (review,) if delegation.review.pending else ()
        return event_lines.next_commands(f"understudy check {identifier}", *reviewed, show)
    if delegation.review.pending and delegation.verdict is Verdict.CHECKS_FAILED:
        again = [reply] if follows(delegation) else _retries(delegation, alternative, follows)
        return event_lines.next_commands(review, show, *again)
    if delegation.review.pending:
        missed = any(survivors(check.mutation) for check in delegation.checks if check.mutation is not None)
        worth_asking = missed or without_tests(delegation.places)
        more = (f"understudy strengthen {identifier}",) if worth_asking and follows(delegation) else ()
        untested_places = untested(delegation.places)
        some = untested_places and len(untested_places) < len(delegation.places)
        verified = some and DOUBTED.isdisjoint(delegation.reservations)
        return event_lines.next_commands(
            review, f"understudy accept {identifier} {'--verified' if verified else '--all'}", show, *more
        )
    if delegation.review.rejected:
        again = [reply] if follows(delegation) else _retries(delegation, alternative, follows)
        return event_lines.next_commands(*again, *([] if again else [show]))
    if delegation.result and delegation.result.files:
        undo = (f"understudy undo {identifier}",) if delegation.review.accepted else ()
        return event_lines.next_commands(show, f"understudy check {identifier}", *undo)
    if delegation.verdict is Verdict.ANSWERED:
        return ""
    again = _retries(delegation, alternative, follows) or _further(delegation, alternative, follows)
    return event_lines.next_commands(*again, *_read_logs(delegation), watch)


def _retries(
    delegation: Delegation, alternative: Callable[[Delegation], str | None], follows: Callable[[Delegation], bool]
) -> list[str]:
    """Return the commands that try again, where that can help."""
    if delegation.error is not None and delegation.error.kind in _RETRY_IS_USELESS:
        return []
    error = delegation.error
    # Another delegator does not help if the first one could not even begin, or would meet the same error.
    helps = error is None or (bool(delegation.attempts) and class_of(error.kind) is not None)
    helps = helps and delegation.verdict is not Verdict.CANCELLED
    other = alternative(delegation) if helps else None
    with_other = [] if other is None else [_retry_with(delegation, other)]
    # What works without a model does the same again.
    same = error is None and delegation.verdict not in _ENDED_EARLY and not follows(delegation)
    return [*([] if same else [f"understudy retry {delegation.id}"]), *with_other]


def _further(
    delegation: Delegation, alternative: Callable[[Delegation], str | None], follows: Callable[[Delegation], bool]
) -> list[str]:
    """Return the command that helps where what works without a model could not do it."""
    if follows(delegation):
        return []
    other = alternative(delegation)
    return ["understudy delegators add" if other is None else _retry_with(delegation, other)]


def _retry_with(delegation: Delegation, delegator: str) -> str:
    return f"understudy retry {delegation.id} -d {shlex.quote(delegator)}"


def _read_logs(delegation: Delegation) -> list[str]:
    """Return the command that shows the logs of a failure."""
    paths = (delegation.error.log_paths if delegation.error is not None else None) or []
    # A quoted ~ is not the home folder.
    shown = [short_path(log) if shlex.quote(log) == log else shlex.quote(one_line(log)) for log in paths]
    return [f"less {' '.join(shown)}"] if paths else []


def _some(names: list[str]) -> str:
    return name_list(map(one_line, names), _SHOWN)


def _seconds(delegation: Delegation) -> float | None:
    """Return the duration of all attempts together, without checks that ran again later."""
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


def mutation_text(result: MutationResult) -> str:
    """Return what the tests noticed as one line; an empty text if nothing was judged."""
    whose = "the new tests" if result.scope == "files" else "the tests"
    code = "code under test" if result.scope == "files" else "changed code"
    if not result.total:
        return f"the {code} has nothing to change"
    if not result.executed:
        return f"{whose} execute none of the {code}"
    if not result.viable:
        return f"nothing was judged: {result.unfinished or 'no small change could be built'}"
    changes = event_lines.plural(result.viable, "small change")
    text = f"{whose} notice {result.killed} of {changes} on lines that they execute"
    details = [
        _unexecuted(result),
        f"{result.stuck} by getting stuck" if result.stuck else "",
        f"{result.dismissed} dismissed" if result.dismissed else "",
        one_line(result.unfinished or ""),
    ]
    shown = "; ".join(filter(None, details))
    return f"{text}; {shown}" if shown else text


def mutation_rows(result: MutationResult, paint: Paint) -> list[str]:
    """Return the line, the changes that no test noticed, and the tests that noticed nothing."""
    rows = [f"    mutation test: {mutation_text(result)}"]
    missed = survivors(result)
    for mutant in missed[:_LISTED]:
        rows += [f"      missed in {place(mutant)}", *change_rows(mutant, paint, "        ")]
    if len(missed) > _LISTED:
        rows.append(f"      and {event_lines.plural(len(missed) - _LISTED, 'more change')} that no test noticed")
    rows += [f"      notices nothing: {one_line(test)}" for test in result.idle[:_LISTED]]
    if len(result.idle) > _LISTED:
        rows.append(f"      and {event_lines.plural(len(result.idle) - _LISTED, 'more test')} that notice nothing")
    rows += [f"      fails without a cause: {one_line(test)}" for test in result.unreliable[:_LISTED]]
    return rows


def survivors(result: MutationResult) -> list[JudgedMutant]:
    """Return the mutants that no test noticed."""
    return [mutant for mutant in result.mutants if mutant.status is MutantStatus.SURVIVED]


def place(mutant: JudgedMutant) -> str:
    """Return where a mutant is, with its identity."""
    function = f" in {one_line(mutant.function)}" if mutant.function else ""
    return f"{path(mutant.path)}:{mutant.line}{function} ({mutant.id})"


def change_rows(mutant: JudgedMutant, paint: Paint, indent: str) -> list[str]:
    """Return a mutant as a small diff."""
    rows = []
    for mark, text, colour in (("-", mutant.before, "red"), ("+", mutant.after, "green")):
        rows += [f"{indent}{paint(f'{mark} {one_line(line)}', fg=colour)}" for line in text.splitlines() or [""]]
    return rows


def _unexecuted(result: MutationResult) -> str:
    count = result.total - result.executed
    if count <= 0:
        return ""
    places = [f"{path(place.path)}:{place.line}" for place in result.unexecuted]
    where = "is on a line" if count == 1 else "are on lines"
    named = f": {name_list(places, _LISTED)}" if places else ""
    return f"{count} of {result.total} places {where} that no test executes{named}"
