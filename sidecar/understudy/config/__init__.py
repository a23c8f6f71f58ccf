"""Layer 2: files to one configuration, with the place of every value, and back.

``load`` reads all layers and reports what is wrong; ``edit`` creates and changes generated files; ``trust`` records
which workspaces the user trusts; ``discovery`` finds the declarations of tools and backends, installed agent CLIs and
running model servers; ``validation`` holds the rules; ``parsing`` reads files; ``reference`` describes their fields.

What must not happen here: starting a program of a workspace, reading a file of an untrusted workspace as
configuration, rewriting a hand-written file, reading a key, raising an exception for the content of a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from understudy.config.locations import fingerprint, user_folder

if TYPE_CHECKING:
    from pathlib import Path

    from understudy.config.configuration import Configuration, Defaults, Worktrees

__all__ = [
    "Configuration",
    "Defaults",
    "Worktrees",
    "fingerprint",
    "load",
    "user_folder",
]


def load(workspace: Path | None, *, trusted: bool) -> Configuration:
    """Return the configuration of ``workspace`` (``None``: only the user's own); never raises for a file's content.

    Files of an untrusted workspace are not read.
    """
    from understudy.config import loader  # text requests mostly start without it

    return loader.load(workspace, trusted=trusted)


def __getattr__(name: str) -> Any:
    """Import a structure of the configuration when it is first used."""
    if name not in __all__:
        raise AttributeError(name)
    from understudy.config import configuration

    return getattr(configuration, name)
