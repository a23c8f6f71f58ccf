"""Build the exact text that is sent, and choose the files that are sent with it."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from understudy.git import path_rules
from understudy.model.capabilities import Capabilities
from understudy.model.config.delegators import Delegator
from understudy.model.config.recipes import Recipe
from understudy.model.delegations import StartParams
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.runner import decorate

FILE_BYTES = 750_000
"""A larger file is refused: it would not fit into a context window, and cutting it silently would mislead the model."""
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
    """The system message of our own loop, about the format of the answer; agent CLIs have their own."""

    @property
    def shown(self) -> str:
        """Return everything that is sent, as text for the user."""
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
    supported: Capabilities,
    files: list[str],
    context: list[str],
    target: str | None,
    read: Callable[[str], bytes | None],
    local: bool,
) -> Prompt:
    """Build the prompt.

    ``files``, ``context`` and ``target`` are paths inside the workspace, ``read`` returns what the user
    sees in one of them. An agent CLI works in the worktree, so it gets the names; a model behind a server
    gets the contents, except those of a file that looks like a secret, unless the server is ``local``.
    Raises ``input_empty``, ``file_too_large``, ``input_too_large``.
    """
    inline = supported.inline_files
    parts = [recipe.prompt.strip()]
    if params.task and params.task.strip():
        parts.append("# What is asked for\n\n" + params.task.strip())
    for name, text in (("task", params.task), ("input", params.input)):
        if text and len(text) > ALL_BYTES:
            raise UnderstudyError(
                ErrorKind.INPUT_TOO_LARGE,
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
            hint="Name a file, or describe the work in `task`.",
        )
    text = "\n\n".join(part for part in parts if part) + "\n"
    return Prompt(decorate(text, delegator.launch), tuple(sent), system=_system(recipe, supported, files, target))


def _system(recipe: Recipe, supported: Capabilities, files: list[str], target: str | None) -> str | None:
    if not supported.inline_files:
        return None
    from understudy.runners.backends import file_answers

    return file_answers.instructions(recipe, files=files, target=target)


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
                        hint="Use an agent CLI, which reads files itself, or pass the relevant part as `input`.",
                    )
                if total > ALL_BYTES:
                    raise UnderstudyError(
                        ErrorKind.INPUT_TOO_LARGE,
                        f"The files together have more than {ALL_BYTES} bytes.",
                        hint="Name fewer files, or use an agent CLI, which reads files itself.",
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
    if not local and path_rules.looks_secret(os.fsencode(path)):
        return "its name suggests that it contains secrets, and the model server is not on this machine"
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
