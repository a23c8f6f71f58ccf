"""Test that a model's text becomes files inside the worktree, never outside it."""

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.files import nofollow
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.sanitize import strip_controls
from understudy.runners.backends import file_answers


def kind_of(call, *arguments):
    with pytest.raises(UnderstudyError) as caught:
        call(*arguments)
    return caught.value.kind


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("x = 1\n", "x = 1\n"),
        ("x = 1", "x = 1\n"),
        ("```python\nx = 1\n```", "x = 1\n"),
        ("\n```\nx = 1\n```\n\n", "x = 1\n"),
        ("````md\n# T\n```py\nx\n```\n````\n", "# T\n```py\nx\n```\n"),
        ("# Title\n\n```py\nx\n```\n", "# Title\n\n```py\nx\n```\n"),
        ("```py\na\n```\ntext\n```py\nb\n```\n", "```py\na\n```\ntext\n```py\nb\n```\n"),
    ],
)
def test_the_file_in_an_answer(text, content):
    assert file_answers.file_content(text) == content


def test_no_file_in_an_answer():
    assert kind_of(file_answers.file_content, "  \n") is ErrorKind.EMPTY_OUTPUT
    assert kind_of(file_answers.file_content, "```py\n```") is ErrorKind.EMPTY_OUTPUT
    assert kind_of(file_answers.file_content, "```py\nx = 1\n") is ErrorKind.MALFORMED_OUTPUT


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("```python tests/test_new.py\nA\n```", "tests/test_new.py"),
        ("```python path=tests/test_new.py\nA\n```", "tests/test_new.py"),
        ('```python title="tests/test_new.py"\nA\n```', "tests/test_new.py"),
        ("```tests/test_new.py\nA\n```", "tests/test_new.py"),
        ("```python:tests/test_new.py\nA\n```", "tests/test_new.py"),
        (
            "Install it:\n```sh\npip install x\n```\nThen:\n```python ./tests/test_new.py\nA\n```\nDone.",
            "tests/test_new.py",
        ),
        ("```python\nA\n```", "tests/test_shop.py"),
        ("```sh\nx\n```\n```python\nA = 'longer'\n```", "tests/test_shop.py"),
        ("```python tests/test_old.py\nA\n```", "tests/test_old_2.py"),
    ],
)
def test_tests_in_an_answer(tmp_path, text, path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_old.py").write_text("old")
    assert file_answers.write_tests(tmp_path, text, ["src/shop.py"]) == [path]
    assert (tmp_path / path).read_text().startswith("A")
    assert (tmp_path / "tests/test_old.py").read_text() == "old"


@pytest.mark.parametrize(
    "path",
    [
        "../out.py",
        "/tmp/out.py",
        "a/../../out.py",
        ".git/hooks/out.py",
        "x/.GIT/out.py",
        "C:/out.py",
        "link/out.py",
        "a/\\..\\out.py",
    ],
)
def test_no_path_leads_outside(tmp_path, path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(tmp_path)
    text = f"```python path={path}\nevil\n```"
    assert kind_of(file_answers.write_tests, tree, text, []) is ErrorKind.PATH_ESCAPE
    assert list(tmp_path.rglob("out.py")) == []


def test_nothing_is_written_unless_everything_can_be(tmp_path):
    text = "```python tests/test_a.py\nA\n```\n```python ../b.py\nB\n```"
    assert kind_of(file_answers.write_tests, tmp_path, text, []) is ErrorKind.PATH_ESCAPE
    assert list(tmp_path.rglob("*.py")) == []
    for text in ("no code here", "```python tests/x.py\ncut off"):
        assert kind_of(file_answers.write_tests, tmp_path, text, []) is ErrorKind.MALFORMED_OUTPUT


def test_where_tests_belong():
    expected = {
        "src/shop.py": "tests/test_shop.py",
        "web/cart.ts": "web/cart.test.ts",
        "pkg/cart.go": "pkg/cart_test.go",
        "src/cart.rs": "tests/cart.rs",
        "Makefile": "tests/test_Makefile.txt",
    }
    for source, path in expected.items():
        assert file_answers.conventional_test_path(source) == path


def test_free_names(tmp_path):
    for name in ("cart.test.ts", "cart_test.go"):
        (tmp_path / name).touch()
    assert file_answers.free_name(tmp_path, "cart.test.ts") == "cart_2.test.ts"
    assert file_answers.free_name(tmp_path, "cart_test.go") == "cart_2_test.go"
    (tmp_path / "dangling.py").symlink_to("nowhere")
    assert file_answers.free_name(tmp_path, "dangling.py") == "dangling_2.py"


def test_writing_over_keeps_the_mode_and_follows_no_link(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    script = tree / "run.sh"
    script.write_text("old")
    script.chmod(0o755)
    assert nofollow.write_over(tree, "run.sh", b"new") is True
    assert (script.read_text(), stat.S_IMODE(script.stat().st_mode)) == ("new", 0o755)
    assert nofollow.write_over(tree, "new/file", b"new") is False
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (tree / "link").symlink_to(outside)
    os.mkfifo(tree / "pipe")
    for name in ("link", "pipe", "new"):
        assert kind_of(nofollow.write_over, tree, name, b"x") is ErrorKind.PATH_ESCAPE
    assert kind_of(nofollow.write_new, tree, "link", b"x") is ErrorKind.TARGET_EXISTS
    nofollow.remove(tree, "link")
    nofollow.remove(tree, "not there")
    assert outside.read_text() == "precious"
    assert sorted(os.listdir(tree)) == ["new", "pipe", "run.sh"]


def test_reading_and_removing_what_is_no_file(tmp_path):
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    for folder in (tree / "report" / "below", outside):
        folder.mkdir(parents=True)
        (folder / "file").write_text("precious")
    (tree / "report" / "link").symlink_to(outside)
    (tree / "folder").symlink_to(outside)
    opened = len(os.listdir("/proc/self/fd"))
    for name in ("report", "folder", "folder/file"):
        assert kind_of(nofollow.read, tree, name, 100) is ErrorKind.PATH_ESCAPE
    assert len(os.listdir("/proc/self/fd")) == opened
    nofollow.remove(tree, "report")
    nofollow.remove(tree, "folder")
    assert os.listdir(tree) == []
    assert (outside / "file").read_text() == "precious"


@given(st.text(max_size=40))
def test_any_path_is_plain_or_refused(path):
    kinds = []
    try:
        parts = nofollow.safe_parts(path)
    except UnderstudyError as error:
        kinds.append(error.kind)
        parts = ()
    assert set(kinds) <= {ErrorKind.PATH_ESCAPE}
    assert ".." not in parts
    assert kinds or not path.startswith("/")


@given(st.text(st.sampled_from("\x1b[]PX;?0m1\x07\\\x9b\x9c\x00\tab\n")))
def test_what_is_plain_holds_no_escape(text):
    assert not set(strip_controls(text)) & set("\x1b\x9b\x9c\x07\x00")
    assert strip_controls(strip_controls(text)) == strip_controls(text)
