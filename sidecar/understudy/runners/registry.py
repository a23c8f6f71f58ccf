"""Choose the runner of a delegator. Cheap to import: a runner is imported when it is first needed."""

from __future__ import annotations

import importlib
from typing import cast

from understudy.config.discovery import declarations
from understudy.model.config.delegators import Delegator, ModelServer
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.runners.runner import Runner


def runner_for(delegator: Delegator, model_server: ModelServer | None, defined: ToolDefinition | None = None) -> Runner:
    """Return the runner of ``delegator`` on ``model_server``; raise ``unknown_tool`` when there is none.

    ``defined`` is the definition of its tool, for a tool that a file defines.
    ``config.validation`` has checked the delegator before a delegation is created.
    """
    supported = declarations.require_capabilities(delegator, model_server, defined)
    module, _, name = str(supported.runner).partition(":")
    runner = getattr(importlib.import_module(module), name)
    return cast("Runner", runner() if defined is None else runner(defined))
