"""Run aider or mini-swe-agent, and print what it does: the agent's own Python runs this file, not Understudy's.

    python host.py aider < request.json

It imports nothing of Understudy. It prints the lines of ``event_stream``, and for a failed request or run::

    {"type": "failed", "name": "RateLimitError", "status": 429, "text": "…", "retryAfter": 20.0}

``name`` is the class of the exception; litellm, with which both agents send their requests, has one for each kind.
The request: ``prompt``, ``model``, ``server`` (``baseUrl``, ``headers``; null: the user's own settings apply),
``properties`` (sent with each request), ``mode``, ``flags``, ``files``, ``scratch`` (a folder for temporary files) and
``session`` (null: a new one).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import json
import os
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

NO_KEY = "no-key"
"""A placeholder: litellm sends no request without a key."""
RETRY_PAUSE_SECONDS = 3
"""aider doubles its pauses, from a quarter of a second, up to this: five requests within some four seconds."""
MINI_ATTEMPTS = "3"
"""Requests of mini-swe-agent before it gives up; its pauses are four seconds."""
MINI_COMMAND_SECONDS = 600
"""Its own limit of 30 seconds is shorter than many test suites."""
MOST_SESSIONS = 100
MOST_CAUSES = 20
ANSWERED = {"FinishReasonLength"}
"""Exceptions after which aider asks for the rest of the answer."""
_PREFIX = re.compile(r"^((litellm\.)?\w+(Error|Timeout): )*(\w+Exception - )?")
_SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class Report:
    """Prints events; everything else that is printed goes to standard error."""

    def __init__(self) -> None:
        """Take standard output over."""
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace", newline="\n")
        os.dup2(2, 1)
        self._totals = dict.fromkeys(("inputTokens", "outputTokens", "cacheReadTokens", "reasoningTokens", "turns"), 0)
        self._calls = 0
        self.error: BaseException | None = None
        """Why the last request failed; None if it did not."""

    def __call__(self, kind: str, **fields: Any) -> None:
        """Print one event."""
        self._out.write(json.dumps({"type": kind, **fields}, ensure_ascii=False) + "\n")
        self._out.flush()

    def requesting(self) -> None:
        """Print that a request that failed is sent again."""
        if self.error is not None and type(self.error).__name__ not in ANSWERED:
            self("phase", text=f"The request failed ({said(self.error)[:200]}); retrying")
        self.error = None

    def used(self, usage: dict[str, Any], cost: float) -> None:
        """Add the usage of a request, and print the totals; ``cost`` is the total in US dollars, 0 if unknown."""
        details = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
        self._totals["inputTokens"] += usage.get("prompt_tokens") or 0
        self._totals["outputTokens"] += usage.get("completion_tokens") or 0
        self._totals["cacheReadTokens"] += details[0].get("cached_tokens") or 0
        self._totals["reasoningTokens"] += details[1].get("reasoning_tokens") or 0
        self._totals["turns"] += 1
        self("usage", **self._totals, **({"costUsd": f"{cost:.10f}"} if cost else {}))

    def call(self, command: str) -> str:
        """Print that a command is run, and return the id of the call."""
        self._calls += 1
        line = command.strip().split("\n")[0][:160]
        title = f"Run {line}{'' if line == command.strip() else ' …'}"
        self("tool_call", callId=str(self._calls), name="shell", title=title, input={"command": command})
        return str(self._calls)

    def failed(self, error: BaseException) -> None:
        """Print why a request or the run failed."""
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        pause = str(headers.get("retry-after") or "")
        after = {"retryAfter": float(pause)} if re.fullmatch(r"[0-9]{1,9}", pause) and float(pause) else {}
        status = getattr(error, "status_code", None)
        self("failed", name=type(error).__name__, status=status if isinstance(status, int) else 0,
             text=said(error), **after)  # fmt: skip


class Refused(Exception):  # noqa: N818 - its name is a kind of failure
    """The agent did not start."""


class UnknownSession(Exception):  # noqa: N818
    """No file has the session of this id."""


class Unsupported(Exception):  # noqa: N818
    """This version of the agent has other parts than those used here."""


def said(error: BaseException) -> str:
    """Return an error's text without the names of classes before it, and with what happened to its connection."""
    text, cause = _PREFIX.sub("", str(error)).strip(), error
    for _ in range(MOST_CAUSES):
        cause = cause.__cause__ or cause.__context__ or cause
        lost = isinstance(cause, OSError) or type(cause).__module__.startswith(("httpx", "httpcore"))
        if lost and str(cause) and str(cause) not in text:
            return f"{text} {cause}"
    return text


class Sessions:
    """The conversations of one agent, as JSON files in a folder of its own."""

    def __init__(self, folder: Path, identifier: str | None) -> None:
        """Open the session ``identifier``, or begin one; raise ``UnknownSession``."""
        self.identifier = identifier or str(uuid.uuid4())
        self.messages: list[dict[str, Any]] = []
        self._folder = folder / "understudy-sessions"
        self._file = self._folder / f"{self.identifier}.json"
        if identifier is not None:
            self.messages = self._restored()

    def _restored(self) -> list[dict[str, Any]]:
        with contextlib.suppress(OSError, ValueError):
            if re.fullmatch(r"[0-9a-f-]{36}", self.identifier):
                return list(json.loads(self._file.read_text("utf-8")))
        raise UnknownSession(f"{self._folder} has no session {self.identifier}.")

    def keep(self, messages: list[dict[str, Any]]) -> None:
        """Save the conversation, and forget the oldest ones."""
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._file.with_suffix(".part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(messages, file, default=str)
        part.replace(self._file)
        by_age = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in by_age[MOST_SESSIONS:]:
            old.unlink(missing_ok=True)


def connect(given: dict[str, Any]) -> None:
    """Make litellm send every request to the model server."""
    key, server = given.pop("key"), given["server"]
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    if server is not None:
        litellm.api_key = key or NO_KEY
        litellm.api_base = server["baseUrl"]
        litellm.headers = server["headers"] or None


# -- aider -----------------------------------------------------------------------------------------------------------


class Aider:
    """One run of aider."""

    def __init__(self, given: dict[str, Any], report: Report) -> None:
        """Replace the parts of aider that read settings of the repository, ask, or print."""
        self.given, self.report = given, report
        self._added: set[str] = set()
        self._thinks = False
        self._root = os.path.realpath(".")
        self._program: Any = importlib.import_module("aider.main")
        self._base: Any = importlib.import_module("aider.coders.base_coder")
        self._tag = str(self._base.REASONING_TAG)
        self._mask_repository()
        self._leave_nothing()
        self._listen()

    def _mask_repository(self) -> None:
        program, home = self._program, str(Path.home())
        served = self.given["server"] is not None
        program.generate_search_path_list = lambda name, _root, _named: [] if served else [str(Path(home, name))]
        get_parser = program.get_parser
        program.get_parser = lambda files, root: get_parser(
            [file for file in files if not served and str(Path(file).parent) == home], root
        )
        if served:
            program.load_dotenv_files = lambda *_args, **_more: []

    def _leave_nothing(self) -> None:
        # It would write an author into the configuration of git, and a folder into the worktree.
        self._program.setup_git = lambda root, _io: root
        importlib.import_module("aider.repomap").RepoMap.TAGS_CACHE_DIR = str(Path(self.given["scratch"], "tags"))
        # It would download prices; litellm brings some.
        self._program.models.ModelInfoManager._update_cache = lambda _self: None  # noqa: SLF001 - it has no option

    def _listen(self) -> None:
        run, base = self, self._base
        program, models = self._program, self._program.models

        class Console(program.InputOutput):  # type: ignore[misc,name-defined]
            """Answers its questions, and reports what it writes."""

            last_error = ""

            def confirm_ask(self, question: str, _default: str = "y", subject: str | None = None,
                            explicit_yes_required: bool = False, **_more: Any) -> bool:  # fmt: skip
                return run.allows(question, subject, explicit_yes_required)

            def prompt_ask(self, _question: str, default: str = "", **_more: Any) -> str:
                return default

            def offer_url(self, *_args: Any, **_more: Any) -> bool:
                return False  # it would open a browser

            def tool_error(self, message: str = "", strip: bool = True) -> None:
                Console.last_error = str(message).strip() or Console.last_error
                super().tool_error(message, strip)

            def write_text(self, filename: str, content: str, *args: Any, **more: Any) -> None:
                if run.may_touch(str(filename), "change"):
                    super().write_text(filename, content, *args, **more)
                    run.wrote(str(filename))

            def read_text(self, filename: str, *args: Any, **more: Any) -> str | None:
                # A link in the repository may lead anywhere.
                if Path(filename).is_symlink() and not run.may_touch(str(filename), "read"):
                    return None
                found: str | None = super().read_text(filename, *args, **more)
                return found

            def assistant_output(self, message: str, **_more: Any) -> None:
                run.write(message)

        class System:
            """The module ``sys`` with another standard output: what is written there is the model's answer."""

            stdout = self

            def __getattr__(self, name: str) -> Any:
                return getattr(sys, name)

        class Counted:
            """A streamed answer that remembers its usage."""

            usage: Any = None

            def __init__(self, stream: Any) -> None:
                self._stream = stream

            def __iter__(self) -> Iterator[Any]:
                for chunk in self._stream:
                    self.usage = getattr(chunk, "usage", None) or self.usage
                    yield chunk

        send, complete = base.Coder.send, models.Model.send_completion
        count, execute = base.Coder.calculate_and_show_tokens_and_cost, base.run_cmd

        def sent(coder: Any, *args: Any, **more: Any) -> Iterator[Any]:
            run.report.requesting()
            try:
                yield from send(coder, *args, **more)
            except BaseException as error:
                run.report.error = error
                raise

        def completed(model: Any, messages: Any, functions: Any, stream: bool, temperature: Any = None) -> Any:
            given = {**(model.extra_params or {}), "max_retries": 0}
            if stream:
                given["stream_options"] = {"include_usage": True}
            if run.given["properties"]:
                given["extra_body"] = {**(given.get("extra_body") or {}), **run.given["properties"]}
            model.extra_params = given
            digest, answer = complete(model, messages, functions, stream, temperature)
            return digest, Counted(answer) if stream else answer

        def counted(coder: Any, messages: Any, completion: Any = None) -> None:
            count(coder, messages, completion)
            usage = getattr(completion, "usage", None)
            if usage is not None:
                run.report.used(usage.model_dump(), coder.total_cost)

        def executed(command: str, *args: Any, **more: Any) -> tuple[int, str]:
            call = run.report.call(command)
            code, output = execute(command, *args, **more)
            run.report("tool_result", callId=call, ok=code == 0, output=output)
            return code, output

        def refused(_parser: Any, message: str) -> NoReturn:
            raise Refused(message)

        argparse.ArgumentParser.error = refused  # type: ignore[assignment,method-assign]
        program.InputOutput, base.sys = Console, System()
        base.replace_reasoning_tags = lambda text, _tag: text
        base.RETRY_TIMEOUT = models.RETRY_TIMEOUT = RETRY_PAUSE_SECONDS
        base.Coder.send, models.Model.send_completion = sent, completed
        base.Coder.calculate_and_show_tokens_and_cost, base.run_cmd = counted, executed
        self._console = Console

    def allows(self, question: str, subject: str | None, runs_commands: bool) -> bool:
        """Answer one of its questions; only those about the work itself are known, and the others get a no."""
        everything = bool(self.given["mode"] == "all")
        if runs_commands:
            return everything
        if question.startswith("Add file"):
            return self.may_touch(os.path.join(self._root, subject or ""), "read")  # noqa: PTH118 - it may be absolute
        if question.startswith(("Create new file", "Allow edits to file")):
            path = os.path.realpath(subject or "")
            if not self.may_touch(path, "change"):
                return False
            if not Path(path).exists():
                self._added.add(path)
            return True
        return question.startswith(
            ("Add URL", "Add command output", "Attempt to fix", "Edit the files", "Try to proceed")
        )

    def may_touch(self, filename: str, verb: str) -> bool:
        """Return whether a file may be read or changed, and report one that is outside the worktree."""
        path = os.path.realpath(filename)
        if self.given["mode"] == "all" or path.startswith((f"{self._root}/", f"{self.given['scratch']}/")):
            return True
        text = f"aider wanted to {verb} {filename}, which is outside the worktree; it was not allowed."
        self.report("note", level="warning", text=text)
        return False

    def wrote(self, filename: str) -> None:
        """Report a file that it has written."""
        path = os.path.realpath(filename)
        if path.startswith(f"{self._root}/"):
            change = "added" if path in self._added else "modified"
            self._added.discard(path)
            self.report("file", path=os.path.relpath(path, self._root), change=change)

    def write(self, text: str) -> None:
        """Report the next part of the model's answer, in which tags mark its thoughts."""
        begin, end = f"<{self._tag}>", f"</{self._tag}>"
        if begin in text:
            self._thinks, text = True, text.replace(begin, "").lstrip("\n")
        if end in text:
            thought, _, text = text.partition(end)
            if thought.strip():
                self.report("thinking", text=thought.rstrip("\n"))
            self._thinks, text = False, text.lstrip("\n")
        if text:
            self.report("thinking" if self._thinks else "text", text=text)

    def flush(self) -> None:
        """Do nothing: each part is printed at once."""

    def arguments(self) -> list[str]:
        """Return the arguments of aider."""
        given, scratch = self.given, Path(self.given["scratch"])
        argv = ["--yes-always", "--no-auto-commits", "--no-dirty-commits", "--no-check-update", "--no-analytics"]
        argv += ["--no-show-model-warnings", "--no-show-release-notes", "--no-pretty", "--no-fancy-input"]
        argv += ["--no-gitignore", "--no-detect-urls", "--disable-playwright", "--no-auto-lint", "--encoding=utf-8"]
        argv += [f"--input-history-file={scratch / 'input'}", f"--chat-history-file={scratch / 'chat'}"]
        argv += ["--no-git"] if not Path(".git").exists() else []
        argv += ["--no-suggest-shell-commands"] if given["mode"] != "all" else []
        argv += ["--chat-mode=ask"] if given["mode"] == "ask" else []
        if given["model"]:
            argv.append(f"--model={given['model']}")
            if given["server"] is not None:  # the others could be models of other providers
                argv += [f"--weak-model={given['model']}", f"--editor-model={given['model']}"]
        return [*argv, *given["flags"], *(f"--file={name}" for name in given["files"])]

    def run(self) -> None:
        """Run the task, and report how it ended."""
        sessions = Sessions(Path.home() / ".aider", self.given["session"])
        self.report("session", sessionId=sessions.identifier)
        coder = self._program.main(self.arguments(), force_git_root=self._root, return_coder=True)
        if not isinstance(coder, self._base.Coder):
            raise Refused(self._console.last_error or "aider did not start.")
        coder.commands.is_command = lambda _text: False  # a prompt is not one, whatever it begins with
        coder.done_messages = sessions.messages
        sessions.keep(sessions.messages)
        try:
            coder.run_one(self.given["prompt"], preproc=True)
        finally:
            sessions.keep([*coder.done_messages, *coder.cur_messages])
        if self.report.error is not None:
            self.report.failed(self.report.error)
            return
        text = coder.partial_response_content or ""
        if coder.reflected_message and coder.num_reflections >= coder.max_reflections:
            why = f"The model's edits do not fit the files: {str(coder.reflected_message)[:500]}"
            self.report("result", ok=False, text=text, error={"kind": "malformed_output", "message": why})
        elif not text.strip():
            error = {"kind": "empty_output", "message": "The model answered nothing.", "hint": "Retry."}
            self.report("result", ok=False, error=error)
        else:
            self.report("result", ok=True, text=text, summary=without_edits(text) or None)


def without_edits(text: str) -> str:
    """Return an answer of aider without its edits: the file's name, and what follows between fences."""
    kept: list[str] = []
    fenced = False
    for line in text.splitlines():
        if line.startswith("```"):
            if not fenced and kept and " " not in kept[-1].strip():
                kept.pop()
            fenced = not fenced
        elif not fenced:
            kept.append(line)
    return "\n".join(kept).strip()


# -- mini-swe-agent --------------------------------------------------------------------------------------------------


class Mini:
    """One run of mini-swe-agent."""

    def __init__(self, given: dict[str, Any], report: Report) -> None:
        """Import it; its own settings are read then."""
        self.given, self.report = given, report
        os.environ["MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT"] = MINI_ATTEMPTS
        os.environ["MSWEA_SILENT_STARTUP"] = "1"
        if given["server"] is not None:
            os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = str(Path(given["scratch"], "config"))
        self._root: Any = importlib.import_module("minisweagent")
        self._agents: Any = importlib.import_module("minisweagent.agents.default")
        self._models: Any = importlib.import_module("minisweagent.models")
        self._config: Any = importlib.import_module("minisweagent.config")
        self._environments: Any = importlib.import_module("minisweagent.environments.local")
        self._exceptions: Any = importlib.import_module("minisweagent.exceptions")

    def run(self) -> None:
        """Run the task, and report how it ended."""
        home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "mini-swe-agent")
        sessions = Sessions(home, self.given["session"])
        self.report("session", sessionId=sessions.identifier)
        config = self._config.get_config_from_spec(str(self._config.builtin_config_dir / "mini.yaml"))
        given, settings = dict(config.get("model", {})), dict(config.get("agent", {}))
        given["cost_tracking"] = "ignore_errors"
        given["model_kwargs"] = {**given.get("model_kwargs", {}), "max_retries": 0}
        if self.given["properties"]:
            given["model_kwargs"]["extra_body"] = self.given["properties"]
        environment = {**config.get("environment", {}), "timeout": MINI_COMMAND_SECONDS}
        fields = self._agents.AgentConfig.model_fields
        settings = {name: value for name, value in settings.items() if name in fields} | {"cost_limit": 0.0}
        local = self._environments.LocalEnvironment(**environment)
        model = self._models.get_model(self.given["model"], given)
        self._listen(model)
        agent = self._agent_class()(model, local, **settings)
        agent.earlier = sessions.messages
        sessions.keep(sessions.messages)
        try:
            ended = agent.run(self.given["prompt"])
        except Exception as error:  # whatever it was, it ended the run
            self.report.failed(error)
            return
        finally:
            sessions.keep([message for message in agent.messages if message.get("role") != "exit"])
        if ended.get("exit_status") == "Submitted":
            text = str(ended.get("submission") or "").strip() or agent.last_text
            self.report("result", ok=True, text=text, summary=text or None)
        else:
            why = f"The model did not call the tool as asked: {ended.get('exit_status')}"
            self.report("result", ok=False, text=agent.last_text, error={"kind": "malformed_output", "message": why})

    def _listen(self, model: Any) -> None:
        send = model._query  # noqa: SLF001 - it repeats requests only around this

        def sent(*args: Any, **more: Any) -> Any:
            self.report.requesting()
            try:
                return send(*args, **more)
            except BaseException as error:
                self.report.error = error
                raise

        model._query = sent  # noqa: SLF001

    def _agent_class(self) -> Any:
        run, exceptions = self, self._exceptions

        class Reporting(self._agents.DefaultAgent):  # type: ignore[misc,name-defined]
            """Reports each message and each command."""

            earlier: list[dict[str, Any]]
            last_text = ""

            def add_messages(self, *messages: dict[str, Any]) -> list[dict[str, Any]]:
                if messages and messages[0].get("role") == "system" and self.earlier:
                    self.messages = [*self.earlier]
                    messages = messages[1:]
                return list(super().add_messages(*messages))

            def query(self) -> dict[str, Any]:
                try:
                    message = dict(super().query())
                except exceptions.FormatError as error:
                    self.answered(error.messages[0].get("extra") or {})
                    raise
                self.answered(message.get("extra") or {})
                return message

            def answered(self, extra: dict[str, Any]) -> None:
                response = extra.get("response")
                if not isinstance(response, dict):
                    return
                choices = response.get("choices") or [{}]
                message = choices[0].get("message") or {}
                if message.get("reasoning_content"):
                    run.report("thinking", text=message["reasoning_content"])
                if message.get("content"):
                    self.last_text = message["content"]
                    run.report("text", text=message["content"])
                if response.get("usage"):
                    run.report.used(response["usage"], self.cost + (extra.get("cost") or 0.0))

            def execute_actions(self, message: dict[str, Any]) -> list[dict[str, Any]]:
                outputs: list[dict[str, Any]] = []
                try:
                    for action in (message.get("extra") or {}).get("actions", []):
                        call = run.report.call(str(action["command"]))
                        try:
                            output = self.env.execute(action)
                        except exceptions.Submitted as error:
                            text = error.messages[0].get("content") or ""
                            run.report("tool_result", callId=call, ok=True, output=f"{_SUBMIT}\n{text}")
                            raise
                        outputs.append(output)
                        text = str(output.get("output") or output.get("exception_info") or "")
                        run.report("tool_result", callId=call, ok=output.get("returncode") == 0, output=text)
                finally:
                    made = self.model.format_observation_messages(message, outputs, self.get_template_vars())
                    done = self.add_messages(*made)
                return done

        return Reporting


AGENTS: dict[str, tuple[type[Aider | Mini], str]] = {"aider": (Aider, "aider-chat"), "mini": (Mini, "mini-swe-agent")}
"""Name → what runs it, and its package."""


def main() -> None:
    """Run the agent named by the first argument."""
    sys.path = [folder for folder in sys.path if folder != str(Path(__file__).parent)]
    given = json.load(sys.stdin.buffer)
    report = Report()
    kind, package = AGENTS[sys.argv[1]]
    try:
        connect(given)
        try:
            agent = kind(given, report)
        except (ImportError, AttributeError) as error:
            version = importlib.metadata.version(package)
            raise Unsupported(f"{package} {version}: {error}") from error
        agent.run()
    except Exception as error:  # whatever it was, it ended the run
        report.failed(error)


if __name__ == "__main__":
    main()
