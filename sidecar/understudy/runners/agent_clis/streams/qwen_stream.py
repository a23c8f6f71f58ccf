"""Parse Qwen Code's JSON stream, and encode messages to it: Claude Code's format, with differences.

It was derived from the streams in ``tests/runners/recordings/qwen``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from understudy.model.config.delegators import PermissionKind
from understudy.model.delegation.events import Phase, Text
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.model.tools import declared
from understudy.runners.agent_clis.streams.claude_stream import ClaudeStream
from understudy.runners.agent_clis.streams.stream_values import failure, line_of
from understudy.runners.driver.child_source import Reply
from understudy.runners.driver.source import AgentFinished, SourceItem
from understudy.runners.runner import Message, Question

CAPABILITIES = declared("qwen")
_ANSWER_MILLISECONDS = 600_000
"""How long it waits for an answer; without this, one minute. It accepts no more than this."""
ESCAPED_AT = "\\@"
"""It would read the files that follow an ``@``, and change the text around it, unless a backslash precedes it."""
AT_NOTE = "In messages of the user, each @ is preceded by one backslash that is not part of the message."
_ERROR = "[API Error: "
"""How a text begins that it prints in place of, or after, the model's."""
_STUCK_TURNS = 2
_MOST_RETRIES = 3
"""It would try forever: it summarises a conversation that is too long, and summarises it again. Ended after so many
retries with at most ``_STUCK_TURNS`` turns between them. Retries without a turn between them are those of one request
whose stream is cut or empty, and the parts of an answer that reached the output limit: these end by themselves."""
_KINDS: dict[str, PermissionKind] = {
    **dict.fromkeys(("write_file", "edit", "notebook_edit"), "edit"),
    **dict.fromkeys(("read_file", "glob", "grep_search", "list_directory"), "read"),
    **dict.fromkeys(("web_fetch", "web_search"), "fetch"),
    **dict.fromkeys(("run_shell_command", "monitor"), "execute"),
}


class QwenStream(ClaudeStream):
    """Parses the output of one run, and encodes the replies."""

    tool = CAPABILITIES
    version_field = "qwen_code_version"
    oldest = (0, 24, 4)
    kinds = _KINDS
    searches = frozenset({"glob", "grep_search", "list_directory"})
    repeats_messages = False
    cache_in_input = True

    def __init__(self, tree: Path, mode: str) -> None:
        """Start a run that answers what ``mode`` allows by itself: in an untrusted folder, it asks about everything."""
        super().__init__(tree)
        self._root = tree
        self._mode = mode
        self._again = 0
        self._retried_at = 0

    def message(self, text: str) -> bytes:
        """Return the lines that say how long a question may wait, and deliver the prompt."""
        request = {"subtype": "initialize", "timeout": {"canUseTool": _ANSWER_MILLISECONDS}}
        return line_of({"type": "control_request", "request_id": "initialize", "request": request}) + super().message(
            text
        )

    def further(self, message: Message) -> bytes:
        """Return the line that delivers another message; it gets to it after its turn."""
        note = f"\n\n{AT_NOTE}" if "@" in message.text else ""
        return super().further(msgspec.structs.replace(message, text=message.text + note))

    def _user_message(self, text: str) -> dict[str, Any]:
        return super()._user_message(text.replace("@", ESCAPED_AT))

    def explain(self, stderr: str) -> ErrorInfo | None:
        """Return why it exited before its first line."""
        if "No saved session found" in stderr:
            return failure(CAPABILITIES, stderr, kind=ErrorKind.BAD_REQUEST)
        if match := re.search(r"Unknown arguments?: ([^\n]*)", stderr):
            return self._too_old(f"This version of Qwen Code does not know the option {match[1]}.")
        return None

    def _system(self, record: dict[str, Any]) -> Iterator[SourceItem | Reply]:
        if record.get("subtype") != "retry":
            yield from super()._system(record)
            return
        if record["data"].get("attempt") is not None:
            # The pauses after a 429 or 503, of a minute and more, that settings cannot turn off for all providers.
            text = "The model server refuses more requests for now."
            yield Reply(data=self.interrupt())
            yield AgentFinished(error=failure(CAPABILITIES, text, kind=ErrorKind.RATE_LIMITED))
            return
        if record["data"].get("preserveText"):
            yield Phase(text="The answer reached the model's output limit; continuing")
            return
        yield Phase(text="A request failed; retrying")
        turns = len(self._used)
        if turns == self._retried_at:
            return
        self._again = self._again + 1 if turns - self._retried_at <= _STUCK_TURNS else 1
        self._retried_at = turns
        if self._again > _MOST_RETRIES:
            yield Reply(data=self.interrupt())
            yield AgentFinished(
                error=failure(
                    CAPABILITIES,
                    "The model server refuses the conversation as too long, again and again, after each summary.",
                    kind=ErrorKind.CONTEXT_TOO_LONG,
                )
            )

    def _stream(self, record: dict[str, Any]) -> Iterator[SourceItem | Reply]:
        items = super()._stream(record)
        yield from (item for item in items if not (isinstance(item, Text) and item.text.startswith(_ERROR)))

    def _assistant(self, record: dict[str, Any]) -> Iterator[SourceItem | Reply]:
        # Its deltas belong to one message, which it then repeats as several, each with an id of its own.
        self._streamed.add(str(record["message"].get("id")))
        yield from super()._assistant(record)
        if self._used:
            yield self._usage()

    def _count(self, name: str, usage: Any) -> None:
        if isinstance(usage, dict) and usage.get("output_tokens"):  # thoughts are a message of their own, without usage
            super()._count(name, usage)

    def _control(self, record: dict[str, Any]) -> Iterator[SourceItem | Reply]:
        for item in super()._control(record):
            if isinstance(item, Question) and self._allows(item):
                yield Reply(data=self.answer(item.question_id, item.options[0], None))
            else:
                yield item

    def _allows(self, question: Question) -> bool:
        """Return whether the mode allows what is asked: files of the worktree, but not git's or its own."""
        if self._mode != "auto-edit":
            return self._mode == "yolo"
        tree = os.path.realpath(self._root)
        places = [os.path.relpath(os.path.realpath(Path(tree, path)), tree) for path in question.paths or ()]
        return question.kind == "edit" and all(_is_plain(Path(place)) for place in places) and bool(places)

    def _is_error(self, message: Mapping[str, Any]) -> bool:
        content = message.get("content")
        first = content[0].get("text") if isinstance(content, list) and len(content) == 1 else None
        return isinstance(first, str) and first.startswith(_ERROR)

    def _created(self, result: Mapping[str, Any]) -> bool:
        return str(result.get("content")).startswith("Successfully created")

    def _failure(self, record: Mapping[str, Any]) -> ErrorInfo | None:
        return failure_of(record)


def failure_of(record: Mapping[str, Any]) -> ErrorInfo | None:
    """Return the failure that a ``result`` line reports, None for success."""
    if not record.get("is_error") and record.get("subtype") == "success":
        return None
    error = record.get("error")
    text = str(error.get("message")) if isinstance(error, dict) else f"The run ended with {record.get('subtype')}."
    # ``[API Error: 401 Incorrect API key]``: its error has no field for the status.
    status = re.match(r"\[API Error: (\d{3})\b", text)
    kind = ErrorKind.AUTH_FAILED if text.startswith(("Missing API key", "No auth type")) else None
    is_request = text.startswith(_ERROR)
    text = text.removeprefix(_ERROR).removesuffix("]") if is_request else text
    return failure(CAPABILITIES, text, kind=kind, status=int(status[1]) if status else 0, of_request=is_request)


def _is_plain(place: Path) -> bool:
    return not place.is_absolute() and not {"..", ".git", ".qwen"} & set(place.parts)
