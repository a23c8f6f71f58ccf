"""What an attempt of an agent cost: its own figure where that is true, or the prices of its model server."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from understudy.config.discovery import declarations
from understudy.model.events import UsageReport
from understudy.runners.backends.pricing import priced
from understudy.runners.runner import Task


def knows_cost(task: Task) -> bool:
    """Return whether the cost that the task's agent reports is true: some count at the prices of their vendor only."""
    tool = declarations.tools().get(task.delegator.tool or "")
    if tool is None or tool.cost_address is None:
        return True
    variable, host = tool.cost_address
    address = task.model_server.base_url if task.model_server is not None else task.environment.get(variable)
    try:
        return not address or urlsplit(address).hostname == host
    except ValueError:
        return False


def with_cost(report: UsageReport, task: Task) -> UsageReport:
    """Return an agent's report with the cost that is known, and where it is from."""
    if report.cost_source is not None:  # of our own loop, whose requests have their prices already
        return report
    if not knows_cost(task):
        report = msgspec.structs.replace(report, cost_usd=None)
    return priced(report, task.model_server, task.delegator.model or "")
