"""Search one function or class for examples, in a process of its own."""

from __future__ import annotations

import ast
import inspect
import itertools
import random
import re
import time
from collections import Counter
from typing import Any, Callable, Iterable

from .audit import Guard, Refused, TooSlow
from .calls import Context, Known, searched_calls
from .loading import DOCUMENTED, Example, Outcome, crash, detects, evaluate, executed_lines, record
from .shapes import Late, generated, smallest
from .subject import Subject, sample
from .unit_candidates import candidates, cost, make_objects, recorded_texts, vocabulary

Say = Callable[..., None]
SEARCH_EXAMPLES = 300
ROUNDS = 3
BADLY = 80
"""The cost from which an example is shrunk."""
SECONDS_PER_SEARCH = 0.7
SEARCHED = 3
MOST_CRASHES = 2
MOST_PATTERNS = 20
MOST_KEYS = 6
LONGEST_REASON = 120
NO_TEXT = "has a value without an exact text"
WALL_PER_CPU = 1.5
"""The limit is CPU time, and this many times as much on the clock: the machine may be busy."""
REPORT_SECONDS = 1.0
"""More time after the limit, to find out what each example kills."""


class UnitSearch:
    """The search of one function or class, in its own process. The unit without a name is the documentation."""

    def __init__(self, subject: Subject, name: str, value: Any, seconds: float, say: Say) -> None:
        """Prepare the scope of the original."""
        self.subject = subject
        self.name = name
        self.value = value
        self.seconds = seconds
        self.until = min(subject.until, time.monotonic() + WALL_PER_CPU * seconds)
        self.say = say
        self.guard = subject.guard
        self.source = subject.source
        texts = [(example["expression"], 0) for example in subject.request["documented"]]
        texts += [(text, 0) for example in subject.request["documented"] for text in example["setup"]]
        texts += [(text, 1) for text in subject.request["calls"]]
        self.context = Context(self.source.original(), vars(subject.module), self.guard, Known(texts))
        self.scopes: dict[int, dict[str, Any] | None] = {}
        self.kept: list[Example] = []

    def late(self, more: float = 0) -> bool:
        """Return whether the limit is reached, or ``more`` seconds after it."""
        return time.process_time() > self.seconds + more or time.monotonic() > self.until + more

    def run(self) -> None:
        """Report the examples that were found."""
        if not self.name:
            self._keep_documented()
            return
        self.read_words()
        effects = self.subject.effects
        for name, value in self.context.scope.items():
            if name != self.name and inspect.isclass(value) and value.__module__ == self.subject.module.__name__:
                self.context.made[name] = (
                    make_objects(name, value, self.context, effects) if effects.reason(name) is None else []
                )
        examples, targets = candidates(self.name, self.value, self.context, effects)
        if self.guard.events:
            self.say("left_out", unit=self.name, why="it tried {}".format(", ".join(sorted(self.guard.events))))
            return
        if not examples:
            self.say("left_out", unit=self.name, why=self._why_without_example(targets))
            return
        examples.sort(key=lambda example: example.cost)
        left = self.subject.relevant(self.name)
        random.Random(11).shuffle(left)  # the time may end before all were tried
        left = [m for m in left if m not in self.subject.killed] + [m for m in left if m in self.subject.killed]
        survivors = self._kill(left, examples)
        if self.subject.request["hypothesis"]:
            self._search(survivors, targets)
        if not self.kept:
            why = "the time was over before" if self.late() else "no example was found with which"
            self.say("left_out", unit=self.name, why=why + " a test notices a change of it")
        self._report()
        self._report_crashes()

    def _why_without_example(self, targets: list[Any]) -> str:
        """Return why no call of the unit shows anything that a test could compare."""
        if inspect.iscoroutinefunction(self.value):
            return "it is asynchronous"
        if inspect.isclass(self.value) and inspect.isabstract(self.value):
            return "it is abstract"
        if not targets:
            return "it has no signature"
        calls = {t: o for t, o in self.context.seen.items() if t.startswith((self.name + "(", self.name + "."))}
        if any(outcome.kind == "value" for outcome in calls.values()):
            return "what it returns has no exact text"
        raised = [(text, outcome.value) for text, outcome in calls.items() if outcome.kind == "raises"]
        if not raised:
            return "no arguments were found with which it returns"
        usual = Counter(type(error).__name__ for _, error in raised).most_common(1)[0][0]
        call = min((text for text, error in raised if type(error).__name__ == usual), key=len)
        return f"no arguments were found with which it returns: {call} raises {usual}"

    def read_words(self) -> None:
        """Collect the words and numbers of the functions that the unit may reach, and of the tables that they use."""
        effects = self.subject.effects
        # A name that is assigned, such as a named tuple, has no definition.
        names = [self.name, *sorted(effects.reach(self.name) - {self.name})]
        reached = [effects.definitions[name] for name in names if name in effects.definitions]
        used = effects.touched(self.name)
        tables = [node for node in self.source.tree.body if _is_table(node) and effects.touched_by(node) & used]
        texts = [text for text, _ in self._known_texts()]
        loaded = {item.id for node in reached for item in ast.walk(node) if isinstance(item, ast.Name)}
        looked_up = [value for name, value in sorted(vars(self.subject.module).items()) if name in loaded]
        texts += [repr(key) for value in looked_up if type(value) is dict for key in _first_keys(value)]
        self.context.words = vocabulary([*reached, *tables], texts)

    def _known_texts(self) -> list[tuple[str, int]]:
        calls = self.context.known.calls.get(self.name, [])
        return [(text, origin) for arguments, keywords, origin in calls for text in [*arguments, *keywords.values()]]

    def scope(self, mutant: int) -> dict[str, Any] | None:
        """Return the scope of a mutant, None when it cannot be loaded."""
        if mutant not in self.scopes:
            change = self.subject.mutants[mutant]
            self.scopes[mutant] = self.source.mutated(change.start, change.end, change.text)
        return self.scopes[mutant]

    def _kills(self, example: Example, mutant: int) -> bool:
        if not self._reaches(example, mutant):
            return False
        scope = self.scope(mutant)
        return scope is not None and detects(example, evaluate(example, scope, self.guard), scope)

    def _reaches(self, example: Example, mutant: int) -> bool:
        """Return whether the example executes a line of the mutant."""
        change = self.subject.mutants[mutant]
        if not change.function:
            return True
        if example.lines is None:
            path = self.subject.module.__file__ or ""
            example.lines = executed_lines(example, self.context.scope, self.guard, path)
        return any(change.first <= line <= change.last for line in example.lines)

    def _steady(self, example: Example) -> bool:
        """Return whether the original gives the same outcome again, whatever the state of ``random``."""
        for seed in (1, 2):
            random.seed(seed)
            if detects(example, evaluate(example, self.context.scope, self.guard), self.context.scope):
                return False
        return True

    def _kill(self, mutants: list[int], examples: list[Example]) -> list[int]:
        """Keep the first example for each mutant that those before it do not kill; return the survivors."""
        survivors = []
        unsteady: set[Any] = set()
        for mutant in mutants:
            if self.late():
                break
            if self.scope(mutant) is None or any(self._kills(kept, mutant) for kept in self.kept):
                continue
            for example in examples:
                if example.key in unsteady or not self._kills(example, mutant):
                    if self.late():
                        break
                    continue
                if self._steady(example):
                    self._keep(example, mutant)
                    break
                unsteady.add(example.key)
            else:
                survivors.append(mutant)
        return survivors

    def _search(self, survivors: list[int], targets: list[Any]) -> None:
        """Let Hypothesis invent arguments, in rounds, for the mutants that survive; then shrink what reads badly."""
        patterns = _patterns(vars(self.subject.module).values())
        strategies = [
            s for target in targets[:6] for s in [searched_calls(target, self.context, patterns)] if s is not None
        ]
        for number in range(ROUNDS):
            if self.late() or not strategies or not survivors:
                return
            examples = []
            for calls in strategies:
                texts = generated(calls, SEARCH_EXAMPLES // len(strategies) + 20, number, self.late)
                examples += [example for text in texts for example in self._examples(text)]
            examples.sort(key=lambda example: example.cost)
            before = len(self.kept)
            survivors = self._kill(survivors, examples)
            for place, example in list(enumerate(self.kept))[before:]:
                if example.cost > BADLY and not example.setup and not self.late():
                    self.kept[place] = self._shrunk(example, strategies)
            if len(self.kept) == before:
                return

    def _shrunk(self, example: Example, strategies: list[Any]) -> Example:
        """Return a simpler example that kills one of the mutants that this one kills."""
        killed = [m for m in self.subject.relevant(self.name) if self._kills(example, m)]
        others = [m for m in killed if not any(self._kills(kept, m) for kept in self.kept if kept is not example)][:3]
        stop = time.process_time() + SECONDS_PER_SEARCH
        best = example

        def simpler(text: str) -> bool:
            nonlocal best
            if time.process_time() > stop or self.late():
                raise Late
            for candidate in self._examples(text):
                if all(self._kills(candidate, m) for m in others) and self._steady(candidate):
                    best = min(best, candidate, key=lambda example: example.cost)
                    return True
            return False

        for calls in strategies if others else []:
            smallest(calls, simpler)
        if best is not example:
            self._say_example(best, others)
        return best

    def _examples(self, text: str) -> list[Example]:
        return [self._costly(example) for example in recorded_texts([(text, SEARCHED)], self.context)]

    def _costly(self, example: Example) -> Example:
        example.cost = cost(example)
        return example

    def _keep(self, example: Example, mutant: int) -> None:
        """Keep an example, and report it at once: a later evaluation may end this process."""
        self.kept.append(example)
        self._say_example(example, [mutant])

    def _keep_documented(self) -> None:
        """Keep every example of the documentation that is true, and report why the others are not kept."""
        for documented in self.subject.request["documented"]:
            try:
                example = Example(documented["expression"], tuple(documented["setup"]), DOCUMENTED)
            except (SyntaxError, ValueError) as error:
                self.say("documented", example=documented["expression"], why=f"raises {type(error).__name__}")
                continue
            why = self._why_not_kept(example, documented)
            if why == NO_TEXT and documented["want"] and "\n" not in documented["want"]:
                shown = Example(f"repr({example.expression})", example.setup, DOCUMENTED)
                if self._why_not_kept(shown, {**documented, "want": repr(documented["want"])}) is None:
                    example, why = shown, None
            if why is None:
                example.cost = cost(example)
                self.kept.append(example)
            else:
                self.say("documented", example=documented["expression"], why=why)
        numbers = random.Random(11)
        self._report(sample(list(range(len(self.subject.mutants))), 200, numbers))

    def _why_not_kept(self, example: Example, documented: dict[str, Any]) -> str | None:
        """Return why no test can be made of an example of the documentation; None if one can."""
        events = set(self.guard.events)
        outcome = evaluate(example, self.context.scope, self.guard)
        if outcome.kind not in {"value", "raises"}:
            refused = sorted(self.guard.events - events)
            return f"tries {', '.join(refused)}" if refused else f"cannot be evaluated{_cause(outcome)}"
        if outcome.kind == "raises" and type(outcome.value).__name__ != documented["raises"]:
            return f"raises {_described(outcome.value)}"
        if outcome.kind == "value" and documented["raises"] is not None:
            return f"does not raise {documented['raises']}"
        if outcome.kind == "value" and not _is_documented(documented["want"], outcome.value, self.guard):
            return "gives another value than the documentation shows"
        if not record(example, outcome, self.context.scope, self.guard):
            return NO_TEXT
        return None if self._steady(example) else "does not give the same value again"

    def _report(self, mutants: list[int] | None = None) -> None:
        chosen = self.subject.relevant(self.name) if mutants is None else mutants
        kills: list[list[int]] = [[] for _ in self.kept]
        for mutant in chosen:
            for place, example in enumerate(self.kept):
                if self.late(REPORT_SECONDS):  # a mutant may make every example hang
                    break
                if self._kills(example, mutant):
                    kills[place].append(mutant)
            self.scopes.pop(mutant, None)
        for example, killed in zip(self.kept, kills):
            self._say_example(example, killed)

    def _report_crashes(self) -> None:
        """Report the shortest call for each kind of crash."""
        documentation = f"{inspect.getdoc(self.value)}\n{self.subject.module.__doc__}"
        calls: dict[str, str] = {}
        for text, outcome in sorted(self.context.seen.items(), key=lambda item: len(item[0])):
            if outcome.kind == "raises" and text.startswith((self.name + "(", self.name + ".")):
                name = crash(outcome.value, self.subject.request["root"], documentation)
                if name and name not in calls and not self.late(REPORT_SECONDS):
                    again = evaluate(Example(text), self.context.scope, self.guard)
                    if again.kind == "raises" and type(again.value) is type(outcome.value):
                        calls[name] = text
        for name, text in list(calls.items())[:MOST_CRASHES]:
            self.say("finding", unit=self.name, call=text, raises=name)

    def _say_example(self, example: Example, kills: list[int]) -> None:
        kind, value, text = example.expected or ("", "", "")
        self.say(
            "example",
            unit=self.name,
            setup=list(example.setup),
            expression=example.expression,
            outcome=[kind, value if kind == "raises" else "", text],
            origin=example.origin,
            cost=example.cost,
            kills=kills,
        )


def _cause(outcome: Outcome) -> str:
    error = outcome.value
    return f": it raises {_described(error)}" if isinstance(error, BaseException) else ""


def _described(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())[:LONGEST_REASON]
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_documented(want: str | None, value: Any, guard: Guard) -> bool:
    """Return whether the documentation shows this value, with ``doctest``'s ellipsis and any white space."""
    if want is None:
        return True
    guard.start()
    try:
        texts = [repr(value), str(value)]
    except (Exception, Refused, TooSlow):
        return False
    finally:
        guard.stop()
    pieces = [re.escape(" ".join(piece.split())) for piece in want.split("...")]
    return any(re.fullmatch(r"\s?.*\s?".join(pieces), " ".join(text.split()), re.DOTALL) for text in texts)


def _first_keys(table: dict[Any, Any]) -> list[Any]:
    """Return some words by which a table is looked up."""
    return [key for key in itertools.islice(table, MOST_KEYS) if type(key) is str]


def _is_table(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Assign, ast.AnnAssign))


def _patterns(values: Iterable[Any]) -> list[Any]:
    """Return the regular expressions for text among the values, and in their lists, tuples and dictionaries."""
    patterns = {}
    for value in values:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
        for item in itertools.islice(inner, MOST_PATTERNS):
            if isinstance(item, re.Pattern) and isinstance(item.pattern, str):
                patterns[item.pattern] = item
    return list(patterns.values())
