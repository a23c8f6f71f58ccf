"""Start a program of this folder: ``python __main__.py PROGRAM``, a request as JSON on standard input.

The folder becomes the package ``ghostwriter_inside``; it is not on ``sys.path``, where it could shadow the project's
modules.
"""

from __future__ import annotations

import os
import sys
import types


def main() -> None:
    """Run the program that the first argument names."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != folder]
    package = types.ModuleType("ghostwriter_inside")
    package.__path__ = [folder]
    sys.modules["ghostwriter_inside"] = package
    program = __import__("ghostwriter_inside." + sys.argv[1], fromlist=["main"])
    program.main()


if __name__ == "__main__":
    main()
