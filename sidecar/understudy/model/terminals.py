"""Agents in a terminal: where their pane is, how a tool runs there, and how it reports its end."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from understudy.model.wire import Wire

TASK_FILE = ".understudy-run/task.md"
"""The file in the worktree with the complete prompt, so that this is in no command line."""
DONE_FILE = ".understudy-run/done.md"
"""The file in the worktree that ends an attempt."""

START_PROMPT = f"Read the file {TASK_FILE} in the current folder to its end, and do what it says."
"""What the agent is started with, instead of the prompt."""

DONE_NOTE = f"""
# When you have finished

Someone waits for your report. When everything is done, and only then, write it as text, in a few lines: what you
changed, what you checked, and what is left to do. If you were asked for a text, the report is that text, complete.
Write it to `{DONE_FILE}.tmp` first, then rename that file to `{DONE_FILE}`:

    mv {DONE_FILE}.tmp {DONE_FILE}

Your session ends as soon as `{DONE_FILE}` exists.
"""
"""What follows every prompt in a terminal."""


class Pane(Wire, kw_only=True):
    """A pane of a tmux server."""

    socket: str
    """Absolute path of the socket of its tmux server."""
    id: str
    """Its id on this server, such as `%3`."""


class Interactive(msgspec.Struct, frozen=True, kw_only=True):
    """How a tool is started in a terminal, for a user who can watch it and answer its questions."""

    command: tuple[str, ...]
    """Program and arguments, with the placeholders of commands. ``{options}`` are the arguments for the fields below
    that a delegator sets, and ``{prompt}`` is ``START_PROMPT``."""
    model: tuple[str, ...] = ()
    """Arguments that choose the model, with ``{model}``; empty: it cannot be chosen."""
    yolo: tuple[str, ...] = ()
    """Arguments that let it do everything without asking; empty: there are none."""
    permission_modes: Mapping[str, tuple[str, ...]] = {}
    """Values of ``launch.permissionMode`` → their arguments. In each it must be able to write ``DONE_FILE``."""
    relay: tuple[str, ...] = ()
    """Arguments that give it relay tools, with ``{mcpConfig}``; empty: it gets none."""
    default_mode: str | None = None
    """The one of them that applies unless the delegator sets one."""
    reserved_flags: frozenset[str] = frozenset()
    """Flags that ``launch.flags`` must not have: they would end this mode, or let the repository configure the tool."""
    prepare: str | None = None
    """A function, as ``module:function``, which raises for a task that it must not be started with, and returns
    variables that it gets in a terminal, besides those of every mode."""

    @property
    def takes_options(self) -> bool:
        """Whether arguments for options have a place in its command."""
        return "{options}" in self.command

    @property
    def takes_model(self) -> bool:
        """Whether the model can be chosen."""
        return bool(self.model and self.takes_options) or any("{model}" in word for word in self.command)
