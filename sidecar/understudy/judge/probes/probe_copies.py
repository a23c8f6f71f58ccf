"""Copy the probe under random names into a folder of one run, and tell it what to do.

The names of modules, of the plugin and of the variable differ in every run. Only the copies are on the project's
import path.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.judge.probes.report_channel import ReportChannel
from understudy.judge.project.interpreter import PROBE_FOLDER

_KEEP_GOING = " --continue-on-collection-errors"
_MODULES = ("understudy_report", "understudy_pytest", "understudy_unittest", "understudy_lines")
_NODE_HOOK = "node_hook.cjs"


@dataclass(frozen=True, kw_only=True)
class ProbeOptions:
    """What the probe of one run does."""

    root: Path
    """The user's checkout: loaded files below it are reported."""
    collect_only: bool = False
    keep_going: bool = False
    """pytest runs the other files if one cannot be collected."""
    without_coverage: bool = False
    """pytest-cov does nothing, whatever the project's options are."""
    order: str = ""
    """``reversed`` or ``shuffled:<seed>``."""
    lines: Path | None = None
    """A JSON file for unittest: ``files`` whose lines are recorded, and ``out`` to write them to."""
    only: Path | None = None
    """A JSON file for unittest: the ids of the tests to run, up to the first that fails."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """The copies of one run."""

    folder: Path
    names: dict[str, str]
    """The module's own name → the name of its copy."""

    @property
    def unittest(self) -> str:
        """Return the module that runs unittest."""
        return self.names["understudy_unittest"]


def write_probe(folder: Path) -> Probe:
    """Write the copies into a new folder below ``folder``."""
    target = folder / secrets.token_hex(6)
    return Probe(folder=target, names=write_copies(target, _MODULES))


def write_copies(folder: Path, modules: Sequence[str]) -> dict[str, str]:
    """Copy modules that are injected into tests to a new folder; return the names of the copies by their own names.

    In ``modules``, a dot stands for a folder; only the names of modules outside folders change.
    """
    names = {name: f"m{secrets.token_hex(6)}" for name in modules if "." not in name}
    for module in modules:
        *folders, name = module.split(".")
        text = PROBE_FOLDER.joinpath(*folders, f"{name}.py").read_text(encoding="utf-8")
        for other, renamed in names.items():
            text = text.replace(other, renamed)
        copy = folder.joinpath(*folders, f"{names.get(module, name)}.py")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    return names


def add_probe(environment: dict[str, str], probe: Probe, channel: ReportChannel, options: ProbeOptions) -> None:
    """Add to the environment of a check what makes pytest, unittest and Node load the probe."""
    report, plugin = probe.names["understudy_report"], probe.names["understudy_pytest"]
    addopts = f"-p {plugin}"
    if options.collect_only:
        addopts += " --collect-only"
    if options.keep_going:
        addopts += _KEEP_GOING
    settings: dict[str, object] = {
        "channel": str(channel.path),
        "keys": str(channel.keys),
        "root": str(options.root),
        "folder": str(probe.folder),
        "addopts": addopts,
        "no_coverage": options.without_coverage,
        "to_the_end": options.keep_going,
        "order": options.order,
        "collect": options.collect_only,
        "lines": str(options.lines or ""),
        "only": str(options.only or ""),
    }
    folders = [str(probe.folder), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    environment[report] = json.dumps(settings)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    environment["PYTEST_ADDOPTS"] = f"{environment.get('PYTEST_ADDOPTS', '')} {addopts}".strip()
    # Node parses NODE_OPTIONS like a shell: in quotes, with backslashes escaped (see `node --help`).
    script = str(write_node_hook(probe.folder, channel.path.parent, options.root))
    script = script.replace("\\", "\\\\").replace('"', '\\"')
    environment["NODE_OPTIONS"] = f'{environment.get("NODE_OPTIONS", "")} --require "{script}"'.strip()


def write_node_hook(folder: Path, reports: Path, root: Path) -> Path:
    """Write the module that reports to the folder ``reports`` which files below ``root`` Node loads."""
    text = (PROBE_FOLDER / _NODE_HOOK).read_text(encoding="utf-8")
    script = folder / f"m{secrets.token_hex(6)}.cjs"
    values = json.dumps({"folder": str(reports), "root": str(root)})
    script.write_text(text.replace("globalThis.SETTINGS", values), encoding="utf-8")
    return script
