"""Requests about this installation: its version and its tools."""

from __future__ import annotations

import msgspec

from understudy import __version__
from understudy.api import messages
from understudy.api.caller import Caller
from understudy.model.config.config_entries import BackendEntry
from understudy.model.config.delegators import Scope


def version(caller: Caller, params: messages.NoParams) -> messages.VersionResult:
    """Return the version of Understudy and of its protocol."""
    from understudy.api.method_table import PROTOCOL_VERSION

    _ = caller, params
    return messages.VersionResult(version=__version__, protocol_version=PROTOCOL_VERSION)


def tools(caller: Caller, params: messages.ToolsParams) -> messages.ToolsResult:
    """List the supported agent CLIs, installed or not, with their versions."""
    from understudy.api.handlers import configuration
    from understudy.config.discovery import declarations, installed_tools
    from understudy.config.reference import supported_options

    loaded = configuration.load(caller, params.workspace)
    own = {name: one.definition.capabilities() for name, one in loaded.tools.items()}
    # Looking at a list must not start what a workspace defines, even if the workspace is trusted.
    silent = {name for name, one in loaded.tools.items() if one.scope is Scope.WORKSPACE}
    looked_for = [
        msgspec.structs.replace(one, version_arguments=()) if name in silent else one for name, one in own.items()
    ]
    workspace = loaded.workspace or caller.folder()
    entries = installed_tools.detect(refresh=params.refresh, workspace=workspace, defined=looked_for)
    for entry in entries:
        tool = own.get(entry.name) or declarations.tools()[entry.name]
        if (file := loaded.tools.get(entry.name)) is not None:
            entry.scope, entry.location, entry.runnable = file.scope, file.location, file.usable
            entry.problems = [*file.problems, *entry.problems]
        if entry.runnable:
            entry.supports = supported_options.describe(tool)
        if (over_acp := tool.in_mode("acp")) is not None:
            entry.supports_acp = supported_options.describe(over_acp)
        if (in_terminal := tool.in_mode("tmux")) is not None:
            entry.supports_tmux = supported_options.describe(in_terminal)
    backends = [
        BackendEntry(
            name=one.name,
            title=one.title,
            protocols=list(one.protocols),
            supports=supported_options.describe(one),
        )
        for one in declarations.backends().values()
    ]
    return messages.ToolsResult(tools=entries, backends=backends, problems=loaded.problems)
