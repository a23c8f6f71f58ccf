"""Requests that test a delegator or a model server; they may take seconds and return each step."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

from understudy.api import messages
from understudy.api.caller import Caller
from understudy.api.handlers import configuration
from understudy.config.discovery import declarations
from understudy.engine.running import connection_test
from understudy.engine.running.connection_test import ConnectionTestAnswer, ConnectionTestRequest
from understudy.model.config.config_entries import ConnectionTest, ConnectionTestStep, DelegatorEntry
from understudy.model.config.delegators import Delegator, ModelServer, Scope
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process import call_checks

_NO_ERRORS = "It is configured without errors."


def test_delegator(caller: Caller, params: messages.DelegatorTestParams) -> ConnectionTest:
    """Test a delegator, saved or not: its tool or its server, key and model, and a short round trip."""
    loaded = configuration.load(caller, params.workspace)
    if params.delegator is None:
        entry = configuration.find(loaded.delegators, params.name, ErrorKind.UNKNOWN_DELEGATOR)
        delegator, steps = entry.delegator, [_configured(entry)]
    else:
        delegator, steps = params.delegator, [_would_be_accepted(caller, params, params.delegator)]
    if delegator.remote_agent is not None:
        raise declarations.remote_only(delegator.name, delegator.remote_agent)
    if delegator.route is not None:
        raise declarations.is_route(delegator.name)
    defined = loaded.definition_of(delegator)
    if steps[0].ok and delegator.tool is not None:
        steps.extend(_tool_steps(caller, delegator, defined, params.workspace))
    server: ModelServer | None = None
    if steps[-1].ok and delegator.model_server is not None:
        server = configuration.find(
            loaded.model_servers, delegator.model_server, ErrorKind.UNKNOWN_MODEL_SERVER
        ).model_server
        steps.extend(_ask(caller, "server", delegator, server).steps)
    if delegator.mode == "tmux" and all(step.ok for step in steps):
        steps.append(_tmux_step())  # a test cannot answer what the agent asks in its terminal
    elif delegator.tool is not None and all(step.ok for step in steps):
        steps.extend(_ask(caller, "round_trip", delegator, server, defined).steps)
    return ConnectionTest(ok=all(step.ok for step in steps), steps=steps)


def test_model_server(caller: Caller, params: messages.NameParams) -> ConnectionTest:
    """Test a model server: reach it and use its key."""
    loaded = configuration.load(caller, params.workspace)
    entry = configuration.find(loaded.model_servers, params.name, ErrorKind.UNKNOWN_MODEL_SERVER)
    steps = _ask(caller, "server", None, entry.model_server).steps
    return ConnectionTest(ok=all(step.ok for step in steps), steps=steps)


def models(caller: Caller, params: messages.NameParams) -> messages.ModelsResult:
    """List the models of a server."""
    loaded = configuration.load(caller, params.workspace)
    entry = configuration.find(loaded.model_servers, params.name, ErrorKind.UNKNOWN_MODEL_SERVER)
    return messages.ModelsResult(models=_ask(caller, "models", None, entry.model_server).models)


def _configured(entry: DelegatorEntry) -> ConnectionTestStep:
    problems = [problem.message for problem in entry.state.problems if problem.severity == "error"]
    return ConnectionTestStep(
        name="configuration", ok=not problems, message="; ".join(problems) or _NO_ERRORS, seconds=0.0
    )


def _would_be_accepted(
    caller: Caller, params: messages.DelegatorTestParams, delegator: Delegator
) -> ConnectionTestStep:
    """Validate an unsaved delegator like a save would, before anything is started for it."""
    try:
        configuration.editor(caller, params.workspace).judge(delegator, Scope(params.scope))
    except UnderstudyError as error:
        message = f"{error.message} {error.hint}" if error.hint else error.message
        return ConnectionTestStep(name="configuration", ok=False, message=message, seconds=0.0)
    return ConnectionTestStep(name="configuration", ok=True, message=_NO_ERRORS, seconds=0.0)


def _tool_steps(
    caller: Caller, delegator: Delegator, defined: ToolDefinition | None, workspace: str | None
) -> list[ConnectionTestStep]:
    began = time.monotonic()
    if defined is not None and not defined.capabilities().binaries:
        message = f"{defined.program} is a path in the worktree, which does not exist yet."
        return [ConnectionTestStep(name="binary", ok=True, message=message, seconds=0.0)]
    if delegator.tool == "generic" or delegator.mode == "acp" or (defined is not None and not defined.version):
        command = (delegator.launch.command if delegator.launch is not None else None) or [""]
        program = (*declarations.require_capabilities(delegator, None, defined).binaries, command[0])[0]
        try:
            path = call_checks.locate(program, Path("/"), call_checks.base_environment())
            return [ConnectionTestStep(name="binary", ok=True, message=path, seconds=time.monotonic() - began)]
        except UnderstudyError as error:
            message = f"{error.message} {error.hint}" if error.hint else error.message
            return [ConnectionTestStep(name="binary", ok=False, message=message, seconds=time.monotonic() - began)]
    from understudy.api.handlers.setup import overview

    tools = overview.tools(caller, messages.ToolsParams(refresh=True, workspace=workspace)).tools
    tool = next((tool for tool in tools if tool.name == delegator.tool), None)
    seconds = time.monotonic() - began
    if tool is None or not tool.found:
        capabilities = declarations.require_capabilities(delegator, None, defined)
        message = f"{delegator.tool} was not found on PATH. {capabilities.install_hint}, or add its folder to PATH."
        return [ConnectionTestStep(name="binary", ok=False, message=message, seconds=seconds)]
    return [
        ConnectionTestStep(name="binary", ok=True, message=tool.path or "built in", seconds=seconds),
        ConnectionTestStep(name="version", ok=tool.runnable, message=tool.version or "unknown", seconds=0.0),
    ]


def _tmux_step() -> ConnectionTestStep:
    from understudy.config.discovery import installed_tools

    path = installed_tools.find_tmux()
    message = path or "tmux was not found on PATH. Install it (`apt install tmux`, `brew install tmux`)."
    return ConnectionTestStep(name="tmux", ok=path is not None, message=message, seconds=0.0)


def _ask(
    caller: Caller,
    kind: Literal["round_trip", "server", "models"],
    delegator: Delegator | None,
    server: ModelServer | None,
    defined: ToolDefinition | None = None,
) -> ConnectionTestAnswer:
    """Ask a short-lived worker, so that this process reads no key and starts no agent."""
    request = ConnectionTestRequest(kind=kind, delegator=delegator, model_server=server, tool_definition=defined)
    return connection_test.ask(request, caller.cancelled)
