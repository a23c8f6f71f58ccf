"""``python -m understudy.api.contract [--check] [FOLDER]``: write ``protocol/``, or list stale files and exit 1."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from understudy.api import contract


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 1 if ``--check`` finds a stale file, 2 if ``FOLDER`` is wrong."""
    parser = argparse.ArgumentParser(prog="python -m understudy.api.contract", description=contract.__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("protocol"), help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    options = parser.parse_args(arguments)
    if not (options.folder / "README.md").is_file():
        sys.stderr.write(f"{options.folder}/README.md does not exist. Run this in the checkout, or pass the folder.\n")
        return 2
    if options.check:
        stale = contract.stale(options.folder)
        for line in stale:
            sys.stderr.write(f"{options.folder}/{line}\n")
        if stale:
            sys.stderr.write("Run `make generate` and commit the changed files.\n")
        return 1 if stale else 0
    for name in contract.write(options.folder):
        sys.stdout.write(f"{options.folder}/{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
