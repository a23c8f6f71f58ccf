"""Floor 2: from files to one configuration, with the place each value came from, and back.

``load`` reads every layer and lists what is wrong; ``edit`` makes and changes the files that a face
may write; ``trust`` remembers which workspaces a person trusts, and with what in them; ``tools``
looks for agent CLIs, ``servers`` for model servers on this machine. The rules of what a
configuration may say are in ``semantics``, how files spell the contract's structures in ``shapes``.

What may not happen here: no program of a workspace is started, no file of an untrusted workspace is
read as configuration, no hand-written file is rewritten, no key is read, and nothing a file says
ends in an exception.
"""

from __future__ import annotations

from understudy.config.folders import fingerprint, user_folder
from understudy.config.load import Configuration, Defaults, Worktrees, load
from understudy.config.semantics import DEFAULT_ABILITIES, OUR_LOOP, Abilities, unsupported_fields

__all__ = [
    "DEFAULT_ABILITIES",
    "OUR_LOOP",
    "Abilities",
    "Configuration",
    "Defaults",
    "Worktrees",
    "fingerprint",
    "load",
    "unsupported_fields",
    "user_folder",
]
