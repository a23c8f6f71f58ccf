"""Test an agent with one real round trip: a few words, in an empty throwaway repository.

The agent's folder contains no file of a workspace, and the user is not asked: everything except an answer
is refused in the agent's own protocol. It costs as much as a short question.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
import time
from pathlib import Path

import msgspec

from understudy.engine.running import task
from understudy.git import command
from understudy.model.config.config_entries import ConnectionTestStep
from understudy.model.config.delegators import Delegator, Limits, ModelServer, Scope
from understudy.model.config.recipes import AppliesTo, Recipe
from understudy.model.errors import UnderstudyError
from understudy.model.events import Event
from understudy.runners import registry
from understudy.runners import runner as base
from understudy.secrets import keys

SECONDS = 90.0
"""A cold agent on a busy machine takes half a minute; for slower ones, the result suggests trying a small task."""
PROMPT = "Answer with the single word: ready. Use no tools and change nothing."
_SHOWN_CHARACTERS = 60


def round_trip(delegator: Delegator, server: ModelServer | None) -> ConnectionTestStep:
    """Ask ``delegator`` for one word and return the outcome as a step."""
    began = time.monotonic()
    try:
        runner = registry.runner_for(delegator, server)
        if "text" not in runner.capabilities.returns:
            return _step("It uses no model, so there is nothing to test.", began)
        with tempfile.TemporaryDirectory(prefix="understudy-trial-", ignore_cleanup_errors=True) as name:
            top = Path(name)
            tree = top / "tree"
            tree.mkdir()
            command.git_output("init", "--quiet", "--template=", git_dir=tree / ".git")
            prompt_file = top / "prompt.md"
            text = base.decorate(PROMPT, delegator.launch)
            prompt_file.write_text(text, encoding="utf-8")
            environment, known = task.resolve_environment(delegator.env or {})
            outcome = asyncio.run(
                runner.run(
                    base.Task(
                        delegation_id=f"trial-{secrets.token_hex(8)}",
                        recipe=Recipe(
                            name="trial",
                            title="Trial",
                            returns="text",
                            applies_to=AppliesTo(on=[]),
                            scope=Scope.BUILTIN,
                        ),
                        prompt=text,
                        prompt_file=prompt_file,
                        worktree=tree,
                        delegator=delegator,
                        model_server=server,
                        limits=_limits(delegator.limits),
                        environment=environment,
                        secrets=known,
                        key=lambda: (
                            None
                            if server is None or server.api_key is None
                            else keys.resolve(server.api_key, os.environ)
                        ),
                    ),
                    _ignore,
                )
            )
    except UnderstudyError as error:
        return _step(f"{error.message} {error.hint}" if error.hint else error.message, began, ok=False)
    said = " ".join((outcome.text or outcome.summary or "").split())
    if not said:
        return _step("The agent finished without an answer.", began, ok=False)
    shown = said if len(said) <= _SHOWN_CHARACTERS else said[: _SHOWN_CHARACTERS - 1] + "…"
    return _step(f"It replied in {time.monotonic() - began:.1f} s: “{shown}”", began)


def _limits(own: Limits | None) -> Limits:
    limits = own or Limits()
    seconds = min(limits.total_seconds or SECONDS, SECONDS)
    return msgspec.structs.replace(limits, total_seconds=seconds, first_event_seconds=seconds)


def _ignore(_event: Event) -> None:
    """Drop an event: only the outcome matters."""


def _step(message: str, began: float, *, ok: bool = True) -> ConnectionTestStep:
    return ConnectionTestStep(name="round_trip", ok=ok, message=message, seconds=round(time.monotonic() - began, 3))
