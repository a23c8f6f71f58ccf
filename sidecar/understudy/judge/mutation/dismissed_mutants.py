"""Remember which mutants the user dismissed because they cannot be noticed, such as equivalent ones."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from understudy.files import durable

_NAME = "dismissed-mutants.jsonl"
_LIMIT = 4 << 20
"""Bytes read; a line takes about a hundred."""


def dismiss(root: Path, workspace: str, mutants: list[str]) -> None:
    """Add identities of mutants (see ``mutant_identity``) of a workspace; errors are those of the disk."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    lines = "".join(f"{json.dumps([workspace, mutant])}\n" for mutant in mutants)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(root / _NAME, flags, 0o600)
    try:
        os.write(descriptor, lines.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def dismissed(root: Path, workspace: str) -> frozenset[str]:
    """Return the identities of all dismissed mutants of a workspace; what cannot be read is not dismissed."""
    mutants = set()
    with suppress(OSError):
        for line in durable.read_whole(root / _NAME, _LIMIT).splitlines():
            with suppress(ValueError):
                of, mutant = json.loads(line)
                if of == workspace:
                    mutants.add(str(mutant))
    return frozenset(mutants)
