"""Who may do the work, in which order, each with a reason. What is against one of them is a fact from the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from understudy.model.config.delegators import Delegator, Limits
from understudy.model.delegation.delegations import Candidate


class Preference(msgspec.Struct, frozen=True):
    """A delegator in its place of an order."""

    name: str
    reason: str
    """Why it has this place."""


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    """What the user configured for a recipe."""

    recipe: str
    named_by_recipe: str | None
    for_recipe: str | None
    general: str | None
    configured: Sequence[str]
    """All delegators that could be meant where none is named."""
    shipped: str
    """The delegator that needs no configuration."""

    @property
    def reason_for_recipe(self) -> str:
        """Return the reason for the default of the recipe."""
        return f"it is the default for {self.recipe!r}"


GENERAL_DEFAULT = "it is the default delegator"


def preferred(explicit: str | None, named_by: str, defaults: Defaults) -> list[Preference]:
    """Return the order: named → recipe → recipe's default → default → the only one → what is shipped."""
    preferences = [
        (explicit, named_by),
        (defaults.named_by_recipe, f"the recipe {defaults.recipe!r} names it"),
        (defaults.for_recipe, defaults.reason_for_recipe),
        (defaults.general, GENERAL_DEFAULT),
    ]
    if len(defaults.configured) == 1:
        preferences.append((defaults.configured[0], "it is the only delegator configured"))
    elif not defaults.configured:
        preferences.append((defaults.shipped, "nothing else is configured"))
    return [Preference(name, reason) for name, reason in preferences if name is not None]


def first_able(
    preferences: Iterable[Preference],
    why_not: Callable[[Preference], str | None],
    successors: Callable[[str], Sequence[str]],
) -> tuple[Preference | None, list[Candidate]]:
    """Return the first one that nothing is against, if there is one, and why each before it was left out.

    ``why_not`` returns what is against one, and is asked in order; ``successors`` returns those that are considered
    next instead of one that was left out.
    """
    waiting, refused = list(preferences), list[Candidate]()
    while waiting:
        preference = waiting.pop(0)
        if any(candidate.name == preference.name for candidate in refused):
            continue
        cause = why_not(preference)
        if cause is None:
            return preference, refused
        refused.append(Candidate(name=preference.name, skipped_because=cause))
        waiting[:0] = successors_of(preference.name, successors(preference.name))
    return None, refused


def left_out(preferences: Iterable[Preference], why_not: Callable[[Preference], str | None]) -> list[Candidate]:
    """Ask about each one in order; return those that something is against, with what it is."""
    causes = ((preference, why_not(preference)) for preference in preferences)
    return [Candidate(name=preference.name, skipped_because=cause) for preference, cause in causes if cause is not None]


def successors_of(name: str, successors: Iterable[str]) -> list[Preference]:
    """Return those who take over from ``name``, in order."""
    return [Preference(successor, f"it takes over from {name}") for successor in successors]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What counts for a delegator where another one is suggested in its place."""

    name: str
    default_for_recipe: bool
    default: bool
    builtin: bool
    succeeded: bool
    """Whether it has had a result of this recipe lately."""


def suggested(standings: Iterable[Standing]) -> list[str]:
    """Return the delegators to suggest, in order: the recipe's default, the general one, shipped ones last.

    Others are suggested only if they have succeeded: any program can be configured.
    """

    def place(standing: Standing) -> tuple[bool, bool, bool]:
        return not standing.default_for_recipe, not standing.default, standing.builtin

    def is_known(standing: Standing) -> bool:
        return standing.default_for_recipe or standing.default or standing.builtin or standing.succeeded

    return [standing.name for standing in sorted(filter(is_known, standings), key=place)]


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate of a run, and what is against an attempt on it now."""

    place: int
    """Its index in the specification."""
    name: str
    limits: Limits | None = None
    """Those of the attempt; None: its own ones."""
    refused: str | None = None
    """Why it can make no attempt."""
    paused: str | None = None
    """Why others are tried first."""
    is_probe: bool = False
    """Whether its attempt shows whether a delegator that was paused works again."""

    @property
    def is_free(self) -> bool:
        """Return whether nothing is against it: those after it need not be looked at."""
        return self.refused is None and self.paused is None


def why_too_small(delegator: Delegator, overflowed: Iterable[Delegator]) -> str | None:
    """Return why a delegator gets no prompt that was too long for ``overflowed``; None if it may be long enough."""
    for other in overflowed:
        alike = (delegator.tool, delegator.model_server) == (other.tool, other.model_server)
        if delegator.model == other.model and (alike or delegator.model):
            return f"it has the same model as {other.name}, for which the prompt is too long"
    return None


class Turn(msgspec.Struct, frozen=True):
    """The candidate of the next attempt."""

    option: Option
    skipped: str = ""
    """Why those before it are not tried, as sentences."""


class Turns(msgspec.Struct):
    """The candidate of the next attempt, if there is one, and the notes about the others."""

    next: Turn | None = None
    warnings: list[str] = msgspec.field(default_factory=list)
    remarks: list[str] = msgspec.field(default_factory=list)


def next_turn(options: Sequence[Option]) -> Turns:
    """Return the first option that nothing is against.

    If all that remain are paused, it is the first one: a pause spares others the wait, and refuses no work.
    """
    warnings = [f"{option.name} is not tried: {option.refused}." for option in options if option.refused is not None]
    open_ones = [option for option in options if option.refused is None]
    if not open_ones:
        return Turns(None, warnings)
    last = open_ones[-1]
    if last.paused is None:
        reasons = [option.paused for option in open_ones[:-1] if option.paused is not None]
        return Turns(Turn(last, " ".join(reasons)), warnings, [f"{text} {last.name} takes over." for text in reasons])
    first = open_ones[0]
    text = f"{first.paused} It is tried all the same, because no other delegator can take over."
    return Turns(Turn(first), [*warnings, text])
