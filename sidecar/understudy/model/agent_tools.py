"""The tools of our own model loop, by the names that the ``tools`` of an agent file use for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class LoopTools:
    """What an agent file leaves of the loop's tools."""

    names: list[str]
    unknown: list[str]
    """Names in the file that are not tools of the loop; they permit nothing and forbid nothing."""
    with_arguments: list[str]
    """Names with arguments, such as ``Bash(git log:*)``: the loop permits or forbids the whole tool."""


def loop_tools(tools: Sequence[str] | None, disallowed: Sequence[str] | None) -> LoopTools:
    """Return the loop's tools that remain of ``tools`` (None: all) without ``disallowed``.

    ``disallowed`` wins, and an entry with arguments forbids its whole tool: a prohibition is never weakened.
    """
    named = [*(tools or ()), *(disallowed or ())]
    permitted = set(LOOP_TOOLS) if tools is None else {_meant(one) for one in tools}
    forbidden = set(LOOP_TOOLS) if "*" in (disallowed or ()) else {_meant(one) for one in disallowed or ()}
    if "*" in (tools or ()):
        permitted = set(LOOP_TOOLS)
    return LoopTools(
        names=[name for name in LOOP_TOOLS if name in permitted - forbidden],
        unknown=[one for one in dict.fromkeys(named) if _meant(one) is None and one != "*"],
        with_arguments=[one for one in dict.fromkeys(named) if "(" in one and _meant(one) is not None],
    )


def may_change(names: Collection[str]) -> bool:
    """Return whether these tools of the loop, or edits in an answer, may change files."""
    return "edit_file" in names or "write_file" in names


def _meant(name: str) -> str | None:
    return _MEANT.get(name.partition("(")[0].lower())
