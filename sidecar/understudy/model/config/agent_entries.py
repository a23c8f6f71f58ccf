"""Agents: instructions that a delegation can name, read from Markdown files with YAML front matter."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from understudy.model.config.config_entries import Problem
from understudy.model.config.delegators import Scope
from understudy.model.errors import Location
from understudy.model.wire import Wire

AGENT_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""Names of agents and skills; Claude Code's own use lowercase letters, digits and hyphens."""


class IgnoredField(Wire, kw_only=True):
    """A field of the front matter that has no effect."""

    name: str
    reason: str
    """Why, as a sentence."""


class AgentEntry(Wire, kw_only=True):
    """An agent that a delegation may name in `agent`."""

    name: str
    description: str = ""
    kind: Literal["agent", "skill"]
    """A file of a folder `agents`, or the `SKILL.md` of a folder in `skills`."""
    scope: Scope
    """Its tier: of the workspace, of the user, or built in. The nearer one wins."""
    location: Location
    """Where it is written."""
    model: str | None = None
    """The model that it asks for; one named at the start wins."""
    tools: list[str] | None = None
    """The only tools that it may use; absent: all."""
    disallowed_tools: list[str] | None = None
    """Tools that it may not use."""
    honoured: list[str]
    """Fields of its front matter that have an effect."""
    ignored: list[IgnoredField] = msgspec.field(default_factory=list)
    """Fields of its front matter that have none."""
    hides: list[Location] = msgspec.field(default_factory=list)
    """Files with the same name that it takes precedence over, the nearest first."""
    problems: list[Problem] = msgspec.field(default_factory=list)
    prompt: str = ""
    """Its instructions, in Markdown."""


LOOP_TOOLS = ("read_file", "list_files", "search_files", "edit_file", "write_file", "run_command")
"""All tools of the loop, in the order in which a model gets them; relay tools are not among them."""
_MEANT = {
    "bash": "run_command",
    "edit": "edit_file",
    "glob": "list_files",
    "grep": "search_files",
    "ls": "list_files",
    "multiedit": "edit_file",
    "read": "read_file",
    "write": "write_file",
    **{name: name for name in LOOP_TOOLS},
}
"""Claude Code's names (lowercase) and our own."""


class LoopTools(msgspec.Struct, frozen=True):
    """What an agent file leaves of the loop's tools."""

    names: list[str]
    unknown: list[str]
    """Names in the file that are not tools of the loop; they permit nothing and forbid nothing."""
    with_arguments: list[str]
    """Permitted names with arguments, such as ``Bash(git log:*)``: the loop cannot check these, and permits nothing."""


def loop_tools(tools: Sequence[str] | None, disallowed: Sequence[str] | None) -> LoopTools:
    """Return the loop's tools that remain of ``tools`` (None: all) without ``disallowed``.

    ``disallowed`` wins. An entry with arguments forbids its whole tool and permits nothing: no restriction is weakened.
    """
    named = [*(tools or ()), *(disallowed or ())]
    permitted = set(LOOP_TOOLS) if tools is None else {_meant(tool) for tool in tools if "(" not in tool}
    forbidden = set(LOOP_TOOLS) if "*" in (disallowed or ()) else {_meant(tool) for tool in disallowed or ()}
    if "*" in (tools or ()):
        permitted = set(LOOP_TOOLS)
    return LoopTools(
        names=[name for name in LOOP_TOOLS if name in permitted - forbidden],
        unknown=[tool for tool in dict.fromkeys(named) if _meant(tool) is None and tool != "*"],
        with_arguments=[tool for tool in dict.fromkeys(tools or ()) if "(" in tool and _meant(tool) is not None],
    )


def may_change(names: Collection[str]) -> bool:
    """Return whether these tools of the loop, or edits in an answer, may change files."""
    return "edit_file" in names or "write_file" in names


def _meant(name: str) -> str | None:
    return _MEANT.get(name.partition("(")[0].lower())
