"""Extract files from a model's answer, and instruct the model how to format it."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import msgspec

from understudy.files import nofollow
from understudy.model.config.delegators import Recipe
from understudy.model.errors import ErrorKind, UnderstudyError

_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})[ \t]*(.*)$")
_PATH_KEY = re.compile(r"(?:^|\s)(?:path|file|filename|title)\s*[=:]\s*[\"']?([^\"'\s]+)", re.IGNORECASE)
_MAX_FILES = 20
_MAX_NAMES = 1000

_TEST_NAMES: dict[str, str] = {
    ".py": "tests/test_{stem}{n}.py",
    ".js": "{folder}{stem}{dot_n}.test.js",
    ".jsx": "{folder}{stem}{dot_n}.test.jsx",
    ".mjs": "{folder}{stem}{dot_n}.test.mjs",
    ".cjs": "{folder}{stem}{dot_n}.test.cjs",
    ".ts": "{folder}{stem}{dot_n}.test.ts",
    ".tsx": "{folder}{stem}{dot_n}.test.tsx",
    ".go": "{folder}{stem}{n}_test.go",
    ".rs": "tests/{stem}{n}.rs",
    ".rb": "test/{stem}{n}_test.rb",
    ".java": "src/test/java/{Stem}{n}Test.java",
}
"""Where a language's tools look for tests; other languages get pytest's naming with their own extension."""


def instructions(recipe: Recipe, *, target: str | None) -> str | None:
    """Return the system message that specifies the answer's format; None where any text will do.

    A preview shows it together with the prompt, so that the user sees everything that is sent.
    """
    if recipe.returns != "file":
        return None
    name = f"of the file {target}" if target else "of the file"
    return (
        f"Answer with the complete content {name} and nothing else: no explanation before or after it, "
        "nothing left out, no placeholder. You may enclose it in one code fence."
    )


class Block(msgspec.Struct, frozen=True):
    """A fenced block: the rest of the line that opens it, and its content."""

    info: str
    content: str
    closed: bool


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of ``text`` by CommonMark's rules: a closing fence may not be shorter."""
    fenced: list[Block] = []
    lines: list[str] = []
    opened: tuple[str, str, str] | None = None
    for line in text.splitlines(keepends=True):
        match = _FENCE.match(line.rstrip("\r\n"))
        if opened is None:
            if match and not (match[2][0] == "`" and "`" in match[3]):
                opened = (match[1], match[2], match[3].strip())
                lines = []
            continue
        indent, fence, info = opened
        if match and match[2][0] == fence[0] and len(match[2]) >= len(fence) and not match[3].strip():
            fenced.append(Block(info, "".join(lines), closed=True))
            opened = None
        else:
            lines.append(line.removeprefix(indent))
    if opened is not None:
        fenced.append(Block(opened[2], "".join(lines), closed=False))
    return fenced


def file_content(text: str) -> str:
    """Return the file in an answer: the content of one enclosing fence, else the whole answer."""
    stripped = text.strip("\r\n \t\ufeff")
    content = text
    if stripped.startswith(("```", "~~~")):
        fenced = blocks(stripped)
        last = stripped.splitlines()[-1]
        if len(fenced) == 1 and not fenced[0].closed:
            raise _malformed("opens a code fence and does not close it: it was cut off")
        if len(fenced) == 1 and _FENCE.match(last):
            content = fenced[0].content
    if not content.strip():
        raise UnderstudyError(
            ErrorKind.EMPTY_OUTPUT, "The model's file is empty.", hint="Retry, or choose another model."
        )
    return content if content.endswith("\n") else content + "\n"


def write_target(tree: Path, target: str, content: str) -> bool:
    """Write the file of a ``file`` recipe into the worktree; return whether it existed before."""
    return nofollow.write_over(tree, target, _encode(content))


def write_tests(tree: Path, text: str, files: list[str]) -> list[str]:
    """Write the test files in an answer as new files and return their paths. Existing files are never changed.

    Error kinds: ``malformed_output`` (no block, a cut-off block, or an unnamed block among several),
    ``empty_output``, ``path_escape``. Either all files are written or none.
    """
    fenced = [block for block in blocks(text) if block.content.strip()]
    if not fenced:
        raise _malformed("contains no code block with a test file")
    if not fenced[-1].closed:
        raise _malformed("ends inside a code block: it was cut off")
    named = [(path, block) for block in fenced if (path := _path(block.info, files))]
    if not named:
        longest = max(fenced, key=lambda block: len(block.content))
        source = files[0] if files else "new.py"
        named = [(conventional_test_path(source), longest)]
    if len(named) > _MAX_FILES:
        raise _malformed(f"contains {len(named)} files, more than {_MAX_FILES}")
    for path, _ in named:
        nofollow.safe_parts(path)
    written: list[str] = []
    for path, block in named:
        free = free_name(tree, path)
        nofollow.write_new(tree, free, _encode(block.content))
        written.append(free)
    return written


def conventional_test_path(source: str, number: int = 1) -> str:
    """Return the conventional path for the tests of ``source``; ``number`` > 1 for another file beside it."""
    path = PurePosixPath(source)
    folder = "" if str(path.parent) == "." else f"{path.parent}/"
    stem = re.sub(r"\W+", "_", path.stem) or "new"
    template = _TEST_NAMES.get(path.suffix, "tests/test_{stem}{n}" + (path.suffix or ".txt"))
    n = "" if number == 1 else f"_{number}"
    camel = "".join(part[:1].upper() + part[1:] for part in stem.split("_"))
    return template.format(folder=folder, stem=stem, Stem=camel, n=n, dot_n=n.replace("_", "."))


def free_name(tree: Path, path: str) -> str:
    """Return ``path``, or the first numbered variant of it that does not exist."""
    if not nofollow.exists(tree, path):
        return path
    pure = PurePosixPath(path)
    # The suffix that a test runner looks for (`.test.ts`, `_test.go`) has to stay at the end.
    match = re.fullmatch(r"(.+?)((?:[._](?:test|spec))?)", pure.stem)
    stem, ending = (match[1], match[2]) if match else (pure.stem, "")
    for number in range(2, _MAX_NAMES):
        candidate = str(pure.with_name(f"{stem}_{number}{ending}{pure.suffix}"))
        if not nofollow.exists(tree, candidate):
            return candidate
    raise UnderstudyError(
        ErrorKind.TARGET_EXISTS,
        f"{path} and its numbered variants exist already.",
        hint="Remove or rename some of them.",
    )


def _path(info: str, files: list[str]) -> str | None:
    """Return the path on a fence's opening line: ``python tests/x.py``, ``python path=…``, ``tests/x.py``."""
    match = _PATH_KEY.search(info)
    words = [match[1]] if match else info.replace(":", " ").split()
    suffix = PurePosixPath(files[0]).suffix if files else ""
    for word in words:
        candidate = word.strip("\"'`(){}[],")
        looks = "/" in candidate or (PurePosixPath(candidate).suffix and PurePosixPath(candidate).suffix == suffix)
        if candidate and looks:
            return candidate.removeprefix("./")
    return None


def _encode(content: str) -> bytes:
    return content.encode("utf-8", "surrogatepass")


def _malformed(what: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.MALFORMED_OUTPUT,
        f"The model's answer {what}.",
        hint="Retry, or choose a model that follows instructions.",
    )
