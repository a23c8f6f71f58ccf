"""Install the engine from the wheels beside this file: ``python3 -I unpack_wheels.py FOLDER``.

The extension runs its copy of this file with the user's Python. It creates an environment without pip, unpacks the
wheels that ``python3.X.txt`` lists (a SHA-256 and a file name on each line), and writes ``bin/understudy``. Modules are
compiled when they are first imported, which takes less time than compiling all of them here. Prints ``N/M`` after each
wheel. Needs the standard library only.
"""

from __future__ import annotations

import hashlib
import io
import shlex
import sys
import sysconfig
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WHEELS = Path(__file__).parent
_PROGRAM = """\
#!/bin/sh
'''exec' {python} "$0" "$@"
' '''
import sys

from understudy.__main__ import main

sys.exit(main())
"""
"""A script of both ``sh`` and Python: the path of an interpreter may be too long for a first line, or have spaces."""


def main() -> None:
    """Install into the folder in the arguments, which must not exist."""
    [folder] = sys.argv[1:]
    home = Path(folder)
    listed = WHEELS / f"python3.{sys.version_info.minor}.txt"
    if not listed.is_file():
        sys.exit(f"There are no wheels for Python 3.{sys.version_info.minor}.")
    lines = listed.read_text(encoding="utf-8").splitlines()
    venv.create(home, symlinks=True, with_pip=False)
    places = {"base": folder, "platbase": folder, "installed_base": sys.base_prefix}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=places))
    with ThreadPoolExecutor() as pool:
        for count, _ in enumerate(pool.map(lambda line: unpack(line, packages), lines), start=1):
            print(f"{count}/{len(lines)}", flush=True)
    program = home / "bin" / "understudy"
    program.write_text(_PROGRAM.format(python=shlex.quote(str(home / "bin" / "python"))), encoding="utf-8")
    program.chmod(0o755)


def unpack(line: str, packages: Path) -> None:
    """Unpack the wheel of one line of the list, if it is the one that was listed."""
    digest, _, name = line.partition("  ")
    data = (WHEELS / name).read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        sys.exit(f"{name} is damaged: its hash is not the one in the list.")
    with zipfile.ZipFile(io.BytesIO(data)) as wheel:
        wheel.extractall(packages)


if __name__ == "__main__":
    main()
