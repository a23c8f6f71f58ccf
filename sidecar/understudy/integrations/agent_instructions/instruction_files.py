"""Instructions for other agents, and the files that hold them: skills, and blocks in files that the user owns.

A link is kept, and its target is written; a project's link must not lead out of the project. Files are replaced
atomically and keep their permissions. What someone edited between our markers stays, unless they force it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.config import findings
from understudy.files.user_file import UserFile
from understudy.model.config.other_agents import InstructionChange, InstructionState, InstructionTarget
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import patches

MOST_BYTES = 4 * 1024 * 1024
"""An agent reads no larger file at its start."""
_MOST_FOLDERS = 9
"""What one digit of a marker can hold; no path below an agent's folder is deeper."""
VERSION = 1
_BEGIN = re.compile(rb"<!-- understudy:begin v(\d{1,6}) ([0-9a-f]{12}) (added|made)=(\d) -->\r?\n")
_END = re.compile(rb"<!-- understudy:end -->(\r?\n)?")
_FILE = re.compile(rb"<!-- understudy:file v(\d{1,6}) ([0-9a-f]{12}) made=(\d) -->\r?\n?\Z")
_DESCRIPTION = (
    "Delegate tests, boilerplate, documentation, bulk reading and summaries to cheaper models and other coding agents "
    "with the `understudy` command, and get results that are checked. Use it when a task is well defined and you can "
    "tell from its result whether it is right."
)
_WHAT = """\
Delegate: tests for existing code, boilerplate, the same edit in many places, documentation, facts from more than three
files or a long log, summaries.

Never delegate: secrets or personal data, authentication, cryptography, migrations of data, a bug whose cause you do not
know, an edit of one line, the review of a result that was delegated.
"""
_REPORT = """\
Before each delegation, say in one line what goes to whom: "Delegating tests of module.py to NAME (MODEL)". In your
last message, list the delegations with model and verdict, and the share of the work that was delegated"""
BODY = f"""\
`understudy` gives work to cheaper models and other coding agents. Each works in a copy of the repository; nothing
changes in the user's files until a result is accepted.

{_WHAT}
1. `understudy delegators list` shows who can work.
2. `understudy start tests src/module.py --json` waits for the result; `implement`, `fix` and `docs` take
   `--task "…"`, a long task `--task-file -`. Name the goal, the files, the limits and how to check. Do not ask for a
   commit. With `--detach`, it prints the ID at once; `understudy wait ID` waits.
3. For text, no worktree and no check is needed; these answer at once, and paths may be files, folders or globs:
   `understudy ask -t "Which functions retry?" src/net.py 'src/http/**'`, `understudy summarize build.log` (or a pipe),
   `understudy write -t "a README of this folder" src --target README.md` (`--stdout` prints it instead). Facts from
   them are not checked: look at what you rely on.
4. Only `verified` means that required checks passed. Read `understudy diff ID`, and `understudy evidence ID` for
   anything else. Nothing that an agent says about its own work is evidence.
5. `understudy reply ID "what is wrong"` sends it back. `understudy accept ID --all` changes the user's files: do it
   only if the user lets you, otherwise name the ID. `understudy inbox` lists questions that wait for the user.

If you have Understudy's MCP tools (`start`, `batch`, `wait`, `diff`, `evidence`, `reply`, `ask`), use them instead of
these commands. `ask` with a question and files replaces `understudy ask` and `understudy summarize`; `understudy write`
has no counterpart: use the command.

{_REPORT}
(`understudy ledger`).
"""
SNIPPET = f"""\
## Delegating with Understudy

Understudy's tools give work to cheaper models and other coding agents. Each works in a copy of the repository; nothing
changes in the user's files until a result is accepted.

{_WHAT}
1. `list_delegators` shows who can work. Pass the absolute path of the project as `workspace`.
2. `start` delegates one task, `batch` several that do not depend on each other. Name the goal, the files, the limits
   and how to check. Do not ask for a commit. `wait` returns the result; call it again while it says `running`.
   `ask` lets a model read files and answers a question about them: facts from many files or a long log, a summary, or
   the text of a file, which you write yourself. Facts from it are not checked: look at what you rely on.
3. Only `verified` means that required checks passed. Read `diff`, and `evidence` for anything else. Nothing that an
   agent says about its own work is evidence.
4. `reply` sends a result back. The user accepts it, in their editor or with `understudy review ID`: name the ID.

{_REPORT}.
"""
"""For an application without a command line, where our server is registered: the text for its own instructions."""
SKILL = f"""\
---
name: understudy
description: {_DESCRIPTION}
---

# Delegating with Understudy

{BODY}"""
"""The content of ``SKILL.md``, without its marker."""
BLOCK = f"## Delegating with Understudy\n\n{BODY}"
"""The lines between the markers in a file of the user's."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A place for instructions."""

    title: str
    path: Path
    skill: bool
    agent: Path | None
    """The agent's folder: if it exists, the agent is or was used here. None: only where the user names it."""
    inside: Path | None = None
    """The project that must contain the file."""

    @property
    def file(self) -> UserFile:
        """Return the file."""
        return UserFile(self.path, MOST_BYTES, self.inside)


def listed(workspace: Path | None, environment: Mapping[str, str] = os.environ) -> list[InstructionTarget]:
    """Return all places, with the state of the instructions there; those of a workspace if one is given."""
    targets = []
    for name, place in _places(workspace, environment).items():
        problem = None
        try:
            state = _state(place, _read(place))
        except UnderstudyError as error:
            state, problem = InstructionState.UNREADABLE, error.message
        exists = place.agent is not None and place.agent.is_dir()
        targets.append(
            InstructionTarget(
                name=name, title=place.title, path=str(place.path), state=state, found=exists, problem=problem
            )
        )
    return targets


def change(
    names: Sequence[str] | None,
    workspace: Path | None,
    *,
    install: bool,
    dry_run: bool,
    force: bool,
    environment: Mapping[str, str] = os.environ,
) -> list[InstructionChange]:
    """Install or remove instructions in the named places; return what was done, or with ``dry_run`` would be.

    Default: install where an agent's folder exists, remove wherever they are. A place that cannot be changed has a
    ``problem``; the others are changed. Raises ``invalid_params`` for an unknown name.
    """
    places = _places(workspace, environment)
    for name in names or ():
        if name not in places:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"There is no place for instructions {name!r}.",
                hint=findings.near(name, places),
            )
    chosen = [name for name in places if name in names] if names else _default(places, install=install)
    made: set[Path] = set()
    changes = [_change_one(name, places[name], made, install=install, dry_run=dry_run, force=force) for name in chosen]
    # Last, because several files may share a folder; the deepest first.
    for folder in sorted(made, key=lambda path: -len(path.parts)):
        with contextlib.suppress(OSError):  # something else is in it
            folder.rmdir()
    return changes


def _places(workspace: Path | None, environment: Mapping[str, str]) -> dict[str, _Place]:
    home = Path(environment.get("HOME") or Path.home())

    def folder(variable: str, default: str) -> Path:
        path = environment.get(variable, "")
        return Path(path) if path.startswith("/") else home / default

    claude = folder("CLAUDE_CONFIG_DIR", ".claude")
    codex = folder("CODEX_HOME", ".codex")
    opencode = folder("XDG_CONFIG_HOME", ".config") / "opencode"
    pi = folder("PI_CODING_AGENT_DIR", ".pi/agent")
    skill = Path("skills/understudy/SKILL.md")
    places = {
        "claude": _Place("Claude Code: skill", claude / skill, True, claude),
        "codex": _Place("Codex: skill", codex / skill, True, codex),
        "opencode": _Place("OpenCode: skill", opencode / skill, True, opencode),
        "pi": _Place("pi: skill", pi / skill, True, pi),
        "claude-md": _Place("Claude Code: block in your CLAUDE.md", claude / "CLAUDE.md", False, None),
        "codex-md": _Place("Codex: block in your AGENTS.md", codex / "AGENTS.md", False, None),
    }
    if workspace is not None:
        for name, file in (("project-claude-md", "CLAUDE.md"), ("project-agents-md", "AGENTS.md")):
            places[name] = _Place(f"This project: block in {file}", workspace / file, False, None, workspace)
    return places


def _default(places: Mapping[str, _Place], *, install: bool) -> list[str]:
    if install:
        return [name for name, place in places.items() if place.agent is not None and place.agent.is_dir()]
    return [name for name, place in places.items() if _is_there(place)]


def _is_there(place: _Place) -> bool:
    try:
        return _state(place, _read(place)) not in {InstructionState.ABSENT, InstructionState.FOREIGN}
    except UnderstudyError as error:
        return error.kind is not ErrorKind.PATH_ESCAPE  # nothing was ever installed there


def _state(place: _Place, content: bytes | None) -> InstructionState:
    if content is None:
        return InstructionState.ABSENT
    block = find_file(content) if place.skill else find_block(content)
    if block is None:
        return InstructionState.FOREIGN if place.skill else InstructionState.ABSENT
    if block.edited:
        return InstructionState.EDITED
    current = SKILL if place.skill else BLOCK
    return InstructionState.INSTALLED if block.body == current else InstructionState.OUTDATED


def _change_one(
    name: str, place: _Place, made: set[Path], *, install: bool, dry_run: bool, force: bool
) -> InstructionChange:
    """Change one place; add the folders that were made for a removed file to ``made``."""
    before = InstructionState.UNREADABLE
    try:
        content = _read(place)
        before = _state(place, content)
        _refuse(place, before, install=install, force=force)
        after = _installed(place, content) if install else _removed(place, content)
        if not dry_run and after != content:
            made |= _write(place, content, after)
    except (OSError, UnderstudyError) as error:
        problem = place.file.problem(error)
        return InstructionChange(name=name, path=str(place.path), before=before, after=before, problem=problem)
    diff = patches.unified_file(str(place.path), content, after)
    return InstructionChange(
        name=name, path=str(place.path), before=before, after=_state(place, after), diff=diff, problem=None
    )


def _refuse(place: _Place, state: InstructionState, *, install: bool, force: bool) -> None:
    if state is InstructionState.FOREIGN and install:
        raise UnderstudyError(
            ErrorKind.TARGET_EXISTS,
            f"{place.path} was not written by Understudy.",
            hint="It was left as it is. Rename it to install Understudy's.",
        )
    if state is InstructionState.EDITED and not force:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"Someone has edited the instructions in {place.path}.",
            hint="They were left as they are. `--force` replaces or removes them all the same.",
        )


def _installed(place: _Place, content: bytes | None) -> bytes:
    if place.skill:
        block = find_file(content) if content is not None else None
        made = _missing_folders(place) if block is None else block.made or 0
        return whole_file(SKILL, made)
    return insert_block(content, BLOCK, _missing_folders(place))


def _removed(place: _Place, content: bytes | None) -> bytes | None:
    if content is None or not place.skill:
        return content if content is None else remove_block(content)
    return content if find_file(content) is None else None


def _missing_folders(place: _Place) -> int:
    return place.file.missing_folders(_MOST_FOLDERS)


def _read(place: _Place) -> bytes | None:
    return place.file.read()


def _write(place: _Place, before: bytes | None, after: bytes | None) -> set[Path]:
    """Write, or remove for None, unless the file has changed since it was read; return the folders made for it then."""
    place.file.write(before, after)
    if after is not None:
        return set()
    block = (find_file if place.skill else find_block)(before or b"")
    # A link is the user's: what it names is gone, as it was before.
    number = 0 if block is None or place.path.is_symlink() else block.made or 0
    return set(list(place.path.parents)[:number])


@dataclass(frozen=True, slots=True)
class Block:
    """Where the block is in a file."""

    start: int
    end: int
    """After the line break of the last marker."""
    body: str
    """The lines between the markers, with ``\\n``."""
    added: int
    """How many line breaks were added before the block."""
    made: int | None
    """How many folders were made for the file, if it was made for the block."""
    edited: bool
    """Whether someone has changed the lines between the markers."""


def find_block(content: bytes) -> Block | None:
    """Return the block in ``content``; the last one if there are several."""
    block = None
    begins = list(_BEGIN.finditer(content))
    for number, begin in enumerate(begins):
        limit = begins[number + 1].start() if number + 1 < len(begins) else len(content)
        end = _END.search(content, begin.end(), limit)
        if end is not None:
            body = _lines(content[begin.end() : end.start()])
            edited = begin[2].decode() != _digest(body)
            made = int(begin[4]) if begin[3] == b"made" else None
            added = int(begin[4]) if made is None else 0
            block = Block(begin.start(), end.end(), body, added, made, edited)
    return block


def insert_block(content: bytes | None, body: str, made: int = 0) -> bytes:
    """Return ``content`` with a block that has ``body``: in the place of the earlier block, or at the end.

    ``content`` is None for a file that is made for the block, with ``made`` folders.
    """
    if content is None:
        return _block(body, f"made={made}", b"\n")
    eol = b"\r\n" if re.match(rb"[^\n]*\r\n", content) else b"\n"
    earlier = find_block(content)
    if earlier is not None:
        how = f"added={earlier.added}" if earlier.made is None else f"made={earlier.made}"
        return content[: earlier.start] + _block(body, how, eol) + content[earlier.end :]
    added = 0 if not content else 1 if content.endswith(b"\n") else 2
    return content + eol * added + _block(body, f"added={added}", eol)


def remove_block(content: bytes) -> bytes | None:
    """Return ``content`` without its block; the inverse of ``insert`` if nothing was written after the block.

    None: the file was made for the block, and has nothing else.
    """
    block = find_block(content)
    if block is None:
        return content
    before, after = content[: block.start], content[block.end :]
    if not after:
        # Otherwise what the user wrote below would be joined to the line above.
        for _ in range(block.added):
            before = before[:-2] if before.endswith(b"\r\n") else before.removesuffix(b"\n")
    return None if block.made is not None and not before + after else before + after


def whole_file(body: str, made: int) -> bytes:
    """Return the bytes of a file that is completely ours, for which ``made`` folders were made."""
    return f"{body}<!-- understudy:file v{VERSION} {_digest(body)} made={made} -->\n".encode()


def find_file(content: bytes) -> Block | None:
    """Return the block that such a file is; None if the file is not ours."""
    match = _FILE.search(content)
    if match is None:
        return None
    body = _lines(content[: match.start()])
    return Block(0, len(content), body, 0, int(match[3]), match[2].decode() != _digest(body))


def _block(body: str, how: str, eol: bytes) -> bytes:
    begin = f"<!-- understudy:begin v{VERSION} {_digest(body)} {how} -->\n"
    return f"{begin}{body}<!-- understudy:end -->\n".encode().replace(b"\n", eol)


def _lines(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogateescape")).hexdigest()[:12]
