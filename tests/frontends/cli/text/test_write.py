"""``write``: a complete answer becomes the target, and nothing else ever changes it."""

from __future__ import annotations

import os

import pytest

from understudy.journal import ledger

WANTED = ["write", "-t", "x = 1", "src"]


def test_a_new_file_is_written_without_its_fence(served):
    asked = served.run(*WANTED, "--target", "lib/new.py", "-d", served.on("author"))
    assert (asked.code, asked.out, asked.err) == (0, "", "Wrote lib/new.py.\n")
    assert (served.top / "lib" / "new.py").read_text() == "x = 1\n"
    assert os.listdir(served.top / "lib") == ["new.py"]
    assert [entry.recipe for entry in ledger.read()] == ["write"]


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [(["--stdout"], "x = 1\n"), (["--stdout", "--no-strip-fences"], "```python\nx = 1\n```\n")],
)
def test_the_file_can_be_printed(served, arguments, printed):
    asked = served.run(*WANTED, "--target", "src/a.py", *arguments, "-d", served.on("author"))
    assert (asked.code, asked.out) == (0, printed)
    assert (served.top / "src" / "a.py").read_text() == "A = 1\n"


def test_an_existing_file_is_kept_without_force(served):
    asked = served.run(*WANTED, "--target", "src/a.py", "-d", served.on("author"), "--json")
    assert (asked.code, asked.envelope["error"]["type"]) == (2, "target_exists")
    assert served.server.requests == [], "it is known before anything is sent"
    assert (served.top / "src" / "a.py").read_text() == "A = 1\n"


def test_force_replaces_and_keeps_the_mode(served):
    target = served.top / "src" / "a.py"
    target.chmod(0o755)
    asked = served.run(*WANTED, "--target", "src/a.py", "--force", "--json", "-d", served.on("author"))
    assert asked.code == 0
    assert (asked.envelope["target"], asked.envelope["content"]) == ("src/a.py", "x = 1\n")
    assert target.read_text() == "x = 1\n"
    assert target.stat().st_mode & 0o777 == 0o755
    assert "A = 1" not in served.sent, "the target is not read along with its folder"


def test_a_diff_writes_only_with_force(served):
    target = served.top / "src" / "a.py"
    asked = served.run(*WANTED, "--target", "src/a.py", "--diff", "-d", served.on("author"))
    assert asked.code == 0
    assert "-A = 1\n+x = 1\n" in asked.out
    assert target.read_text() == "A = 1\n"
    found = served.run(*WANTED, "--target", "src/a.py", "--diff", "--force", "--json", "-d", "m-author").envelope
    assert "-A = 1\n+x = 1\n" in found["diff"]
    assert target.read_text() == "x = 1\n"
    same = served.run(*WANTED, "--target", "src/a.py", "--diff", "-d", "m-author")
    assert (same.out, same.err) == ("", "src/a.py is already the same.\n")


@pytest.mark.parametrize("model", ["empty", "blank", "length", "cut", "cut_clean", "zero_forever", "error_midstream"])
def test_a_cut_or_empty_answer_never_replaces_a_file(served, model):
    asked = served.run(*WANTED, "--target", "src/a.py", "--force", "--json", "-d", served.on(model))
    assert (asked.code, asked.envelope["ok"]) == (1, False)
    assert (served.top / "src" / "a.py").read_text() == "A = 1\n"
    assert sorted(os.listdir(served.top / "src")) == ["B.py", "a.py"]


def test_a_target_outside_of_the_workspace_is_the_users_decision(served, tmp_path):
    asked = served.run(*WANTED, "--target", str(tmp_path / "elsewhere" / "new.py"), "-d", served.on("author"))
    assert asked.code == 0
    assert (tmp_path / "elsewhere" / "new.py").read_text() == "x = 1\n"


@pytest.mark.parametrize("target", ["link.py", "out/new.py", ".git/hooks/pre-commit", "src", "src/", "../x.py"])
def test_a_target_that_a_link_or_the_root_forbids_is_refused(served, tmp_path, target):
    (tmp_path / "private").mkdir()
    (served.top / "out").symlink_to(tmp_path / "private")
    (served.top / "link.py").symlink_to(served.top / "src" / "a.py")
    root = ["--target-root", "."] if target.startswith("..") else []
    asked = served.run(*WANTED, "--target", target, "--force", *root, "--json", "-d", served.on("author"))
    assert (asked.code, asked.envelope["error"]["type"]) == (2, "target_root_escape")
    assert served.server.requests == []
    assert os.listdir(tmp_path / "private") == []
    assert (served.top / "src" / "a.py").read_text() == "A = 1\n"


@pytest.mark.parametrize("existed", [True, False])
def test_a_file_that_changes_meanwhile_is_kept(served, existed, monkeypatch):
    target = served.top / "src" / ("a.py" if existed else "new.py")
    from understudy.engine.text_recipes import text_request

    send = text_request._send

    def edit_and_send(*given, **more):
        outcome = send(*given, **more)
        target.write_text("mine\n")
        return outcome

    monkeypatch.setattr(text_request, "_send", edit_and_send)
    asked = served.run(*WANTED, "--target", str(target), "--force", "--json", "-d", served.on("author"))
    assert (asked.code, asked.envelope["error"]["type"]) == (2, "target_exists")
    assert target.read_text() == "mine\n"
    assert [entry.failure for entry in ledger.read()] == ["conflict" if existed else "target_exists"]


def test_a_target_is_required(served):
    asked = served.run(*WANTED, "--json", "-d", served.on("author"))
    assert (asked.code, asked.envelope["error"]["type"]) == (2, "missing_target")
