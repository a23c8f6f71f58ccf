"""A Python environment for the projects of tests, with pytest and nothing else.

The environment of these tests has plugins that need two seconds to load, and a judged delegation starts pytest many
times. Run as a program, it makes an environment in the folder that is its argument, with Hypothesis, and prints its
interpreter.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path

PYTEST = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
HYPOTHESIS = ("hypothesis", "sortedcontainers")


@functools.cache
def project_python() -> str:
    """Return the interpreter of an environment that lasts until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="project-python-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make_environment(folder, PYTEST)
    return str(folder / "bin" / "python")


def make_environment(folder: Path, packages: tuple[str, ...]) -> Path:
    """Make a virtual environment (what `python -m venv --without-pip` makes, in a millisecond); return its packages."""
    libraries = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    libraries.mkdir(parents=True)
    (folder / "bin").mkdir()
    base = Path(os.path.realpath(sys.executable))
    for name in ("python", "python3"):
        (folder / "bin" / name).symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    link_packages(libraries, packages)
    return libraries


def link_packages(libraries: Path, packages: tuple[str, ...], *, plugins: bool = True) -> None:
    """Let an environment have packages of the one that runs these tests; without ``plugins``, pytest loads none."""
    for name in packages:
        spec = importlib.util.find_spec(name)
        assert spec is not None, name
        assert spec.origin is not None, name
        origin = Path(spec.origin)
        source = origin.parent if origin.name == "__init__.py" else origin
        (libraries / source.name).symlink_to(source)
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            metadata = Path(str(importlib.metadata.distribution(name)._path))
            if plugins:
                (libraries / metadata.name).symlink_to(metadata)


def main(folder: Path) -> None:
    """Make an environment with pytest and Hypothesis."""
    libraries = make_environment(folder, PYTEST)
    link_packages(libraries, HYPOTHESIS, plugins=False)
    for name in ("_hypothesis_globals", "_hypothesis_pytestplugin"):
        if importlib.util.find_spec(name) is not None:
            link_packages(libraries, (name,), plugins=False)
    print(folder / "bin" / "python")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
