"""The exact text that is sent, and which files go with it."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from understudy.git import names
from understudy.model.delegations import StartParams
from understudy.model.delegators import Delegator, Recipe
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.base import decorate

FILE_BYTES = 750_000
"""One file above this is refused: it would not fit a context window, and cutting it silently would mislead."""
ALL_BYTES = 3_000_000
BYTES_PER_TOKEN = 4
"""The usual estimate for code and English; the real count comes back with the usage."""


@dataclass(frozen=True)
class PromptFile:
    """A file of the prompt: its size, and why it is not sent if it is not."""

    path: str
    size: int
    withheld: str | None = None

    @property
    def tokens(self) -> int:
        """Return the estimate for this file; nothing for a withheld one."""
        return 0 if self.withheld else tokens_of(self.size)


@dataclass(frozen=True)
class Prompt:
    """What is sent."""

    text: str
    files: tuple[PromptFile, ...]
    system: str | None = None
    """What our own loop tells a model about the form of the answer; agent CLIs have system messages of their own."""

    @property
    def shown(self) -> str:
        """Return everything that is sent, for a person to read."""
        return f"# System message\n\n{self.system}\n\n# Message\n\n{self.text}" if self.system else self.text

    @property
    def tokens(self) -> int:
        """Return the estimated number of tokens of everything that is sent."""
        return tokens_of(len(((self.system or "") + self.text).encode("utf-8", "replace")))


def tokens_of(size: int) -> int:
    """Return the estimated number of tokens of ``size`` bytes."""
    return -(-size // BYTES_PER_TOKEN)


def build(
    *,
    recipe: Recipe,
    params: StartParams,
    delegator: Delegator,
    files: list[str],
    context: list[str],
    target: str | None,
    read: Callable[[str], bytes | None],
    local: bool,
) -> Prompt:
    """Build the prompt.

    ``files``, ``context`` and ``target`` are paths inside the workspace, ``read`` returns what the person
    sees in one of them. An agent CLI works in the tree, so it is told the names; a model behind a server is
    sent the contents, but not those of a file that looks like a secret unless the server is ``local``.
    Raises ``input_empty``, ``file_too_large``, ``corpus_too_large``.
    """
    inline = delegator.tool is None
    parts = [recipe.prompt.strip()]
    if params.task and params.task.strip():
        parts.append("# What is asked for\n\n" + params.task.strip())
    for name, text in (("task", params.task), ("input", params.input)):
        if text and len(text) > ALL_BYTES:
            raise UnderstudyError(
                ErrorKind.CORPUS_TOO_LARGE,
                f"`{name}` has {len(text)} characters; at most {ALL_BYTES} are sent.",
                hint="Name files instead, or ask about a part.",
            )
    described, sent = _files(files, context, target, read, inline=inline, local=local)
    if params.range is not None and files and not sent[0].withheld:
        parts.append(_selection(files[0], params, read))
    if params.diagnostics:
        parts.append(
            "# Problems reported by the editor\n\n" + "\n".join(_diagnostic(item) for item in params.diagnostics)
        )
    if params.input:
        parts.append(_fenced("# Input", params.input))
    parts.extend(described)
    if not (params.task or files or context or params.input or target):
        raise UnderstudyError(
            ErrorKind.INPUT_EMPTY,
            f"There is nothing for the recipe {recipe.name!r} to work on.",
            hint="Name a file, or say what is asked for: `task`.",
        )
    text = "\n\n".join(part for part in parts if part) + "\n"
    return Prompt(decorate(text, delegator.launch), tuple(sent), system=_system(recipe, delegator, files, target))


def _system(recipe: Recipe, delegator: Delegator, files: list[str], target: str | None) -> str | None:
    if delegator.tool is not None:
        return None
    from understudy.runners.backends import answers  # noqa: PLC0415 - only for model servers

    return answers.instructions(recipe, files=files, target=target)


def _files(
    files: list[str],
    context: list[str],
    target: str | None,
    read: Callable[[str], bytes | None],
    *,
    inline: bool,
    local: bool,
) -> tuple[list[str], list[PromptFile]]:
    parts: list[str] = []
    sent: list[PromptFile] = []
    total = 0
    for title, group in (("# Files to work on", files), ("# Files to read along", context)):
        texts: list[str] = []
        for path in group:
            content = read(path)
            size = 0 if content is None else len(content)
            withheld = _withheld(path, content, local=local) if inline else None
            if inline and withheld is None:
                total += size
                if size > FILE_BYTES:
                    raise UnderstudyError(
                        ErrorKind.FILE_TOO_LARGE,
                        f"{path} has {size} bytes; at most {FILE_BYTES} are sent of one file.",
                        hint="Use an agent CLI, which reads files by itself, or pass the part that matters as `input`.",
                    )
                if total > ALL_BYTES:
                    raise UnderstudyError(
                        ErrorKind.CORPUS_TOO_LARGE,
                        f"The files together have more than {ALL_BYTES} bytes.",
                        hint="Name fewer files, or use an agent CLI, which reads files by itself.",
                    )
            sent.append(PromptFile(path, size, withheld))
            texts.append(_described(path, content, withheld, inline=inline))
        if texts:
            parts.append(title + "\n\n" + ("\n\n" if inline else "\n").join(texts))
    if target is not None:
        parts.append(f"# File to write\n\n`{target}`")
    return parts, sent


def _described(path: str, content: bytes | None, withheld: str | None, *, inline: bool) -> str:
    if not inline:
        return f"- `{path}`"
    if withheld is not None or content is None:
        return f"`{path}` (not included: {withheld or 'it does not exist yet'})"
    return _fenced(f"`{path}`", content.decode("utf-8", "replace"))


def _withheld(path: str, content: bytes | None, *, local: bool) -> str | None:
    if content is not None and b"\0" in content[:8192]:
        return "binary"
    if not local and names.looks_secret(os.fsencode(path)):
        return "its name says that it holds secrets, and the model server is not on this machine"
    return None


def _fenced(title: str, text: str) -> str:
    # A random boundary: no file can contain the line that ends it.
    boundary = secrets.token_hex(6)
    return f"{title}\n<<<{boundary}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{boundary}>>>"


def _selection(path: str, params: StartParams, read: Callable[[str], bytes | None]) -> str:
    chosen = params.range
    content = read(path)
    if chosen is None or content is None:
        return ""
    first, last = chosen.start.line, chosen.end.line
    # Lines as LSP counts them: ended by LF, CRLF or CR and nothing else.
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", content.decode("utf-8", "replace"))
    return _fenced(f"# Selected: lines {first + 1} to {last + 1} of `{path}`", "".join(lines[first : last + 1]))


def _diagnostic(item: object) -> str:
    if not isinstance(item, dict):
        return f"- {item}"
    start = item.get("range", {}).get("start", {}) if isinstance(item.get("range"), dict) else {}
    line = f"line {start['line'] + 1}: " if isinstance(start.get("line"), int) else ""
    return f"- {line}{item.get('message', '')}"
