"""Programs for tests of what starts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.process.call_checks import base_environment
from understudy.process.program_spec import OWN, Program


def program(argv: Sequence[str], cwd: Path, environment: Mapping[str, str] | None = None, **more: Any) -> Program:
    """Return a program that may do everything, with the environment that children get."""
    return Program(argv, cwd, base_environment() if environment is None else environment, OWN, **{"mark": "m", **more})
