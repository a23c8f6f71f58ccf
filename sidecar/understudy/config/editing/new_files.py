"""The commented configuration file that ``understudy init`` writes, and the definition that a new tool begins with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from understudy.config.locations import FileKind
from understudy.config.parsing.config_file import schema_line
from understudy.model.config.delegators import Scope
from understudy.model.evidence.checks import Check

_HEAD = """\
# Understudy's configuration {place}. What is commented out has no effect: remove the # of what you need.
# A misspelt key, or one without an effect, is reported by `understudy delegators list`.

# What is used when a start names no delegator:
# [defaults]
# delegator = "quick"
# recipes = { tests = "ghostwriter" }
"""
_USER = """
# For every delegator that does not set it, and whose tool has it:
# [launch]
# prompt_suffix = "Keep changes small."

# [limits]
# slots = 4                      # delegations that run at once; others wait in a queue
# total_seconds = 1800
# max_usd = "0.50"
"""
_WORKTREES = """
# Untracked files for every new worktree:
# [worktrees]
# copy = [".env.test"]
# link = ["node_modules"]
"""
_SERVER = """
# A model on a server; its key is stored with `understudy servers set-key local`, never here:
# [[model_servers]]
# name = "local"
# kind = "ollama"
# base_url = "http://127.0.0.1:11434/v1"
#
# [[delegators]]
# name = "quick"
# model_server = "local"
# model = "qwen3-coder"
"""
_TEMPLATE = Path(__file__).with_name("tool_template.toml")
_READY = Path(__file__).parents[1] / "ready_made_tools"


def starter_config(checks: Sequence[Check], tools: Iterable[str], scope: Scope) -> str:
    """Return the file for ``scope``: with ``checks``, and a delegator for each of ``tools``, as comments."""
    place = "for this project" if scope is Scope.WORKSPACE else "for all your projects"
    parts = [schema_line(FileKind.CONFIG), _HEAD.replace("{place}", place)]
    if scope is Scope.USER:
        parts.append(_USER)
    parts += [_WORKTREES, _SERVER]
    for name in tools:
        parts.append(f"\n# {name} is installed:\n" + _commented({"delegators": [{"name": name, "tool": name}]}))
    for check in checks:
        table: dict[str, object] = {"name": check.name, "argv": check.argv}
        if check.cwd is not None:
            table["cwd"] = check.cwd
        parts.append("\n# This project's tests; a result is verified only if they pass:\n")
        parts.append(_commented({"checks": [table]}))
    return "".join(parts)


def with_worktrees(text: str, *, link: Sequence[str], setup: Sequence[str]) -> str:
    """Return a new configuration in which worktrees link to these paths, and are set up by this command."""
    import tomli_w

    table = {key: list(value) for key, value in (("link", link), ("setup", setup)) if value}
    return text.replace(_WORKTREES, f"\n# For every new worktree:\n{tomli_w.dumps({'worktrees': table})}")


def _commented(tables: dict[str, list[dict[str, object]]]) -> str:
    import tomli_w

    lines = []
    for section, entries in tables.items():
        for entry in entries:
            lines += [f"[[{section}]]", *tomli_w.dumps(entry).splitlines()]
    return "".join(f"# {line}\n" for line in lines)


def ready_made() -> list[str]:
    """Return the known tools for which there is a ready-made definition."""
    return sorted(file.stem for file in _READY.glob("*.toml"))


def tool_template(name: str, like: str | None = None) -> str:
    """Return the definition of a tool ``name`` that prints plain text; everything else is in comments.

    With ``like``, one of ``ready_made``, return the definition of that tool.
    """
    file = _TEMPLATE if like is None else _READY / f"{like}.toml"
    return schema_line(FileKind.TOOL) + file.read_text(encoding="utf-8").replace("@NAME@", name)
