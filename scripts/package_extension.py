"""Build dist/understudy-<platform>-<version>.vsix: the extension, the wheel of the sidecar and all locked wheels.

The VSIX installs offline on the platform it was built on, for each of ``PYTHONS``. Building it needs Node 20 or newer
(``scripts/extension`` checks this) and dist/*.whl. Builds are reproducible: all times are those of the last commit. The
script compares the contents with ``CONTENTS`` and deletes a VSIX that differs. Wheels of other packages are kept in
``build/wheels/`` until the lock or this script changes.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.markers import Marker, default_environment
from packaging.tags import platform_tags
from packaging.utils import parse_wheel_filename

TOP = Path(__file__).parents[1]
EXTENSION = TOP / "vscode-extension"
WHEELS = EXTENSION / "wheels"
UNPACK = TOP / "scripts" / "unpack_wheels.py"
CACHE = TOP / "build" / "wheels"
PYTHONS = ("3.11", "3.12", "3.13")
"""Supported versions of Python; a test compares them with the classifiers in pyproject.toml."""
NEWEST_GLIBC = 28
"""Use wheels for glibc 2.28 (2018) or older, even when this machine has a newer one."""
TARGETS = {
    ("linux", "x86_64"): "linux-x64",
    ("linux", "aarch64"): "linux-arm64",
    ("darwin", "x86_64"): "darwin-x64",
    ("darwin", "arm64"): "darwin-arm64",
}
"""``sys.platform`` and machine → name of the platform in VS Code."""

CONTENTS = {
    r"\[Content_Types\]\.xml|extension\.vsixmanifest": 2,
    r"extension/(package\.json|package\.nls\.json|readme\.md|changelog\.md|LICENSE\.txt)": 5,
    r"extension/dist/(extension|languageclient|transcriptPage|composePage|pages)\.js": 5,
    r"extension/dist/(transcriptPage|composePage|pages)\.css": 3,
    r"extension/l10n/bundle\.l10n\.json": 1,
    r"extension/media/icon\.(png|svg)": 2,
    r"extension/media/walkthrough/[a-z0-9-]+\.(md|svg)": None,
    r"extension/media/screenshots/[a-z0-9-]+\.png": None,
    r"extension/wheels/python3\.(11|12|13)\.txt": 3,
    r"extension/wheels/unpack_wheels\.py": 1,
    r"extension/wheels/[A-Za-z0-9_.+-]+\.whl": None,
}
"""Pattern → number of matching files in a VSIX (None: at least one). Other files are errors."""
README = "extension/readme.md"
MOST_BYTES = 28 << 20

_ENTRY = re.compile(r"^(?P<name>[a-z0-9._-]+)==(?P<version>[^ ;]+)(?: ; (?P<marker>.+?))?(?P<hashes>(?: --hash=\S+)+)$")


def main() -> None:
    """Build the VSIX and print its size."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    target = TARGETS.get((sys.platform, platform.machine()))
    if target is None:
        sys.exit(f"Cannot build a VSIX on {sys.platform} {platform.machine()}: VS Code does not support this platform.")
    if shutil.which("npm") is None:
        print("Skipping the VSIX: building it needs Node 20 or newer with npm.", file=sys.stderr)
        return
    own = sorted((TOP / "dist").glob("understudy-*.whl"))
    if len(own) != 1:
        sys.exit(f"Expected one wheel in dist, found {len(own)}. Run `make package`.")
    cached = locked_wheels()
    shutil.rmtree(WHEELS, ignore_errors=True)
    WHEELS.mkdir()
    for version in PYTHONS:
        listed = [*sorted((cached / version).glob("*.whl")), *sorted((cached / "pure").glob("*.whl")), own[0]]
        for wheel in listed:
            shutil.copy2(wheel, WHEELS)
        lines = [f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}  {wheel.name}\n" for wheel in listed]
        (WHEELS / f"python{version}.txt").write_text("".join(lines), encoding="utf-8")
    shutil.copy2(UNPACK, WHEELS)
    manifest = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
    vsix = TOP / "dist" / f"understudy-{target}-{manifest['version']}.vsix"
    for script in ("esbuild.mjs", "scripts/readme.mjs"):
        run("node", script, folder=EXTENSION)
    vsce = EXTENSION / "node_modules" / ".bin" / "vsce"
    options = ["--no-dependencies", "--target", target, "-o", str(vsix)]
    if "repository" not in manifest:
        options += ["--allow-missing-repository", "--no-rewrite-relative-links", "--readme-path", "dist/readme.md"]
    run(str(vsce), "package", *options, folder=EXTENSION)
    normalise_modes(vsix)
    wrong = list(unexpected(vsix))
    if wrong:
        vsix.unlink()
        sys.exit("The VSIX has unexpected contents:\n" + "\n".join(f"  {line}" for line in wrong))
    count = len(list(WHEELS.glob("*.whl")))
    size = vsix.stat().st_size / 2**20
    print(f"{vsix.relative_to(TOP)}: {size:.1f} MiB, {count} wheels for Python {', '.join(PYTHONS)}")


def normalise_modes(vsix: Path) -> None:
    """Give all files the same mode, so that the umask of the checkout does not change the package."""
    with zipfile.ZipFile(vsix) as archive:
        entries = [(info, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(vsix, "w") as archive:
        for info, content in entries:
            same = zipfile.ZipInfo(info.filename, info.date_time)
            same.compress_type = info.compress_type
            same.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(same, content)


def unexpected(vsix: Path) -> Iterator[str]:
    """Yield a message for each unexpected or missing file, and for each reference to this machine."""
    with zipfile.ZipFile(vsix) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        texts = {name: archive.read(name).decode() for name in names if name.endswith((".js", ".json", ".md", ".txt"))}
    found = dict.fromkeys(CONTENTS, 0)
    for name in names:
        pattern = next((pattern for pattern in CONTENTS if re.fullmatch(pattern, name)), None)
        if pattern is None:
            yield f"{name} is unexpected"
        else:
            found[pattern] += 1
    for pattern, wants in CONTENTS.items():
        if found[pattern] != wants and not (wants is None and found[pattern]):
            yield f"found {found[pattern]} files like {pattern}, expected {wants or 'at least one'}"
    for picture in re.findall(r"!\[[^\]]*\]\((?!https:)([^)]*)\)", texts.get(README, "")):
        yield f"{README} shows {picture}, which VS Code does not load on an extension's page"
    for name, text in texts.items():
        for telltale in ("sourceMappingURL", str(TOP), str(Path.home())):
            if telltale in text:
                yield f"{name} contains {telltale}, which identifies the machine that built it"
    if vsix.stat().st_size > MOST_BYTES:
        yield f"the size is {vsix.stat().st_size} bytes, above the limit of {MOST_BYTES}"


Entry = tuple[str, str, str | None, list[str]]
"""Name, version, marker, and hashes of all published files."""


def locked() -> Iterator[Entry]:
    """Yield the entries of requirements/run.txt."""
    text = (TOP / "requirements" / "run.txt").read_text(encoding="utf-8").replace("\\\n", "")
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        found = _ENTRY.match(re.sub(r" +", " ", line.strip()))
        if found is None:
            sys.exit(f"requirements/run.txt: cannot parse {line[:80]!r}.")
        yield found["name"], found["version"], found["marker"], found["hashes"].split()


def wanted(marker: str | None, python: str) -> bool:
    """Return whether an entry applies to this platform and this version of Python."""
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.99"}
    return marker is None or Marker(marker).evaluate({key: str(value) for key, value in environment.items()})


SOURCE_ONLY = frozenset({"jsonrpcserver", "oslash"})
"""Packages that are published without a wheel. They are pure Python, so that a wheel built here runs everywhere."""


def locked_wheels() -> Path:
    """Return the folder of the wheels of all locked packages: for each version of Python, and ``pure`` for all."""
    lock = TOP / "requirements" / "run.txt"
    key = hashlib.sha256(lock.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]
    folder = CACHE / f"{sys.platform}-{platform.machine()}-{key}"
    if folder.is_dir():
        return folder
    shutil.rmtree(CACHE, ignore_errors=True)
    made = CACHE / "unfinished"
    entries = list(locked())
    for version in PYTHONS:
        (made / version).mkdir(parents=True)
        download(entries, version, made / version)
    build_sources(entries, made / "pure")
    made.rename(folder)
    return folder


def download(entries: list[Entry], python: str, folder: Path) -> None:
    """Download the wheels for one version of Python; pip checks their hashes."""
    lines = [
        " ".join((f"{name}=={version}", *hashes))
        for name, version, marker, hashes in entries
        if name not in SOURCE_ONLY and wanted(marker, python)
    ]
    abi = f"cp{python.replace('.', '')}"
    tags = [tag for tag in platform_tags() if glibc(tag) <= NEWEST_GLIBC]
    options = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--implementation", "cp"]
    options += ["--python-version", python, "--abi", abi, "--abi", "abi3", "--abi", "none"]
    for tag in tags:
        options += ["--platform", tag]
    with requirements(lines) as path:
        pip("download", *options, "-d", str(folder), "-r", path)


def build_sources(entries: list[Entry], folder: Path) -> None:
    """Build wheels of packages that are published as source only; pip checks the hashes of the sources."""
    lines = [" ".join((f"{name}=={version}", *hashes)) for name, version, _, hashes in entries if name in SOURCE_ONLY]
    with requirements(lines) as path:
        pip("wheel", "--require-hashes", "--no-deps", "--no-build-isolation", "-w", str(folder), "-r", path)
    for wheel in folder.glob("*.whl"):
        if any(tag.platform != "any" for tag in parse_wheel_filename(wheel.name)[3]):
            sys.exit(f"{wheel.name} is not pure Python: it would run on this platform only.")


def glibc(tag: str) -> int:
    """Return the minor version of glibc 2 that a platform tag requires, or 0."""
    found = re.match(r"manylinux_2_(\d+)_", tag)
    return int(found[1]) if found else 0


class requirements:  # noqa: N801 - a context manager, used like a function
    """A temporary requirements file, as a context manager."""

    def __init__(self, lines: list[str]) -> None:
        """Store the lines."""
        self._lines = lines

    def __enter__(self) -> str:
        """Write the file; return its path."""
        handle, self._path = tempfile.mkstemp(suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("\n".join(self._lines) + "\n")
        return self._path

    def __exit__(self, *_: object) -> None:
        """Remove the file."""
        Path(self._path).unlink()


def pip(*arguments: str) -> None:
    """Run pip quietly."""
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", arguments[0], "-q", *arguments[1:])


@functools.cache
def committed_at() -> str:
    """Return the time of the last commit in seconds; a constant outside of a repository."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return os.environ["SOURCE_DATE_EPOCH"]
    asked = subprocess.run(
        (str(shutil.which("git")), "log", "-1", "--format=%ct"), cwd=TOP, check=False, capture_output=True, text=True
    )
    return asked.stdout.strip() or "1577836800"


def run(*argv: str, folder: Path = TOP) -> None:
    """Run a program; exit with its exit code when it fails."""
    ended = subprocess.run(argv, cwd=folder, check=False, env={**os.environ, "SOURCE_DATE_EPOCH": committed_at()})
    if ended.returncode:
        sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
