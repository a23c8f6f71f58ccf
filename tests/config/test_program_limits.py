"""``[programs]``: what every program may use; a workspace may only allow less."""

from __future__ import annotations

import pytest

from understudy.config.loading.loader import load
from understudy.model.config.delegators import ProgramLimits
from understudy.process.program_spec import limits_of


def test_without_the_table_the_defaults_apply(loaded):
    assert loaded().programs == ProgramLimits()
    usual = limits_of(loaded().programs)
    assert (usual.processes, usual.file_bytes) == (2048, 16 << 30)
    assert usual.memory_bytes > 0


@pytest.mark.parametrize("name", ProgramLimits.__struct_fields__)
def test_a_workspace_only_lowers(user, workspace, write, name):
    write(workspace / ".understudy" / "config.toml", f"[programs]\n{name} = {1 << 60}\n")
    found = load(workspace, trusted=True)
    assert found.programs == ProgramLimits(), "it is above the default"
    assert "a workspace may only ask for less" in " ".join(problem.message for problem in found.problems)
    write(user / "config.toml", f"[programs]\n{name} = {1 << 61}\n")
    assert getattr(load(workspace, trusted=True).programs, name) == 1 << 60
