"""Paths on the wire, and paths whose change needs explicit consent."""

from __future__ import annotations

import re
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.config.discovery import declarations
from understudy.git import path_rules
from understudy.git.object_store import ObjectStore
from understudy.git.path_rules import flagged, looks_secret, refused
from understudy.git.worktree.collect import translate
from understudy.model.text.path_quoting import c_quote, quote, unquote


@given(st.binary(min_size=1, max_size=40).filter(lambda path: b"\0" not in path))
def test_quoting_is_undone(path):
    assert unquote(quote(path)) == path
    assert unquote(c_quote(path)) == path
    quote(path).encode()


def test_everything_that_a_declared_tool_obeys_is_flagged():
    obeyed = [one.path for tool in declarations.tools().values() for one in tool.repository_paths]
    assert obeyed
    for path in obeyed:
        inside = path + "x" if path.endswith("/") else path
        assert flagged(inside.encode()), path


@pytest.mark.parametrize(
    ("path", "wire"),
    [
        (b"plain", "plain"),
        ("ü".encode(), "ü"),
        (b"new\nline", "new\nline"),
        (b"\xff\n", '"\\377\\n"'),
        (b'"x\\', '"\\"x\\\\"'),
    ],
)
def test_wire_forms(path, wire):
    assert quote(path) == wire


@pytest.mark.parametrize("text", ['"', '"x', '"\\x"', '"\\"', '"\\400"', '"\\37"'])
def test_invalid_quoted_paths_are_refused(text):
    with pytest.raises(ValueError):
        unquote(text)


def test_git_quotes_alike(bench):
    bench.init()
    name = b'\xff"\\\n\t\x01 \x7fz'
    (bench.repo / __import__("os").fsdecode(name)).write_text("x")
    listed = subprocess.run(["git", "ls-files", "-o"], cwd=bench.repo, capture_output=True, check=True).stdout
    assert listed.decode().strip() == c_quote(name)


def test_flagged_and_secret_names():
    for path in (
        ".husky/pre-commit",
        ".github/workflows/x.yml",
        "a/.vscode/tasks.json",
        "CLAUDE.md",
        ".mcp.json",
        "package.json",
        "web/package.json",
        ".claude/settings.json",
        "conftest.py",
        "x.pth",
        "Makefile",
        ".gitattributes",
        "AGENTS.md",
        "CLAUDE.local.md",
        ".clinerules",
        ".roo/rules/a.md",
        ".cirrus.yml",
        ".teamcity/settings.kts",
        ".devcontainer.json",
        ".dir-locals.el",
        ".cargo/config.toml",
        ".yarn/releases/yarn.cjs",
        "composer.json",
        "Cargo.toml",
        "pom.xml",
        "CMakeLists.txt",
        "rules.mk",
        "pytest.ini",
        "web/vite.config.ts",
        ".eslintrc.cjs",
        "Dockerfile.dev",
        "gradle/wrapper/gradle-wrapper.properties",
        ".venv/bin/understudy",
        "api/venv/lib/python3.12/site-packages/x.py",
        "env/bin/python3.12",
        "env/bin/activate.fish",
        "env/pyvenv.cfg",
        "node_modules/.bin/eslint",
        ".worktreeinclude",
        "sub/.pdbrc",
        ".gdbinit",
        ".mise/tasks/build",
        "flake.nix",
        "gulpfile.js",
        "gulpfile.js/index.js",
        "WORKSPACE",
        "third_party/MODULE.bazel",
        "build.sbt",
        ".bsp/sbt.json",
        "lib/Setup.hs",
        ".Rprofile",
        "app/App.csproj",
        "package.json::$DATA",
        "tasks.py",
        "hooks/pre-push",
        "CODEOWNERS",
        "etc/app.service",
        "tsconfig.base.json",
        ".antigravity/settings.json",
        "deep/.rvmrc",
        "src/app.egg-info/entry_points.txt",
        "python312._pth",
        "node.config.json",
        "src/__pycache__/main.cpython-312.pyc",
        "lib/fast.cpython-312-x86_64-linux-gnu.so",
        "uv.lock",
        "web/package-lock.json",
        "go.mod",
        "Directory.Build.rsp",
        "App.sln",
        "src-tauri/tauri.conf.json",
        "foundry.toml",
        "spec/spec_helper.rb",
        "m4/check.m4",
        "src/main/resources/META-INF/services/javax.annotation.processing.Processor",
        ".tox/py312/bin/pytest",
    ):
        assert flagged(path), path
    for path in (
        "src/hooks.py",
        "src/main.py",
        "docs/github.md",
        "README.md",
        "src/config.ts",
        "src/agent.py",
        "app/package.py",
        "docs/makefile.md",
        "tests/test_pytest.py",
        ".gitignore",
        "src/profile.py",
        "src/venv.py",
        "bin/python",
        "src/env/bin/tool.py",
        "docs/node_modules.md",
        "src/tasks.py",
        "src/dockerfile_parser.py",
        "src/build/out.py",
        "src/workspace.ts",
        "docs/hugo.md",
        "src/head.py",
        "config/flake.py",
        "src/user.service.ts",
        "docs/update",
        "src/lock.py",
        "src/class.py",
        "docs/project.md",
        "app/commit-msg.ts",
    ):
        assert flagged(path.encode()) is None, path
    for path in (
        *(b".env", b"a/.env.local", b"x.pem", b"id_rsa", b".ssh/config", b"prod.env", b".dev.vars", b"AuthKey_1.p8"),
        *(b".streamlit/secrets.toml", b"config/Credentials.json", b"aws_credentials", b".docker/config.json"),
        *(b"client_secret_1.apps.json", b"app-firebase-adminsdk-x.json", b".vault-token", b"terraform.tfstate.backup"),
    ):
        assert looks_secret(path), path
    for path in (
        *(b".env.example", b"id_rsa.pub", b"env.py", b"keys.py", b"secrets.py", b"src/credentials.ts", b"password.md"),
        *(b"secrets.json.example", b"tests/test_secrets.py"),
    ):
        assert not looks_secret(path), path


@pytest.mark.parametrize(("reason", "patterns"), path_rules.flagged_table(), ids=lambda value: str(value)[:20])
def test_every_pattern_of_the_table_finds_its_files_in_any_case(reason, patterns):
    for pattern in patterns:
        assert pattern == pattern.casefold()
        name = re.sub(r"\[(.)[^]]*\]", r"\1", pattern).replace("*", "x") + ("y" if pattern.endswith("/") else "")
        for path in [name.lstrip("/"), *([] if pattern.startswith("/") else [f"some/where/{name}"])]:
            assert flagged(path), pattern
            assert flagged(path.upper()), pattern
        if pattern.startswith("/"):
            assert path_rules.find_flagged(f"some/where{name}") != reason, pattern


def test_a_name_is_listed_once():
    every = [pattern for _, patterns in path_rules.flagged_table() for pattern in patterns]
    assert sorted(pattern for pattern in set(every) if every.count(pattern) > 1) == []


def test_many_paths_are_looked_up_quickly():
    started = time.thread_time()
    for number in range(3000):
        flagged(f"packages/package-{number}/src/components/module_{number}.py")
    assert time.thread_time() - started < 1.5  # measured 0.05 s


@pytest.mark.parametrize(
    "folder", [".github", ".husky", "a/.vscode", ".claude", ".circleci", ".hooks", ".venv", "web/node_modules"]
)
def test_a_link_in_the_place_of_a_flagged_folder_is_flagged(folder):
    # What it leads to has another name: only the link itself is recognised.
    assert flagged(folder)


@pytest.mark.parametrize(
    "path", [".vs\u200dcode/tasks.json", ".vscode./tasks.json", ".github /x.yml", "\ufeffpackage.json"]
)
def test_names_that_are_read_as_a_flagged_one_are_flagged(path):
    assert flagged(path)
    assert flagged(path.encode())


@pytest.mark.parametrize(
    "path",
    [
        ".git/x",
        ".GIT/x",
        "a/../x",
        "/x",
        "",
        "a//b",
        "git~1/x",
        "GIT~1",
        ".g\u200cit/x",
        ".git /x",
        ".git./x",
        ".git::$INDEX_ALLOCATION/x",
        "a\\.git\\x",
        "./x",
    ],
)
def test_names_that_git_refuses(bench, path):
    assert refused(path.encode())
    if path:
        bench.init()
        store = ObjectStore.create(bench.state / "s", bench.locate())
        blob = store.git_output("hash-object", "-w", "--stdin", stdin=b"x").decode().strip()
        store.run_git(
            "update-index",
            "--add",
            "-z",
            "--index-info",
            stdin=f"100644 {blob}\t{path}\0".encode(),
            index=bench.state / "i",
        )
        assert store.git_output("ls-files", index=bench.state / "i") == b""


RULES = st.lists(
    st.text("ab*?/!\\[]# ", min_size=1, max_size=6).filter(lambda line: "\n" not in line), min_size=0, max_size=4
)
FILES = [
    f"{a}{b}{c}" for a in ("a", "b", "a b", "#", "!a") for b in ("", "/a", "/b/a", "/[a]") for c in ("", "b", "/ab")
]


@pytest.fixture(scope="module")
def rule_repository(tmp_path_factory):
    root = tmp_path_factory.mktemp("rules")
    subprocess.run(["git", "init", "-q", root], check=True)
    (root / "a b").mkdir()
    for name in FILES:
        target = root / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("x")
        except OSError:
            continue
    return root


@given(top=RULES, below=RULES)
def test_rules_in_one_list_mean_what_they_mean_in_folders(rule_repository, top, below):
    root = rule_repository
    for folder, rules in ((root, top), (root / "a b", below)):
        (folder / ".gitignore").write_text("".join(rule + "\n" for rule in rules))
    listing = root / ".git" / "rules"
    listing.write_bytes(
        translate(b"", (root / ".gitignore").read_bytes())
        + b"\n"
        + translate(b"a b/", (root / "a b" / ".gitignore").read_bytes())
    )

    def others(*options):
        return subprocess.run(["git", "ls-files", "-o", *options], cwd=root, capture_output=True, check=True).stdout

    assert others(f"--exclude-from={listing}") == others("--exclude-per-directory=.gitignore")
