"""Classify paths: likely secrets, files whose change needs explicit consent, and invalid paths."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_DATA = ("", ".json", ".yml", ".yaml", ".toml", ".ini", ".cfg", ".conf", ".properties", ".txt", ".csv", ".xml")
_SECRET = (
    *(".env", ".env.*", "*.env", ".envrc", ".envrc.*", ".dev.vars", ".flaskenv", "local.settings.json"),
    # keys and certificates with keys
    *("*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.pkcs12", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.ovpn"),
    *("*.asc", "*.gpg", "*.pgp", "*.agekey", "keys.txt", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.kwallet"),
    # logins of programs
    *(".netrc", "_netrc", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".pypirc", ".npmrc", ".git-credentials"),
    *(".htpasswd", ".dockercfg", ".dockerconfigjson", ".s3cfg", ".boto", ".vault-token", ".vault_pass*", "vault_pass*"),
    *(".terraformrc", "terraform.rc", "*.tfrc", "kubeconfig", "*.kubeconfig", "auth.json", "rclone.conf", ".cdsapirc"),
    # credentials by name
    *(f"*{word}{ending}" for word in ("credentials", "secrets") for ending in _DATA),
    *(f"{word}{ending}" for word in ("secret", "credential", "password", "passwords", "passwd") for ending in _DATA),
    *("client_secret*.json", "service-account*.json", "service_account*.json", "*firebase-adminsdk*.json"),
    *("*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json", ".secrets"),
)
_NOT_SECRET = ("*.example", "*.sample", "*.template", "*.dist", "*.pub")
_SECRET_FOLDERS = frozenset(
    {b".ssh", b".aws", b".gnupg", b".azure", b".kube", b".docker", b".gcloud", b".oci", b".password-store"}
)


_TABLE = Path(__file__).with_name("flagged_files.txt")


def looks_secret(path: bytes) -> bool:
    """Return whether an untracked file is likely to contain a secret, by its name alone."""
    *folders, name = path.split(b"/")
    if any(folder in _SECRET_FOLDERS for folder in folders):
        return True
    text = name.decode(errors="replace").lower()
    if any(_matches(text, pattern) for pattern in _NOT_SECRET):
        return False
    return any(_matches(text, pattern) for pattern in _SECRET)


def _matches(name: str, pattern: str) -> bool:
    """Match a pattern with stars; regular expressions would first have to be compiled."""
    head, *parts = pattern.split("*")
    if not parts:
        return name == pattern
    *middle, tail = parts
    at, end = len(head), len(name) - len(tail)
    if at > end or not name.startswith(head) or not name.endswith(tail):
        return False
    for part in middle:
        index = name.find(part, at, end)
        if index < 0:
            return False
        at = index + len(part)
    return True


_ENVIRONMENT_PARTS = frozenset(
    {b"bin", b"Scripts", b"include", b"Include", b"lib", b"lib64", b"Lib", b"share", b"etc", b"pyvenv.cfg"}
)


def without_environments(untracked: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return ``untracked`` without what belongs to Python's virtual environments, and the folders of these.

    An environment can be made again, works only at its own path, and has thousands of files. A file of the user inside
    of one stays.
    """
    folders = [path.removesuffix(b"pyvenv.cfg") for path in untracked if path.endswith(b"/pyvenv.cfg")]

    def belongs(path: bytes) -> bool:
        return any(
            path.startswith(folder) and path[len(folder) :].partition(b"/")[0] in _ENVIRONMENT_PARTS
            for folder in folders
        )

    return [path for path in untracked if not belongs(path)] if folders else untracked, folders


_HFS_IGNORABLE = re.compile("[\u200b-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


def flagged(path: bytes | str) -> str | None:
    """Return why a change of this file needs explicit consent, or None (see ``flagged_files.txt``).

    Names that some file system or a reader could confuse with a flagged one are flagged too.
    """
    text = path.decode(errors="replace") if isinstance(path, bytes) else path
    plain = "/".join(part.split(":", 1)[0].rstrip(". ") for part in _HFS_IGNORABLE.sub("", text).split("/"))
    return find_flagged(text) or (find_flagged(plain) if plain != text else None)


def refused(path: bytes) -> bool:
    """Return whether git would refuse to track this path (``verify_path``, with HFS+ and NTFS protection on).

    Refused are empty, ``.`` and ``..`` parts, absolute paths, and every name that some file system treats as ``.git``.
    Git checks paths too; checking first prevents one such name from failing a whole call.
    """
    if not path or path.startswith(b"/") or b"\0" in path:
        return True
    return any(part in {b"", b".", b".."} or _is_dot_git(part) for part in path.split(b"/"))


def _is_dot_git(part: bytes) -> bool:
    if part.isascii() and b"git" not in part.lower():
        return False
    text = part.decode(errors="replace")
    for piece in text.split("\\"):
        plain = _HFS_IGNORABLE.sub("", piece).lower()
        ntfs = plain.split(":", 1)[0].rstrip(". ")
        if plain == ".git" or ntfs in {".git", "git~1"}:
            return True
    return False


def collisions(paths: Iterable[bytes]) -> list[list[bytes]]:
    """Return the groups of paths that are one path on a file system that ignores case or normalises Unicode.

    Folders count too: ``A/x`` and ``a/y`` share a folder. Each group is sorted, and so are the groups.
    """
    seen: dict[str, set[bytes]] = {}
    for path in paths:
        parts = path.split(b"/")
        for length in range(1, len(parts) + 1):
            prefix = b"/".join(parts[:length])
            text = unicodedata.normalize("NFC", prefix.decode(errors="surrogateescape"))
            seen.setdefault(unicodedata.normalize("NFC", text.casefold()), set()).add(prefix)
    return sorted(sorted(group) for group in seen.values() if len(group) > 1)


@functools.cache
def flagged_table() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return reason → patterns, in the order of the file; the first reason that fits is shown."""
    groups: list[tuple[str, list[str]]] = []
    for line in _TABLE.read_text().splitlines():
        if line.startswith("[") and line.endswith("]"):
            groups.append((line[1:-1], []))
        elif line and not line.startswith("#"):
            groups[-1][1].extend(line.split())
    return tuple((reason, tuple(patterns)) for reason, patterns in groups)


def find_flagged(path: str) -> str | None:
    """Return why a change of ``path`` needs consent, or None; ``path`` is relative to the repository, with slashes."""
    text = path.casefold()
    names = text.split("/")
    ranks = [_rank_of_folder(name) for name in names] + [_rank(_compiled().files, names[-1])]
    ranks.append(_rank(_compiled().paths, text))
    best = min(ranks)
    return flagged_table()[best][0] if best < len(flagged_table()) else None


class _Expressions(NamedTuple):
    """One kind of patterns: fast enough for tens of thousands of files, of which few are flagged."""

    any: re.Pattern[str]
    by_rank: list[tuple[int, str]]
    """Compiled when ``any`` matches."""


class _Compiled(NamedTuple):
    """The table as expressions, each for the reason at its rank."""

    files: _Expressions
    """For the last name of a path."""
    folders: _Expressions
    """For each name of a path."""
    paths: _Expressions
    """For whole paths."""


@functools.cache
def _compiled() -> _Compiled:
    by_kind: tuple[list[tuple[int, str]], ...] = ([], [], [])
    for rank, (_, patterns) in enumerate(flagged_table()):
        groups: tuple[list[str], list[str], list[str]] = ([], [], [])
        for pattern in patterns:
            names = pattern.rstrip("/")
            body = "".join(map(_regular, re.split(r"(\*|\[[^]]*\])", names.lstrip("/"))))
            if "/" in names:
                start = "" if pattern.startswith("/") else "(?:.*/)?"
                groups[2].append(f"{start}{body}{'(?:/.*)?' if pattern.endswith('/') else ''}")
            else:
                groups[1 if pattern.endswith("/") else 0].append(body)
        for kind, group in zip(by_kind, groups, strict=True):
            if group:
                kind.append((rank, "|".join(group)))
    return _Compiled(*map(_expressions, by_kind))


def _expressions(bodies: list[tuple[int, str]]) -> _Expressions:
    return _Expressions(re.compile("|".join(body for _, body in bodies), re.DOTALL), bodies)


def _regular(part: str) -> str:
    return "[^/]*" if part == "*" else part if part.startswith("[") else re.escape(part)


def _rank(expressions: _Expressions, text: str) -> int:
    """Return the rank of the first expression that matches ``text``, one after the last when none does."""
    if not expressions.any.fullmatch(text):
        return len(flagged_table())
    return next(rank for rank, body in expressions.by_rank if re.fullmatch(body, text, re.DOTALL))


@functools.lru_cache(maxsize=4096)
def _rank_of_folder(name: str) -> int:
    return _rank(_compiled().folders, name)
