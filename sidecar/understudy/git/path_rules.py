"""Classify paths: likely secrets, files whose change needs explicit consent, and invalid paths."""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from collections.abc import Iterable

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
    """Return whether an untracked file is likely to contain a secret, by its name alone."""
    *folders, name = path.split(b"/")
    if any(folder in _SECRET_FOLDERS for folder in folders):
        return True
    text = name.decode(errors="replace").lower()
    if any(fnmatch.fnmatchcase(text, pattern) for pattern in _NOT_SECRET):
        return False
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in _SECRET)


_HFS_IGNORABLE = re.compile("[\u200b-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")

# The folder itself is flagged too: it may be a link to a folder with these files.
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
            r"|roo|kilocode|cline|clinerules|kiro|junie|goose|amp|trae|augment|agents?|crush|pi)(/|$)"
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
    # Editors run the interpreter and other programs from there without asking; so does our own extension.
    (
        r"(^|/)(\.venv|venv|node_modules)(/|$)|(^|/)[^/]+/bin/(activate[^/]*|python[0-9.]*)$|(^|/)pyvenv\.cfg$",
        "is run in place of an installed program",
    ),
)
_FLAGGED_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), reason) for pattern, reason in _FLAGGED)


def flagged(path: bytes | str) -> str | None:
    """Return why a change of this file needs explicit consent, or None.

    Programs other than the project itself execute or obey these files: git hooks, CI, editors, agents, package
    managers. Names that some file system or a reader could confuse with one of them are flagged too.
    """
    text = path.decode(errors="replace") if isinstance(path, bytes) else path
    plain = "/".join(part.rstrip(". ") for part in _HFS_IGNORABLE.sub("", text).split("/"))
    for pattern, reason in _FLAGGED_PATTERNS:
        if pattern.search(text) or pattern.search(plain):
            return reason
    return None


def refused(path: bytes) -> bool:
    """Return whether git would refuse to track this path (``verify_path``, with HFS+ and NTFS protection on).

    Refused are empty, ``.`` and ``..`` parts, absolute paths, and every name that some file system treats as ``.git``.
    Git checks paths too; checking first prevents one such name from failing a whole call.
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
