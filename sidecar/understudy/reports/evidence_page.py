"""Write everything that was looked at to judge a result as one page of Markdown, with commands to repeat it.

Texts of agents and tools are escaped or fenced, so that they cannot look like the page's own.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from understudy.model.delegation.delegations import Delegation
from understudy.model.evidence.checks import CheckResult, JudgedMutant, MutantStatus
from understudy.model.evidence.evidence_log import EvidenceCheck, EvidenceLog, EvidenceRun
from understudy.model.states import State
from understudy.model.text.delegation_text import facts_of, meaning
from understudy.model.verdicts import RESERVATIONS, check_outcome

_MOST_TESTS = 300
_MOST_NAMES = 100
_SHORT = 12
_ON = {"result": "the result", "base": "the base", "restored": "the result with the base's files"}
_STATUS = {
    MutantStatus.KILLED: "noticed",
    MutantStatus.TIMEOUT: "noticed: the tests got stuck",
    MutantStatus.SURVIVED: "**not noticed**",
    MutantStatus.NO_COVERAGE: "no test executes it",
    MutantStatus.COMPILE_ERROR: "could not be built or loaded",
    MutantStatus.IGNORED: "dismissed",
    MutantStatus.PENDING: "not judged",
}


def evidence_page(delegation: Delegation, log: EvidenceLog | None) -> str:
    """Return the page; without ``log`` (the result was judged by an older version) it has no single runs."""
    parts = [*_head(delegation), *_checks(delegation, log)]
    if log is not None:
        parts += _notes(log)
    parts += _rounds(delegation)
    parts += [*_not_looked_at(delegation, log), *_agent(delegation)]
    return "\n".join(parts).rstrip() + "\n"


def _head(delegation: Delegation) -> Iterator[str]:
    word = (delegation.verdict or delegation.state).replace("_", " ")
    yield f"# {word.capitalize()}: {_inline(delegation.title)}\n"
    if delegation.verdict is not None:
        hint = delegation.error.hint if delegation.error is not None else None
        sentence = _sentence(_inline(meaning(delegation.verdict, delegation.error)))
        yield f"{sentence} {_inline(hint or '')}".rstrip() + "\n"
    if delegation.reservations:
        yield "## Why it is not verified\n"
        for reservation in delegation.reservations:
            what, todo = RESERVATIONS[reservation]
            # What it may be about says nothing that the facts do not say.
            first, *others = facts_of(reservation, delegation) or [what]
            advice = _sentence(todo.replace("ID", delegation.id))
            yield f"- **{reservation.replace('_', ' ')}**: {_sentence(_inline(first))} {advice}"
            yield from (f"  - {_inline(fact)}" for fact in others)
        yield ""


def _checks(delegation: Delegation, log: EvidenceLog | None) -> Iterator[str]:
    yield "## Checks\n"
    if delegation.result is not None and delegation.state is State.CHECKING:
        again = "The checks are running again. The results below are from the previous run."
        yield f"**{again if delegation.checks else 'The checks are running.'}**\n"
    elif not delegation.checks:
        yield "No check ran.\n"
    if log is not None:
        yield f"Judged: commit `{log.head[:_SHORT]}`, tree `{log.tree[:_SHORT]}`, on base `{log.base[:_SHORT]}`."
        if log.interpreter:
            yield f"Python {log.interpreter_version}: `{log.interpreter}`."
        yield ""
    records = {check.name: check for check in log.checks} if log is not None else {}
    for result in delegation.checks:
        yield from _check(delegation, result, records.get(result.name), log)


def _check(
    delegation: Delegation, result: CheckResult, record: EvidenceCheck | None, log: EvidenceLog | None
) -> Iterator[str]:
    needed = "" if result.required else " (not required)"
    yield f"### {_inline(result.name)}: {check_outcome(result.ok, delegation.reservations)}{needed}\n"
    if record is not None and log is not None:
        yield from _runs(delegation, record, log)
        yield from _tests(record)
    else:
        yield fenced(shlex.join(result.argv)) + "\n"
    if result.mutation is not None:
        yield from _mutation(result, record)
    if result.base is not None:
        before = f"{result.base.lost} of {result.base.earlier} earlier tests" if result.base.earlier else "The check"
        yield f"{before} depend on what the result changed (earlier version → version of the result):\n"
        yield from (f"- {_inline(test.test)}: {test.restored} → {test.result}" for test in result.base.tests)
        yield from _named("\nFor this comparison, these files were as in the base:", result.base.restored)
    yield from _named("It loaded these files from your checkout:", result.checkout_files)
    yield from _named("These tests passed once and failed once:", result.flaky_tests)
    yield from _named("These tracked files changed while it ran:", result.changed_files)
    yield from _named("Why the report of its tests cannot be trusted:", result.tampered)
    if result.output_tail.strip():
        yield "End of its output:\n"
        yield fenced(result.output_tail.rstrip()) + "\n"


def _runs(delegation: Delegation, record: EvidenceCheck, log: EvidenceLog) -> Iterator[str]:
    yield "| Run | On | Exit code | Passed | Failed | Skipped | Seconds |"
    yield "|---:|---|---:|---:|---:|---:|---:|"
    for number, run in enumerate(record.runs, start=1):
        where = f"{_ON[run.on]}{', ' + run.circumstances if run.circumstances else ''}"
        counts = [_count(run.exit_code), _count(run.passed), _count(run.failed), _count(run.skipped)]
        yield f"| {number} | {_inline(where)} | {' | '.join(counts)} | {run.seconds:.1f} |"
    yield ""
    yield "To repeat them:\n"
    yield fenced("\n".join(_commands(delegation, record.runs, log)), "sh") + "\n"


def _commands(delegation: Delegation, runs: Sequence[EvidenceRun], log: EvidenceLog) -> Iterator[str]:
    tree = delegation.worktree or f"$(understudy restore {delegation.rescue_ref or delegation.id})"
    yield f"cd {shlex.quote(tree) if delegation.worktree else tree}"
    for number, run in enumerate(runs, start=1):
        commit = log.base if run.on == "base" else log.head
        yield f"# run {number}: {_ON[run.on]}"
        yield f"git checkout --quiet --force --detach {commit}"
        if run.on == "restored" and run.restored:
            names = shlex.join(run.restored[:_MOST_NAMES])
            yield f"git rm --quiet -f --ignore-unmatch -- {names}"
            yield f"git checkout {log.base} -- {names}   # those that it has"
        words = run.circumstances.replace(",", " ").split()
        variables = " ".join(word for word in words if re.fullmatch(r"[A-Z]+=\S+", word))
        folder = f"cd {shlex.quote(run.folder)} && " if run.folder not in {".", ""} else ""
        command = f"{folder}{variables + ' ' if variables else ''}{shlex.join(run.argv)}"
        yield f"({command})" if folder else command
    yield f"git checkout --quiet --force --detach {log.head}"


def _tests(record: EvidenceCheck) -> Iterator[str]:
    # The first run of a test counts; a later run may have more tests.
    after: dict[str, str] = {}
    for run in record.runs:
        if run.on == "result":
            after = {**(run.outcomes or {}), **after}
    before = next((run.outcomes for run in record.runs if run.on == "base" and run.outcomes), {})
    tests = sorted({*after, *before})
    if not tests:
        return
    yield f"<details><summary>{len(tests)} tests</summary>\n"
    # Where the base was not run, nothing is said about it.
    columns = {"On the base": before, "On the result": after} if before else {"On the result": after}
    yield f"| Test | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for test in tests[:_MOST_TESTS]:
        outcomes = " | ".join(outcome.get(test, "missing") for outcome in columns.values())
        yield f"| {_inline(test)} | {outcomes} |"
    if len(tests) > _MOST_TESTS:
        yield f"| and {len(tests) - _MOST_TESTS} more {'| ' * len(columns)}|"
    yield "\n</details>\n"


def _mutation(result: CheckResult, record: EvidenceCheck | None) -> Iterator[str]:
    mutation = result.mutation
    assert mutation is not None  # noqa: S101 - checked by the caller
    where = "the code under test" if mutation.scope == "files" else "the changed code"
    noticed = f"tests notice {mutation.killed} of {mutation.viable} on lines that they execute"
    yield f"#### Small changes of {where}: {noticed}\n"
    facts = [f"{mutation.executed} of {mutation.total} possible changes are on lines that tests execute"]
    if mutation.blind:
        facts.append(f"on {mutation.blind} the code itself raised an error or got stuck, which any test notices")
    if mutation.dismissed:
        facts.append(f"{mutation.dismissed} were left out because you dismissed them")
    if mutation.unfinished:
        facts.append(mutation.unfinished)
    yield _sentence("; ".join(facts)) + "\n"
    places = [f"{place.path}:{place.line}" for place in mutation.unexecuted]
    yield from _named("Lines that no test executes:", places)
    for mutant in record.mutants if record is not None and record.mutants else mutation.mutants:
        yield from _mutant(mutant)
    yield from _named("These new tests noticed nothing, and can be left out:", mutation.idle)
    yield from _named("These tests failed although nothing that runs had changed:", mutation.unreliable)


def _mutant(mutant: JudgedMutant) -> Iterator[str]:
    place = f"{mutant.path}:{mutant.line}" + (f" in {mutant.function}" if mutant.function else "")
    killers = f" by {', '.join(map(_inline, mutant.killed_by))}" if mutant.killed_by else ""
    yield f"- {_STATUS[mutant.status]}{killers}: {_inline(place)} (`{mutant.id}`)\n"
    lines = [*(f"- {line}" for line in mutant.before.split("\n")), *(f"+ {line}" for line in mutant.after.split("\n"))]
    yield fenced("\n".join(lines), "diff") + "\n"


def _notes(log: EvidenceLog) -> Iterator[str]:
    if log.notes:
        yield "## What the judge said\n"
        yield from (f"- {_inline(text)}" for text in log.notes)
        yield ""


def _not_looked_at(delegation: Delegation, log: EvidenceLog | None) -> Iterator[str]:
    yield "## What was not looked at\n"
    if log is None:
        yield "- Single runs: this result was judged by a version that kept no record of them."
    for result in delegation.checks:
        name = _inline(result.name)
        if not result.required:
            yield f"- Whether {name} would notice wrong code, or passes without the result's tests: it is not required."
        elif result.ok and result.mutation is None:
            yield f"- Whether the tests of {name} notice wrong code."
        elif result.mutation is not None and result.mutation.viable < result.mutation.executed:
            left = result.mutation.executed - result.mutation.viable
            yield f"- {left} more possible changes of the code that {name} tests."
    for check in log.checks if log is not None else ():
        yield from (f"- {_inline(check.name)}: {_inline(text)}." for text in check.untried)
    yield "- Whether the tests expect the right values: they show what the code does."
    if delegation.sandbox is not None and not delegation.confined:
        yield "- Places outside the worktree, your checkout and the environment: the agent had your permissions."
    yield ""


def _rounds(delegation: Delegation) -> Iterator[str]:
    if delegation.rounds:
        yield "## Rounds\n"
        yield "The agent was asked again for tests that notice more. A result that was not kept left no trace.\n"
    for round_ in delegation.rounds:
        name = "First result" if round_.number == 0 else f"Round {round_.number}"
        why = "" if round_.kept else f"; not kept: {_inline(round_.why or '')}"
        yield f"- {name}: {round_.killed} of {round_.viable} small changes noticed{why}"
    if delegation.rounds:
        yield ""


def _agent(delegation: Delegation) -> Iterator[str]:
    result = delegation.result
    text = (result.summary or result.text or "").strip() if result is not None else ""
    if text:
        yield "## Agent's summary\n"
        yield fenced(text) + "\n"
    if delegation.attempts:
        yield "## Attempts\n"
    for attempt in delegation.attempts:
        facts = [attempt.delegator, attempt.tool or "", attempt.model or ""]
        yield f"{attempt.number}. {' · '.join(_inline(fact) for fact in facts if fact)}"
    if delegation.sandbox is not None:
        yield (
            "\nThe agent ran in a sandbox." if delegation.confined else "\nNo sandbox: the agent had your permissions."
        )


def _named(sentence: str, names: Iterable[str] | None) -> Iterator[str]:
    every = list(names or ())
    if every:
        yield f"{sentence}\n"
        yield from (f"- {_inline(name)}" for name in every[:_MOST_NAMES])
        yield ""


def _count(value: int | None) -> str:
    return "" if value is None else str(value)


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _inline(text: str) -> str:
    """Escape a text for Markdown, on one line."""
    return re.sub(r"([\\`*_{}\[\]()#+!|<>~&])", r"\\\1", " ".join(text.split()))


def fenced(text: str, language: str = "text") -> str:
    """Put text into a fence that it cannot close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
