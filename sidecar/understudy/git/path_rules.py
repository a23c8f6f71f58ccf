"""Paths: how they are written on the wire, and which of them deserve a second look."""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from collections.abc import Iterable

_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
_UNESCAPES = {letter: code for code, letter in _ESCAPES.items()}


def quote(path: bytes) -> str:
    """Return the wire form of a path inside a repository.

    The text itself, unless it is not UTF-8 or begins with ``"``: then git's C-quoted form (``quote.c`` of git).
    """
    try:
        text = path.decode()
    except UnicodeDecodeError:
        return c_quote(path)
    return c_quote(path) if text.startswith('"') else text


def c_quote(path: bytes) -> str:
    """Return git's C-quoted form, quotes included."""
    parts = []
    for code in path:
        if code in _ESCAPES:
            parts.append("\\" + _ESCAPES[code])
        elif 0x20 <= code < 0x7F:
            parts.append(chr(code))
        else:
            parts.append(f"\\{code:03o}")
    return '"' + "".join(parts) + '"'


def readable(wire: str) -> str:
    """Return a wire form so that whoever reads it, a person or an agent, can tell it from every other and from text.

    In git's quotes where it holds a line feed, an escape, or what nobody sees; ``unquote`` takes it in any case.
    """
    if wire.isprintable() and wire == wire.strip(" "):
        return wire
    return c_quote(wire.encode("utf-8", "replace"))


def unquote(text: str) -> bytes:
    """Return the path of a wire form: the inverse of ``quote``; ValueError when it is not one."""
    if not text.startswith('"'):
        return text.encode()
    if len(text) < 2 or not text.endswith('"'):
        raise ValueError("a quoted path must end with a quote")
    path = bytearray()
    position, end = 1, len(text) - 1
    while position < end:
        letter = text[position]
        if letter != "\\":
            path += letter.encode()
            position += 1
            continue
        octal = text[position + 1 : position + 4]
        if position + 1 < end and text[position + 1] in _UNESCAPES:
            path.append(_UNESCAPES[text[position + 1]])
            position += 2
        elif position + 3 < end and re.fullmatch("[0-3][0-7]{2}", octal):
            path.append(int(octal, 8))
            position += 4
        else:
            raise ValueError(f"not an escape: {text[position : position + 4]!r}")
    return bytes(path)


_SECRET = (
    ".env",
    ".env.*",
    "*.env",
    ".envrc",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "*.ovpn",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".pypirc",
    ".npmrc",
    ".git-credentials",
    ".htpasswd",
    "credentials.json",
    "service-account*.json",
    "*.tfstate",
    "*.tfvars",
)
_NOT_SECRET = ("*.example", "*.sample", "*.template", "*.dist", "*.pub")
_SECRET_FOLDERS = frozenset({b".ssh", b".aws", b".gnupg", b".azure", b".kube"})


def looks_secret(path: bytes) -> bool:
    """Say whether a file that is not tracked is likely to hold a secret, by its name alone."""
    *folders, name = path.split(b"/")
    if any(folder in _SECRET_FOLDERS for folder in folders):
        return True
    text = name.decode(errors="replace").lower()
    if any(fnmatch.fnmatchcase(text, pattern) for pattern in _NOT_SECRET):
        return False
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in _SECRET)


_HFS_IGNORABLE = re.compile("[\u200b-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")

# A folder counts as itself, too: it may come as a link to where its files lie under another name.
_FLAGGED: tuple[tuple[str, str], ...] = (
    (r"(^|/)\.(husky|githooks|git-hooks|hooks)(/|$)", "runs as a git hook"),
    (r"(^|/)(lefthook\.ya?ml|\.pre-commit-config\.yaml|\.pre-commit-hooks\.yaml|\.lefthook)", "configures git hooks"),
    (r"(^|/)\.git(attributes|modules|config)$", "changes what git does"),
    (
        r"^\.(github|gitlab|circleci|buildkite|woodpecker|forgejo|gitea|ci|teamcity|semaphore|builds|tekton)(/|$)",
        "runs in continuous integration",
    ),
    (
        (
            r"(^|/)(\.gitlab-ci\.yml|\.travis\.yml|\.?appveyor\.yml|azure-pipelines\.ya?ml|jenkinsfile"
            r"|bitbucket-pipelines\.yml|\.drone\.ya?ml|\.woodpecker\.ya?ml|\.cirrus\.(ya?ml|star)|\.build\.yml|wercker\.yml"
            r"|codemagic\.yaml|buildspec\.ya?ml|cloudbuild\.ya?ml)$"
        ),
        "runs in continuous integration",
    ),
    (
        (
            r"(^|/)\.(vscode|idea|devcontainer|zed|fleet|helix|vim|nvim)(/|$)|\.code-workspace$"
            r"|(^|/)(\.devcontainer\.json|\.n?vimrc|\.lvimrc|\.exrc|\.nvim\.lua|\.dir-locals(-2)?\.el|\.kateproject)$"
        ),
        "is read by an editor",
    ),
    (
        (
            r"(^|/)\.(claude|codex|gemini|opencode|cursor|aider[^/]*|windsurf|continue|qwen|understudy|copilot"
            r"|roo|kilocode|cline|clinerules|kiro|junie|goose|amp|trae|augment|agents?|crush)(/|$)"
            r"|(^|/)(\.?mcp\.json|claude(\.local)?\.md|agents?(\.override)?\.md|gemini\.md|qwen\.md|\.?opencode\.jsonc?"
            r"|\.?crush\.json|\.cursorrules|\.windsurfrules|\.roorules|\.goosehints|\.aider\.conf\.yml|skill\.md)$"
        ),
        "instructs or configures agents",
    ),
    (
        (
            r"(^|/)(\.envrc|\.npmrc|\.yarnrc(\.yml)?|\.pnpmfile\.cjs|\.tool-versions|\.?mise\.toml|bunfig\.toml|\.bazelrc"
            r"|\.pypirc|pip\.conf)$|(^|/)\.(cargo|bundle|yarn|mvn)(/|$)"
        ),
        "configures tools",
    ),
    (
        (
            r"(^|/)(package\.json|pnpm-workspace\.yaml|\.pnp\.c?js|deno\.jsonc?|composer\.json|cargo\.toml|gemfile|pom\.xml"
            r"|binding\.gyp|makefile(\.(am|in))?|gnumakefile|cmakelists\.txt|meson\.build|justfile|\.justfile|taskfile\.ya?ml"
            r"|rakefile|build\.rs|setup\.py|setup\.cfg|pyproject\.toml|conftest\.py|\.?pytest\.(ini|toml)|sitecustomize\.py"
            r"|usercustomize\.py|noxfile\.py|tox\.ini|(build|settings)\.gradle(\.kts)?|gradlew(\.bat)?|mvnw(\.cmd)?"
            r"|(dockerfile|containerfile)(\.[^/]+)?|docker-compose[^/]*\.ya?ml|compose\.ya?ml|procfile|vagrantfile)$"
            r"|(^|/)gradle/wrapper/|\.(mk|gemspec)$"
            r"|(^|/)([^/]+\.config|\.[a-z]+rc)\.[cm]?[jt]s$"
        ),
        "can run commands in builds or tests",
    ),
    (r"(^|/)\.(bashrc|bash_profile|profile|zshrc|zshenv|zprofile)$", "runs when a shell starts"),
    (r"\.pth$", "runs when Python starts"),
    # Editors take the interpreter, and other programs, from there without being asked; so does our own extension.
    (
        r"(^|/)(\.venv|venv|node_modules)(/|$)|(^|/)[^/]+/bin/(activate[^/]*|python[0-9.]*)$|(^|/)pyvenv\.cfg$",
        "is run in place of an installed program",
    ),
)
_FLAGGED_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), reason) for pattern, reason in _FLAGGED)


def flagged(path: bytes | str) -> str | None:
    """Return why a change of this file deserves a second look before it is accepted, or None.

    These files are executed or obeyed by something other than the program under work: hooks, CI, editors, agents,
    package scripts. A name that some file system, or a reader, takes for one of them counts as it.
    """
    text = path.decode(errors="replace") if isinstance(path, bytes) else path
    plain = "/".join(part.rstrip(". ") for part in _HFS_IGNORABLE.sub("", text).split("/"))
    for pattern, reason in _FLAGGED_PATTERNS:
        if pattern.search(text) or pattern.search(plain):
            return reason
    return None


def refused(path: bytes) -> bool:
    """Say whether git would refuse to track this path (``verify_path``, with HFS+ and NTFS protection on).

    Refused are empty, ``.`` and ``..`` parts, absolute paths, and every spelling of ``.git`` that some file system
    takes for it. Git itself stays the last guard; this says it beforehand, so that one such name does not spoil a call.
    """
    if not path or path.startswith(b"/") or b"\0" in path:
        return True
    return any(part in {b"", b".", b".."} or _is_dot_git(part) for part in path.split(b"/"))


def _is_dot_git(part: bytes) -> bool:
    text = part.decode(errors="replace")
    for piece in text.split("\\"):
        plain = _HFS_IGNORABLE.sub("", piece).lower()
        ntfs = plain.split(":", 1)[0].rstrip(". ")
        if plain == ".git" or ntfs in {".git", "git~1"}:
            return True
    return False


def collisions(paths: Iterable[bytes]) -> list[list[bytes]]:
    """Return the groups of paths that become one on a file system without case or with normalised Unicode.

    Folders count too: ``A/x`` and ``a/y`` meet in the folder. Each group is sorted, the groups by their first path.
    """
    seen: dict[str, set[bytes]] = {}
    for path in paths:
        parts = path.split(b"/")
        for length in range(1, len(parts) + 1):
            prefix = b"/".join(parts[:length])
            text = unicodedata.normalize("NFC", prefix.decode(errors="surrogateescape"))
            seen.setdefault(unicodedata.normalize("NFC", text.casefold()), set()).add(prefix)
    return sorted(sorted(group) for group in seen.values() if len(group) > 1)
