"""Requests that try things out: a delegator, a model server. They may take seconds, and say each step."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from understudy.api import configuration
from understudy.api import messages as m
from understudy.api.caller import Caller
from understudy.model.delegators import Delegator, DelegatorEntry, ModelServer, ProbeResult, ProbeStep, Scope
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.secrets import keys

_NO_ERRORS = "It is configured without errors."


def test_delegator(caller: Caller, params: m.DelegatorTestParams) -> ProbeResult:
    """Try a delegator: its tool's binary and version, its server, key and model, and a real round trip."""
    loaded = configuration.load(caller, params.workspace)
    if params.delegator is None:
        entry = configuration.find(loaded.delegators, params.name, ErrorKind.UNKNOWN_DELEGATOR, "delegator")
        delegator, steps = entry.delegator, [_configured(entry)]
    else:
        delegator, steps = params.delegator, [_would_be_accepted(caller, params, params.delegator)]
    if steps[0].ok and delegator.tool is not None:
        steps.extend(_tool_steps(caller, delegator))
    server: ModelServer | None = None
    if steps[-1].ok and delegator.model_server is not None:
        server = configuration.find(
            loaded.model_servers, delegator.model_server, ErrorKind.UNKNOWN_MODEL_SERVER, "model server"
        ).model_server
        steps.extend(_server_steps(server, delegator))
    if delegator.tool is not None and all(step.ok for step in steps):
        from understudy.api import trial  # noqa: PLC0415 - runs the agent, which most requests do not

        steps.append(trial.round_trip(caller, delegator, server))
    return ProbeResult(ok=all(step.ok for step in steps), steps=steps)


def probe_model_server(caller: Caller, params: m.NameParams) -> ProbeResult:
    """Reach a model server and try its key."""
    loaded = configuration.load(caller, params.workspace)
    entry = configuration.find(loaded.model_servers, params.name, ErrorKind.UNKNOWN_MODEL_SERVER, "model server")
    steps = _server_steps(entry.model_server, None)
    return ProbeResult(ok=all(step.ok for step in steps), steps=steps)


def models(caller: Caller, params: m.NameParams) -> m.ModelsResult:
    """Return the models that a server offers."""
    from understudy.runners.backends import probe  # noqa: PLC0415 - brings httpx

    loaded = configuration.load(caller, params.workspace)
    entry = configuration.find(loaded.model_servers, params.name, ErrorKind.UNKNOWN_MODEL_SERVER, "model server")
    server = entry.model_server
    return m.ModelsResult(models=asyncio.run(probe.list_models(server, key=lambda: _key_of(server))))


def _configured(entry: DelegatorEntry) -> ProbeStep:
    problems = [problem.message for problem in entry.state.problems if problem.severity == "error"]
    return ProbeStep(name="configuration", ok=not problems, message="; ".join(problems) or _NO_ERRORS, seconds=0.0)


def _would_be_accepted(caller: Caller, params: m.DelegatorTestParams, delegator: Delegator) -> ProbeStep:
    """Judge what is not saved as saving it would: before anything is started or asked for it."""
    try:
        configuration.editor(caller, params.workspace).judge(delegator, Scope(params.scope))
    except UnderstudyError as error:
        message = f"{error.message} {error.hint}" if error.hint else error.message
        return ProbeStep(name="configuration", ok=False, message=message, seconds=0.0)
    return ProbeStep(name="configuration", ok=True, message=_NO_ERRORS, seconds=0.0)


def _tool_steps(caller: Caller, delegator: Delegator) -> list[ProbeStep]:
    from understudy.process import failures  # noqa: PLC0415 - not for model servers
    from understudy.process.environment import base_environment  # noqa: PLC0415

    began = time.monotonic()
    if delegator.tool == "generic":
        program = (delegator.launch.command or [""])[0] if delegator.launch else ""
        try:
            path = failures.locate(program, Path("/"), base_environment())
            return [ProbeStep(name="binary", ok=True, message=path, seconds=time.monotonic() - began)]
        except UnderstudyError as error:
            return [ProbeStep(name="binary", ok=False, message=error.message, seconds=time.monotonic() - began)]
    from understudy.api import installation  # noqa: PLC0415

    tools = installation.tools(caller, m.ToolsParams(refresh=True)).tools
    tool = next((tool for tool in tools if tool.name == delegator.tool), None)
    seconds = time.monotonic() - began
    if tool is None or not tool.found:
        return [ProbeStep(name="binary", ok=False, message=f"{delegator.tool} was not found on PATH.", seconds=seconds)]
    return [
        ProbeStep(name="binary", ok=True, message=tool.path or "built in", seconds=seconds),
        ProbeStep(name="version", ok=tool.runnable, message=tool.version or "unknown", seconds=0.0),
    ]


def _server_steps(server: ModelServer, delegator: Delegator | None) -> list[ProbeStep]:
    from understudy.runners.backends import probe  # noqa: PLC0415 - brings httpx

    try:
        key = _key_of(server)
    except UnderstudyError as error:
        return [ProbeStep(name="key", ok=False, message=error.message, seconds=0.0)]
    found = probe.probe(
        server,
        model=(delegator.model or None) if delegator is not None else None,
        delegator=delegator,
        key=lambda: key,
        round_trip=delegator is not None,
    )
    return asyncio.run(found).steps


def _key_of(server: ModelServer) -> str | None:
    return None if server.api_key is None else keys.resolve(server.api_key, os.environ)
