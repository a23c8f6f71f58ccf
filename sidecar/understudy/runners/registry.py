"""Which runner drives a delegator, and what it honours. Cheap to import: no runner is loaded before it is needed.

A new agent CLI is one small file in ``clis/`` with a class ``Runner``, and one line in ``_RUNNERS`` and ``ABILITIES``.
"""

from __future__ import annotations

import difflib
import importlib
from typing import cast

import msgspec

from understudy.model.delegators import Delegator, Honoured, Launch, Recipe
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import camel
from understudy.runners.base import Abilities, Runner, delivery_of

BACKEND = "openai"
"""The name in ``ABILITIES`` of what runs a delegator without a tool."""

_BUDGETS = frozenset({"max_turns", "max_output_tokens", "max_tokens", "max_usd"})
_TIMES = Abilities().limits
_PROMPT = frozenset({"prompt_prefix", "prompt_suffix"})

ABILITIES: dict[str, Abilities] = {
    "generic": Abilities(launch=_PROMPT | {"command", "output", "prompt_delivery"}, limits=_TIMES | _BUDGETS),
    "claude": Abilities(
        launch=_PROMPT | {"permission_mode", "yolo", "flags"},
        limits=_TIMES | _BUDGETS,
        takes_model_server=True,
        protocols=frozenset({"anthropic"}),
    ),
    "ghostwriter": Abilities(returns=frozenset({"tree"}), recipes=frozenset({"tests"})),
    BACKEND: Abilities(
        launch=_PROMPT,
        limits=(_TIMES | _BUDGETS) - {"max_turns"},
        tree_recipes=frozenset({"tests"}),
        needs_model_server=True,
        takes_model_server=True,
        properties=True,
    ),
}
"""Tool (or ``openai``, for no tool) → what has an effect there."""

_RUNNERS: dict[str, str] = {
    "claude": "understudy.runners.clis.claude",
    "generic": "understudy.runners.clis.generic",
    "ghostwriter": "understudy.runners.clis.ghostwriter",
    BACKEND: "understudy.runners.backends.openai",
}

_NO_EFFECT: dict[str, tuple[object, ...]] = {
    "mode": ("headless",),
    "sandbox": ("off",),
    "yolo": (False,),
    "docker": (False,),
    "relay": (False,),
}
"""Values that ask for nothing beyond what every runner does anyway."""


def runner_for(delegator: Delegator) -> Runner:
    """Return the runner of ``delegator``; ``unknown_tool`` or ``config_invalid`` when there is none that honours it."""
    check(delegator)
    module = importlib.import_module(_RUNNERS[delegator.tool or BACKEND])
    return cast("Runner", module.Runner())


def abilities_of(delegator: Delegator) -> Abilities:
    """Return what can be configured for ``delegator``; ``unknown_tool`` with near names when nothing can."""
    name = delegator.tool or BACKEND
    if delegator.tool == BACKEND or name not in ABILITIES:
        known = sorted(set(ABILITIES) - {BACKEND})
        raise UnderstudyError(
            ErrorKind.UNKNOWN_TOOL,
            f"Delegator {delegator.name!r} names the tool {name!r}, which Understudy cannot drive.",
            hint=f"Use one of: {', '.join(known)}; or leave `tool` out and name a model server.",
            names=difflib.get_close_matches(name, known) or known,
        )
    return ABILITIES[name]


def honoured(able: Abilities) -> Honoured:
    """Return what can be set and has an effect, as faces name it."""
    return Honoured(
        launch=sorted(map(camel, able.launch)), limits=sorted(map(camel, able.limits)), properties=able.properties
    )


def check(delegator: Delegator, recipe: Recipe | None = None) -> None:
    """Raise for the first thing that ``delegator`` (or ``recipe`` on it) asks for and that would have no effect.

    Kinds: ``remote_only_delegator``, ``unknown_tool``, ``config_invalid``.
    """
    if delegator.remote_agent is not None and delegator.tool is None and delegator.model_server is None:
        raise UnderstudyError(
            ErrorKind.REMOTE_ONLY_DELEGATOR,
            f"Delegator {delegator.name!r} is an agent on {delegator.remote_agent.platform} and cannot run here.",
            hint="Choose a delegator with a tool or a model server.",
        )
    able = abilities_of(delegator)
    what = f"the tool {delegator.tool!r}" if delegator.tool else "a model server"
    refuse = _Refusal(delegator.name)
    if able.needs_model_server and delegator.model_server is None:
        raise refuse("names neither a tool nor a model server", "Set `tool` or `modelServer`.")
    if delegator.model_server is not None and not able.takes_model_server:
        raise refuse(f"names a model server, which {what} does not use", "Remove `modelServer`.")
    if able.needs_model_server and not delegator.model:
        raise refuse("names no model", "Set `model` to the id that the model server lists.")
    if delegator.model_properties and not able.properties:
        raise refuse(f"sets `modelProperties`, which {what} does not take", "Remove `modelProperties`.")
    if delegator.agent is not None:
        raise refuse(f"sets `agent`, which {what} does not take", "Remove `agent`.")
    if able.needs_model_server and delegator.env:
        raise refuse("sets `env`, but no process is started for a model server", "Remove `env`.")
    _check_launch(delegator.launch, able, what, refuse)
    for name, value in msgspec.structs.asdict(delegator.limits).items() if delegator.limits else ():
        if value is not None and name not in able.limits:
            raise refuse(f"sets the limit `{camel(name)}`, which has no effect on {what}", f"Remove `{camel(name)}`.")
        speaks = delegator.launch is not None and delegator.launch.output == "events"
        if value is not None and name in _BUDGETS and "output" in able.launch and not speaks:
            hint = 'Set launch.output to "events" if the program can speak that format, or remove the limit.'
            raise refuse(f"sets the limit `{camel(name)}`, but plain text does not say what was used", hint)
    if recipe is not None and not _can(able, recipe):
        raise refuse(f"cannot do the recipe {recipe.name!r}: {what} does not offer it", "Choose another delegator.")


class _Refusal:
    """Makes the errors that name a delegator."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, what: str, hint: str) -> UnderstudyError:
        return UnderstudyError(ErrorKind.CONFIG_INVALID, f"Delegator {self.name!r} {what}.", hint=hint)


def _check_launch(launch: Launch | None, able: Abilities, what: str, refuse: _Refusal) -> None:
    for name, value in msgspec.structs.asdict(launch).items() if launch else ():
        if value is None or name in able.launch or value in _NO_EFFECT.get(name, ()):
            continue
        raise refuse(f"sets `launch.{camel(name)}` to {value!r}, which {what} does not honour", "Remove that field.")
    if "command" in able.launch and (launch is None or not launch.command or not launch.command[0]):
        raise refuse("has no `launch.command`", "Set it to the argument vector of the program to run.")
    if "command" in able.launch and launch is not None:
        _, wrong = delivery_of(launch.command or [], launch.prompt_delivery)
        if wrong is not None:
            raise refuse(
                wrong, "Use the slot {prompt} for an argument, {promptFile} for a file, neither for standard input."
            )
    if "output" in able.launch and launch is not None and launch.output not in {"text", "events", None}:
        raise refuse("has an unknown `launch.output`", "Use `text` or `events`.")


def _can(able: Abilities, recipe: Recipe) -> bool:
    if able.recipes is not None:
        return recipe.name in able.recipes
    if recipe.returns == "tree" and able.tree_recipes is not None:
        return recipe.name in able.tree_recipes
    return recipe.returns in able.returns
