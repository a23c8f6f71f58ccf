"""mini-swe-agent: known, not driven yet."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities

CAPABILITIES = Capabilities(
    name="mini",
    title="mini-swe-agent",
    binaries=("mini",),
    # It has no version option, but its help contains its name.
    version_arguments=("--help",),
    own_output=r"(?i)mini-swe-agent|mini_swe_agent",
)
