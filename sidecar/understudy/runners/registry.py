"""Choose the runner of a delegator. Cheap to import: a runner is imported when it is first needed."""

from __future__ import annotations

import importlib
from typing import cast

from understudy.config.discovery import declarations
from understudy.model.config.delegators import Delegator, ModelServer
from understudy.runners.runner import Runner


def runner_for(delegator: Delegator, model_server: ModelServer | None) -> Runner:
    """Return the runner of ``delegator`` on ``model_server``; raise ``unknown_tool`` when there is none.

    ``config.validation`` has checked the delegator before a delegation is created.
    """
    module, _, name = str(declarations.require_capabilities(delegator, model_server).runner).partition(":")
    return cast("Runner", getattr(importlib.import_module(module), name)())
