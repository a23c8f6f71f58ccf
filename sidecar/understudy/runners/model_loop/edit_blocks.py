"""Changes in the text of an answer, for models that cannot call tools: strict search and replace blocks.

    path/of/file.py
    <<<<<<< SEARCH
    the exact lines to replace
    =======
    the new lines
    >>>>>>> REPLACE

The lines to replace must be in the file exactly once; with none, the file is created. Either all blocks of an answer
are applied or none.
"""

from __future__ import annotations

from dataclasses import dataclass

from understudy.runners.model_loop.file_tools import Change, FileTools, ToolError, replace_once

FORMAT = """\
Answer with one block for each place that changes, in exactly this format:

path/of/file.py
<<<<<<< SEARCH
the exact lines to replace, with enough of their surroundings to be in the file only once
=======
the new lines
>>>>>>> REPLACE

The path is relative to the root of the repository and is the only text of its line. Leave the part above ======= empty
to create a new file. Lines outside of blocks are your explanation."""

_SEARCH, _MIDDLE, _REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
_MAX_BLOCKS = 200


@dataclass(frozen=True)
class EditBlock:
    """One change: an empty ``old`` creates the file."""

    path: str
    old: str
    new: str


def parse(text: str) -> list[EditBlock]:
    """Return the blocks of an answer; raise ``ToolError`` if one of them is not complete."""
    blocks: list[EditBlock] = []
    lines = text.splitlines(keepends=True)
    place = 0
    while place < len(lines):
        if lines[place].rstrip() != _SEARCH:
            if lines[place].rstrip() == _REPLACE:
                raise ToolError(f"Line {place + 1} of your answer ends a block that does not begin.")
            place += 1
            continue
        path = _path_before(lines, place)
        if not path:
            raise ToolError(f"The block at line {place + 1} of your answer has no path on the line before it.")
        middle = _find(lines, place + 1, _MIDDLE, path)
        end = _find(lines, middle + 1, _REPLACE, path)
        blocks.append(EditBlock(path, "".join(lines[place + 1 : middle]), "".join(lines[middle + 1 : end])))
        place = end + 1
        if len(blocks) > _MAX_BLOCKS:
            raise ToolError(f"Your answer has more than {_MAX_BLOCKS} blocks.")
    return blocks


def apply(files: FileTools, blocks: list[EditBlock]) -> list[tuple[str, Change]]:
    """Apply all blocks and return the changed files; raise ``ToolError`` without changing any."""
    before: dict[str, bytes | None] = {}
    after: dict[str, bytes] = {}
    problems: list[str] = []
    for number, block in enumerate(blocks, 1):
        try:
            if block.path not in before:
                before[block.path] = files.content(block.path)
            after[block.path] = _changed(after.get(block.path, before[block.path]), block)
        except ToolError as error:
            problems.append(f"Block {number} ({block.path}): {str(error).replace('old_string', 'The text to replace')}")
    if problems:
        raise ToolError("\n".join(problems))
    changes: list[tuple[str, Change]] = []
    for path, content in after.items():
        changes.append((path, files.write_bytes(path, content)))
    return changes


def _changed(content: bytes | None, block: EditBlock) -> bytes:
    """Return a file after one block; raise ``ToolError`` if the block does not fit."""
    if not block.old:
        if content is not None:
            raise ToolError(f"{block.path} exists. Quote the lines to replace above =======.")
        return block.new.encode("utf-8", "replace")
    if content is None:
        raise ToolError(f"{block.path} does not exist.")
    return replace_once(content, block.old, block.new, block.path)[0]


def _path_before(lines: list[str], place: int) -> str:
    """Return the path above a block; a line that opens a code fence may be between them."""
    above = place - 1
    if above >= 0 and lines[above].lstrip().startswith(("```", "~~~")):
        above -= 1
    return lines[above].strip().strip("`*").removeprefix("./") if above >= 0 else ""


def _find(lines: list[str], start: int, marker: str, path: str) -> int:
    for number in range(start, len(lines)):
        line = lines[number].rstrip()
        if line == marker:
            return number
        if line == _SEARCH or (line == _REPLACE and marker == _MIDDLE):
            break
    raise ToolError(f"The block for {path} is not complete: {marker} is missing.")
