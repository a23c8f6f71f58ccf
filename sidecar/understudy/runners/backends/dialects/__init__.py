"""The protocols of model servers: one module each, discovered automatically.

A module here has a class ``Dialect`` that implements the protocol ``Dialect`` below: it builds the request and parses
the answer, without any I/O. ``exchange`` handles timeouts, retries and connections.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, Protocol, cast

from understudy.model.config.delegators import ModelServer
from understudy.model.delegations import Usage
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.events import Event
from understudy.runners.runner import Task
from understudy.secrets import Redactor


class Answer(Protocol):
    """One answer, as far as it has been received."""

    events: int
    """Number of complete data events, whatever their content."""
    done: bool
    """The answer is complete; the connection may be closed."""
    cost_usd: str | None

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
    """The values of ``ModelServer.protocol`` that select it."""
    path: str
    """The path of the request, below ``base_url``."""

    def body(self, task: Task, system: str | None) -> dict[str, Any]:
        """Return the request body for ``task``. Strict servers refuse unknown fields: add only what was asked for."""
        ...

    def relax(self, body: dict[str, Any], status: int, refusal: str) -> bool:
        """Remove an optional field that the server refused; return False when the refusal is about something else."""
        ...

    def answer(self, server: str, redactor: Redactor) -> Answer:
        """Return the parser of one answer; ``redactor`` knows the key, which must not appear in an error message."""
        ...


def dialect_of(server: ModelServer) -> Dialect:
    """Return the dialect of ``server``; raise ``config_invalid`` when there is none."""
    protocol = server.protocol or "auto"
    for module in pkgutil.iter_modules(__path__):
        dialect = importlib.import_module(f"{__name__}.{module.name}").Dialect
        if protocol in dialect.protocols:
            return cast("Dialect", dialect())
    raise UnderstudyError(
        ErrorKind.CONFIG_INVALID,
        f"Model server {server.name!r} uses the protocol {protocol!r}, which only some agent CLIs support.",
        hint='Use it with the tool `claude`, or set protocol = "openai" if the server supports that too.',
    )
