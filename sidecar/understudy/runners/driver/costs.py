"""What an attempt of an agent cost: its own figure where that is true, or the prices of its model server."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from understudy.config.discovery import declarations
from understudy.model.capabilities import CostAddress
from understudy.model.delegation.events import UsageReport
from understudy.policy.prices import priced
from understudy.runners.runner import Task


class _Settings(msgspec.Struct):
    env: dict[str, Any] = {}


def knows_cost(task: Task) -> bool:
    """Return whether the cost that the task's agent reports is true: some count at the prices of their vendor only."""
    tool = declarations.tools().get(task.delegator.tool or "")
    if tool is None or tool.cost_address is None:
        return True
    address = _address(tool.cost_address, task)
    try:
        return not address or urlsplit(address).hostname == tool.cost_address.host
    except ValueError:
        return False


def _address(vendor: CostAddress, task: Task) -> str | None:
    """Return the address of another server that an agent talks to; None if there is none."""
    if task.model_server is not None:
        return task.model_server.base_url
    variable, default = vendor.settings
    folder = task.environment.get(variable)
    path = (Path(folder) if folder else Path.home() / default) / "settings.json"
    try:
        env = msgspec.json.decode(path.read_bytes(), type=_Settings).env
    except (OSError, msgspec.DecodeError):
        env = {}
    # Its settings have the last word.
    address = env.get(vendor.variable) or task.environment.get(vendor.variable)
    return address if address is None or isinstance(address, str) else ""


def with_cost(report: UsageReport, task: Task) -> UsageReport:
    """Return an agent's report with the cost that is known, and where it is from."""
    if report.cost_source is not None:  # of our own loop, whose requests have their prices already
        return report
    if not knows_cost(task):
        report = msgspec.structs.replace(report, cost_usd=None)
    # It has the sums of all requests so far, which says nothing about the size of one request.
    return priced(report, task.model_server, task.delegator.model or "", size=0)
