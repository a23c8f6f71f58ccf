"""Test a whole session in a real Emacs, with lsp-mode and Eglot, each configured only with the lines in ``docs/editors.md``."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from wait_until import until

PACKAGES = Path("/usr/share/emacs/site-lisp/elpa")
"""Where Debian and its derivatives install ``elpa-lsp-mode`` and ``elpa-eglot``."""

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(shutil.which("emacs") is None, reason="Emacs is not installed"),
    pytest.mark.skipif(shutil.which("emacsclient") is None, reason="emacsclient is not installed"),
]
needs_lsp_mode = pytest.mark.skipif(not list(PACKAGES.glob("lsp-mode-*")), reason="elpa-lsp-mode is not installed")
needs_eglot = pytest.mark.skipif(not list(PACKAGES.glob("eglot-*")), reason="elpa-eglot is not installed")

SPY = r"""
(require 'package)
(add-to-list 'package-directory-list "%(packages)s")
(package-activate-all)
(require 'json)
(setq-default confirm-kill-processes nil  create-lockfiles nil  auto-save-default nil  make-backup-files nil)
(global-auto-revert-mode 1)
(setq last-nonmenu-event ?\r) ; chosen with the keyboard
(defvar spy-wanted nil)
(defvar spy-offered nil)
(defun completing-read (prompt collection &rest _)
  (setq spy-offered (all-completions "" collection))
  (let ((found (seq-find (lambda (one) (and spy-wanted (string-match-p spy-wanted one))) spy-offered)))
    (unless found (signal 'quit nil))
    (setq spy-wanted nil)
    found))
(defun y-or-n-p (prompt) (push prompt spy-offered) t)
(defun spy-command-loop ()
  ;; Run in the current buffer what Emacs runs between the user's commands when it displays a buffer: with emacsclient,
  ;; it does not.
  (run-hooks 'post-command-hook)
  (when (and (bound-and-true-p flymake-mode) (null (flymake-running-backends))) (flymake-start))
  (run-hooks 'lsp-diagnostics-updated-hook))
(defun spy-problems ()
  (spy-command-loop)
  (seq-into (mapcar (lambda (one)
            (list :line (1- (line-number-at-pos (flymake-diagnostic-beg one)))
                  :kind (format "%%s" (flymake-diagnostic-type one))
                  :text (substring-no-properties (flymake-diagnostic-text one))))
          (flymake-diagnostics)) 'vector))
"""
"""Choose from lists and record what the user would read; everything else is the editor's own."""

TINY = """
import json, sys

def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
    sys.stdout.buffer.flush()

while line := sys.stdin.buffer.readline():
    length = int(line.split(b":")[1])
    while sys.stdin.buffer.readline().strip():
        pass
    message = json.loads(sys.stdin.buffer.read(length))
    method = message.get("method")
    if method == "initialize":
        given = {"textDocumentSync": 1, "codeActionProvider": True}
        send({"id": message["id"], "result": {"capabilities": given}})
    elif method == "textDocument/didOpen":
        place = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 5}}
        problem = {"range": place, "severity": 2, "message": "of the language"}
        uri = message["params"]["textDocument"]["uri"]
        send({"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": [problem]}})
    elif method == "textDocument/codeAction":
        send({"id": message["id"], "result": [{"title": "Sort the lines", "kind": "quickfix"}]})
    elif method == "exit":
        break
    elif "id" in message and method:
        send({"id": message["id"], "result": None})
"""
"""A language server for Python, which has to work at the same time as Understudy."""


def quoted(text: object) -> str:
    return json.dumps(str(text), ensure_ascii=False)


class Emacs:
    """One Emacs without a terminal, controlled like a user does, with commands, text and choices."""

    def __init__(self, home: Path, init: str) -> None:
        self.home = home
        self.socket = home / "emacs"
        self.answer = home / "answer.json"
        path = home / "init.el"
        path.write_text(SPY % {"packages": PACKAGES} + init, encoding="utf-8")
        self.log = (home / "emacs.log").open("w+b")
        self.process = subprocess.Popen(
            ["emacs", "-q", f"--fg-daemon={self.socket}", "--load", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )
        # The socket's file exists a moment before Emacs listens.
        until(lambda: self.socket.exists() and self._client("t").returncode == 0, "Emacs listens")

    def _client(self, form: str, seconds: float = 20.0) -> subprocess.CompletedProcess[str]:
        command = ["emacsclient", "-s", str(self.socket), "-e", form]
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)

    def do(self, code: str, seconds: float = 90.0) -> Any:
        """Run Lisp in the current buffer; return its value, converted through JSON."""
        self.answer.unlink(missing_ok=True)
        form = (
            f"(let ((value (condition-case problem (progn (set-buffer (window-buffer)) {code})"
            ' (quit (list :problem "quit")) (error (list :problem (format "%S" problem))))))'
            f" (with-temp-file {quoted(self.answer)} (insert (json-encode (list :value value)))) nil)"
        )
        done = self._client(form, seconds)
        assert self.answer.exists(), f"{done.stdout}{done.stderr}\n{self.said()[-2000:]}"
        value = json.loads(self.answer.read_text(encoding="utf-8"))["value"]
        assert not (isinstance(value, dict) and "problem" in value), f"{value['problem']}\n{self.said()[-3000:]}"
        return value

    def said(self) -> str:
        """Return all messages, from the log, since there is no echo area."""
        self.log.flush()
        return (self.home / "emacs.log").read_text(encoding="utf-8", errors="replace")

    def edit(self, path: Path | str, start: str) -> None:
        """Open a file and start the language server like a user would."""
        self.do(f"(find-file {quoted(path)}) (unless (bound-and-true-p {start}) (switch-to-buffer (current-buffer))) t")

    def text(self) -> str:
        return str(self.do("(buffer-substring-no-properties (point-min) (point-max))"))

    def go(self, text: str) -> None:
        self.do(f"(goto-char (point-min)) (search-forward {quoted(text)}) (beginning-of-line) t")

    def problems(self) -> list[dict[str, Any]]:
        return self.do("(spy-problems)") or []

    def choose(self, title: str, command: str) -> None:
        """Ask for code actions and choose the one with a matching title."""
        chosen = f"(setq spy-wanted {quoted(title)} spy-offered nil) {command} (null spy-wanted)"

        def taken() -> bool:
            with contextlib.suppress(AssertionError):
                return bool(self.do(chosen))
            return False

        try:
            until(taken, f"action {title}")
        except AssertionError as error:
            offered = self.do("spy-offered")
            raise AssertionError(f"{error}; offered: {offered}; said: {self.said()[-3000:]}") from None

    def heard(self, text: str) -> str:
        try:
            return str(until(lambda: next((one for one in self.said().splitlines() if text in one), None), text, 60))
        except AssertionError:
            raise AssertionError(f"{text!r} was not among {self.said()}") from None

    def close(self) -> None:
        with contextlib.suppress(AssertionError, subprocess.SubprocessError):
            self._client("(let (kill-emacs-hook) (kill-emacs))")
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)
        self.log.close()


@pytest.fixture
def emacs(own_home: Path, job: Any) -> Iterator[Callable[[str], Emacs]]:
    _ = job
    started: list[Emacs] = []

    def start(init: str) -> Emacs:
        started.append(Emacs(own_home, init))
        return started[-1]

    yield start
    for one in started:
        one.close()


LSP_MODE = r"""
(setq lsp-session-file (expand-file-name "lsp-session" "~")
      lsp-auto-guess-root nil lsp-enable-file-watchers nil lsp-enable-snippet nil
      lsp-warn-no-matched-clients nil)
(require 'lsp-mode)
(lsp-workspace-folders-add "%(top)s")
(lsp-register-client (make-lsp-client :new-connection (lsp-stdio-connection '("%(python)s" "%(tiny)s"))
                                      :major-modes '(python-mode) :server-id 'tiny))
"""
"""The configuration of a user of lsp-mode for Python, before installing Understudy."""

READY = (
    "(let ((ready (seq-filter (lambda (one) (eq (lsp--workspace-status one) 'initialized)) (lsp-workspaces))))"
    " (mapcar (lambda (one) (symbol-name (lsp--client-server-id (lsp--workspace-client one)))) ready))"
)
ACT = "(call-interactively #'lsp-execute-code-action)"


@pytest.fixture
def lsp_mode(emacs: Any, job: Any, own_home: Path, snippet: Any) -> Emacs:
    tiny = own_home / "tiny.py"
    tiny.write_text(TINY, encoding="utf-8")
    given = LSP_MODE % {"top": job.top, "python": sys.executable, "tiny": tiny}
    return emacs(given + snippet("Emacs: lsp-mode", "elisp"))


def listed(job: Any) -> list[Any]:
    return job.call("delegations/list").delegations


def hunk(job: Any, identifier: str, path: str, line: int) -> Any:
    files = job.call("delegations/diff", id=identifier).files
    return next(one for file in files if file.path == path for one in file.hunks if one.old_start == line)


def ended(job: Any, emacs: Emacs) -> tuple[str, Path]:
    """Wait for the message about the result; return the id and the file that it names."""
    line = emacs.heard("review.diff")
    [delegation] = listed(job)
    return delegation.id, Path(next(word.strip("“”().,;") for word in line.split() if "review.diff" in word))


def accepts_in_the_open_file(emacs: Emacs, job: Any, identifier: str, name: str, act: str) -> None:
    """Accept a hunk of a file that is open and has other changes than the agent's."""
    emacs.go("+line5")
    emacs.choose("^Accept [^f]", act)
    until(lambda: str(hunk(job, identifier, name, 5).state) == "accepted", "the decision")
    emacs.do(f"(find-file {quoted(job.top / name)}) t")
    assert emacs.text().splitlines()[:7] == [
        "line1 = 'not saved'",
        "line2 = 2",
        "# typed while it worked",
        "line3 = 3",
        "line4 = 4",
        'line5 = "five"',
        "line6 = 6",
    ]
    assert (job.top / name).read_text(encoding="utf-8").startswith("line1 = 1\n")


def rejects_undoes_and_sends_back(
    emacs: Emacs, job: Any, identifier: str, review: Path, *, name: str, act: str
) -> None:
    # One is rejected, with a reason typed below it.
    emacs.do(f"(find-file {quoted(review)}) t")
    emacs.go("+line25")
    emacs.do('(forward-line 1) (insert "> numbers must stay numbers\\n") (forward-line -2) t')
    emacs.choose("^Reject .*numbers must stay", act)
    until(lambda: str(hunk(job, identifier, name, 25).state) == "rejected", "the rejection")
    assert hunk(job, identifier, name, 25).reason == "numbers must stay numbers"

    # Undo reverts the last accept in the buffer and keeps later edits.
    emacs.choose("^Undo", act)
    until(lambda: str(hunk(job, identifier, name, 5).state) == "pending", "the undo")
    emacs.do(f"(find-file {quoted(job.top / name)}) t")
    assert emacs.text().splitlines()[2:6] == ["# typed while it worked", "line3 = 3", "line4 = 4", "line5 = 5"]

    # Send it back.
    emacs.do(f"(find-file {quoted(review)}) t")
    emacs.choose("^Send back", act)
    reply = until(lambda: next((one for one in listed(job) if one.parent_id == identifier), None), "the follow-up")
    until(lambda: job.call("delegations/get", id=reply.id).state == "finished", "its end")
    assert "Do you trust" not in emacs.said()


@needs_lsp_mode
def test_the_whole_job_in_lsp_mode(lsp_mode: Emacs, job: Any):
    emacs = lsp_mode
    emacs.do(f"(find-file {quoted(job.top / 'lines.py')}) (lsp) t")
    until(lambda: set(emacs.do(READY) or []) == {"understudy", "tiny"}, "both servers")
    until(lambda: any("of the language" in one["text"] for one in emacs.problems()), "what the other one found")
    emacs.do("(goto-char (point-min)) (delete-region (point) (line-end-position)) (insert \"line1 = 'not saved'\") t")
    emacs.choose("Rework", ACT)
    assert "Sort the lines" in emacs.do("spy-offered")
    identifier, review = ended(job, emacs)
    assert job.file(identifier, "lines.py", "base").startswith("line1 = 'not saved'\n")
    assert (job.top / "lines.py").read_text(encoding="utf-8").startswith("line1 = 1\n")

    # The modified file is edited meanwhile, above the change.
    emacs.go("line3")
    emacs.do('(insert "# typed while it worked\\n") t')
    emacs.do(f"(find-file {quoted(review)}) t")
    until(lambda: len(emacs.problems()) == 3, "a diagnostic for each hunk")
    hunks = {problem["line"] for problem in emacs.problems()}
    emacs.do("(goto-char (point-min)) t")
    step = "(progn (flymake-goto-next-error 1 nil t) (1- (line-number-at-pos)))"
    assert {emacs.do(step) for _ in range(3)} == hunks
    assert emacs.do("(hash-table-count (lsp-session-folder->servers (lsp-session)))") >= 2

    # A hunk of a new file.
    emacs.go("+def test_first")
    emacs.choose("^Accept [^f]", ACT)
    until((job.top / "tests/test_lines.py").exists, "the new file")

    accepts_in_the_open_file(emacs, job, identifier, "lines.py", ACT)
    # The remaining hunk is a diagnostic in the file itself, too, at the current position of its lines.
    until(lambda: any(one["line"] == 25 for one in emacs.problems()), "the other hunk, a line further down")

    rejects_undoes_and_sends_back(emacs, job, identifier, review, name="lines.py", act=ACT)


EGLOT = r"""
(require 'eglot)
(setq eglot-autoshutdown nil)
"""
EGLOT_ACT = "(eglot-code-actions (line-beginning-position) (line-end-position) nil t)"


@pytest.fixture
def eglot(emacs: Any, job: Any, snippet: Any) -> Emacs:
    """Start Eglot, with an agent that changes a file in a language without another server."""
    job.write("lines.toml", (job.top / "lines.py").read_text(encoding="utf-8"))
    job.git("add", "-A")
    job.git("commit", "-qm", "toml")
    change = (
        "import pathlib; path = pathlib.Path('lines.toml'); text = path.read_text();"
        " path.write_text(text.replace('= 5\\n', '= \"five\"\\n').replace('= 25\\n', '= \"twenty-five\"\\n'))"
    )
    job.agent(
        "worker", {"run": [sys.executable, "-c", change]}, {"write": "new.txt", "text": "new\n"}, {"result": True}
    )
    return emacs(EGLOT + snippet("Emacs: Eglot", "elisp"))


@pytest.mark.smoke
@needs_eglot
def test_the_whole_job_in_eglot(eglot: Emacs, job: Any):
    emacs = eglot
    emacs.do(f"(find-file {quoted(job.top / 'lines.toml')}) (call-interactively #'eglot) t")
    until(lambda: emacs.do("(and (eglot-managed-p) t)"), "Eglot")
    emacs.do("(goto-char (point-min)) (delete-region (point) (line-end-position)) (insert \"line1 = 'not saved'\") t")
    emacs.choose("Rework", EGLOT_ACT)
    identifier, review = ended(job, emacs)
    assert job.file(identifier, "lines.toml", "base").startswith("line1 = 'not saved'\n")

    # The modified file is edited meanwhile, above the change.
    emacs.go("line3")
    emacs.do('(insert "# typed while it worked\\n") t')
    emacs.do(f"(find-file {quoted(review)}) t")
    until(lambda: len(emacs.problems()) == 3, "a diagnostic for each hunk")
    assert emacs.do("(length (apply #'append (hash-table-values eglot--servers-by-project)))") == 1
    hunks = {problem["line"] for problem in emacs.problems()}
    emacs.do("(goto-char (point-min)) t")
    step = "(progn (flymake-goto-next-error 1 nil t) (1- (line-number-at-pos)))"
    assert {emacs.do(step) for _ in range(3)} == hunks

    # A hunk of a new file.
    emacs.go("+new")
    emacs.choose("^Accept [^f]", EGLOT_ACT)
    until((job.top / "new.txt").exists, "the new file")

    accepts_in_the_open_file(emacs, job, identifier, "lines.toml", EGLOT_ACT)
    rejects_undoes_and_sends_back(emacs, job, identifier, review, name="lines.toml", act=EGLOT_ACT)


@needs_lsp_mode
def test_lsp_mode_shows_what_is_wrong_in_own_files(lsp_mode: Emacs, job: Any):
    emacs = lsp_mode
    config = job.write(".understudy/config.toml", '[defaults]\ndelegater = "worker"\n')
    emacs.do(f"(find-file {quoted(config)}) (lsp) t")
    until(lambda: any("delegater" in one["text"] for one in emacs.problems()), "the misspelt name")


@needs_lsp_mode
def test_lsp_mode_shows_progress(lsp_mode: Emacs, job: Any):
    emacs = lsp_mode
    job.write(".understudy/config.toml", '[defaults]\ndelegator = "worker"\n')
    job.trust()
    job.agent("worker", *[{"phase": "thinking hard"}, {"sleep": 2}] * 30, {"result": True})
    emacs.do(f"(find-file {quoted(job.top / 'lines.py')}) (lsp) t")
    until(lambda: set(emacs.do(READY) or []) == {"understudy", "tiny"}, "both servers")
    emacs.choose("Rework", ACT)
    tokens = (
        '(format "%S" (mapcar (lambda (one) (hash-table-values (lsp--workspace-work-done-tokens one)))'
        " (lsp-workspaces)))"
    )
    until(lambda: "thinking hard" in emacs.do(tokens), "progress, as the mode line has it")


@needs_eglot
def test_eglot_shows_what_is_wrong_in_own_files(eglot: Emacs, job: Any):
    emacs = eglot
    config = job.write(".understudy/config.toml", '[defaults]\ndelegater = "worker"\n')
    emacs.do(f"(find-file {quoted(config)}) (call-interactively #'eglot) t")
    until(lambda: any("delegater" in one["text"] for one in emacs.problems()), "the misspelt name")
