"""Layer 1: where API keys come from, and redaction.

``keys`` resolves a ``KeyReference`` into the key at the last moment, and stores a key that the user typed in the
operating system's keyring; ``redaction`` replaces known values in all output.

Only ``resolve`` returns a key. A key is never logged, never part of an error message, and never put into an environment
or an argument vector here. A worker that holds a key creates a ``Redactor`` for it before writing any output.
"""

from __future__ import annotations

from understudy.secrets.keys import KeyringStatus, forget_key, keyring_status, resolve, store_key
from understudy.secrets.redaction import Redactor, TextStream

__all__ = [
    "KeyringStatus",
    "Redactor",
    "TextStream",
    "forget_key",
    "keyring_status",
    "resolve",
    "store_key",
]
