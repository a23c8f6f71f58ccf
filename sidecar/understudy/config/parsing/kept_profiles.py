"""Keep the agent profile that a delegator was imported from, beside its file.

``NAME.profile.json`` has the original text, byte for byte. ``NAME.profile.base`` has the delegator as it was imported:
an export changes in the profile only what has changed in the delegator since.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from understudy.config.parsing import source_file

_MOST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class KeptProfile:
    """A profile, and the file of the delegator that it became."""

    text: str
    base: bytes | None


def place(delegator: Path) -> Path:
    """Return where the profile of the delegator in this file is."""
    return delegator.with_name(f"{delegator.stem}.profile.json")


def base_place(delegator: Path) -> Path:
    """Return where the delegator is kept as it was imported."""
    return delegator.with_name(f"{delegator.stem}.profile.base")


def read(delegator: Path) -> KeptProfile | None:
    """Return the profile of the delegator in this file; None if it has none, or one that cannot be read."""
    profile, _ = source_file.read(place(delegator), inside=None, most=_MOST_BYTES)
    if profile is None:
        return None
    base, _ = source_file.read(base_place(delegator), inside=None, most=_MOST_BYTES)
    try:
        return KeptProfile(decode(profile.data), base.data if base is not None else None)
    except UnicodeDecodeError:
        return None


def encode(text: str) -> bytes:
    """Return the bytes of a profile."""
    return text.encode()


def decode(data: bytes) -> str:
    """Return the text of a profile."""
    return data.decode()
