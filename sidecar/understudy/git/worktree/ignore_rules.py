"""The ignore rules of a base, as one list of patterns.

An agent can write `.gitignore` files, so those in its worktree cannot decide what belongs to its result. The rules of
the base do: all `.gitignore` files of that commit are translated into one list of patterns relative to the top, for
`git ls-files --exclude-from`. The order preserves their meaning: a deeper file comes later and so overrides a higher
one (gitignore(5)).
"""

from __future__ import annotations

from understudy.git.object_store import ObjectStore

GENERATED = b"""\
__pycache__/
*.pyc
.pytest_cache/
.mypy_cache/
.ruff_cache/
.hypothesis/
.tox/
.nox/
.venv/
node_modules/
.coverage
.DS_Store
"""
"""Caches and reports of test runs, which no one reviews. Files with these names that are not in the base are not part
of a result, and no check sees them, because it runs on exactly the result. Base rules may re-include them.
"""

_ESCAPES = {code: b"\\" + bytes([code]) for code in b"*?[\\"} | {0x0A: b"?"}
"""How a folder's name is escaped in a pattern; a line break cannot be escaped, so it becomes `?`."""
_RULES_LIMIT = 4 * 1024 * 1024
"""Most bytes read of one `.gitignore`."""


def rules_of(store: ObjectStore, tree: str) -> bytes:
    """Return the ignore rules of a commit or tree, including the user's own excludes, as one list of patterns."""
    listing = store.git_output("ls-tree", "-r", "-z", "--full-tree", tree)
    rule_files = []
    for entry in listing.split(b"\0"):
        details, _, path = entry.partition(b"\t")
        if path == b".gitignore" or path.endswith(b"/.gitignore"):
            mode, _, identifier = details.split(b" ")
            if mode in {b"100644", b"100755"}:  # a link is not followed; git does not follow it either
                rule_files.append((path[: -len(b".gitignore")], identifier))
    parts = [GENERATED, (store.path / "info" / "exclude").read_bytes()]
    for folder, identifier in sorted(rule_files, key=lambda item: item[0].count(b"/")):
        text = store.git_output("cat-file", "blob", identifier, output_limit=_RULES_LIMIT)
        parts.append(translate(folder, text))
    return b"\n".join(parts) + b"\n"


def pattern_of(path: bytes) -> bytes:
    """Return the pattern that matches only this path."""
    plain = b"".join(_ESCAPES.get(code, bytes([code])) for code in path)
    return b"/" + (plain[:-1] + b"\\ " if plain.endswith(b" ") else plain)


def translate(folder: bytes, text: bytes) -> bytes:
    """Translate the patterns of a `.gitignore` in ``folder`` (empty, or ending with a slash) to patterns of the top."""
    prefix = b"/" + b"".join(_ESCAPES.get(code, bytes([code])) for code in folder)
    lines = []
    for raw in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = raw.removesuffix(b"\r")
        if not line or line.startswith(b"#"):
            continue
        negated = line.startswith(b"!")
        pattern = line[1:] if negated else line
        plain = _without_trailing_spaces(pattern)
        if not plain or plain == b"/":
            continue
        anchored = b"/" in plain.removesuffix(b"/")
        if not folder:
            # At the top the pattern means the same, and nothing can become a comment or a negation.
            moved = pattern
        elif anchored:
            moved = prefix + pattern.removeprefix(b"/")
        else:
            moved = (
                prefix + b"**/" + pattern.removeprefix(b"\\") if _escaped_start(pattern) else prefix + b"**/" + pattern
            )
        lines.append((b"!" if negated else b"") + moved)
    return b"\n".join(lines)


def _escaped_start(pattern: bytes) -> bool:
    # `\#x` and `\!x` need their backslash only at the start of a line.
    return pattern[:2] in {b"\\#", b"\\!"}


def _without_trailing_spaces(pattern: bytes) -> bytes:
    while pattern.endswith(b" ") and not pattern.endswith(b"\\ "):
        pattern = pattern[:-1]
    return pattern
