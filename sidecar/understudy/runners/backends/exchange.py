"""One request to a model server as a source: connection, retries before the first event, bounds.

Connecting may take five seconds. Keep-alive comments are not items, so they do not count as a sign of work.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress

import msgspec

from understudy.model.delegation.delegations import PermissionOption
from understudy.model.delegation.events import Event, Note, UsageReport
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.text.sanitize import strip_controls
from understudy.model.text.timestamps import retry_time
from understudy.runners import pricing
from understudy.runners.backends import file_answers, protocol_choice, server_slots
from understudy.runners.backends.content import request_options
from understudy.runners.backends.dialects import Dialect
from understudy.runners.backends.http import http_client, http_errors
from understudy.runners.backends.http.sse import Decoder
from understudy.runners.driver import clock
from understudy.runners.driver.source import AgentFinished, Heartbeat, Retrying, SourceItem
from understudy.runners.runner import Message, Task
from understudy.secrets import Redactor

MAX_BODY_BYTES = 8 << 20
"""Bound of an answer that is not an event stream."""
MAX_STREAM_BYTES = 256 << 20
"""Bound of one stream, including comments and repetitions."""
AFTER_END_SECONDS = 5.0
"""Wait after the announced end, when only the usage can follow."""
_SHOWN_WAIT_SECONDS = 0.1
_MOST_RELAXED = 8
"""A server could refuse one value after the other."""
_REFUSED_BODY_BYTES = 64 << 10

Deliver = Callable[[str], tuple[AgentFinished, Sequence[Event]]]
"""Turns the model's text into the result and the events about written files."""


class _Retryable(Exception):  # noqa: N818 - a message to the loop around it, never seen outside
    """The request may be sent again."""

    def __init__(self, error: UnderstudyError, wait_seconds: float | None = None) -> None:
        super().__init__()
        self.error = error
        self.wait_seconds = wait_seconds


class _Relaxed(Exception):  # noqa: N818 - a message to the loop around it, never seen outside
    """The server refused an optional field, which is now left out or lowered; the argument says which, to the user."""


class ToolsRefused(Exception):  # noqa: N818 - a message to the loop that offered them
    """The server refused a request because its model cannot call tools."""

    def __init__(self, error: UnderstudyError) -> None:
        """Keep the refusal."""
        super().__init__()
        self.error = error


class Exchange:
    """The requests of one attempt to one model server."""

    def __init__(
        self,
        task: Task,
        dialect: Dialect,
        where: http_client.Endpoint,
        redactor: Redactor,
        deliver: Deliver,
        *,
        retries: int,
        backoff_seconds: float,
    ) -> None:
        """Prepare the request; it is sent when the first item is read."""
        self.subject = f"Model server {where.name!r}"
        self.redactor = redactor
        self._server, self._model = task.model_server, task.delegator.model
        self._dialect = dialect
        self._where = where
        self._deliver = deliver
        self._retries = retries
        self._backoff = backoff_seconds
        system = file_answers.instructions(task.recipe, target=task.target)
        self._body = dialect.body(task, system)
        self._prompt = (system or "") + task.prompt
        self._answer = dialect.answer(where.name, redactor)
        self._begun = False
        self._relaxed = 0
        """How often the request was sent again without an option."""
        self._unreported = False
        """Whether a request was sent whose usage has not been reported."""

    async def items(self) -> AsyncIterator[SourceItem]:
        """Send the request and yield the answer as it arrives; an interrupted answer cannot be continued."""
        if self._begun:
            return
        self._begun = True
        async with (
            http_client.client_here(self._where) as client,
            aclosing(self._answered(client)) as items,  # type: ignore[type-var]
        ):
            async for item in items:
                yield item
        text = self.redactor.redact(self._answer.text)
        if not text.strip():
            raise UnderstudyError(
                ErrorKind.EMPTY_OUTPUT,
                f"{self.subject} finished without an answer.",
                hint="Retry, or choose another model.",
            )
        finished, events = self._deliver(text)
        for event in events:
            yield event
        yield finished

    async def _answered(self, client: http_client.Client) -> AsyncIterator[SourceItem]:
        """Send the request until it is answered, and yield the answer as it arrives, then its usage.

        ``self._answer`` has the whole answer. Raises if it cannot be used, and ``ToolsRefused``.
        """
        tries = 0
        while True:
            self._answer = self._dialect.answer(self._where.name, self.redactor)
            self._answer.tools_offered = "tools" in self._body
            self._answer.asked_tokens = self._body.get("max_output_tokens")
            try:
                async with aclosing(self._in_turn(client)) as items:  # type: ignore[type-var]
                    async for item in items:
                        yield item
                break
            except _Relaxed as refused:
                self._relaxed += 1
                if refused.args:
                    yield Note(level="warning", text=f"{self.subject} refused an option. {refused.args[0]}")
                continue
            except _Retryable as again:
                tries += 1
                seconds = self._pause(again, tries)
                limited = again.error.kind is ErrorKind.RATE_LIMITED or again.wait_seconds is not None
                if self._server is not None and limited:
                    server_slots.hold(self._server, seconds)
                said = strip_controls(again.error.message)
                text = f"{said} Retrying in {seconds:.1f} s ({tries} of {self._retries})."
                yield Note(level="warning", text=text)
                yield Retrying(after_seconds=seconds)
                await clock.sleep(seconds)
        error = self._answer.failure()
        if error is not None:
            raise error
        for event in self._usage():
            yield event

    async def answer(self, question_id: str, option: PermissionOption, note: str | None) -> None:
        """Do nothing: a model without tools asks no questions."""

    async def interrupt(self) -> None:
        """Do nothing: closing the connection ends the request."""

    async def send(self, message: Message) -> None:  # noqa: ARG002 - as the protocol has it
        """Refuse: a request cannot be extended."""
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{self.subject} cannot take messages while it answers.",
            hint="Reply to its result instead.",
        )

    async def explain(self) -> ErrorInfo | None:
        """Return None: ``items`` raises all errors."""
        return None

    async def close(self) -> Sequence[Event]:
        """Report the usage of an unfinished request; closing ``items`` has closed its connection."""
        return self._usage()

    def _usage(self) -> Sequence[Event]:
        if not self._unreported:
            return []
        self._unreported = False
        usage, estimated = self._answer.usage(self._prompt)
        counts = msgspec.structs.asdict(usage)
        report = UsageReport(**counts, cost_usd=self._answer.cost_usd, estimated=estimated)
        return [pricing.priced(report, self._server, self._model)]

    def _pause(self, again: _Retryable, tries: int) -> float:
        """Return the seconds to wait before the next try; raise when no try is left."""
        asked = again.wait_seconds
        if tries > self._retries:
            raise again.error
        if asked is not None and asked > http_errors.MAX_WAIT_SECONDS:
            raise UnderstudyError(
                again.error.kind,
                f"{again.error.message} It asks to wait {asked:.0f} s.",
                hint="Retry after that time, or choose another delegator.",
                retry_at=again.error.retry_at,
                scope=again.error.scope,
            )
        if asked is not None:
            return asked
        # The openai client's schedule: 0.5 · 2^n up to 8 s, less up to a quarter, so that clients spread out.
        return min(self._backoff * 2.0 ** (tries - 1), 8.0) * random.uniform(0.75, 1)  # noqa: S311

    async def _in_turn(self, client: http_client.Client) -> AsyncIterator[SourceItem]:
        """Send the request once, when the server has a free slot; waiting is bounded by the total time only."""
        server = self._server
        left = server_slots.held_seconds(server) if server is not None else 0.0
        if left > _SHOWN_WAIT_SECONDS:  # not what is left of this attempt's own pause
            yield Note(level="info", text=f"{self.subject} asked others to wait; waiting {left:.1f} s.")
        while server is not None and left > 0:
            seconds = server_slots.spread(left)
            yield Retrying(after_seconds=seconds)
            await clock.sleep(seconds)
            left = server_slots.held_seconds(server)
        if server is None or server.max_concurrent is None:
            slot = None
        else:
            slot = server_slots.take(server)
            if slot is None:
                most = f"{server.max_concurrent} at once"
                yield Note(level="info", text=f"{self.subject} has as many requests as it may ({most}); waiting.")
            while slot is None:
                seconds = server_slots.pause()
                yield Retrying(after_seconds=seconds)
                await clock.sleep(seconds)
                slot = server_slots.take(server)
        try:
            async with aclosing(self._once(client)) as items:  # type: ignore[type-var]
                async for item in items:
                    yield item
        finally:
            if slot is not None:
                slot.free()

    async def _once(self, client: http_client.Client) -> AsyncIterator[SourceItem]:
        """Send the request once and yield its answer, also kept in ``self._answer``."""
        import httpx

        request = client.build_request(
            "POST",
            self._where.url(self._dialect.below(self._where.base.path, self._dialect.path)),
            content=msgspec.json.encode(self._body),
            headers={**self._where.headers, **self._dialect.headers(self._where.key)},
            extensions={**self._where.extensions, "timeout": client.timeout.as_dict()},
        )
        self._unreported = True
        try:
            response = await client.send(request, stream=True)
            try:
                async with aclosing(self._read(response)) as items:  # type: ignore[type-var]
                    async for item in items:
                        yield item
            finally:
                with suppress(httpx.HTTPError, OSError):
                    await response.aclose()
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                self._unreported = False  # nothing was sent
            if not self._answer.ended:
                raise self._broken(error) from None

    async def _read(self, response: http_client.Response) -> AsyncIterator[SourceItem]:
        status = response.status_code
        headers: Mapping[str, str] = response.headers
        if headers.get("content-encoding", "identity").lower() not in {"identity", ""}:
            raise UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"{self.subject} sent a compressed answer, although the request asked for none.",
                hint="Disable compression for this path in the proxy in front of it.",
            )
        if status != 200:
            if 400 <= status < 500:
                self._unreported = False  # no model read a request that was refused
            self._refuse(status, headers, await _body(response, _REFUSED_BODY_BYTES))
        kind = headers.get("content-type", "").split(";")[0].strip().lower()
        if kind in {"text/html", "application/xhtml+xml"} or kind.startswith(("image/", "application/json")):
            for item in self._whole(kind, await _body(response, MAX_BODY_BYTES)):
                yield item
            return
        decoder = Decoder()
        received = 0
        # No chunk size: with one, httpx buffers until a chunk is full, and the answer would not be live.
        chunks = response.aiter_raw()
        deadline: float | None = None
        while True:
            try:
                async with clock.timeout_at(deadline):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                return  # a fixed deadline for anything after the announced end
            if chunk is None:
                break
            received += len(chunk)
            if received > MAX_STREAM_BYTES:
                raise UnderstudyError(
                    ErrorKind.MALFORMED_OUTPUT,
                    f"{self.subject} sent more than {MAX_STREAM_BYTES} bytes.",
                    hint="Set `max_output_tokens`.",
                )
            for event in decoder.feed(chunk):
                for item in self._take(event.data):
                    yield item
            if self._answer.done:
                await http_client.spare(response)
                return
            if self._answer.ended and deadline is None:
                deadline = clock.now() + AFTER_END_SECONDS
                yield Heartbeat(grace_seconds=2 * AFTER_END_SECONDS)
            # A server that sends faster than we read must not starve the other tasks of this loop.
            await clock.sleep(0)
        for event in decoder.end():
            # Without the final empty line the event may be cut off, so its content proves nothing.
            try:
                for item in self._take(event.data):
                    yield item
            except UnderstudyError as error:
                if error.kind is not ErrorKind.MALFORMED_OUTPUT:
                    raise
        if not self._answer.ended and self._answer.events == 0:
            empty = UnderstudyError(ErrorKind.STREAM_TRUNCATED, f"{self.subject} sent an empty answer.", hint="Retry.")
            raise _Retryable(self._answer.failure() or empty)

    def _take(self, data: str) -> Sequence[SourceItem]:
        """Return the items of one data event; an event with nothing to show is still a sign of work."""
        before, had_ended = self._answer.events, self._answer.ended
        try:
            events = self._answer.data(data)
        except UnderstudyError as error:
            if before == 0 and error.kind in {ErrorKind.RATE_LIMITED, ErrorKind.OVERLOADED}:
                raise _Retryable(error) from None
            raise
        return events or ([] if had_ended else [Heartbeat()])

    def _refuse(self, status: int, headers: Mapping[str, str], body: str) -> None:
        if self._relaxed < _MOST_RELAXED:
            if self._dialect.relax(self._body, status, body):
                raise _Relaxed
            changed = request_options.adapt(self._body, status, body)
            if changed is not None:
                raise _Relaxed(changed)
        if status in {404, 405, 501} and self._server is not None and protocol_choice.is_open(self._server):
            protocol_choice.forget(self._server)
        error = http_errors.refusal(status, body, self._where.name, self.redactor.redact)
        if "tools" in self._body and self._dialect.refuses_tools(status, body):
            raise ToolsRefused(error)
        wait = http_errors.asked_wait(headers)
        if wait is not None:
            error.retry_at = retry_time(time.time() + wait)
        if http_errors.may_retry(status, error.kind, headers):
            raise _Retryable(error, wait)
        raise error

    def _whole(self, kind: str, body: str) -> Sequence[SourceItem]:
        """Take an answer that was not streamed; it must be JSON."""
        if kind == "application/json" and body.lstrip().startswith("{"):
            events = self._answer.data(body)
            if self._answer.ended or self._answer.text or events:
                self._answer.done = True
                return events
        shown = self.redactor.redact(strip_controls(http_errors.message_of(body)))[: http_errors.SHOWN_CHARACTERS]
        raise UnderstudyError(
            ErrorKind.MALFORMED_OUTPUT,
            f"{self.subject} sent {kind} instead of an event stream: {shown}",
            hint="Check that `base_url` points to a model server and not to a login page in front of it.",
        )

    def _broken(self, error: Exception) -> Exception:
        import httpx

        said = self.redactor.redact(strip_controls(str(error)))[: http_errors.SHOWN_CHARACTERS] or type(error).__name__
        if self._answer.events:
            return UnderstudyError(
                ErrorKind.STREAM_TRUNCATED, f"{self.subject} closed the connection mid-answer: {said}.", hint="Retry."
            )
        if isinstance(error, httpx.ProtocolError) and "disconnected" not in said and "closed" not in said:
            return UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"{self.subject} sent an invalid HTTP response: {said}.",
                hint="Check the host and port in `base_url`.",
            )
        url = self._where.base
        place = f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"
        return _Retryable(
            UnderstudyError(
                ErrorKind.CONNECTION_FAILED,
                f"{self.subject} could not be reached at {place}: {said}.",
                hint="Check that the server is running and that `base_url` is correct.",
            )
        )


async def _body(response: http_client.Response, limit: int) -> str:
    """Return a body as text, at most ``limit`` bytes of it; a broken connection ends it early."""
    import httpx

    kept = bytearray()
    with suppress(httpx.HTTPError, httpx.StreamError):
        async for chunk in response.aiter_raw():
            kept += chunk[: limit - len(kept)]
            if len(kept) >= limit:
                break
    return kept.decode("utf-8", "replace")
