"""Read a prompt: its command, its text, and the files, selections and unsaved texts that the editor adds.

Editors mark a selection with a fragment of the file's URI (``#L10:20``, ``#L10-L20``). A text that comes with a URI
without one is the file as the editor shows it, unless it is only a part of the file on disk.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp import schema

from understudy.api.editor_files import accepted_documents
from understudy.model.errors import ErrorKind, Position, Range, UnderstudyError
from understudy.model.text import path_quoting

MOST_FILES = 50
MOST_ATTACHED = 200_000
"""Characters of text from outside the files of the workspace, in one prompt."""
_FILE_BYTES = 4 * 1024 * 1024
_COMMAND = re.compile(r"\s*/([a-z0-9][a-z0-9._-]*)(?=\s|$)\s*")
_FRAGMENT = re.compile(r"(?:\?symbol=[^#]*)?#L(\d{1,7})(?:[:-]L?(\d{1,7}))?$")
_SYMBOL = re.compile(r"\?symbol=[^#]*$")


@dataclass
class Prompt:
    """What the user asks for."""

    command: str | None = None
    text: str = ""
    """Without the command."""
    said: str = ""
    """What the user wrote: without names and texts of files, which others may have written."""
    files: list[Path] = field(default_factory=list)
    """Existing files of the workspace."""
    lines: Range | None = None
    """The selected lines of the first file."""
    unsaved: dict[str, str] = field(default_factory=dict)
    """URI → text of a file as the editor shows it."""


def read(blocks: Sequence[Any], folder: Path, workspace: Path) -> Prompt:
    """Return the prompt in the content blocks of a request; relative paths start in ``folder``.

    Errors: ``invalid_params`` for images and audio.
    """
    prompt = Prompt()
    texts: list[str] = []
    selections: dict[Path, Range] = {}
    room = MOST_ATTACHED
    for block in blocks:
        match block:
            case schema.TextContentBlock(text=text):
                texts.append(text)
                prompt.said += f"{text}\n"
            case schema.ResourceContentBlock(uri=uri, name=name):
                path, lines = _place(uri, workspace)
                if path is not None:
                    _add(prompt, path)
                    if lines is not None:
                        selections.setdefault(path, lines)
                texts.append(_mention(path, lines, workspace, otherwise=f"{name} ({uri})"))
            case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents(uri=uri, text=text)):
                path, lines = _place(uri, workspace)
                if path is not None:
                    _add(prompt, path)
                    lines = lines or _part(path, text)
                    if lines is not None:
                        selections.setdefault(path, lines)
                    else:
                        prompt.unsaved[path_quoting.uri_of(path)] = text
                mention = _mention(path, lines, workspace, otherwise=uri)
                if path is None or lines is not None:
                    mention = _attached(mention, text[: max(room, 0)])
                    room -= len(text)
                texts.append(mention)
            case schema.EmbeddedResourceContentBlock(resource=schema.BlobResourceContents(uri=uri)):
                path, _ = _place(uri, workspace)
                if path is not None:
                    _add(prompt, path)
                texts.append(_mention(path, None, workspace, otherwise=uri))
            case _:
                raise UnderstudyError(
                    ErrorKind.INVALID_PARAMS,
                    "A prompt may have text and files, but no images and no audio.",
                    hint="Describe what the image shows, or name its file.",
                )
    whole = "".join(_joined(texts)).strip()
    match = _COMMAND.match(whole)
    if match is not None:
        prompt.command, whole = match[1], whole[match.end() :].strip()
    prompt.text = whole
    if prompt.files:
        prompt.lines = selections.get(prompt.files[0])
    if match is not None:
        for path in _named(whole, folder, workspace):
            _add(prompt, path)
    return prompt


def _add(prompt: Prompt, path: Path) -> None:
    if path not in prompt.files and len(prompt.files) < MOST_FILES:
        prompt.files.append(path)


def _place(uri: str, workspace: Path) -> tuple[Path | None, Range | None]:
    """Return the file of the workspace that a URI names, and the lines of its fragment."""
    match = _FRAGMENT.search(uri)
    lines = None
    if match is not None and path_quoting.path_of(uri) is not None and not _is_file(path_quoting.path_of(uri)):
        uri = uri[: match.start()]
        first = max(int(match[1]), 1)
        last = max(int(match[2] or match[1]), first)
        lines = Range(start=Position(line=first - 1, character=0), end=Position(line=last, character=0))
    path = path_quoting.path_of(uri) or path_quoting.path_of(_SYMBOL.sub("", uri))
    if path is not None and not _is_file(path):
        path = path_quoting.path_of(_SYMBOL.sub("", uri))
    return (path, _bounded(path, lines)) if _is_file(path, workspace) else (None, None)


def _is_file(path: Path | None, workspace: Path | None = None) -> bool:
    try:
        if path is None or (workspace is not None and not path.parent.resolve().is_relative_to(workspace)):
            return False
        return path.is_file() and ".git" not in path.parts
    except (OSError, ValueError):
        return False


def _bounded(path: Path | None, lines: Range | None) -> Range | None:
    """Return the lines that the file has: an editor counts those that are not saved, too."""
    if path is None or lines is None:
        return None
    text = _text(path)
    count = text.count("\n") + (not text.endswith("\n"))
    if lines.start.line >= count:
        return None
    return Range(start=lines.start, end=Position(line=min(lines.end.line, count), character=0))


def _part(path: Path, text: str) -> Range | None:
    """Return the lines of the file on disk that a shorter text is; None if it is another text."""
    disk = _text(path)
    at = disk.find(text) if text.strip() and len(text) < len(disk) else -1
    if at < 0 or (at == 0 and not disk[len(text) :].strip()):
        return None
    first = disk.count("\n", 0, at)
    return _bounded(
        path,
        Range(
            start=Position(line=first, character=0),
            end=Position(line=first + text.rstrip("\n").count("\n") + 1, character=0),
        ),
    )


def _text(path: Path) -> str:
    return accepted_documents.text_of(path, _FILE_BYTES) or ""


def _mention(path: Path | None, lines: Range | None, workspace: Path, *, otherwise: str) -> str:
    if path is None:
        return f"`{otherwise}`"
    shown = path.parent.resolve().relative_to(workspace) / path.name
    if lines is None:
        return f"`{shown.as_posix()}`"
    return f"`{shown.as_posix()}` (lines {lines.start.line + 1} to {lines.end.line})"


def _attached(mention: str, text: str) -> str:
    boundary = secrets.token_hex(6)
    return f"{mention}:\n<<<{boundary}\n{text.rstrip()}\n{boundary}>>>\n"


def _joined(texts: Sequence[str]) -> Iterator[str]:
    """Yield the texts, with a blank between two that have none: editors put mentions between words."""
    before = ""
    for text in texts:
        if before and text and not before[-1].isspace() and not text[0].isspace() and text[0] not in ".,;:!?)":
            yield " "
        yield text
        before = text or before


def _named(text: str, folder: Path, workspace: Path) -> Iterator[Path]:
    """Yield the files that words of a command name."""
    for word in text.split()[: MOST_FILES * 4]:
        name = word.strip("`'\"(),;:").rstrip(".?!`")
        if ("/" in name or "." in name) and len(name) < 1000 and "\0" not in name:
            path = folder / name
            if _is_file(path, workspace):
                yield path
