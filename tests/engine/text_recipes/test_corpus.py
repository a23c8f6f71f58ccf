"""Which files are sent: folders, globs, ignore rules, links, limits, and always in the same order."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from understudy.engine.text_recipes import request_paths
from understudy.engine.text_recipes.corpus import Corpus, CorpusLimits, collect, read_input
from understudy.model.errors import ErrorKind, UnderstudyError


def make(top: Path, *names: str, content: str = "text\n") -> None:
    for name in names:
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def names(corpus: Corpus) -> list[str]:
    return [one.name for one in corpus.files]


def found(top: Path, *words: str, limits: CorpusLimits | None = None, without: Path | None = None) -> Corpus:
    return collect(words, top, limits or CorpusLimits(), without=without)


def test_the_order_is_that_of_the_names_whatever_was_named_first(tmp_path):
    make(tmp_path, "b/Z.py", "b/a.py", "A.py", "c.py")
    expected = ["A.py", "b/a.py", "b/Z.py", "c.py"]
    assert names(found(tmp_path, "c.py", "b", "A.py", "b/a.py")) == expected
    assert names(found(tmp_path, ".")) == expected


def test_what_git_ignores_in_a_repository_is_left_out(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    make(tmp_path, "a.log", "keep.log", "a.py", "sub/b.tmp", "sub/c.py", "sub/deep/d.py", "sub/deep/e.gen", "local.txt")
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\n/sub/deep/*.gen\n")
    (tmp_path / "sub" / ".gitignore").write_text("*.tmp\n/deep/d.py\n")
    (tmp_path / ".git" / "info" / "exclude").write_text("local.txt\n")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert names(found(tmp_path, ".")) == sorted(listed.stdout.splitlines(), key=str.casefold)
    assert names(found(tmp_path, "sub")) == ["sub/.gitignore", "sub/c.py"]
    assert names(found(tmp_path, "a.log")) == ["a.log"], "a file that is named is sent"


def test_a_folder_that_is_named_is_read_although_it_is_ignored(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    make(tmp_path, "build/out.txt", "build/node_modules/x.js", "src/build/y.txt", "src/z.py")
    (tmp_path / ".gitignore").write_text("build/\n")
    assert names(found(tmp_path, "build")) == ["build/out.txt"]
    assert names(found(tmp_path, "src")) == ["src/z.py"]


def test_a_project_below_a_folder_called_build_is_not_empty(tmp_path):
    make(tmp_path, "build/dist/project/a.py")
    assert names(found(tmp_path / "build" / "dist" / "project", ".")) == ["a.py"]


def test_rules_that_take_years_are_applied_in_time(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    make(tmp_path, "a" * 250, "sub/" + "a" * 250, "c.py", "a/" * 450 + "c.py")
    (tmp_path / ".gitignore").write_text("!*a*a*a*a*a*a*a*b\n" + "*a" * 60 + "*b\n" + "**/a/" * 100 + "b\n")
    assert names(found(tmp_path, ".")) == [".gitignore", "c.py"], "what may be ignored is not sent"
    (tmp_path / ".gitignore").write_text("*.log\n" * 20_001)
    with pytest.raises(UnderstudyError, match="more rules than are applied") as caught:
        found(tmp_path, ".")
    assert caught.value.kind is ErrorKind.INPUT_TOO_LARGE


@pytest.mark.parametrize(
    ("rule", "simple"),
    [
        ("**/*.log", "**/*.log"),
        ("*-*-*-*", "*-*-*-*"),
        ("x*a*a*a*/foo*b", "x*a*a*a*"),
        ("!x*a*a*a*/foo*b", None),
        ("**/a/**/b/**/c/**/d", "**/a/**/b/**"),
        (r"\*\*[*]*.py\*", r"\*\*[*]*.py\*"),
        (r"\*a*b*c*d*e", r"\*a*b*c*d*e"),
        (r"\*a*b*c*d*e*f", r"\*a*b*c*d*"),
        ("[a*b*c*d*e*", "*"),
        ("*" * 200, "*" * 200),
    ],
)
def test_a_rule_with_many_stars_becomes_one_that_leaves_out_more(rule, simple):
    assert request_paths.simplified(rule) == simple


def test_globs(tmp_path):
    make(tmp_path, "a.py", "sub/b.py", "sub/deep/c.py", "sub/deep/c.txt", "node_modules/d.py")
    assert names(found(tmp_path, "*.py")) == ["a.py"]
    assert names(found(tmp_path, "**/*.py")) == ["a.py", "sub/b.py", "sub/deep/c.py"]
    assert names(found(tmp_path, "sub/*/c.*")) == ["sub/deep/c.py", "sub/deep/c.txt"]
    make(tmp_path, "odd[1].py")
    assert names(found(tmp_path, "odd[1].py")) == ["odd[1].py"], "a file of that name is not a pattern"


def test_links_in_folders_are_not_followed_and_named(tmp_path):
    make(tmp_path, "outside/key.txt", "project/a.py")
    (tmp_path / "project" / "link.txt").symlink_to(tmp_path / "outside" / "key.txt")
    (tmp_path / "project" / "folder").symlink_to(tmp_path / "outside")
    (tmp_path / "project" / "loop").symlink_to(".")
    corpus = found(tmp_path / "project", ".")
    assert names(corpus) == ["a.py"]
    assert [one.name for one in corpus.left_out] == ["folder", "link.txt", "loop"]
    (tmp_path / "project" / "inside.txt").symlink_to("a.py")
    assert names(found(tmp_path / "project", "inside.txt")) == ["inside.txt"]


@pytest.mark.parametrize("word", ["README.md", "docs", "docs/notes.md", "docs/*.md", "chain.md", "sub/../README.md"])
def test_a_link_that_leads_out_of_the_repository_is_not_followed(tmp_path, word):
    """A shell expands ``*.md`` to the links of a hostile repository, too."""
    make(tmp_path, "private/notes.md", "project/sub/a.py")
    project = tmp_path / "project"
    (project / "README.md").symlink_to(tmp_path / "private" / "notes.md")
    (project / "chain.md").symlink_to("README.md")
    (project / "docs").symlink_to("../private")
    with pytest.raises(UnderstudyError, match="leads out of") as caught:
        found(project, word)
    assert caught.value.kind is ErrorKind.PATH_ESCAPE
    assert names(found(project, "../private/notes.md")), "the user may name any file"


def test_a_folder_with_the_name_of_a_home_is_a_folder(tmp_path, monkeypatch):
    """A shell expands ``*/*.md`` to ``~/notes.md`` if a repository has such a folder."""
    make(tmp_path, "home/notes.md", "project/~/here.md")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(UnderstudyError, match=r"notes\.md does not exist"):
        found(tmp_path / "project", "~/notes.md")
    assert names(found(tmp_path / "project", "~")) == ["~/here.md"]
    assert names(found(tmp_path / "home", "~/*.md")) == ["notes.md"]


def test_the_name_that_a_link_hides_counts_as_a_secret(tmp_path):
    make(tmp_path, ".ssh/id_rsa")
    (tmp_path / "notes.txt").symlink_to(tmp_path / ".ssh" / "id_rsa")
    assert found(tmp_path, "notes.txt").named_secrets == {"notes.txt"}


def test_secrets_and_binary_files_of_folders_are_left_out_and_named(tmp_path):
    make(tmp_path, "a.py", ".env", "server.pem")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\0")
    os.mkfifo(tmp_path / "pipe")
    corpus = found(tmp_path, ".")
    assert names(corpus) == ["a.py"]
    assert [one.name for one in corpus.left_out] == [".env", "image.png", "pipe", "server.pem"]


def test_one_file_is_sent_once_whatever_its_names(tmp_path):
    make(tmp_path, "a.py")
    (tmp_path / "b.py").symlink_to("a.py")
    assert names(found(tmp_path, "a.py", "./a.py", str(tmp_path / "a.py"), "b.py")) == ["a.py"]


def test_a_file_outside_has_its_whole_path(tmp_path):
    make(tmp_path, "elsewhere/log.txt", "project/a.py")
    outside = str(tmp_path / "elsewhere" / "log.txt")
    assert names(found(tmp_path / "project", outside, "a.py")) == sorted([outside, "a.py"], key=str.casefold)


def test_the_target_is_left_out_of_its_folder(tmp_path):
    make(tmp_path, "a.py", "b.py")
    assert names(found(tmp_path, ".", without=tmp_path / "b.py")) == ["a.py"]
    assert names(found(tmp_path, ".", "b.py", without=tmp_path / "b.py")) == ["a.py", "b.py"]


@pytest.mark.parametrize(
    ("limits", "kind"),
    [
        (CorpusLimits(file_bytes=9), ErrorKind.FILE_TOO_LARGE),
        (CorpusLimits(file_bytes=10, total_bytes=19), ErrorKind.INPUT_TOO_LARGE),
    ],
)
def test_too_much_is_an_error_that_names_the_files(tmp_path, limits, kind):
    make(tmp_path, "a.py", "b.py", content="x" * 10)
    with pytest.raises(UnderstudyError) as error:
        found(tmp_path, ".", limits=limits)
    assert error.value.kind is kind
    assert "a.py" in str(error.value) + str(error.value.names)
    assert names(found(tmp_path, ".", limits=CorpusLimits(10, 20))) == ["a.py", "b.py"]


@pytest.mark.parametrize("words", [["missing"], ["*.nothing"], ["missing/*.py"], ["pipe"], ["a\0b"]])
def test_what_cannot_be_read_is_an_error(tmp_path, words):
    os.mkfifo(tmp_path / "pipe")
    make(tmp_path, "a.py")
    with pytest.raises(UnderstudyError):
        found(tmp_path, *words)


def test_a_folder_without_a_file_to_send_is_an_error(tmp_path):
    make(tmp_path, "only/.env")
    with pytest.raises(UnderstudyError) as error:
        found(tmp_path, "only")
    assert error.value.kind is ErrorKind.INPUT_EMPTY
    assert error.value.names == ["only/.env: its name suggests that it contains secrets"]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (b"x" * 11, ErrorKind.INPUT_TOO_LARGE),
        (b" \n", ErrorKind.INPUT_EMPTY),
        (b"a\0b", ErrorKind.INVALID_PARAMS),
    ],
)
def test_standard_input_that_cannot_be_sent_is_an_error(given, kind):
    with pytest.raises(UnderstudyError) as error:
        read_input(lambda most: given[:most], 10)
    assert error.value.kind is kind
