"""The output and exit codes of ``ask``, ``write`` and ``summarize``.

With ``--json`` they print one envelope, also for errors, in the form that scripts of agent-delegate read::

    {"ok": true, "command", "model", "content", "profile", "target"?, "usage": {…}}
    {"ok": false, "command", "profile"?, "model"?, "target"?, "error": {"type", "message", "kind", "hint"?, "status"?}}

Exit codes: 0 for an answer, 1 if the model server failed, 2 if the request could not be made.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import click
import msgspec

from understudy.frontends.cli.calls import options
from understudy.model.errors import ErrorKind, UnderstudyError

OK, FAILED, UNUSABLE, STOPPED = 0, 1, 2, 130

_TARGET_ROOT = "target_root_escape"
_RESOLVE = "resolve_error"
_CORPUS = "corpus_error"

_TYPES: dict[ErrorKind, str] = {
    **dict.fromkeys(
        (
            *(ErrorKind.UNKNOWN_DELEGATOR, ErrorKind.UNKNOWN_MODEL_SERVER, ErrorKind.UNKNOWN_RECIPE),
            *(ErrorKind.UNKNOWN_TOOL, ErrorKind.CONFIG_INVALID, ErrorKind.SECRET_WITHHELD),
        ),
        _RESOLVE,
    ),
    **dict.fromkeys(
        (
            *(ErrorKind.INVALID_PARAMS, ErrorKind.FILE_TOO_LARGE, ErrorKind.INPUT_TOO_LARGE, ErrorKind.INPUT_EMPTY),
            ErrorKind.PERMISSION_DENIED,
        ),
        _CORPUS,
    ),
    ErrorKind.TARGET_EXISTS: "target_exists",
    ErrorKind.CONFLICT: "target_exists",
    ErrorKind.PATH_ESCAPE: _TARGET_ROOT,
}
"""Error kind → the envelope's type; every other kind is a ``backend_error``."""


class EnvelopeCommand(click.Command):
    """A command whose errors of usage are an envelope too."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> click.Context:
        """Parse the arguments."""
        options = args[: args.index("--")] if "--" in args else list(args)
        with self._usage_errors(as_json="--json" in options):
            return super().make_context(info_name, args, *rest, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with self._usage_errors(as_json=ctx.params["json_"], arguments=ctx.params):
            return super().invoke(ctx)

    @contextlib.contextmanager
    def _usage_errors(self, *, as_json: bool, arguments: Mapping[str, Any] = MappingProxyType({})) -> Iterator[None]:
        try:
            yield
        except click.UsageError as error:
            if not as_json:
                raise
            wrong = UnderstudyError(
                ErrorKind.INVALID_PARAMS, error.format_message(), hint=f"Run `understudy {self.name} --help`."
            )
            kind = "missing_target" if "--target" in wrong.message else None
            _print(_error(str(self.name), wrong, kind, _expected(str(self.name), arguments)))
            raise click.exceptions.Exit(UNUSABLE) from None


def enveloped(command: str, run: Callable[[dict[str, Any]], None], arguments: Mapping[str, Any]) -> int:
    """Run a command and return its exit code; ``run`` fills in what is known for the envelope of an error."""
    as_json = arguments["json_"]
    facts: dict[str, Any] = {}
    try:
        with options.as_options(also_json=True):
            run(facts)
    except (click.ClickException, click.Abort, BrokenPipeError):
        raise
    except UnderstudyError as error:
        problem = error
    except KeyboardInterrupt:
        problem = UnderstudyError(ErrorKind.CANCELLED, "Stopped. No file was written.")
    except Exception as error:
        from understudy.api.error_answers import internal_error

        problem = internal_error(f"understudy {command}", error)
    else:
        return OK
    empty = "empty_stdin" if problem.kind is ErrorKind.INPUT_EMPTY and command == "summarize" else None
    if as_json:
        _print(_error(command, problem, empty, _expected(command, arguments) | facts))
    else:
        from understudy.frontends.cli.output import output

        output.error(problem, as_json=False)
    if problem.kind is ErrorKind.CANCELLED:
        return STOPPED
    return UNUSABLE if problem.kind in _TYPES else FAILED


def success(command: str, facts: dict[str, Any], answer: Any) -> None:
    """Print the envelope of an answer (``api.text_requests.TextAnswer``)."""
    usage = answer.usage
    _print(
        {
            "ok": True,
            "command": command,
            **facts,
            "content": answer.text,
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "cached_tokens": usage.cache_read_tokens,
                "reasoning_tokens": usage.reasoning_tokens,
                "total_duration_ms": round(answer.seconds * 1000),
            },
            "id": answer.id,
            "cost_usd": answer.cost_usd,
        }
    )


def _error(command: str, problem: UnderstudyError, type_: str | None, facts: dict[str, Any]) -> dict[str, Any]:
    info: dict[str, Any] = {
        "type": type_ or _TYPES.get(problem.kind, "backend_error"),
        "message": problem.message,
        "kind": problem.kind,
    }
    if problem.hint:
        info["hint"] = problem.hint
    if problem.names:
        info["names"] = problem.names
    if problem.status is not None:
        info["status"] = problem.status
    return {"ok": False, "command": command, **facts, "error": info}


def _expected(command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the delegator, the model and the target of a request that was not made, as far as they are known."""
    from understudy.api import text_requests

    profile, model = arguments.get("delegator"), arguments.get("model")
    with contextlib.suppress(UnderstudyError):
        profile, model = text_requests.expected(command, profile, model)
    values = {"profile": profile, "model": model, "target": arguments.get("target")}
    return {name: value for name, value in values.items() if value}


def _print(value: dict[str, Any]) -> None:
    try:
        line = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate in a path or an answer
        from understudy.model.wire import encode

        line = encode(value)
    click.echo(line)
    sys.stdout.flush()
