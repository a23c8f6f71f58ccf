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


def test_a_folder_takes_the_name_of_a_test_file(tmp_path):
    (tmp_path / "tests" / "test_errors").mkdir(parents=True)
    chosen = project_layout.choose_name(tmp_path, PurePosixPath("src/pkg/errors.py"), "pkg.errors")
    assert chosen.as_posix() == "tests/test_errors_examples.py"
