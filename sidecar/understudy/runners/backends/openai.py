"""The runner for model servers that speak OpenAI's chat completions, which is nearly all of them.

One attempt is one streamed request, sent again only while nothing has come back yet. The limits: five seconds to
connect, ``firstEventSeconds`` to the first event, ``idleSeconds`` between two events (comments that keep a connection
alive are none), ``totalSeconds`` for everything, pauses included.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from understudy.model.delegations import Usage
from understudy.model.delegators import ModelServer
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.events import Event, File, Note, UsageReport
from understudy.runners.backends import answers, connection, failures
from understudy.runners.backends.chat import ChatStream
from understudy.runners.backends.sse import Decoder
from understudy.runners.base import (
    FIRST_EVENT_SECONDS,
    IDLE_SECONDS,
    Emit,
    Outcome,
    Task,
    estimate_tokens,
    over_budget,
    plain,
)
from understudy.runners.registry import ABILITIES, BACKEND
from understudy.secrets import Redactor

if TYPE_CHECKING:
    import httpx

MAX_BODY_BYTES = 8 << 20
"""Of an answer that is no event stream."""
MAX_STREAM_BYTES = 256 << 20
"""Of one stream, comments and repetitions included."""
AFTER_END_SECONDS = 5.0
"""After ``finish_reason`` only the usage is to come; it is not worth more waiting than that."""
_REFUSED_BODY_BYTES = 64 << 10


class Runner:
    """Asks a model server once and returns its answer, or writes the files that are in it."""

    name = BACKEND
    abilities = ABILITIES[BACKEND]

    def __init__(self, *, retries: int = 2, backoff_seconds: float = 0.5) -> None:
        """``retries`` after the first try, ``backoff_seconds`` before the first of them, doubling up to 8 s."""
        self._retries = retries
        self._backoff = backoff_seconds

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Do ``task``; kinds of failure: see ``failures``, ``sse``, ``chat``, ``answers``, and the four time limits."""
        server = task.model_server
        if server is None:
            raise UnderstudyError(
                ErrorKind.CONFIG_INVALID,
                f"Delegator {task.delegator.name!r} has no model server.",
                hint="Set `modelServer` to the name of a configured one.",
            )
        # A keyring may take its time, and nothing else may wait for it.
        key = await asyncio.to_thread(task.key) if task.key is not None else None
        redactor = Redactor({f"model server {server.name}": key} if key else {})
        where = await connection.endpoint(server, local=connection.is_local(task.delegator, server), key=key)
        call = _Call(task, emit, server, where, redactor, retries=self._retries, backoff_seconds=self._backoff)
        try:
            async with asyncio.timeout(task.limits.total_seconds):
                chat = await call.answer()
        except TimeoutError:
            raise UnderstudyError(
                ErrorKind.TIMED_OUT,
                f"Model server {server.name!r} had not finished after {task.limits.total_seconds:g} s (totalSeconds).",
                hint="Raise the limit, or delegate a smaller piece.",
            ) from None
        except UnderstudyError:
            call.report_usage()
            raise
        usage, estimated = call.report_usage()
        self._check_budget(task, usage, chat.cost_usd, emit)
        text = chat.text
        if not text.strip():
            raise UnderstudyError(
                ErrorKind.EMPTY_OUTPUT,
                f"The model {task.delegator.model!r} ended well and said nothing.",
                hint="Retry, or choose another model.",
            )
        delivered, summary = _deliver(task, text, emit)
        return Outcome(text=delivered, summary=summary, usage=usage, cost_usd=chat.cost_usd, estimated=estimated)

    @staticmethod
    def _check_budget(task: Task, usage: Usage, cost_usd: str | None, emit: Emit) -> None:
        error = over_budget(
            task.limits,
            turns=0,
            output_tokens=usage.output_tokens,
            tokens=usage.input_tokens + usage.output_tokens,
            cost_usd=cost_usd,
        )
        if error is not None:
            raise error
        if task.limits.max_usd is not None and cost_usd is None:
            emit(
                Note(
                    level="warning", text="The model server does not report what it costs, so maxUsd could not be held."
                )
            )


def request_body(task: Task) -> dict[str, Any]:
    """Return the request for ``task``. Nothing is sent that was not asked for: strict servers refuse unknown fields."""
    messages: list[dict[str, str]] = []
    system = answers.instructions(task.recipe, files=task.files, target=task.target)
    if system:
        messages.append({"role": "system", "content": system})
    messages.append({"role": "user", "content": task.prompt})
    body: dict[str, Any] = dict(task.delegator.model_properties or {})
    body |= {
        "model": task.delegator.model,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if task.limits.max_output_tokens is not None:
        body.setdefault("max_tokens", task.limits.max_output_tokens)
    return body


def _deliver(task: Task, text: str, emit: Emit) -> tuple[str | None, str | None]:
    """Turn the model's answer into the outcome's text and summary; write the files that the recipe asks for."""
    if task.recipe.returns == "text":
        return text, None
    if task.recipe.returns == "file":
        content = answers.file_content(text)
        if task.worktree is not None and task.target is not None:
            existed = answers.write_target(task.worktree, task.target, content)
            emit(File(path=task.target, change="modified" if existed else "added"))
        return content, None
    if task.worktree is None:
        raise UnderstudyError(ErrorKind.INTERNAL, f"Recipe {task.recipe.name!r} needs a tree and got none.")
    written = answers.write_tests(task.worktree, text, task.files)
    for path in written:
        emit(File(path=path, change="added"))
    return text, f"Wrote {', '.join(written)}."


class _Retryable(Exception):  # noqa: N818 - a message to the loop around it, never seen outside
    """The request may be sent again."""

    def __init__(self, error: UnderstudyError, wait_seconds: float | None = None) -> None:
        super().__init__()
        self.error = error
        self.wait_seconds = wait_seconds


class _WithoutUsage(Exception):  # noqa: N818 - a message to the loop around it, never seen outside
    """The server does not know ``stream_options``."""


class _Call:
    """One attempt's requests."""

    def __init__(
        self,
        task: Task,
        emit: Emit,
        server: ModelServer,
        where: connection.Endpoint,
        redactor: Redactor,
        *,
        retries: int,
        backoff_seconds: float,
    ) -> None:
        self._task = task
        self._emit = emit
        self._server = server
        self._where = where
        self._redactor = redactor
        self._retries = retries
        self._backoff = backoff_seconds
        self._chat = ChatStream(server.name, redactor)
        self._first = task.limits.first_event_seconds or FIRST_EVENT_SECONDS
        self._idle = task.limits.idle_seconds or IDLE_SECONDS
        self._body = request_body(task)
        self._prompt = "".join(message["content"] for message in self._body["messages"])
        self._sent = False

    async def answer(self) -> ChatStream:
        """Return the complete answer, or raise why there is none."""
        tries = 0
        async with connection.client(self._where) as client:
            while True:
                self._chat = ChatStream(self._server.name, self._redactor)
                try:
                    await self._once(client)
                except _WithoutUsage:
                    del self._body["stream_options"]
                except _Retryable as again:
                    tries += 1
                    await self._pause(again, tries)
                else:
                    error = self._chat.failure()
                    if error is not None:
                        raise error
                    return self._chat

    def report_usage(self) -> tuple[Usage, bool]:
        """Emit and return what was used so far, and whether it is an estimate."""
        usage, estimated = self._chat.usage(self._prompt)
        if self._sent:
            self._emit(UsageReport(**msgspec.structs.asdict(usage), cost_usd=self._chat.cost_usd, estimated=estimated))
        return usage, estimated

    async def _pause(self, again: _Retryable, tries: int) -> None:
        asked = again.wait_seconds
        if tries > self._retries:
            raise again.error
        if asked is not None and asked > failures.MAX_WAIT_SECONDS:
            raise UnderstudyError(
                again.error.kind,
                f"{again.error.message} It asks to wait {asked:.0f} s.",
                hint="Retry after that time, or choose another delegator.",
            )
        # The openai client's schedule: 0.5 · 2^n up to 8 s, less up to a quarter, so that clients spread out.
        seconds = asked if asked is not None else min(self._backoff * 2 ** (tries - 1), 8.0) * random.uniform(0.75, 1)  # noqa: S311
        self._emit(
            Note(
                level="warning",
                text=f"{plain(again.error.message)} Trying again in {seconds:.1f} s ({tries} of {self._retries}).",
            )
        )
        await asyncio.sleep(seconds)

    async def _once(self, client: httpx.AsyncClient) -> None:
        """Send the request once and take its answer into ``self._chat``."""
        import httpx  # noqa: PLC0415 - loaded by connection.client already

        request = client.build_request(
            "POST",
            self._where.url("/chat/completions"),
            content=msgspec.json.encode(self._body),
            headers={**self._where.headers, "Content-Type": "application/json"},
            extensions={**self._where.extensions, "timeout": client.timeout.as_dict()},
        )
        clock = asyncio.timeout(self._first)
        started = time.monotonic()
        self._sent = True
        try:
            async with clock:
                response = await client.send(request, stream=True)
                try:
                    await self._read(response, clock)
                finally:
                    with suppress(httpx.HTTPError, OSError):
                        await response.aclose()
        except TimeoutError:
            if not clock.expired():
                raise
            if self._chat.ended:
                return
            raise self._too_slow(time.monotonic() - started) from None
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            if self._chat.ended:
                return
            raise self._broken(error) from None
        finally:
            for event in self._chat.finish():
                self._emit(event)

    async def _read(self, response: httpx.Response, clock: asyncio.Timeout) -> None:
        status = response.status_code
        headers: Mapping[str, str] = response.headers
        if headers.get("content-encoding", "identity").lower() not in {"identity", ""}:
            raise UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"Model server {self._server.name!r} compressed its answer although that was ruled out.",
                hint="Switch off compression for this path in the proxy in front of it.",
            )
        if status != 200:
            await self._refused(status, headers, await _body(response, _REFUSED_BODY_BYTES))
        kind = headers.get("content-type", "").split(";")[0].strip().lower()
        if kind in {"text/html", "application/xhtml+xml"} or kind.startswith(("image/", "application/json")):
            await self._whole(kind, await _body(response, MAX_BODY_BYTES))
            return
        decoder = Decoder()
        received = 0
        # Without a size: with one, httpx holds bytes back until there are so many, and nothing would be live.
        async for chunk in response.aiter_raw():
            received += len(chunk)
            if received > MAX_STREAM_BYTES:
                raise UnderstudyError(
                    ErrorKind.MALFORMED_OUTPUT,
                    f"Model server {self._server.name!r} sent more than {MAX_STREAM_BYTES} bytes.",
                    hint="Set maxOutputTokens.",
                )
            for event in decoder.feed(chunk):
                self._take(event.data, clock)
            if self._chat.done:
                return
            # A server that sends faster than it is read must not starve the other tasks of this loop.
            await asyncio.sleep(0)
        for event in decoder.end():
            # Without its empty line it may be cut in the middle, which is the stream's fault, not its content's.
            try:
                self._take(event.data, clock)
            except UnderstudyError as error:
                if error.kind is not ErrorKind.MALFORMED_OUTPUT:
                    raise
        if not self._chat.ended and self._chat.events == 0:
            raise _Retryable(
                self._chat.failure() or UnderstudyError(ErrorKind.STREAM_TRUNCATED, "The answer was empty.")
            )

    def _take(self, data: str, clock: asyncio.Timeout) -> None:
        before = self._chat.events
        had_ended = self._chat.ended
        try:
            events: list[Event] = self._chat.data(data)
        except UnderstudyError as error:
            if before == 0 and error.kind in {ErrorKind.RATE_LIMITED, ErrorKind.OVERLOADED}:
                raise _Retryable(error) from None
            raise
        for event in events:
            self._emit(event)
        # What follows the end (usage, usually) has one deadline that nothing moves.
        if not had_ended and (self._chat.events > before or self._chat.ended):
            seconds = AFTER_END_SECONDS if self._chat.ended else self._idle
            clock.reschedule(asyncio.get_running_loop().time() + seconds)
        limit = self._task.limits.max_tokens
        spent = self._chat.characters // 4
        if limit is not None and estimate_tokens(self._prompt) + spent > limit and not self._chat.ended:
            raise UnderstudyError(
                ErrorKind.BUDGET_EXHAUSTED,
                f"The attempt was stopped after some {spent} tokens of output: its limit maxTokens is {limit}.",
                hint="Raise maxTokens, or delegate a smaller piece.",
            )

    async def _refused(self, status: int, headers: Mapping[str, str], body: str) -> None:
        usage_refused = status in {400, 422} and ("stream_options" in body or "include_usage" in body)
        if usage_refused and "stream_options" in self._body:
            raise _WithoutUsage
        error = failures.refusal(status, body, self._server.name, self._redactor.redact)
        if failures.may_retry(status, error.kind, headers):
            raise _Retryable(error, failures.asked_wait(headers))
        raise error

    async def _whole(self, kind: str, body: str) -> None:
        """Take an answer that was not streamed: JSON is believed if it is one, anything else is shown."""
        if kind == "application/json" and body.lstrip().startswith("{"):
            for event in self._chat.data(body):
                self._emit(event)
            if self._chat.finish_reason is not None or self._chat.parts:
                self._chat.done = True
                return
        shown = self._redactor.redact(plain(failures.message_of(body)))[: failures.SHOWN_CHARACTERS]
        raise UnderstudyError(
            ErrorKind.MALFORMED_OUTPUT,
            f"Model server {self._server.name!r} answered with {kind} instead of an event stream: {shown}",
            hint="Check that `baseUrl` is a model server's, and not a login page in front of it.",
        )

    def _too_slow(self, seconds: float) -> UnderstudyError:
        name = self._server.name
        if self._chat.events == 0:
            return UnderstudyError(
                ErrorKind.TIMED_OUT,
                f"Model server {name!r} sent no event within {seconds:.1f} s (firstEventSeconds).",
                hint="Raise the limit if the model takes long to load, or choose another delegator.",
            )
        return UnderstudyError(
            ErrorKind.STALLED,
            f"Model server {name!r} stopped in the middle: no event for {self._idle:g} s (idleSeconds).",
            hint="Retry, or choose another delegator.",
        )

    def _broken(self, error: Exception) -> Exception:
        import httpx  # noqa: PLC0415 - loaded already

        said = self._redactor.redact(plain(str(error)))[: failures.SHOWN_CHARACTERS] or type(error).__name__
        name = self._server.name
        if self._chat.events:
            return UnderstudyError(
                ErrorKind.STREAM_TRUNCATED,
                f"The connection to model server {name!r} broke mid-answer: {said}.",
                hint="Retry.",
            )
        if isinstance(error, httpx.ProtocolError) and "disconnected" not in said and "closed" not in said:
            return UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"What model server {name!r} answered is no HTTP: {said}.",
                hint="Check host and port in `baseUrl`.",
            )
        url = self._where.base
        place = f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"
        return _Retryable(
            UnderstudyError(
                ErrorKind.CONNECTION_FAILED,
                f"Model server {name!r} could not be reached at {place}: {said}.",
                hint="Check that the server runs and that `baseUrl` is right.",
            )
        )


async def _body(response: httpx.Response, limit: int) -> str:
    """Return a body as text, at most ``limit`` bytes of it; a connection that breaks meanwhile ends it."""
    import httpx  # noqa: PLC0415 - loaded already

    kept = bytearray()
    with suppress(httpx.HTTPError, httpx.StreamError):
        async for chunk in response.aiter_raw():
            kept += chunk[: limit - len(kept)]
            if len(kept) >= limit:
                break
    return kept.decode("utf-8", "replace")
