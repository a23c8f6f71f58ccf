"""What git does not carry comes along when it is listed, and only then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from understudy.files import version_files
from understudy.git.worktree import extra_files
from understudy.model.errors import ErrorKind, UnderstudyError


@pytest.fixture
def prepared(bench):
    bench.init(
        "printf '.env\\nnode_modules/\\n*.cache\\nsecret*\\n' > .gitignore; printf '# listed\\n.env\\n/conf/*.cache\\n!conf/no.cache\\nf1\\n' > .worktreeinclude"
    )
    bench.sh(
        "echo KEY=1 > .env; mkdir -p conf/sub node_modules/pkg packages; echo a > conf/a.cache; echo n > conf/no.cache; echo s > conf/sub/s.cache;"
        "echo x > secret1; echo p > packages/p; echo i > node_modules/pkg/i.js; ln -s ../packages node_modules/own; ln -s /etc/passwd out.cache; chmod +x conf/a.cache; echo k > 'plain [1].pem'"
    )
    return bench


def test_listed_files_are_copied_and_nothing_else(prepared, files):
    _store, base, tree = prepared.tree()
    items = extra_files.apply(tree, prepared.locate(), copy=["out.cache"])
    assert items.paths() == [b".env", b"conf/a.cache"]
    assert any("out.cache" in note for note in items.notes)
    assert files(tree.path)[b".env"] == ("f", b"KEY=1\n")
    assert files(tree.path)[b"conf/a.cache"] == ("x", b"a\n")
    assert not (tree.path / "secret1").exists()
    assert tree.snapshot("m", base.commit).commit == base.commit
    # A secret that no rule ignores is not part of a result either.
    items = extra_files.apply(tree, prepared.locate(), copy=["plain*.pem"])
    assert items.paths() == [b"plain [1].pem"]
    assert prepared.sh("git status --porcelain", tree.path) == ""
    assert tree.snapshot("m", base.commit).commit == base.commit
    tree.materialise(base.commit)
    assert prepared.sh("git status --porcelain", tree.path) == ""
    assert (tree.path / "plain [1].pem").exists()


def test_a_copy_is_not_the_users_file(prepared):
    _store, _, tree = prepared.tree()
    extra_files.apply(tree, prepared.locate())
    (tree.path / ".env").write_text("agent")
    assert (prepared.repo / ".env").read_text() == "KEY=1\n"


def test_changed_items_are_found_and_renewed(prepared, tmp_path):
    _store, base, tree = prepared.tree()
    items = extra_files.apply(tree, prepared.locate(), link=["node_modules"])
    assert extra_files.changed(items) == []
    (tree.path / ".env").write_text("agent")
    (tree.path / "node_modules").unlink()
    (tree.path / "node_modules").mkdir()
    prepared.sh(f"rm -r conf; mkdir {tmp_path}/evil; ln -s {tmp_path}/evil conf", tree.path)
    assert {item.path for item in extra_files.changed(items)} == {b".env", b"node_modules", b"conf/a.cache"}
    tree.materialise(base.commit, items.paths())
    items = extra_files.restore_changed(items)
    assert extra_files.changed(items) == []
    assert (tree.path / ".env").read_text() == "KEY=1\n"
    assert (tree.path / "node_modules" / "pkg" / "i.js").read_text() == "i\n"
    assert (tree.path / "conf" / "a.cache").read_text() == "a\n"
    assert list((tmp_path / "evil").iterdir()) == []
    (prepared.repo / ".env").unlink()
    (tree.path / ".env").write_text("agent")
    assert b".env" not in extra_files.restore_changed(items).paths()
    assert not (tree.path / ".env").exists()


def test_links_are_reported_with_their_targets(prepared):
    _store, base, tree = prepared.tree()
    items = extra_files.apply(tree, prepared.locate(), link=["node_modules", "missing", "f1"])
    assert items.paths()[0] == b"node_modules"
    text = "\n".join(items.notes)
    assert "changes your files" in text
    assert "node_modules/own" in text
    assert "missing" in text
    assert os.readlink(tree.path / "node_modules") == str(prepared.repo / "node_modules")
    assert tree.snapshot("m", base.commit).commit == base.commit
    tree.materialise(base.commit, items.paths())
    assert (tree.path / "node_modules").is_symlink()
    tree.materialise(base.commit)
    assert (tree.path / "node_modules").is_symlink()
    tree.materialise(base.commit, [])
    assert not (tree.path / "node_modules").is_symlink()
    assert (prepared.repo / "node_modules" / "pkg" / "i.js").exists()


@pytest.mark.parametrize("name", ["../x", "/etc/../..", ".git/config", "", "a/.git"])
def test_a_link_that_leaves_the_checkout_is_refused(prepared, name):
    _store, _, tree = prepared.tree()
    with pytest.raises(UnderstudyError) as caught:
        extra_files.apply(tree, prepared.locate(), link=[name])
    assert caught.value.kind is ErrorKind.CONFIG_INVALID


def write(bench, path, text):
    bench.repo.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
    bench.repo.joinpath(path).write_text(text)


@pytest.mark.parametrize(
    ("build", "text", "path"),
    [
        ("pyproject.toml", '[tool.hatch.build.hooks.vcs]\nversion-file = "src/p/_version.py"', "src/p/_version.py"),
        ("pyproject.toml", '[tool.setuptools_scm]\nversion_file = "p/version_info.py"', "p/version_info.py"),
        ("pyproject.toml", '[tool.pdm.version]\nsource = "scm"\nwrite_to = "p/__about__.py"', "src/p/__about__.py"),
        ("api/pyproject.toml", '[tool.setuptools_scm]\nwrite_to = "p/_version.py"', "api/p/_version.py"),
        ("setup.py", "setup(use_scm_version={'write_to': 'p/_version.py'})", "p/_version.py"),
    ],
)
def test_the_version_file_that_the_build_writes_is_copied(bench, build, text, path):
    bench.init("printf '*version*\\n*about*\\n*.secret.py\\n' > .gitignore")
    write(bench, build, text)
    bench.sh("git add .; git commit -qm build")
    write(bench, path, "version = '1'\n")
    write(bench, "other_version.py", "not declared\n")
    _store, base, tree = bench.tree()
    items = extra_files.apply(tree, bench.locate())
    assert items.paths() == [path.encode()]
    assert (tree.path / path).read_text() == "version = '1'\n"
    assert tree.snapshot("m", base.commit).commit == base.commit


@pytest.mark.parametrize("name", ["settings.py", "../version.py", "version.py", ".env", "conversion.py"])
def test_a_build_file_has_nothing_else_copied(bench, name):
    bench.init("printf '*.py\\n.env\\n' > .gitignore")
    write(bench, "pyproject.toml", f'[tool.setuptools_scm]\nversion_file = "{name}"\n')
    bench.sh("git add .; git commit -qm build")
    write(bench, "settings.py", "KEY = 1\n")
    write(bench, ".env", "KEY=1\n")
    write(bench, "conversion.py", "KEY = 1\n")
    write(bench, "version.py", "#" * 64 * 1024 + "x")
    _store, _base, tree = bench.tree()
    assert not extra_files.apply(tree, bench.locate()).paths()


@pytest.mark.parametrize("folder", ["a\n.env\nb", "*", "?"])
def test_the_name_of_a_folder_is_no_pattern(bench, folder):
    bench.init("printf '.env\nc/version.py\n' > .gitignore")
    write(bench, f"{folder}/pyproject.toml", '[tool.setuptools_scm]\nversion_file = "version.py"\n')
    write(bench, f"{folder}/version.py", "version = '1'\n")
    bench.sh("git add .; git commit -qm build")
    write(bench, ".env", "KEY=1\n")
    write(bench, "c/version.py", "KEY = 1\n")
    _store, _base, tree = bench.tree()
    assert not extra_files.apply(tree, bench.locate()).paths()


def test_a_build_file_that_cannot_be_read_names_nothing(tmp_path, monkeypatch):
    for folder in ("data", "app"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "pyproject.toml").write_text('[tool.setuptools_scm]\nversion_file = "version.py"\n')
        (tmp_path / folder / "version.py").write_text("")
    read = Path.read_text

    def refuse(path, *arguments, **options):
        if path.parent.name == "data":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", refuse)
    assert version_files.version_files(tmp_path, tmp_path) == ["app/version.py"]


def test_few_of_very_many_folders_are_searched(tmp_path, monkeypatch):
    monkeypatch.setattr(version_files, "_MOST_FOLDERS", 2)
    for name in ("a", "b", "c"):
        (tmp_path / "packages" / name).mkdir(parents=True)
        (tmp_path / "packages" / name / "pyproject.toml").write_text("[tool.pdm.version]\nwrite_to = '_version.py'\n")
        (tmp_path / "packages" / name / "_version.py").write_text("")
    found = version_files.version_files(tmp_path, tmp_path)
    assert found == ["packages/a/_version.py", "packages/b/_version.py"]
