"""List the top-level modules that test runners import, for interpreters that cannot be asked."""

from __future__ import annotations

import sys

RUNNER_MODULES = frozenset(sys.stdlib_module_names) | {
    *("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "tomli"),
    *("typing_extensions", "coverage", "pytest_cov", "hypothesis", "_hypothesis_pytestplugin", "xdist", "execnet"),
    *("attr", "attrs", "pytest_asyncio", "pytest_timeout", "pytest_mock", "nose", "nose2", "tox", "nox", "colorama"),
    *("sitecustomize", "usercustomize", "pkg_resources", "setuptools"),
}
