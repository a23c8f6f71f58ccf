"""What the answers of all protocols of model servers have in common: text, its end, failures and usage.

A stream succeeded only if its end was announced. For every field that must not be null, some server sends null, so no
field is assumed to be present.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from understudy.model.delegation.delegations import Usage, no_usage
from understudy.model.delegation.events import Event, Text, Thinking
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import foreign_json
from understudy.model.text.sanitize import strip_controls
from understudy.policy.budget import estimate_tokens, estimate_tokens_of
from understudy.runners.backends.content.tool_calls import CallAssembler, RequestedCall
from understudy.runners.backends.http import http_errors
from understudy.secrets import Redactor

MAX_TEXT_CHARACTERS = 8 << 20
"""More than any model's output limit, and still small enough to keep in memory."""
_MAX_COUNT = 10**12


class StreamedAnswer(msgspec.Struct):
    """One answer, as far as it has been received."""

    done_marker: ClassVar[bool] = True
    """Whether ``[DONE]`` ends an answer. Elsewhere, proxies add it even to answers that were cut off."""

    server: str
    redactor: Redactor
    """Knows the key: a server that echoes the key must not get it into an error message."""
    parts: list[str] = msgspec.field(default_factory=list)
    characters: int = 0
    kept_bytes: int = 0
    """Of the items that go back to the server as they are."""
    events: int = 0
    """Number of complete data events, whatever their content."""
    finish_reason: str | None = None
    """Why the model stopped, in the words of the protocol."""
    done: bool = False
    """The last event was seen."""
    wants_tool: bool = False
    tools_offered: bool = False
    """Whether the request offered tools, so that calls of them are an answer."""
    refused: bool = False
    reached_limit: bool = False
    """The model stopped at its output limit."""
    asked_tokens: int | None = None
    """The output limit in the request, where the dialect needs it to see that it was reached."""
    reported_usage: dict[str, int] = msgspec.field(default_factory=dict)
    cost_usd: str | None = None
    assembler: CallAssembler = msgspec.field(default_factory=CallAssembler)

    @property
    def ended(self) -> bool:
        """Whether the answer's end was announced."""
        return self.finish_reason is not None or self.done

    @property
    def text(self) -> str:
        """The answer so far, byte for byte as the model wrote it."""
        return "".join(self.parts)

    @property
    def cut(self) -> bool:
        """Whether the model stopped at its output limit, so that its last call may be incomplete."""
        return self.reached_limit

    def calls(self) -> list[RequestedCall]:
        """Return the tool calls of a complete answer, in the model's order."""
        return self.assembler.complete()

    def data(self, data: str) -> list[Event]:
        """Take the data of one event; raise ``malformed_output`` or the error that the server reported."""
        if data.strip() == "[DONE]":
            self.done = self.done or self.done_marker
            return []
        try:
            value = foreign_json.decode(data)
        except foreign_json.UNREADABLE:
            shown = self.redactor.redact(strip_controls(data[: http_errors.SHOWN_CHARACTERS]))
            raise UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"Model server {self.server!r} sent an event that is not JSON: {shown}",
                hint="Retry; if it happens again, report it to the server's maintainers.",
            ) from None
        self.events += 1
        return self.value(value) if isinstance(value, dict) else []

    def value(self, value: dict[str, Any]) -> list[Event]:
        """Take one decoded event, or a whole answer that was not streamed."""
        raise NotImplementedError

    def failure(self) -> UnderstudyError | None:
        """Return why an answer cannot be used after its stream ended; None if it can (it may still be empty)."""
        name = self.server
        if not self.ended:
            what = (
                "before its first event"
                if self.events == 0
                else f"after {self.events} events without announcing its end"
            )
            return UnderstudyError(
                ErrorKind.STREAM_TRUNCATED, f"The answer of model server {name!r} ended {what}.", hint="Retry."
            )
        if self.refused:
            return UnderstudyError(
                ErrorKind.CONTENT_REFUSED,
                f"Model server {name!r} or its filter refused this content.",
                hint="Reword the task, or choose another model.",
            )
        if self.reached_limit and not (self.tools_offered and self.assembler.calls):
            return UnderstudyError(
                ErrorKind.OUTPUT_TRUNCATED,
                f"The model stopped at its output limit after {self.characters} characters.",
                hint="Raise `max_output_tokens`, or delegate a smaller piece.",
            )
        if self.finish_reason == "error":
            return UnderstudyError(
                ErrorKind.OVERLOADED, f"Model server {name!r} ended the answer with an error.", hint="Retry."
            )
        if self.wants_tool and not self.tools_offered and not self.text.strip():
            return UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                "The model tried to call a tool, but none was offered.",
                hint="Choose a model that answers in text.",
            )
        return None

    def usage(self, prompt: str) -> tuple[Usage, bool]:
        """Return the usage, and whether it is Understudy's estimate because the server did not report it."""
        usage = no_usage()
        usage.turns = 1
        for name, count in self.reported_usage.items():
            setattr(usage, name, count)
        is_reported = "input_tokens" in self.reported_usage and "output_tokens" in self.reported_usage
        if not is_reported:
            usage.input_tokens = self.reported_usage.get("input_tokens", estimate_tokens(prompt))
            usage.output_tokens = self.reported_usage.get("output_tokens", estimate_tokens_of(self.characters))
        return usage, not is_reported

    # -- for the protocols -----------------------------------------------------------------------------------------

    def say(self, text: Any) -> list[Event]:
        """Take a piece of the answer."""
        if not isinstance(text, str) or not text:
            return []
        self._count(text)
        self.parts.append(text)
        return [Text(text=text)]

    def think(self, text: Any) -> list[Event]:
        """Take a piece of the model's thoughts."""
        if not isinstance(text, str) or not text:
            return []
        self._count(text)
        return [Thinking(text=text)]

    def take_call(self, **piece: Any) -> list[Event]:
        """Take a piece of a tool call (see ``CallAssembler.add``)."""
        self.wants_tool = True
        if isinstance(piece.get("arguments"), str):
            self._count(piece["arguments"])
        self.assembler.add(**piece)
        return []

    def take_counts(self, counts: Mapping[str, Any]) -> None:
        """Keep the counts, by the names of ``Usage``; the last value of each wins, and impossible ones are ignored."""
        for name, value in counts.items():
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT:
                self.reported_usage[name] = value

    def error(self, value: Any) -> UnderstudyError:
        """Return the error that the server reported as ``value``."""
        return http_errors.reported(value, self.server, self.redactor.redact)

    def _keep(self, item: Any) -> None:
        """Bound what is kept of an answer to be sent back, whatever its fields are; it has the answer's text, too."""
        self.kept_bytes += len(msgspec.json.encode(item))
        self._require_bounds()

    def _count(self, text: str) -> None:
        self.characters += len(text)
        self._require_bounds()

    def _require_bounds(self) -> None:
        if self.characters > MAX_TEXT_CHARACTERS or self.kept_bytes > 4 * MAX_TEXT_CHARACTERS:
            raise UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"The model's answer is longer than {MAX_TEXT_CHARACTERS} characters; it was cut off.",
                hint="Set `max_output_tokens`.",
            )


def part(value: Any, name: str) -> dict[str, Any]:
    """Return an object of an event; empty if it is missing or something else."""
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def parts(value: Any, name: str) -> list[dict[str, Any]]:
    """Return the objects in a list of an event."""
    listed = value.get(name) if isinstance(value, dict) else None
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
