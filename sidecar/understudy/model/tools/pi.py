"""pi: known, not driven yet."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, RepositoryPath

CAPABILITIES = Capabilities(
    name="pi",
    title="pi",
    binaries=("pi",),
    own_output=r"^\s*v?\d+\.\d+\.\d+",
    repository_paths=(RepositoryPath(path=".pi/", what="configuration of pi"),),
)
