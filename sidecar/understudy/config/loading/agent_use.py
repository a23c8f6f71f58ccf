"""What an agent or a skill changes: the instructions of a recipe, the model and the tools of a delegator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from understudy.config.validation import start_options
from understudy.config.validation.delegator_rules import Surroundings
from understudy.model.config.config_entries import AgentEntry, loop_tools, may_change
from understudy.model.config.delegators import Delegator, Launch, Recipe, Scope
from understudy.model.delegation.delegations import LaunchOverride
from understudy.model.text import path_quoting

_IMPLEMENT = "implement"
"""The recipe of callers that name only an agent, whose instructions say what kind of work it does."""
_READS = """\
Do what is asked for below, as your instructions say. You may read everything here, and change nothing: your last
message is the result. Write it in full, and name files and lines for what you say."""
_MAY_CHANGE = """\
Do what is asked for below, as your instructions say. If that is a review, an answer or a plan, change nothing: your
last message is the result. Write it in full, and name files and lines for what you say. Otherwise:"""
_CLAUDE = "claude"
_CLAUDE_ALIASES = frozenset({"best", "default", "haiku", "opus", "opus[1m]", "opusplan", "sonnet", "sonnet[1m]"})


@dataclass(frozen=True)
class AgentUse:
    """A delegator as an agent changes it."""

    delegator: Delegator
    described: str
    """What applies and what does not, for the reason of the choice."""
    tools: list[str] | None = None
    """The only tools of our own loop; None: all."""


def instructed(recipe: Recipe, agent: AgentEntry, workspace: Path) -> Recipe:
    """Return ``recipe`` with the agent's instructions after its own; an agent may also only review or answer."""
    text = f"# Instructions of the {agent.kind} `{agent.name}`\n\n{agent.prompt}"
    folder = _file(agent).parent
    if agent.kind == "skill" and agent.scope is Scope.WORKSPACE and folder.is_relative_to(workspace):
        text += f"\n\nFiles that these instructions name are in `{folder.relative_to(workspace).as_posix()}/`."
    prompt = recipe.prompt.strip()
    if recipe.name == _IMPLEMENT and not may_change(loop_tools(agent.tools, agent.disallowed_tools).names):
        prompt = _READS
    elif recipe.name == _IMPLEMENT:
        prompt = f"{_MAY_CHANGE}\n\n{prompt}"
    return msgspec.structs.replace(recipe, prompt=f"{prompt}\n\n{text}")


def apply_agent(
    agent: AgentEntry, delegator: Delegator, around: Surroundings, override: LaunchOverride | None, workspace: Path
) -> AgentUse:
    """Return ``delegator`` with the model and the tools of ``agent`` where it can have them, and say where not.

    A model that the request names wins; the agent's own one replaces that of the delegator.
    """
    remarks: list[str] = []
    tools: list[str] | None = None
    if agent.model is not None:
        explicit = override is not None and override.model is not None
        refused = None if explicit else _why_not_model(agent.model, delegator, around)
        if explicit:
            remarks.append(f"not its model {agent.model}, because the request names one")
        elif refused is not None:
            remarks.append(f"not its model {agent.model}, because {refused}")
        else:
            delegator = msgspec.structs.replace(delegator, model=agent.model)
            remarks.append(f"model {agent.model}")
    if agent.tools is not None or agent.disallowed_tools is not None:
        if delegator.tool is None and delegator.model_server is not None:
            tools, remark = _of_our_loop(agent)
        else:
            delegator, remark = _restricted(agent, delegator)
        remarks.append(remark)
    file = _file(agent)
    place = file.relative_to(workspace) if file.is_relative_to(workspace) else file
    where = "built in" if agent.scope is Scope.BUILTIN else str(place)
    return AgentUse(delegator, f"; {agent.kind} {agent.name} ({', '.join([where, *remarks])})", tools)


def _file(agent: AgentEntry) -> Path:
    return path_quoting.path_of(agent.location.uri) or Path()


def _why_not_model(model: str, delegator: Delegator, around: Surroundings) -> str | None:
    if not start_options.takes_model(delegator, around):
        return f"{delegator.name} takes none"
    is_claude = delegator.tool == _CLAUDE and delegator.model_server is None
    if not is_claude and (model in _CLAUDE_ALIASES or (delegator.tool == _CLAUDE and model.startswith("claude-"))):
        return f"it is one of Claude Code's, and {delegator.name} does not use those"
    return None


def _of_our_loop(agent: AgentEntry) -> tuple[list[str], str]:
    """Return the tools of our own loop that the agent leaves, and what is said about them."""
    left = loop_tools(agent.tools, agent.disallowed_tools)
    remarks = [f"only the tools {', '.join(left.names) or '(none)'}"]
    if left.unknown:
        remarks.append(
            f"{', '.join(left.unknown)} is not a tool here"
            if len(left.unknown) == 1
            else f"{', '.join(left.unknown)} are not tools here"
        )
    if left.with_arguments:
        remarks.append(f"{', '.join(left.with_arguments)} permits nothing, because arguments cannot be checked")
    return left.names, ", ".join(remarks)


def _restricted(agent: AgentEntry, delegator: Delegator) -> tuple[Delegator, str]:
    """Return the delegator with the restriction to the agent's tools, and what is said about it."""
    if delegator.tool != _CLAUDE or delegator.mode not in {None, "headless"}:
        whom = "only Claude Code without a terminal and models without an agent"
        return delegator, f"its `tools` do not restrict {delegator.name}, {whom}"
    flags, remarks = [], []
    for flag, what, names in (
        ("--tools", "only the tools", agent.tools),
        ("--disallowedTools", "without the tools", agent.disallowed_tools),
    ):
        if names is None:
            continue
        plain = list(dict.fromkeys(name.partition("(")[0] for name in names)) if flag == "--tools" else names
        flags.append(f"{flag}={','.join(plain)}")
        remarks.append(f"{what} {', '.join(plain) or '(none)'}")
        widened = [name for name in names if flag == "--tools" and "(" in name]
        if widened:
            remarks.append(f"the arguments in {', '.join(widened)} restrict nothing")
    launch = delegator.launch or Launch()
    launch = msgspec.structs.replace(launch, flags=[*(launch.flags or []), *flags])
    return msgspec.structs.replace(delegator, launch=launch), ", ".join(remarks)
