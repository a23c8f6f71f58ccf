"""The command ``understudy``: a worker goes straight to the engine, everything else to the command line."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command given in ``sys.argv`` and return its exit code (see ``faces.cli.exits``)."""
    if sys.argv[1:2] == ["worker"]:
        # Twenty workers at once share two cores and 40 MB each: nothing of the command line is imported for them.
        from understudy.engine import worker  # noqa: PLC0415

        return worker.main(sys.argv[2:])
    from understudy.faces.cli import app  # noqa: PLC0415 - not in a worker

    return app.main(sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(main())
