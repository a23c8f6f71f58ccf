"""Build dist/understudy-<platform>-<version>.vsix: the extension with the wheel of the sidecar and every locked wheel.

It is for the platform it is built on, and for each of ``PYTHONS``, so that the extension installs and works offline.
Needs Node 20 or newer (``scripts/extension`` has looked) and dist/*.whl. The same sources give the same bytes: every
time in it is that of the last commit. What is in it is compared with ``CONTENTS`` before it is called done.
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
from packaging.utils import canonicalize_name, parse_wheel_filename

TOP = Path(__file__).parents[1]
EXTENSION = TOP / "vscode-extension"
WHEELS = EXTENSION / "wheels"
PYTHONS = ("3.11", "3.12", "3.13")
"""The Pythons that the sidecar supports (classifiers of pyproject.toml; a test compares)."""
NEWEST_GLIBC = 28
"""Wheels for glibc 2.28 (2018) and older are taken, whatever newer one this machine has."""
TARGETS = {
    ("linux", "x86_64"): "linux-x64",
    ("linux", "aarch64"): "linux-arm64",
    ("darwin", "x86_64"): "darwin-x64",
    ("darwin", "arm64"): "darwin-arm64",
}
"""``sys.platform`` and machine → what VS Code calls that platform."""

CONTENTS = {
    r"\[Content_Types\]\.xml|extension\.vsixmanifest": 2,
    r"extension/(package\.json|package\.nls\.json|readme\.md|changelog\.md|LICENSE\.txt)": 5,
    r"extension/dist/(extension|languageclient)\.js": 2,
    r"extension/l10n/bundle\.l10n\.json": 1,
    r"extension/media/icon\.(png|svg)": 2,
    r"extension/media/walkthrough/[a-z0-9-]+\.(md|svg)": None,
    r"extension/media/screenshots/[a-z0-9-]+\.png": None,
    r"extension/wheels/requirements\.txt": 1,
    r"extension/wheels/[A-Za-z0-9_.+-]+\.whl": None,
}
"""What a VSIX holds, and how many of each (None: at least one). Nothing else may be in it."""
README = "extension/readme.md"
MOST_BYTES = 16 << 20

_ENTRY = re.compile(r"^(?P<name>[a-z0-9._-]+)==(?P<version>[^ ;]+)(?: ; (?P<marker>.+?))?(?P<hashes>(?: --hash=\S+)+)$")


def main() -> None:
    """Build it, and say how large it is."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    target = TARGETS.get((sys.platform, platform.machine()))
    if target is None:
        sys.exit(f"No VSIX is built on {sys.platform} {platform.machine()}: VS Code has no such platform.")
    if shutil.which("npm") is None:
        print("No VSIX is built: that needs Node 20 or newer with npm.", file=sys.stderr)
        return
    own = sorted((TOP / "dist").glob("understudy-*.whl"))
    if len(own) != 1:
        sys.exit("There must be exactly one wheel in dist: run `make package`.")
    entries = list(locked())
    shutil.rmtree(WHEELS, ignore_errors=True)
    WHEELS.mkdir()
    for version in PYTHONS:
        download(entries, version)
    build_sources(entries)
    shutil.copy2(own[0], WHEELS)
    write_requirements(entries, own[0])
    manifest = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
    vsix = TOP / "dist" / f"understudy-{target}-{manifest['version']}.vsix"
    for script in ("esbuild.mjs", "scripts/readme.mjs"):
        run("node", script, folder=EXTENSION)
    vsce = EXTENSION / "node_modules" / ".bin" / "vsce"
    options = ["--no-dependencies", "--target", target, "-o", str(vsix)]
    if "repository" not in manifest:
        options += ["--allow-missing-repository", "--no-rewrite-relative-links", "--readme-path", "dist/readme.md"]
    run(str(vsce), "package", *options, folder=EXTENSION)
    even_out(vsix)
    wrong = list(unexpected(vsix))
    if wrong:
        vsix.unlink()
        sys.exit("This VSIX is not what it should be:\n" + "\n".join(f"  {line}" for line in wrong))
    count = len(list(WHEELS.glob("*.whl")))
    size = vsix.stat().st_size / 2**20
    print(f"{vsix.relative_to(TOP)}: {size:.1f} MiB, {count} wheels for Python {', '.join(PYTHONS)}")


def even_out(vsix: Path) -> None:
    """Give all files in it one mode: with which umask a checkout was made is no part of the package."""
    with zipfile.ZipFile(vsix) as archive:
        entries = [(info, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(vsix, "w") as archive:
        for info, content in entries:
            same = zipfile.ZipInfo(info.filename, info.date_time)
            same.compress_type = info.compress_type
            same.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(same, content)


def unexpected(vsix: Path) -> Iterator[str]:
    """Say what is in a VSIX and should not be, and the other way round."""
    with zipfile.ZipFile(vsix) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        texts = {name: archive.read(name).decode() for name in names if name.endswith((".js", ".json", ".md", ".txt"))}
    found = dict.fromkeys(CONTENTS, 0)
    for name in names:
        pattern = next((pattern for pattern in CONTENTS if re.fullmatch(pattern, name)), None)
        if pattern is None:
            yield f"{name} does not belong there"
        else:
            found[pattern] += 1
    for pattern, wants in CONTENTS.items():
        if found[pattern] != wants and not (wants is None and found[pattern]):
            yield f"{found[pattern]} of {wants or 'at least one'} like {pattern}"
    for picture in re.findall(r"!\[[^\]]*\]\((?!https:)([^)]*)\)", texts.get(README, "")):
        yield f"{README} shows {picture}, which the page of the extension in VS Code does not load"
    for name, text in texts.items():
        for telltale in ("sourceMappingURL", str(TOP), str(Path.home())):
            if telltale in text:
                yield f"{name} names {telltale}, which is of the machine that built it"
    if vsix.stat().st_size > MOST_BYTES:
        yield f"{vsix.stat().st_size} bytes are more than {MOST_BYTES}"


Entry = tuple[str, str, str | None, list[str]]
"""Name, version, marker, and the hashes of every published file."""


def locked() -> Iterator[Entry]:
    """Yield what requirements/run.txt locks."""
    text = (TOP / "requirements" / "run.txt").read_text(encoding="utf-8").replace("\\\n", "")
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        found = _ENTRY.match(re.sub(r" +", " ", line.strip()))
        if found is None:
            sys.exit(f"requirements/run.txt: cannot read {line[:80]!r}")
        yield found["name"], found["version"], found["marker"], found["hashes"].split()


def wanted(marker: str | None, python: str) -> bool:
    """Tell whether an entry counts on this platform and that Python."""
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.99"}
    return marker is None or Marker(marker).evaluate({key: str(value) for key, value in environment.items()})


SOURCE_ONLY = frozenset({"jsonrpcserver", "oslash"})
"""Published without a wheel. They are plain Python, so that one wheel built here fits everywhere."""


def download(entries: list[Entry], python: str) -> None:
    """Fetch the wheels that ``python`` takes, each checked against its hash."""
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
        pip("download", *options, "-d", str(WHEELS), "-r", path)


def build_sources(entries: list[Entry]) -> None:
    """Build wheels of what is published as source alone, each source checked against its hash."""
    lines = [" ".join((f"{name}=={version}", *hashes)) for name, version, _, hashes in entries if name in SOURCE_ONLY]
    with requirements(lines) as path:
        pip("wheel", "--require-hashes", "--no-deps", "--no-build-isolation", "-w", str(WHEELS), "-r", path)


def write_requirements(entries: list[Entry], own: Path) -> None:
    """Write what the extension hands to pip: the same locks, with the hashes of the files that are carried."""
    hashes: dict[str, list[str]] = {}
    for wheel in sorted(WHEELS.glob("*.whl")):
        carried_name, carried_version, _, tags = parse_wheel_filename(wheel.name)
        if any(tag.platform != "any" for tag in tags) and carried_name in SOURCE_ONLY:
            sys.exit(f"{wheel.name} is not plain Python: it would fit this machine alone.")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        hashes.setdefault(f"{carried_name}=={carried_version}", []).append(f"--hash=sha256:{digest}")
    lines: list[str] = []
    for name, version, marker, _ in entries:
        carried = hashes.pop(f"{canonicalize_name(name)}=={version}", None)
        if carried is None:
            if any(wanted(marker, python) for python in PYTHONS):
                sys.exit(f"No wheel of {name} {version} was found.")
            continue
        lines.append(" ".join((f"{name}=={version}{f' ; {marker}' if marker else ''}", *carried)))
    ours = f"understudy=={parse_wheel_filename(own.name)[1]}"
    lines.append(" ".join((ours, *hashes.pop(ours))))
    if hashes:
        sys.exit(f"Wheels that nothing asks for: {', '.join(hashes)}")
    (WHEELS / "requirements.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def glibc(tag: str) -> int:
    """Return the minor version of glibc that a platform tag asks for; 0 where it asks for none."""
    found = re.match(r"manylinux_2_(\d+)_", tag)
    return int(found[1]) if found else 0


class requirements:  # noqa: N801 - a context manager, used like a function
    """A requirements file for as long as it is needed."""

    def __init__(self, lines: list[str]) -> None:
        """Take the lines."""
        self._lines = lines

    def __enter__(self) -> str:
        """Write it."""
        handle, self._path = tempfile.mkstemp(suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("\n".join(self._lines) + "\n")
        return self._path

    def __exit__(self, *_: object) -> None:
        """Remove it."""
        Path(self._path).unlink()


def pip(*arguments: str) -> None:
    """Run pip quietly."""
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", arguments[0], "-q", *arguments[1:])


@functools.cache
def committed_at() -> str:
    """Return the time of the last commit in seconds, or one that does not change where there is no repository."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return os.environ["SOURCE_DATE_EPOCH"]
    asked = subprocess.run(
        (str(shutil.which("git")), "log", "-1", "--format=%ct"), cwd=TOP, check=False, capture_output=True, text=True
    )
    return asked.stdout.strip() or "1577836800"


def run(*argv: str, folder: Path = TOP) -> None:
    """Run a program; end with its exit code when it fails."""
    ended = subprocess.run(argv, cwd=folder, check=False, env={**os.environ, "SOURCE_DATE_EPOCH": committed_at()})
    if ended.returncode:
        sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
