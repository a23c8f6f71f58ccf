"""What can be done about a problem, as data: a button where a frontend has buttons, otherwise the hint beside it."""

from __future__ import annotations

import enum

import msgspec

from understudy.model.wire import Wire


class RemedyKind(enum.StrEnum):
    """What is done. `remedies/apply` does the first three; the others need a frontend: they ask, log in, or install."""

    LINK_FOLDERS = "link_folders"
    """New worktrees link to ``paths``, such as `node_modules`."""
    COPY_FILES = "copy_files"
    """New worktrees get copies of ``paths``, such as a version file that a build generates."""
    SET_UP_WORKTREES = "set_up_worktrees"
    """Each new worktree runs the one command of ``commands``, which installs what the project needs."""
    MAKE_ENVIRONMENT = "make_environment"
    """Run ``commands`` in ``folder``: they create the project's Python environment. They need the network."""
    INSTALL_PACKAGES = "install_packages"
    """Run ``commands`` in ``folder``: they install what the project needs. They need the network."""
    ADD_CHECK = "add_check"
    """Add one of the checks that `checks/list` proposes, or another."""
    TRUST = "trust"
    """Show what trusting the workspace allows, and ask for it."""
    INSTALL_TOOL = "install_tool"
    """Install the agent ``name``; `tools/list` says how."""
    LOG_IN = "log_in"
    """Log in with the agent ``name``; `tools/list` says how."""
    SET_KEY = "set_key"
    """Store a key for the model server ``name``."""
    CHOOSE_MODEL = "choose_model"
    """Choose another model for the delegator ``name``."""
    ADD_DELEGATOR = "add_delegator"
    """Add a delegator."""
    RESUME_QUEUE = "resume_queue"
    """Let waiting delegations start."""


class Remedy(Wire, kw_only=True):
    """One thing to do, after which what failed can be tried again."""

    kind: RemedyKind
    paths: list[str] = msgspec.field(default_factory=list)
    """Relative to the workspace."""
    commands: list[list[str]] = msgspec.field(default_factory=list)
    """Argument vectors, run one after the other until one fails."""
    folder: str = ""
    """Where they run, relative to the workspace."""
    name: str | None = None


def in_folder(remedy: Remedy, folder: str) -> Remedy:
    """Return the remedy of a project in a folder of its workspace (empty: the workspace itself) for the workspace."""
    if not folder:
        return remedy
    paths = [f"{folder}/{path}" for path in remedy.paths]
    return msgspec.structs.replace(remedy, paths=paths, folder=folder if remedy.commands else "")


class Lack(Wire, kw_only=True):
    """What a delegation lacks, although it can start."""

    text: str
    """A sentence."""
    hint: str
    """What to do, as a sentence for the command line."""
    remedy: Remedy | None = None
