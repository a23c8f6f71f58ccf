"""Floor 1: where keys come from, and how they are kept out of everything that is written down.

``keys`` turns a ``KeyReference`` into the key at the last moment and puts a key that a person typed
into the operating system's keyring; ``redaction`` replaces known values in whatever leaves.

What may not happen here: a key is never returned by anything but ``resolve``, never logged, never
part of an error message, never put into an environment or an argument vector. Whoever holds a key
(a worker) builds a ``Redactor`` from it before anything else is written.
"""

from __future__ import annotations

from understudy.secrets.keys import KeyringStatus, forget_key, keyring_status, resolve, store_key
from understudy.secrets.redaction import BytesStream, Redactor, TextStream

__all__ = [
    "BytesStream",
    "KeyringStatus",
    "Redactor",
    "TextStream",
    "forget_key",
    "keyring_status",
    "resolve",
    "store_key",
]
