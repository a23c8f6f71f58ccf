"""Parameters and results of requests about instructions for other agents."""

from __future__ import annotations

from typing import Literal

from understudy.model.config.instructions import InstructionChange, InstructionTarget
from understudy.model.wire import Strict, Wire


class InstructionsParams(Strict, kw_only=True):
    """List the places for instructions."""

    workspace: str | None = None
    """Also list the places in this workspace."""


class InstructionsResult(Wire, kw_only=True):
    """The places, and the text for other applications, which have no file for it."""

    targets: list[InstructionTarget]
    text: str


class ChangeInstructionsParams(Strict, kw_only=True):
    """Install or remove instructions.

    ``names``: default is to install where an agent's folder exists, and to remove wherever they are.
    """

    action: Literal["install", "uninstall"]
    names: list[str] | None = None
    workspace: str | None = None
    dry_run: bool = False
    force: bool = False
    """Also replace or remove instructions that someone has edited."""


class ChangeInstructionsResult(Wire, kw_only=True):
    """One entry for each place that was named or found."""

    changes: list[InstructionChange]
