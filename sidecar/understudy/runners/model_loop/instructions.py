"""The system message of the tool loop."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.model.config.delegators import Recipe
from understudy.runners.model_loop import edit_blocks

_START = "You work in a copy of a repository. Your changes are checked and reviewed before anyone uses them."
_WITH_TOOLS = """\
Read, change and check files with the tools; paths are relative to the root of the repository. Look at what you need, \
change no more than the task asks for, and verify your work where you can. The number of turns is limited: make \
several calls in one turn where they do not depend on each other. Git is not needed: every change to a file counts. \
When you are done, answer without a call: say in a few sentences what you did and what you could not verify."""
_TESTS = """\
Tests must call the code under test and check what it returns; a test that cannot fail is worthless."""
_WITHOUT_TOOLS = "You have no tools: you see only the files in this message."
_WITHOUT_EDITS = "You may not edit or create files: answer in text."


def system_message(recipe: Recipe, *, tools: bool = True, edits: bool = True) -> str:
    """Return the system message for a recipe that changes files; without ``edits``, an agent file forbids changes."""
    parts = [_START, _WITH_TOOLS if tools else _WITHOUT_TOOLS]
    if not edits:
        parts.append(_WITHOUT_EDITS)
    elif not tools:
        parts.append(edit_blocks.FORMAT)
    return "\n\n".join([*parts, *([_TESTS] if recipe.judged_by == "new_tests" else [])])


def said_by_user(texts: Sequence[str]) -> str:
    """Return what the user said while the model worked, as the model gets it."""
    return "The user says:\n\n" + "\n\n".join(texts)


def nudge(*, edits: bool = True) -> str:
    """Return what a model is answered that has called no tool and changed nothing."""
    if not edits:
        return "Your answer is empty. Answer in text."
    return (
        "Nothing has changed yet. If the task needs no change, say so again. Otherwise call the tools. If you cannot "
        "call tools:\n\n" + edit_blocks.FORMAT
    )


def countdown(turn: int, limit: int) -> str:
    """Return what follows the results of a turn."""
    left = limit - turn
    if left == 0:
        return f"[That was turn {turn}, the last one.]"
    if left == 1:
        return f"[Turn {turn} of {limit} is over. ONE turn is left: answer now, without another call.]"
    urgent = " Finish what you began." if left <= 3 else ""
    return f"[Turn {turn} of {limit} is over; {left} turns are left.{urgent}]"
