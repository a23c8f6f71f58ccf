"""The protocols of model servers: one module each, discovered automatically.

A module here has a class ``Dialect`` that implements the protocol ``Dialect`` below: it builds the request and parses
the answer, without any I/O. ``exchange`` handles timeouts, retries and connections.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Sequence
from typing import Any, Protocol

from understudy.config.discovery import declarations
from understudy.model.config.delegators import ModelServer
from understudy.model.delegation.delegations import Usage
from understudy.model.delegation.events import Event
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.backends.content.tool_calls import CallResult, RequestedCall, ToolSpec
from understudy.runners.runner import Task
from understudy.secrets import Redactor

_REFUSED = frozenset({400, 404, 422, 500, 501})
_NO_TOOLS = (
    r"\btools?\b[^.]{0,60}(not (currently )?(be )?(supported|allowed|permitted|enabled|implemented)"
    r"|unsupported|extra|unknown)"
    r"|(not support|unsupported|unknown|unrecognized|extra|no endpoints)[^.]{0,60}"
    r"\b(tools?\b|tool[_ ](use|calls?|choice)|function[_ ]call)"
    r"|tool choice requires|requires --jinja|extra_forbidden[^}]{0,80}tools"
)
"""Refusals of Ollama, vLLM, llama-server, OpenRouter, and servers that refuse unknown fields."""


class Answer(Protocol):
    """One answer, as far as it has been received."""

    events: int
    """Number of complete data events, whatever their content."""
    done: bool
    """The answer is complete; the connection may be closed."""
    cost_usd: str | None
    tools_offered: bool
    """Whether the request offered tools, so that calls of them are an answer."""
    asked_tokens: int | None
    """The output limit in the request, where the dialect needs it to see that it was reached."""

    @property
    def cut(self) -> bool:
        """Whether the model stopped at its output limit, so that its last call may be incomplete."""
        ...

    def calls(self) -> list[RequestedCall]:
        """Return the tool calls of a complete answer, in the model's order."""
        ...

    def history(self) -> list[dict[str, Any]]:
        """Return the answer as the server wants it back in later requests, with the model's thoughts."""
        ...

    @property
    def text(self) -> str:
        """The answer so far, byte for byte as the model wrote it."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the answer's end was announced; usage may still follow."""
        ...

    def data(self, data: str) -> list[Event]:
        """Take the data of one server-sent event, or a whole JSON body; raise the error that it reports, if any."""
        ...

    def failure(self) -> UnderstudyError | None:
        """Return why an answer cannot be used after its stream ended; None if it can (it may be empty)."""
        ...

    def usage(self, prompt: str) -> tuple[Usage, bool]:
        """Return the usage, and whether it is an estimate because the server did not report it."""
        ...


class Dialect(Protocol):
    """A protocol of model servers."""

    protocols: frozenset[str]
    """The values of ``ModelServer.protocols`` that select it."""
    path: str
    """The path of the request, below ``base_url``."""
    answer_field: str
    """The array that every whole answer has."""
    result_field: str
    """The field with the text of a tool's result in a request."""

    def below(self, base: str, path: str) -> str:
        """Return where ``path`` is below the path ``base`` of the server's URL."""
        _ = base
        return path

    def headers(self, key: str | None) -> dict[str, str]:
        """Return headers besides ``Authorization``, which has the key already."""
        _ = key
        return {}

    def body(self, task: Task, system: str | None) -> dict[str, Any]:
        """Return the request body for ``task``. Strict servers refuse unknown fields: add only what was asked for."""
        ...

    def probe(self, prompt: str, tokens: int) -> dict[str, Any]:
        """Return the body of a short request that is not streamed, without the model."""
        ...

    def relax(self, body: dict[str, Any], status: int, refusal: str) -> bool:
        """Remove or lower an optional field that the server refused; return False if it refused something else."""
        ...

    def offer(self, body: dict[str, Any], tools: Sequence[ToolSpec]) -> None:
        """Make ``body`` the start of a conversation in which the model may call ``tools``."""
        ...

    def extend(
        self, body: dict[str, Any], history: list[dict[str, Any]], results: Sequence[CallResult], user_text: str | None
    ) -> list[dict[str, Any]]:
        """Append an answer, the results of its calls and what the user says; nothing before them changes.

        Returns the appended results, whose ``result_field`` is the text, in the order of ``results``.
        """
        ...

    def forget_thoughts(self, body: dict[str, Any]) -> None:
        """Remove thoughts that are bound to the exact history, before the history is shortened."""
        _ = body

    def refuses_tools(self, status: int, refusal: str) -> bool:
        """Return whether a refusal says that the model cannot call tools."""
        return status in _REFUSED and re.search(_NO_TOOLS, refusal, re.IGNORECASE) is not None

    def answer(self, server: str, redactor: Redactor) -> Answer:
        """Return the parser of one answer; ``redactor`` knows the key, which must not appear in an error message."""
        ...


def dialect_of(server: ModelServer) -> Dialect:
    """Return the dialect of the first protocol of ``server`` that has one; raise ``config_invalid`` if none has."""
    dialects = _known(tuple(__path__))
    spoken = declarations.protocols_of(server)
    for protocol in spoken:
        for dialect in dialects:
            if protocol in dialect.protocols:
                return dialect()
    raise UnderstudyError(
        ErrorKind.CONFIG_INVALID,
        f"Model server {server.name!r} uses {' and '.join(spoken)}, which only some agent CLIs support.",
        hint='Name a tool that supports it, or add "openai" to `protocols` if the server supports that too.',
    )


@functools.cache
def _known(places: tuple[str, ...]) -> list[type[Dialect]]:
    return [importlib.import_module(f"{__name__}.{module.name}").Dialect for module in pkgutil.iter_modules(places)]
