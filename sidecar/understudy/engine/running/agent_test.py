"""One real round trip with an agent: a few words, in an empty repository that is thrown away.

Nothing of any workspace is in reach of it by its folder, and nobody is asked: what the agent wants to do besides
answering is refused in its own protocol. It costs what a short question to that agent costs.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
import time
from pathlib import Path

import msgspec

from understudy.api.caller import Caller
from understudy.git import call
from understudy.model.delegators import Delegator, Fits, Limits, ModelServer, ProbeStep, Recipe, Scope
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.events import Event
from understudy.runners import base, registry
from understudy.secrets import keys

SECONDS = 90.0
"""A cold agent on a busy machine takes half a minute; who takes longer is told to try it with real work."""
PROMPT = "Answer with the single word: ready. Use no tools and change nothing."
_LOOKS = 0.2
"""Seconds between looks at whether the asker has gone."""
_SHOWN_CHARACTERS = 60


def round_trip(caller: Caller, delegator: Delegator, server: ModelServer | None) -> ProbeStep:
    """Ask ``delegator`` for one word and tell how that went."""
    began = time.monotonic()
    try:
        runner = registry.runner_for(delegator)
        if "text" not in runner.abilities.returns:
            return _step("It asks no model, so there is nothing to wait for.", began)
        with tempfile.TemporaryDirectory(prefix="understudy-trial-", ignore_cleanup_errors=True) as name:
            top = Path(name)
            tree = top / "tree"
            tree.mkdir()
            call.git("init", "--quiet", "--template=", git_dir=tree / ".git")
            prompt_file = top / "prompt.md"
            text = base.decorate(PROMPT, delegator.launch)
            prompt_file.write_text(text, encoding="utf-8")
            outcome = asyncio.run(
                _run(
                    caller,
                    runner,
                    base.Task(
                        delegation_id=f"trial-{secrets.token_hex(8)}",
                        recipe=Recipe(
                            name="trial", title="Trial", returns="text", fits=Fits(on=[]), scope=Scope.BUILTIN
                        ),
                        prompt=text,
                        prompt_file=prompt_file,
                        worktree=tree,
                        delegator=delegator,
                        model_server=server,
                        limits=_limits(delegator.limits),
                        key=lambda: (
                            None
                            if server is None or server.api_key is None
                            else keys.resolve(server.api_key, os.environ)
                        ),
                    ),
                )
            )
    except UnderstudyError as error:
        return _step(f"{error.message} {error.hint}" if error.hint else error.message, began, ok=False)
    said = " ".join((outcome.text or outcome.summary or "").split())
    if not said:
        return _step("It ended well and answered nothing.", began, ok=False)
    shown = said if len(said) <= _SHOWN_CHARACTERS else said[: _SHOWN_CHARACTERS - 1] + "…"
    return _step(f"It answered in {time.monotonic() - began:.1f} s: “{shown}”", began)


async def _run(caller: Caller, runner: base.Runner, task: base.Task) -> base.Outcome:
    """Run until it is done, or nobody waits for it any more."""
    work = asyncio.ensure_future(runner.run(task, _ignore))
    try:
        while not work.done():
            await asyncio.wait([work], timeout=_LOOKS)
            if not work.done() and caller.cancelled():
                raise UnderstudyError(ErrorKind.CANCELLED, "The trial was cancelled.")
    finally:
        if not work.done():
            work.cancel()
            await asyncio.wait([work])
    return work.result()


def _limits(own: Limits | None) -> Limits:
    limits = own or Limits()
    seconds = min(limits.total_seconds or SECONDS, SECONDS)
    return msgspec.structs.replace(limits, total_seconds=seconds, first_event_seconds=seconds)


def _ignore(_event: Event) -> None:
    """Drop an event: only the end of it counts."""


def _step(message: str, began: float, *, ok: bool = True) -> ProbeStep:
    return ProbeStep(name="round_trip", ok=ok, message=message, seconds=round(time.monotonic() - began, 3))
