"""Agent CLIs, one TOML file each: its declaration, without the code that runs it.

Another folder ``understudy/model/tools`` on ``sys.path`` adds tools, as modules with a ``CAPABILITIES`` (see
``config.discovery.declarations``).
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import msgspec

from understudy.model.capabilities import COMMON_FIELDS, TIME_LIMITS, UNANSWERED, Capabilities, Install
from understudy.model.wire import ready

NAMES = tuple(sorted(file.stem for file in Path(__file__).parent.glob("*.toml")))
"""The tools that have a file here, which is a part of the package as a module is."""


@functools.cache
def declared(name: str) -> Capabilities:
    """Return the declaration of a tool. Its file has the fields of ``Capabilities``.

    It leaves out what every tool has: ``COMMON_FIELDS`` of ``launch``, ``TIME_LIMITS`` of ``limits``, and the values of
    ``unanswered``.
    """
    import tomllib  # here, because a runner of another agent needs no declaration

    table: dict[str, Any] = tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8"))
    if "install" in table:
        table["install"] = Install(**table["install"])
    if "launch" in table:
        table["launch"] |= COMMON_FIELDS
        if "unanswered" in table["launch"]:
            table["launch"]["unanswered"] = UNANSWERED
    table["limits"] = TIME_LIMITS.union(table.get("limits", ()))
    return msgspec.convert({"name": name, **table}, ready(Capabilities))
