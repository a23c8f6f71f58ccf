"""The command ``understudy``: a worker goes straight to the engine, everything else to the command line."""

from __future__ import annotations

import faulthandler
import gc
import os
import sys

_SHORT = frozenset(
    {"ask", "write", "summarize", "status", "delegators", "profiles", "recipes", "routes", "list", "show", "version"}
)
"""The commands that send one request from this process, or print what is there: all is done when they return."""
_LONG = frozenset({"serve", "rpc", "acp", "mcp", "worker"})
"""The commands that run for as long as their client or their delegation."""


def main() -> int:
    """Run the command given in ``sys.argv`` and return its exit code (see ``frontends.cli.calls.exit_codes``)."""
    if sys.platform == "win32":
        # Before anything else is imported: most modules need what only POSIX systems have.
        from understudy.frontends.cli import app

        return app.refuse_windows(sys.argv[1:])
    if _LONG.intersection(sys.argv[1:2]) and sys.stderr is not None:
        faulthandler.enable()  # its client logs standard error: a crash of the interpreter says where it happened
    if sys.argv[1:2] == ["worker"]:
        # Twenty workers at once share two cores and 40 MB each: they do not import the command line.
        from understudy.engine.running.lifecycle import worker

        return worker.main(sys.argv[2:])
    is_short = bool(_SHORT.intersection(sys.argv[1:2]))
    if is_short:
        gc.disable()  # it takes as long as importing ten modules, and the process ends soon
    from understudy.frontends.cli import app

    code = app.main(sys.argv[1:])
    if is_short:
        _exit_now(code)
    return code


def _exit_now(code: int) -> None:
    """End this process without taking the interpreter apart, which takes a fifth of the time of a short command."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # the reader has gone
        return
    os._exit(code)


if __name__ == "__main__":
    raise SystemExit(main())
