"""Record lines in a Python program that a recorded test starts, then load the ``sitecustomize`` that this one hides."""

import importlib
import sys

import understudy_lines  # type: ignore[import-not-found] # in a folder of the project's PYTHONPATH

sys.path[:] = [path for path in sys.path if path != understudy_lines.START]
del sys.modules["sitecustomize"]
try:
    importlib.import_module("sitecustomize")
except ImportError:
    sys.modules["sitecustomize"] = understudy_lines  # the interpreter expects one after this import
understudy_lines.record_child()
