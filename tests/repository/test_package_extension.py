"""The contents of the VSIX, and the versions of Python that it has wheels for."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
SCRIPT = TOP / "scripts" / "package_extension.py"

pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="the scripts are not here")


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("package_extension", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GOOD = [
    "[Content_Types].xml",
    "extension.vsixmanifest",
    *(f"extension/{name}" for name in ("package.json", "package.nls.json", "readme.md", "changelog.md", "LICENSE.txt")),
    "extension/dist/extension.js",
    "extension/dist/languageclient.js",
    "extension/dist/composePage.css",
    "extension/dist/composePage.js",
    "extension/dist/pages.css",
    "extension/dist/pages.js",
    "extension/dist/transcriptPage.css",
    "extension/dist/transcriptPage.js",
    "extension/l10n/bundle.l10n.json",
    "extension/media/icon.png",
    "extension/media/icon.svg",
    "extension/media/screenshots/sidebar.png",
    "extension/media/walkthrough/trust.md",
    *(f"extension/wheels/python{version}.txt" for version in ("3.11", "3.12", "3.13")),
    "extension/wheels/unpack_wheels.py",
    "extension/wheels/understudy-0.1.0-py3-none-any.whl",
]


def vsix(folder, names, **texts):
    path = folder / "some.vsix"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, texts.get(Path(name).stem, ""))
    return path


def test_a_vsix_with_the_expected_files_is_accepted(script, tmp_path):
    assert list(script.unexpected(vsix(tmp_path, GOOD))) == []


@pytest.mark.parametrize(
    "name", ["src/app.ts", "tests/app.test.ts", "node_modules/x/y.js", "e2e/run.ts", "wheels/x.py"]
)
def test_an_unexpected_file_is_reported(script, tmp_path, name):
    assert list(script.unexpected(vsix(tmp_path, [*GOOD, f"extension/{name}"]))) == [f"extension/{name} is unexpected"]


@pytest.mark.parametrize("name", [name for name in GOOD if name.startswith("extension/")])
def test_a_missing_file_is_reported(script, tmp_path, name):
    assert len(list(script.unexpected(vsix(tmp_path, [one for one in GOOD if one != name])))) == 1


def test_a_picture_that_vscode_does_not_load_is_reported(script, tmp_path):
    readme = "![On](https://example.invalid/a.png)\n![In it](data:image/png;base64,AAAA)\n![Of a\nfile](media/a.png) [b](c)\n"
    assert list(script.unexpected(vsix(tmp_path, GOOD, readme=readme))) == [
        f"extension/readme.md shows {one}, which VS Code does not load on an extension's page"
        for one in ("data:image/png;base64,AAAA", "media/a.png")
    ]


def test_the_package_does_not_depend_on_file_modes(script, tmp_path):
    made = []
    for mode in (0o600, 0o664):
        path = tmp_path / f"{mode:o}.vsix"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            info = zipfile.ZipInfo("extension/readme.md", (2026, 1, 2, 3, 4, 6))
            info.external_attr = mode << 16
            archive.writestr(info, "words " * 50, zipfile.ZIP_DEFLATED)
        script.normalise_modes(path)
        made.append(path.read_bytes())
        with zipfile.ZipFile(path) as archive:
            [info] = archive.infolist()
            assert (info.date_time, info.external_attr >> 16) == ((2026, 1, 2, 3, 4, 6), 0o100644)
            assert info.compress_size < info.file_size == len(archive.read(info)) == 300
    assert made[0] == made[1]


@pytest.mark.parametrize("telltale", ["//# sourceMappingURL=x.js.map", f'"{TOP}/vscode-extension/src/app.ts"'])
def test_a_trace_of_the_building_machine_is_reported(script, tmp_path, telltale):
    [line] = script.unexpected(vsix(tmp_path, GOOD, extension=f"let a;\n{telltale}\n"))
    assert line.startswith("extension/dist/extension.js contains ")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_the_packaged_readme_has_no_relative_pictures(script, tmp_path):
    extension = tmp_path / "vscode-extension"
    (extension / "scripts").mkdir(parents=True)
    for name in ("README.md", "scripts/readme.mjs"):
        shutil.copy2(TOP / "vscode-extension" / name, extension / name)
    subprocess.run([shutil.which("node"), "scripts/readme.mjs"], cwd=extension, check=True)
    whole, made = (extension / "README.md").read_text(), (extension / "dist" / "readme.md").read_text()
    assert "](media/" in whole
    assert list(script.unexpected(vsix(tmp_path, GOOD, readme=made))) == []
    words = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", whole)
    assert made.split() == words.split()
    assert "\n\n\n" not in made


def test_it_has_wheels_for_every_supported_python(script):
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert list(script.PYTHONS) == named
    source = (TOP / "vscode-extension" / "src" / "sidecar" / "installer.ts").read_text()
    looked_for = re.findall(r'"python(3\.\d+)"', source)
    assert sorted(looked_for) == sorted(named)
