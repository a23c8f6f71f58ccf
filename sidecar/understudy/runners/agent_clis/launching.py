"""Run an agent CLI: find its program and its worktree, and refuse options that contradict each other."""

from __future__ import annotations

import abc
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from understudy.config.discovery import installed_tools
from understudy.files import nofollow
from understudy.model.capabilities import Capabilities
from understudy.model.config.delegators import Launch
from understudy.model.delegation.events import Event, File, Note, Session, ToolCall
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.call_checks import base_environment
from understudy.runners.driver import driver
from understudy.runners.driver.child_source import JsonLinesSource
from understudy.runners.runner import Emit, Outcome, Task

_MOST_SETTINGS_BYTES = 1 << 20


class AgentRunner(abc.ABC):
    """Runs an agent CLI in the worktree of a delegation."""

    capabilities: Capabilities

    @abc.abstractmethod
    def prepared(self, task: Task, program: Path, tree: Path, scratch: Path) -> JsonLinesSource:
        """Return the source for one run of ``program``; raise ``config_invalid`` for what cannot apply.

        ``scratch`` is a folder for temporary files, which is removed at the end.
        """

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Run the task to its end.

        Kinds besides those of ``driver``: ``tool_missing`` (not installed, or too old), those of ``prepared``, and
        those of ``failure_of`` in the tool's stream.
        """
        tree, program = worktree_of(task, self.capabilities), find_program(task, self.capabilities)
        prefix = f"understudy-{self.capabilities.name}-"
        with (
            tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as scratch,
            own_settings_restored(task, self.capabilities, tree, emit) as watched,
        ):
            return await driver.drive(task, watched, self.prepared(task, program, tree, Path(scratch)))


@contextmanager
def own_settings_restored(task: Task, tool: Capabilities, tree: Path, emit: Emit) -> Iterator[Emit]:
    """Restore settings in the worktree that ``tool`` rewrote itself when it started: they are not a result.

    Only files that are declared as ``rewritten`` and existed before are restored, and only if they are at the end what
    they were when its session began, before the model was asked. Without such a report nothing is restored, nor what
    the prompt or a tool call names: then it may be the result. Yields what passes on the events.
    """
    before = _rewritten_settings(tool, tree)
    rewritten: dict[str, bytes] | None = None

    def watched(event: Event) -> None:
        nonlocal rewritten
        if rewritten is None and isinstance(event, Session):
            rewritten = _not_named(_rewritten_settings(tool, tree), task.prompt)
        elif isinstance(event, ToolCall | File):  # it may have run before its event comes
            rewritten = _not_named(rewritten or {}, str(event))
        emit(event)

    try:
        yield watched
    finally:
        after = _rewritten_settings(tool, tree) if rewritten else {}
        for path, content in before.items():
            if path not in after or after[path] == content or after[path] != (rewritten or {}).get(path):
                continue
            with suppress(UnderstudyError, OSError):  # then it stays a part of the result
                nofollow.write_over(tree, path, content)
                emit(Note(level="info", text=f"{tool.title} itself wrote {path} when it started. It is restored."))


def _rewritten_settings(tool: Capabilities, tree: Path) -> dict[str, bytes]:
    """Return the existing settings in a worktree that ``tool`` rewrites when it starts."""
    contents: dict[str, bytes] = {}
    for place in tool.repository_paths:
        if place.rewritten:
            with suppress(UnderstudyError, OSError):  # a link or another file that it cannot have written
                content = nofollow.read(tree, place.path, _MOST_SETTINGS_BYTES)
                if content is not None:
                    contents[place.path] = content
    return contents


def _not_named(contents: Mapping[str, bytes], text: str) -> dict[str, bytes]:
    return {path: content for path, content in contents.items() if PurePosixPath(path).name not in text}


def find_program(task: Task, tool: Capabilities) -> Path:
    """Return the installed program of ``tool``, never one inside the worktree; raise ``tool_missing`` without one."""
    path = {**base_environment(), **task.environment}.get("PATH", "")
    avoid = [task.worktree] if task.worktree is not None else []
    folders = installed_tools.search_path(path, avoid=avoid)
    searches = (installed_tools.find(binary, folders, avoid=avoid) for binary in tool.binaries)
    program = next((program for program in searches if program is not None), None)
    if program is None:
        raise UnderstudyError(
            ErrorKind.TOOL_MISSING,
            f"{tool.title} (`{tool.binaries[0]}`) was not found on PATH.",
            hint=f"{tool.install_hint}, then run `understudy tools`.",
        )
    return program


def worktree_of(task: Task, tool: Capabilities) -> Path:
    """Return the worktree for ``tool``; raise ``isolation_unavailable`` for a delegation without one."""
    if task.worktree is None:
        raise UnderstudyError(
            ErrorKind.ISOLATION_UNAVAILABLE,
            f"{tool.title} needs an isolated worktree, and this delegation has none.",
            hint="Start it in a git repository or in a folder that can be copied.",
        )
    return task.worktree


def refuse_flags(task: Task, ours: frozenset[str], fields: Mapping[str, str]) -> None:
    """Raise ``config_invalid`` for flags that the runner sets (``ours``), or that have a field of their own."""
    launch = task.delegator.launch or Launch()
    for flag in launch.flags or ():
        for name in _spellings(flag):
            if name in fields:
                raise invalid(task, f"has the flag {name} in `launch.flags`", f"Set `{fields[name]}` instead.")
            if name in ours:
                why = "which Understudy sets itself"
                raise invalid(task, f"has the flag {name} in `launch.flags`, {why}", "Remove it.")


def _spellings(flag: str) -> Iterator[str]:
    """Yield the names that a program may read in a flag: ``--skipTrust``, ``--no-sandbox`` and ``-dy`` are others."""
    name = flag.split("=", maxsplit=1)[0]
    yield name
    if name.startswith("--"):
        plain = re.sub("(?<=[a-z0-9])[A-Z]", lambda match: "-" + match[0].lower(), name)
        yield plain
        yield "--" + plain.removeprefix("--").removeprefix("no-")
    elif name.startswith("-"):
        yield from (f"-{letter}" for letter in name[1:])


def permission_mode(task: Task, *, tree: str, text: str, everything: str) -> str:
    """Return the permission mode; raise ``config_invalid`` for one that contradicts ``launch.yolo``.

    ``tree`` and ``text`` are the modes for recipes that return a changed worktree, or only a text; ``everything`` is
    the one that ``launch.yolo`` stands for.
    """
    launch = task.delegator.launch or Launch()
    asked = launch.permission_mode
    if launch.yolo and asked not in {None, everything}:
        raise invalid(task, f"sets `launch.yolo` and asks for the mode {asked!r}", "Remove one of them.")
    if launch.yolo:
        return everything
    return asked or (text if task.recipe.returns == "text" else tree)


def without_version(url: str) -> str:
    """Return the address of a server of Anthropic's protocol for an agent that adds ``/v1/messages`` itself."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}"


def invalid(task: Task, what: str, hint: str) -> UnderstudyError:
    """Return the error for a delegator that has or does ``what``."""
    return UnderstudyError(ErrorKind.CONFIG_INVALID, f"Delegator {task.delegator.name!r} {what}.", hint=hint)
