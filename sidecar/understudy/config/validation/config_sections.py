"""The tables that ``config.toml`` has once, each declared once: its structure, who may set it, and its rules.

The structure of a section is what applies, with its defaults; ``Section.table`` derives from it what a file may
contain. Decoding, merging, JSON Schemas and the forms of editors follow from the declaration.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from understudy.config.configuration import (
    DEFAULT_LIMITS,
    Environment,
    Fallback,
    GeneralLimits,
    Mcp,
    PerDay,
    Retention,
    Worktrees,
)
from understudy.config.findings import Finding, close, near
from understudy.config.validation import delegator_rules
from understudy.model.config import delegators
from understudy.model.config.delegators import (
    PROGRAM_FILE_BYTES,
    PROGRAM_PROCESSES,
    DayBudget,
    InputLimits,
    Launch,
    Limits,
    ProgramLimits,
)
from understudy.model.delegation.spec import RelayBounds
from understudy.model.evidence.checks import Evidence

Values = dict[str, Any]
"""The fields that a file sets, with their values."""


class Who(enum.Enum):
    """What the file of a workspace may do with a field."""

    USER = enum.auto()
    """Nothing: it belongs in the user's own configuration."""
    LOWER = enum.auto()
    """Set it, but not above the value that the user or the default sets."""
    RAISE = enum.auto()
    """Set it, but not below the value that the user or the default sets."""
    ANYONE = enum.auto()
    """Set it."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The valid numbers of a field, and who may set it."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    hint: str | None = None
    who: Who | None = None
    """Absent: as for the section."""

    def problem(self, value: Any) -> str | None:
        """Return what a value must be, if it is not."""
        if self.above is not None and value <= self.above:
            return "must be above zero" if not self.above else f"must be above {self.above:g}"
        least = self.least if self.least is not None else value
        if least <= value <= (value if self.most is None else self.most):
            return None
        if self.most is not None:
            return f"must be from {least:g} to {self.most:g}"
        return f"must be at least {least:g}" if least else "must not be negative"


@dataclass(frozen=True)
class FileContext:
    """What the rules of a section need besides its values."""

    inside: Path | None
    """The workspace that the file belongs to."""
    permission_modes: Collection[str]
    """Those of all tools."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """One table of ``config.toml``."""

    structure: type[msgspec.Struct]
    """What applies, with its defaults."""
    who: Who = Who.ANYONE
    refusal: str = ""
    """For a section of the user: what a workspace cannot do."""
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    rules: Callable[[Values, FileContext], Iterator[Finding]] = lambda _values, _context: iter(())
    """Find further mistakes; may replace a value by what it means."""
    adds: Collection[str] = ()
    """Lists of a file that a frontend wrote to which the hand-written file beside it adds."""
    without: Collection[str] = ()
    """Fields of the structure that the section does not have."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Those of fields that are None in the structure."""
    applies: Callable[[], Values] = dict
    """What applies for fields that are None in the structure, where a workspace may only lower that, too."""
    doc: str = ""
    """Absent: the structure's."""

    @functools.cached_property
    def table(self) -> type[msgspec.Struct]:
        """What a file may contain: the same fields, None unless set."""
        fields = [(field.name, field.type | None, None) for field in self.fields]
        return msgspec.defstruct(self.structure.__name__, fields, kw_only=True, forbid_unknown_fields=True)

    @property
    def fields(self) -> list[Any]:
        """The fields of the structure that the section has."""
        return [field for field in msgspec.structs.fields(self.structure) if field.name not in self.without]

    def problems(self, values: Values, context: FileContext) -> Iterator[Finding]:
        """Find what is wrong in any file."""
        for name, bound in self.bounds.items():
            problem = bound.problem(values[name]) if name in values else None
            if problem is not None:
                yield Finding((name,), f"`{name}` {problem}.", bound.hint)
        yield from self.rules(values, context)

    def refused(self, name: str, value: Any, before: Any) -> Finding | None:
        """Return why the file of a workspace may not set a field whose value is ``before`` without it."""
        match self.bounds.get(name, Bound()).who or self.who:
            case Who.USER:
                message = f"`{name}` is allowed only in your own configuration."
                return Finding((name,), message, "Move it to your own config.toml.")
            case Who.LOWER if before is not None and float(value) > float(before):
                word, wish = "above", "less"
            case Who.RAISE if before is not None and float(value) < float(before):
                word, wish = "below", "more"
            case _:
                return None
        message = f"`{name}` is {word} {before}, which applies: a workspace may only ask for {wish}."
        return Finding((name,), message, severity="warning")


def _limits(values: Values, _context: FileContext) -> Iterator[Finding]:
    limits = {name: value for name, value in values.items() if name in Limits.__struct_fields__}
    yield from delegator_rules.check_limits(Limits(**limits))


def _launch(values: Values, context: FileContext) -> Iterator[Finding]:
    mode, modes = values.get("permission_mode"), context.permission_modes
    if values.get("yolo") and mode is not None:
        message = "`permission_mode` has no effect beside `yolo`."
        yield Finding(("permission_mode",), message, "Remove one of them.", code="no_effect")
    if mode is not None and mode not in modes:
        message = f"No tool has the permission mode `{mode}`."
        yield Finding(("permission_mode",), message, near(mode, modes), code="not_allowed", names=close(mode, modes))
    if "branch" in values and (reason := delegators.why_invalid_branch(values["branch"])) is not None:
        yield delegator_rules.branch_finding(("branch",), reason)


def _worktrees(values: Values, _context: FileContext) -> Iterator[Finding]:
    for name in ("copy", "link"):
        for number, path in enumerate(values.get(name, ())):
            if not delegator_rules.is_inside(path):
                message = f"`{name}` accepts only paths inside the workspace."
                yield Finding((name, number), message, "Use a relative path without `..` that is not in .git.")
    if any("\0" in argument for argument in values.get("setup", ())):
        yield Finding(("setup",), "An argument contains a NUL byte.")


def _environment(values: Values, context: FileContext) -> Iterator[Finding]:
    python = values.get("python")
    if python is not None and ("\0" in python or not python):
        yield Finding(("python",), "`python` is not a path.")
    elif python is not None and context.inside is not None:
        values["python"] = str(context.inside / python)
    elif python is not None and not Path(python).is_absolute():
        hint = "Only a workspace may use a relative path."
        yield Finding(("python",), "`python` must be an absolute path here.", hint)


def _programs() -> Values:
    from understudy.process.program_spec import limits_of

    usual = limits_of()
    return {
        "max_memory_bytes": usual.memory_bytes,
        "max_processes": usual.processes,
        "max_file_bytes": usual.file_bytes,
    }


_ABOVE_ZERO, _NOT_NEGATIVE, _AT_LEAST_ONE = Bound(above=0), Bound(least=0), Bound(least=1)
_SHARE = Bound(least=0, most=1, hint="Write 30 % as 0.3.", who=Who.RAISE)
_KEPT = Bound(least=0, who=Who.USER)


def _per_day(values: Values, _: FileContext) -> Iterator[Finding]:
    yield from delegator_rules.check_day(DayBudget(**values))


SECTIONS: dict[str, Section] = {
    "limits": Section(
        structure=GeneralLimits,
        who=Who.LOWER,
        bounds={"slots": _AT_LEAST_ONE},
        rules=_limits,
        defaults=msgspec.structs.asdict(DEFAULT_LIMITS),
    ),
    "launch": Section(
        structure=Launch,
        who=Who.USER,
        refusal="A workspace cannot say how your delegators are started.",
        rules=_launch,
        without={"flags", "command", "prompt_delivery", "output"},
        doc="`[launch]`: launch options of every delegator that does not set them, as far as its tool has them. `yolo` "
        "and `use_worktree` never apply to a workspace's own delegators.",
    ),
    "worktrees": Section(
        structure=Worktrees,
        bounds={"setup_timeout_seconds": _ABOVE_ZERO, "keep_days": _KEPT, "keep_bytes": _KEPT},
        rules=_worktrees,
        adds={"copy", "link"},
    ),
    "retention": Section(
        structure=Retention,
        who=Who.USER,
        refusal="A workspace cannot limit what a user keeps.",
        bounds=dict.fromkeys(Retention.__struct_fields__, _NOT_NEGATIVE),
    ),
    "fallback": Section(
        structure=Fallback,
        who=Who.USER,
        refusal="A workspace cannot say when your delegators take over from each other.",
        bounds={
            "failures": _AT_LEAST_ONE,
            "outage_pause_seconds": _ABOVE_ZERO,
            "pause_minutes": _ABOVE_ZERO,
            "longest_pause_minutes": _ABOVE_ZERO,
        },
    ),
    "per_day": Section(
        structure=PerDay,
        who=Who.USER,
        refusal="A workspace cannot say what your work may cost.",
        rules=_per_day,
    ),
    "relay": Section(
        structure=RelayBounds,
        who=Who.USER,
        refusal="A workspace cannot say how far agents delegate.",
        bounds={"max_depth": _NOT_NEGATIVE, "max_delegations": _NOT_NEGATIVE},
        rules=_limits,
    ),
    "evidence": Section(
        structure=Evidence,
        bounds={
            "max_mutants": Bound(least=1, most=1000),
            "seconds": _ABOVE_ZERO,
            "max_copies": Bound(least=1, most=64),
            "least_killed": _SHARE,
            "least_executed": _SHARE,
        },
    ),
    "input": Section(
        structure=InputLimits, who=Who.LOWER, bounds=dict.fromkeys(InputLimits.__struct_fields__, _AT_LEAST_ONE)
    ),
    "programs": Section(
        structure=ProgramLimits,
        who=Who.LOWER,
        bounds=dict.fromkeys(ProgramLimits.__struct_fields__, _AT_LEAST_ONE),
        defaults={"max_processes": PROGRAM_PROCESSES, "max_file_bytes": PROGRAM_FILE_BYTES},
        applies=_programs,
    ),
    "environment": Section(structure=Environment, rules=_environment),
    "mcp": Section(structure=Mcp, who=Who.USER, refusal="A workspace cannot allow agents to decide."),
}
"""All of them but ``[defaults]``, which names entries of other files."""
