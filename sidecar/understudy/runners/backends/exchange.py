"""One request to a model server: its turn, connection, retries before the first event, bounds.

It blocks, and is read from another thread (``driver.source.Background``), which can stop waiting for it and end it.
Connecting may take five seconds. Keep-alive comments are not items, so they do not count as a sign of work.

A server with a limit gets so many requests at once from all processes of this user together. A slot is a file under
``<state>/server-slots`` that is locked while a request runs. The kernel frees it when the process ends, in any way.
After the server refused a request because there were too many, none for the same model with the same key is sent before
the pause that it asked for is over: others would be refused as well, and make it longer. Host and port identify a
server, not its name: two entries may mean the same server.

An answer that breaks off, or of which a part cannot be read, is asked for once more: no part of it was executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from understudy.files import durable
from understudy.journal import delegation_folder
from understudy.model.config.delegators import ModelServer
from understudy.model.delegation.events import Note, UsageReport
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.sanitize import strip_controls
from understudy.model.wire import retry_time
from understudy.policy import budget
from understudy.runners.backends import file_answers, protocol_choice
from understudy.runners.backends.content import request_options
from understudy.runners.backends.dialects import Dialect
from understudy.runners.backends.http import http_client, http_errors
from understudy.runners.backends.http.http_client import EventDecoder
from understudy.runners.backends.http.http_errors import MAX_WAIT_SECONDS
from understudy.runners.driver.source import Heartbeat, Retrying, SourceItem
from understudy.runners.runner import Task
from understudy.secrets import Redactor

if TYPE_CHECKING:
    import httpx

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
_MOST_BREAKS = 1
_UNTIL = "until"
POLL_SECONDS = 0.25
"""Between two looks for a free slot: nothing announces that another process has freed one."""


class _Retryable(Exception):  # noqa: N818 - a message to the loop around it, never seen outside
    """The request may be sent again."""

    def __init__(self, error: UnderstudyError, wait_seconds: float | None = None) -> None:
        super().__init__()
        self.error = error
        self.wait_seconds = wait_seconds


class _Broken(Exception):  # noqa: N818 - a message to the loop around it, never seen outside
    """The answer broke off, or a part of it cannot be read."""

    def __init__(self, error: UnderstudyError) -> None:
        super().__init__()
        self.error = error


class _Relaxed(Exception):  # noqa: N818 - a message to the loop around it, never seen outside
    """The server refused an optional field, which is now left out or lowered; the argument says which, to the user."""


class ToolsRefused(Exception):  # noqa: N818 - a message to the loop that offered them
    """The server refused a request because its model cannot call tools."""

    def __init__(self, error: UnderstudyError) -> None:
        """Keep the refusal."""
        super().__init__()
        self.error = error


class Exchange:
    """One request to a model server, sent until it is answered, in a thread that may wait.

    ``body`` and ``prompt`` may be replaced between two answers.
    """

    def __init__(
        self,
        task: Task,
        dialect: Dialect,
        where: http_client.Endpoint,
        redactor: Redactor,
        *,
        retries: int | None,
        backoff_seconds: float,
    ) -> None:
        """Prepare the request; ``answered`` sends it."""
        self.subject = f"Model server {where.name!r}"
        self.redactor = redactor
        self._server, self._model = task.model_server, task.delegator.model
        self._dialect = dialect
        self._where = where
        self._line = http_client.Line()
        self._retries = task.patience.retries if retries is None else retries
        self._longest_wait = task.patience.longest_wait_seconds
        self._backoff = backoff_seconds
        system = file_answers.instructions(task.recipe, target=task.target)
        self.body = dialect.body(task, system)
        self.prompt = (system or "") + task.prompt
        self.answer = dialect.answer(where.name, redactor)
        """What has arrived of the last answer."""
        self._relaxed = 0
        """How often the request was sent again without an option."""
        self._unreported = False
        """Whether a request was sent whose usage has not been reported."""
        self._spent: UsageReport | None = None
        """What broken answers to the same request used."""

    def end(self) -> None:
        """End it from another thread: what it waits for fails at once, and nothing more is sent."""
        self._line.end()

    def answered(self) -> Generator[SourceItem, None, None]:
        """Send the request until it is answered, and yield the answer as it arrives, then its usage.

        ``answer`` has the whole answer. Raises if it cannot be used, and ``ToolsRefused``.
        """
        self._line = http_client.Line()  # now, so that it can be ended before it begins
        self._spent = None
        return self._answered()

    def _answered(self) -> Generator[SourceItem, None, None]:
        with http_client.client(self._where) as client:
            tries, breaks = 0, 0
            while True:
                self.answer = self._dialect.answer(self._where.name, self.redactor)
                self.answer.tools_offered = "tools" in self.body
                self.answer.asked_tokens = self.body.get("max_output_tokens")
                try:
                    yield from self._in_turn(client)
                    break
                except _Broken as broken:
                    breaks += 1
                    if breaks > _MOST_BREAKS or self._retries == 0:
                        raise broken.error from None
                    self._spent, self._unreported = self._used(), False
                    reason = strip_controls(broken.error.message)
                    yield Note(level="warning", text=f"{reason} The answer begins again.", begins_again=True)
                    yield Retrying(after_seconds=0.0)
                except _Relaxed as refused:
                    self._relaxed += 1
                    if refused.args:
                        yield Note(level="warning", text=f"{self.subject} refused an option. {refused.args[0]}")
                except _Retryable as again:
                    tries += 1
                    seconds = self._pause(again, tries)
                    limited = again.error.kind is ErrorKind.RATE_LIMITED or again.wait_seconds is not None
                    if self._server is not None and limited:
                        hold(self._server, self._model, seconds)
                    reason = strip_controls(again.error.message)
                    text = f"{reason} Retrying in {seconds:.1f} s ({tries} of {self._retries})."
                    yield Note(level="warning", text=text)
                    yield Retrying(after_seconds=seconds)
                    self._line.pause(seconds)
        error = self.answer.failure()
        if error is not None:
            raise error
        yield from self.usage()

    def text(self) -> str:
        """Return the text of the answer; raise ``empty_output`` if there is none."""
        text = self.redactor.redact(self.answer.text)
        if not text.strip():
            raise UnderstudyError(
                ErrorKind.EMPTY_OUTPUT,
                f"{self.subject} finished without an answer.",
                hint="Retry, or choose another model.",
            )
        return text

    def usage(self) -> Sequence[UsageReport]:
        """Return the usage of a request that was sent, with that of its broken answers, unless it has been reported."""
        used = self._used()
        self._unreported, self._spent = False, None
        return [used] if used is not None else []

    def _used(self) -> UsageReport | None:
        """Return what was used and has not been reported; None: nothing."""
        if not self._unreported:
            return self._spent
        usage, estimated = self.answer.usage(self.prompt)
        counts = msgspec.structs.asdict(usage)
        report = UsageReport(**counts, cost_usd=self.answer.cost_usd, estimated=estimated)
        priced = budget.priced(report, self._server, self._model)
        return priced if self._spent is None else budget.together(self._spent, priced)

    def _pause(self, again: _Retryable, tries: int) -> float:
        """Return the seconds to wait before the next try; raise when no try is left."""
        asked = again.wait_seconds
        if tries > self._retries:
            raise again.error
        if asked is not None and asked > self._longest_wait:
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

    def _in_turn(self, client: httpx.Client) -> Iterator[SourceItem]:
        """Send the request once, when the server has a free slot; waiting is bounded by the total time only."""
        server = self._server
        left = held_seconds(server, self._model) if server is not None else 0.0
        if left > self._longest_wait:
            raise UnderstudyError(
                ErrorKind.RATE_LIMITED,
                f"{self.subject} asked others to wait for {left:.0f} s more.",
                hint="Retry after that time, or choose another delegator.",
                retry_at=retry_time(time.time() + left),
            )
        if left > _SHOWN_WAIT_SECONDS:  # not what is left of this attempt's own pause
            yield Note(level="info", text=f"{self.subject} asked others to wait; waiting {left:.1f} s.")
        while server is not None and left > 0:
            seconds = spread(left)
            yield Retrying(after_seconds=seconds)
            self._line.pause(seconds)
            left = held_seconds(server, self._model)
        if server is None or server.max_concurrent is None:
            slot = None
        else:
            slot = take_slot(server)
            if slot is None:
                most = f"{server.max_concurrent} at once"
                yield Note(level="info", text=f"{self.subject} has as many requests as it may ({most}); waiting.")
            while slot is None:
                seconds = slot_pause()
                yield Retrying(after_seconds=seconds)
                self._line.pause(seconds)
                slot = take_slot(server)
        try:
            yield from self._once(client)
        finally:
            if slot is not None:
                slot.free()

    def _once(self, client: httpx.Client) -> Iterator[SourceItem]:
        """Send the request once and yield its answer, also kept in ``self.answer``."""
        import httpx

        request = client.build_request(
            "POST",
            self._where.url(self._dialect.below(self._where.base.path, self._dialect.path)),
            content=msgspec.json.encode(self.body),
            headers={**self._where.headers, **self._dialect.headers(self._where.key)},
            extensions=self._line.extensions(self._where, client),
        )
        self._unreported = True
        try:
            response = client.send(request, stream=True)
            try:
                yield from self._read(response)
            finally:
                with suppress(httpx.HTTPError, OSError):
                    response.close()
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            if not self.answer.events:
                self._unreported = False  # no request was sent, or no part of an answer came
            if not self.answer.ended:
                raise self._broken(error) from None

    def _read(self, response: httpx.Response) -> Iterator[SourceItem]:
        status = response.status_code
        headers: Mapping[str, str] = response.headers
        if headers.get("content-encoding", "identity").lower() not in {"identity", ""}:
            raise UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"{self.subject} sent a compressed answer, although the request asked for none.",
                hint="Disable compression for this path in the proxy in front of it.",
            )
        if status != 200:
            self._unreported = False  # no model read a request that was refused
            self._refuse(status, headers, _body(response, _REFUSED_BODY_BYTES))
        kind = headers.get("content-type", "").split(";")[0].strip().lower()
        if kind in {"text/html", "application/xhtml+xml"} or kind.startswith(("image/", "application/json")):
            yield from self._whole(kind, _body(response, MAX_BODY_BYTES))
            return
        decoder = EventDecoder()
        received = 0
        # A fixed deadline for anything after the announced end: the answer is whole, and the usage may follow.
        last_call = threading.Timer(AFTER_END_SECONDS, self._line.hang_up)
        last_call.daemon = True
        try:
            # No chunk size: with one, httpx buffers until a chunk is full, and the answer would not be live.
            for chunk in response.iter_raw():
                received += len(chunk)
                if received > MAX_STREAM_BYTES:
                    raise UnderstudyError(
                        ErrorKind.MALFORMED_OUTPUT,
                        f"{self.subject} sent more than {MAX_STREAM_BYTES} bytes.",
                        hint="Set `max_output_tokens`.",
                    )
                for data in decoder.feed(chunk):
                    yield from self._take(data)
                if self.answer.done:
                    return
                if self.answer.ended and not last_call.ident:
                    last_call.start()
                    yield Heartbeat(grace_seconds=2 * AFTER_END_SECONDS)
        finally:
            last_call.cancel()
        for data in decoder.end():
            # Without the final empty line the event may be cut off, so its content proves nothing.
            with suppress(_Broken):
                yield from self._take(data)
        failure = self.answer.failure()
        if failure is not None and failure.kind is ErrorKind.STREAM_TRUNCATED and self.answer.events:
            raise _Broken(failure)
        if not self.answer.ended and self.answer.events == 0:
            empty = UnderstudyError(ErrorKind.STREAM_TRUNCATED, f"{self.subject} sent an empty answer.", hint="Retry.")
            raise _Retryable(self.answer.failure() or empty)

    def _take(self, data: str) -> Sequence[SourceItem]:
        """Return the items of one data event; an event with nothing to show is still a sign of work."""
        before, had_ended = self.answer.events, self.answer.ended
        try:
            events = self.answer.data(data)
        except UnderstudyError as error:
            if before == 0 and error.kind in {ErrorKind.RATE_LIMITED, ErrorKind.OVERLOADED}:
                raise _Retryable(error) from None
            if error.kind is ErrorKind.MALFORMED_OUTPUT:
                raise _Broken(error) from None
            raise
        return events or ([] if had_ended else [Heartbeat()])

    def _refuse(self, status: int, headers: Mapping[str, str], body: str) -> None:
        if self._relaxed < _MOST_RELAXED:
            if self._dialect.relax(self.body, status, body):
                raise _Relaxed
            changed = request_options.adapt(self.body, status, body)
            if changed is not None:
                raise _Relaxed(changed)
        if status in {404, 405, 501} and self._server is not None and protocol_choice.is_open(self._server):
            protocol_choice.forget(self._server)
        error = http_errors.refusal(status, body, self._where.name, self.redactor.redact)
        if "tools" in self.body and self._dialect.refuses_tools(status, body):
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
            events = self.answer.data(body)
            if self.answer.ended or self.answer.text or events:
                self.answer.done = True
                return events
        shown = self.redactor.redact(strip_controls(http_errors.message_of(body)))[: http_errors.SHOWN_CHARACTERS]
        raise UnderstudyError(
            ErrorKind.MALFORMED_OUTPUT,
            f"{self.subject} sent {kind} instead of an event stream: {shown}",
            hint="Check that `base_url` points to a model server and not to a login page in front of it.",
        )

    def _broken(self, error: Exception) -> Exception:
        import httpx

        reason = http_errors.reason_of(error, self.redactor.redact)
        if self.answer.events:
            text = f"{self.subject} closed the connection mid-answer: {reason}."
            return _Broken(UnderstudyError(ErrorKind.STREAM_TRUNCATED, text, hint="Retry."))
        if isinstance(error, httpx.ProtocolError) and "disconnected" not in reason and "closed" not in reason:
            return UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"{self.subject} sent an invalid HTTP response: {reason}.",
                hint="Check the host and port in `base_url`.",
            )
        url = self._where.base
        place = f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"
        return _Retryable(
            UnderstudyError(
                ErrorKind.CONNECTION_FAILED,
                f"{self.subject} could not be reached at {place}: {reason}.",
                hint="Check that the server is running and that `base_url` is correct.",
            )
        )


def _body(response: httpx.Response, limit: int) -> str:
    """Return a body as text, at most ``limit`` bytes of it; a broken connection ends it early."""
    import httpx

    kept = bytearray()
    with suppress(httpx.HTTPError, httpx.StreamError):
        for chunk in response.iter_raw():
            kept += chunk[: limit - len(kept)]
            if len(kept) >= limit:
                break
    return kept.decode("utf-8", "replace")


class Slot:
    """A slot that this process holds until ``free``."""

    def __init__(self, descriptor: int) -> None:
        """Hold the lock of an open file."""
        self._descriptor = descriptor

    def free(self) -> None:
        """Let another request have it; also twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def take_slot(server: ModelServer) -> Slot | None:
    """Return a free slot of ``server``, which has a limit; None when all are taken. Raises what ``durable`` raises."""
    folder = _folder(server)
    with durable.named_failures(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(max(1, server.max_concurrent or 1)):
        descriptor = durable.try_lock(folder / str(number))
        if descriptor is not None:
            return Slot(descriptor)
    return None


def slot_pause() -> float:
    """Return how long to wait before the next look, in seconds; spread, so that those who wait take turns."""
    return POLL_SECONDS * random.uniform(0.5, 1.5)  # noqa: S311


def spread(seconds: float) -> float:
    """Return a pause for one of many that wait for ``seconds``, so that they do not all begin at once."""
    return seconds * random.uniform(1.0, 1.2) + random.uniform(0.0, 0.2)  # noqa: S311


def hold(server: ModelServer, model: str, seconds: float) -> None:
    """Let no request for ``model`` begin for ``seconds``, in any process; a longer pause that was set before stays."""
    seconds = min(seconds, MAX_WAIT_SECONDS)
    if seconds <= held_seconds(server, model):
        return
    place = _hold_file(server, model)
    with contextlib.suppress(OSError, UnderstudyError):  # then only this process waits
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        durable.replace(place, f"{time.time() + seconds:.3f}".encode())


def held_seconds(server: ModelServer, model: str) -> float:
    """Return how long no request for ``model`` may begin."""
    try:
        until = float(durable.read_whole(_hold_file(server, model), 64))
    except (OSError, UnderstudyError, ValueError):
        return 0.0
    left = until - time.time()
    return left if 0 < left <= MAX_WAIT_SECONDS else 0.0


def _hold_file(server: ModelServer, model: str) -> Path:
    """Return where the end of a pause is: a provider's limits are those of one model and one key."""
    limited = hashlib.sha256(msgspec.json.encode([model, server.api_key])).hexdigest()[:16]
    return _folder(server) / f"{_UNTIL}-{limited}"


def _folder(server: ModelServer) -> Path:
    parts = urlsplit(server.base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    place = f"{(parts.hostname or '').lower()}:{port}"
    return delegation_folder.state_root() / "server-slots" / hashlib.sha256(place.encode()).hexdigest()[:16]
