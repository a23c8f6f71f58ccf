"""Requests about this installation: its version and its tools."""

from __future__ import annotations

from understudy import __version__
from understudy.api import messages as m
from understudy.api.caller import Caller
from understudy.model.config.config_entries import BackendEntry


def version(caller: Caller, params: m.NoParams) -> m.VersionResult:
    """Return the version of Understudy and of its protocol."""
    from understudy.api.method_table import PROTOCOL_VERSION

    _ = caller, params
    return m.VersionResult(version=__version__, protocol_version=PROTOCOL_VERSION)


def tools(caller: Caller, params: m.ToolsParams) -> m.ToolsResult:
    """Return every supported agent CLI, installed or not, and every backend."""
    from understudy.config.discovery import declarations, installed_tools
    from understudy.config.reference import supported_options

    found = installed_tools.detect(refresh=params.refresh, workspace=caller.folder())
    for entry in found:
        if entry.runnable:
            entry.supports = supported_options.describe(declarations.tools()[entry.name])
    backends = [
        BackendEntry(
            name=one.name,
            title=one.title,
            protocols=list(one.protocols),
            supports=supported_options.describe(one),
        )
        for one in declarations.backends().values()
    ]
    return m.ToolsResult(tools=found, backends=backends)
