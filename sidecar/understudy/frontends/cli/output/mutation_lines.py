"""Show which small changes of the code the tests noticed."""

from __future__ import annotations

from understudy.frontends.cli.output import event_lines
from understudy.frontends.cli.terminal.terminal import Paint, one_line, path
from understudy.model.evidence.mutation import JudgedMutant, MutantStatus, MutationResult, Round
from understudy.model.text.name_list import name_list

_SHOWN = 5
"""How many missed changes and idle tests a card lists."""


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
    text = f"{whose} notice {result.killed} of {_changes(result.viable)} on lines that they execute"
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
    for mutant in missed[:_SHOWN]:
        rows += [f"      missed in {place(mutant)}", *change_rows(mutant, paint, "        ")]
    if len(missed) > _SHOWN:
        rows.append(f"      and {event_lines.plural(len(missed) - _SHOWN, 'more change')} that no test noticed")
    rows += [f"      notices nothing: {one_line(test)}" for test in result.idle[:_SHOWN]]
    if len(result.idle) > _SHOWN:
        rows.append(f"      and {event_lines.plural(len(result.idle) - _SHOWN, 'more test')} that notice nothing")
    rows += [f"      fails without a cause: {one_line(test)}" for test in result.unreliable[:_SHOWN]]
    return rows


def round_rows(rounds: list[Round], paint: Paint) -> list[str]:
    """Return what the tests noticed in each round."""
    return [
        paint(event_lines.round_of_tests(test_round), fg="green" if test_round.kept else "yellow")
        for test_round in rounds
    ]


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
    named = f": {name_list(places, _SHOWN)}" if places else ""
    return f"{count} of {result.total} places {where} that no test executes{named}"


def _changes(count: int) -> str:
    return "1 small change" if count == 1 else f"{count} small changes"
