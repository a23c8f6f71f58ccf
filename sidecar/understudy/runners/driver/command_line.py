"""Build argument vectors from templates, and deliver the prompt. No shell is involved and no strings are joined."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from understudy.files import nofollow
from understudy.model.config.tool_definitions import OPTIONS_SLOT, SLOT, delivery_of
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.call_checks import expand_home
from understudy.runners.runner import Task

RUN_FOLDER = ".understudy-run"
"""A folder in the worktree with files for the program while an attempt runs. Ignored by git, removed at the end."""
MAX_ARGUMENT_BYTES = 100 * 1024
"""Linux allows 128 KiB for one argument (MAX_ARG_STRLEN)."""


Delivery = Literal["argument", "stdin", "file"]


@dataclass(frozen=True, kw_only=True)
class Command:
    """A program to start, with its input and environment."""

    argv: list[str]
    cwd: Path
    stdin: bytes | None = None
    """Written to standard input, which is then closed; None: closed at once."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the tool needs; the delegator's own variables override them."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Variables whose values are secret; they override all others and are never written to disk."""


def fill(template: list[str], values: Mapping[str, str | None], options: Sequence[str] | None = None) -> list[str]:
    """Return ``template`` with its slots filled, each inside its own argument, in one pass.

    ``options`` replace the argument ``{options}``, unchanged; without them it is an argument like any other.

    An argument whose slot has no value (no model, no session) is left out. If the slot is the whole argument, the
    option before it is left out too: ``["--resume", "{sessionId}"]``. Other braces are kept.
    """
    filled: list[str] = []
    first_optional = 1
    """The first argument of the template that may be left out: the program and the options never are."""
    for argument in template:
        if argument == OPTIONS_SLOT and options is not None:
            filled += options
            first_optional = len(filled)
            continue
        names = SLOT.findall(argument)
        if any(not values.get(name) for name in names):
            if SLOT.fullmatch(argument) and filled and filled[-1].startswith("-") and len(filled) > first_optional:
                filled.pop()
            continue
        filled.append(SLOT.sub(lambda match: values[match[1]] or "", argument))
    return filled


@contextmanager
def prepared(
    task: Task, template: list[str], delivery: Delivery | None, options: Sequence[str] | None = None
) -> Iterator[Command]:
    """Yield the command for ``task`` with its prompt and folder; files created for it are removed afterwards.

    ``options`` are those of ``fill``.

    Without ``delivery`` the template decides: ``{prompt}`` → argument, ``{promptFile}`` → file, neither → standard
    input. Raise ``config_invalid`` when template and delivery contradict each other or the prompt cannot be an
    argument.
    """
    # A user writes `~/agent.py` as in a terminal, but no shell replaces the `~`.
    template = [expand_home(argument) for argument in template]
    joined = "\n".join(template)
    chosen, wrong = delivery_of(template, delivery)
    if wrong is not None:
        raise _invalid(task, wrong)
    if chosen == "argument":
        if "{prompt}" not in joined:
            template = [*template, "{prompt}"]
        _check_argument(task, template)
    with _folder(task) as (cwd, tree), _prompt_file(task, tree, needed="{promptFile}" in joined) as prompt_file:
        values = {
            "model": task.delegator.model,
            "prompt": task.prompt,
            "promptFile": prompt_file,
            "worktree": str(cwd),
            "sessionId": task.session_id,
            "mcpConfig": None if task.mcp_config is None else str(task.mcp_config),
        }
        yield Command(
            argv=fill(template, values, options),
            cwd=cwd,
            stdin=task.prompt.encode("utf-8", "replace") if chosen == "stdin" else None,
        )


def _check_argument(task: Task, template: list[str]) -> None:
    if len(task.prompt.encode("utf-8", "replace")) > MAX_ARGUMENT_BYTES:
        raise _invalid(
            task, f"takes its prompt as an argument, and this prompt is longer than {MAX_ARGUMENT_BYTES} bytes"
        )
    if "\0" in task.prompt:
        raise _invalid(task, "takes its prompt as an argument, and this prompt contains a NUL byte")
    place = template.index("{prompt}") if "{prompt}" in template else None
    # After `--`, or as the value of an option, a prompt cannot be taken for an option.
    guarded = place is None or template[place - 1].startswith("-")
    if task.prompt.startswith("-") and not guarded:
        raise _invalid(task, "takes its prompt as a bare argument, and this prompt begins with `-`, like an option")


@contextmanager
def _folder(task: Task) -> Iterator[tuple[Path, Path | None]]:
    if task.worktree is not None:
        yield task.worktree, task.worktree
        return
    # A text recipe has no worktree: use an empty folder, so that nothing is read by accident.
    with tempfile.TemporaryDirectory(prefix="understudy-") as name:
        yield Path(name), None


@contextmanager
def _prompt_file(task: Task, tree: Path | None, *, needed: bool) -> Iterator[str | None]:
    if not needed:
        yield None
        return
    if tree is None:
        yield str(task.prompt_file)
        return
    name = f"{RUN_FOLDER}/prompt.md"
    nofollow.write_over(tree, f"{RUN_FOLDER}/.gitignore", b"*\n")
    nofollow.write_over(tree, name, task.prompt.encode("utf-8", "replace"))
    try:
        yield str(tree / name)
    finally:
        with suppress(OSError, UnderstudyError):
            nofollow.remove(tree, name)
            nofollow.remove(tree, f"{RUN_FOLDER}/.gitignore")
            (tree / RUN_FOLDER).rmdir()


def _invalid(task: Task, what: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.CONFIG_INVALID,
        f"Delegator {task.delegator.name!r} {what}.",
        hint='Set launch.promptDelivery to "stdin", or "file" with {promptFile}; or write ["--", "{prompt}"].',
    )
