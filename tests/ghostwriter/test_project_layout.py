from pathlib import PurePosixPath

import pytest

from understudy.ghostwriter import project_layout
from understudy.ghostwriter.test_file import Style


def written(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_module_names(tmp_path):
    for name in ("pkg/__init__.py", "pkg/sub/__init__.py", "src/lib/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    for path, folder, module in (
        ("a.py", ".", "a"),
        ("pkg/sub/b.py", ".", "pkg.sub.b"),
        ("pkg/__init__.py", ".", "pkg"),
        ("src/lib/c.py", "src", "lib.c"),
        ("src/space/d.py", "src", "space.d"),
        ("scripts/e.py", "scripts", "e"),
    ):
        assert project_layout.find_sources(tmp_path, PurePosixPath(path)) == (tmp_path / folder, module)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, Style(88, True)),
        ({"pyproject.toml": "[tool.black]\nline-length = 100\n"}, Style(100, True)),
        ({"pyproject.toml": "[tool.ruff]\nline-length = 110\n"}, Style(110, True)),
        ({"setup.cfg": "[flake8]\nmax-line-length = 79\n"}, Style(79, True)),
        ({"tests__test_x.py": "a = 'b'\nc = 'd'\n"}, Style(88, False)),
        ({"pyproject.toml": "not TOML ["}, Style(88, True)),
    ],
)
def test_the_style_of_a_project(tmp_path, files, expected):
    written(tmp_path, **files)
    assert project_layout.style_of(tmp_path, PurePosixPath("tests")) == expected


def test_a_generated_module_that_is_missing_is_named(tmp_path):
    written(tmp_path, **{".gitignore": "_version.py\n"})
    reason, hint = project_layout.why_not_imported(tmp_path, "ModuleNotFoundError: No module named 'shop._version'")
    assert reason == "`shop/_version.py` is generated and ignored by git"
    assert hint == 'Add `worktrees.copy = ["shop/_version.py"]` to .understudy/config.toml.'
    (tmp_path / "src/shop").mkdir(parents=True)
    reason, _ = project_layout.why_not_imported(tmp_path, "ModuleNotFoundError: No module named 'shop._version'")
    assert reason.startswith("`src/shop/_version.py`")
    reason, hint = project_layout.why_not_imported(tmp_path, "ModuleNotFoundError: No module named 'numpy'")
    assert (reason, hint) == (
        "numpy is not installed in the project's environment",
        "Install what provides it there.",
    )
