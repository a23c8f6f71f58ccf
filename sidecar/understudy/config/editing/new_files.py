"""The commented configuration file that ``understudy init`` writes, and the definition that a new tool begins with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from understudy.config.locations import FileKind
from understudy.config.parsing.config_file import schema_line
from understudy.model.config.delegators import Scope
from understudy.model.evidence.checks import Check

_HEAD = """\
# Understudy's configuration {place}. Everything is commented out: remove the # of what you need.
# A misspelt key, or one without an effect, is reported by `understudy delegators list`.

# What is used when a start names no delegator:
# [defaults]
# delegator = "quick"
# recipes = { tests = "ghostwriter" }
"""
_USER = """
# For every delegator that does not set it, and whose tool has it:
# [launch]
# prompt_suffix = "Keep changes small."

# [limits]
# slots = 4                      # delegations that run at once; others wait in a queue
# total_seconds = 1800
# max_usd = "0.50"
"""
_WORKTREES = """
# Untracked files for every new worktree:
# [worktrees]
# copy = [".env.test"]
# link = ["node_modules"]
"""
_SERVER = """
# A model on a server; its key is stored with `understudy servers set-key local`, never here:
# [[model_servers]]
# name = "local"
# kind = "ollama"
# base_url = "http://127.0.0.1:11434/v1"
#
# [[delegators]]
# name = "quick"
# model_server = "local"
# model = "qwen3-coder"
"""
_TEMPLATE = """\
# An agent CLI that Understudy does not know. Test it: understudy tools test @NAME@
# Everything in here is checked: a field that is misspelt, or that has no effect, is an error.

title = "@NAME@"
# description = "What it is, as a sentence."

# Program and arguments, without a shell. Placeholders:
#   {options}     the arguments of the options below, of those that a delegator sets
#   {prompt}      the task as an argument     {promptFile}  the path of a file with the task
#   {model}       the delegator's model       {worktree}    the folder to work in, also the current one
#   {sessionId}   the session to continue
# An argument whose placeholder has no value is left out, with the option before it.
command = ["@NAME@", "{options}"]

# How it gets the task: "stdin" (the default), "argument" ({prompt}) or "file" ({promptFile}).
# prompt_delivery = "stdin"

# Program and arguments for the mode "tmux", where the task is {prompt} or {promptFile}:
# interactive = ["@NAME@", "{options}", "--", "{prompt}"]

# Arguments with which it prints its version and exits; without them it is not asked.
# version = ["--version"]

# What it prints:
#   "text"       plain text, the answer; complete when it exits with 0
#   "json"       JSON lines, described by the rules in [[events]] below
#   "events"     Understudy's own events (see the page about agents)
#   "claude"     the lines of `claude -p --output-format stream-json --verbose`
#   "codex"      the lines of `codex exec --json`
#   "opencode"   the lines of `opencode run --format json`
#   "pi"         the lines of `pi --mode json`
dialect = "text"

# What ends an attempt, for "json": a result event, or the exit code 0.
# completion = "result"

# Environment variables. A key is never written here: name it in the `env` of a delegator.
# [env]
# NO_TELEMETRY = "1"

# Arguments of options; they replace {options}. A delegator cannot set an option that has none.
# [options]
# model = ["--model", "{model}"]
# yolo = ["--yes"]
# resume = ["--resume", "{sessionId}"]

# [[permission_modes]]
# name = "read-only"
# arguments = ["--read-only"]
# description = "Reads files, and changes nothing."

# Files of a repository that it obeys without asking: trusting a workspace covers them.
# [[repository_paths]]
# path = ".@NAME@/"
# what = "configuration of @NAME@"

# Which lines are which events, for "json". Values are found by paths: item.text, choices[0].text, content[*].text.
# [[events]]
# event = "session"                     # session_id
# when = { type = "start" }             # path → value, or a list of possible values
# session_id = "session.id"
#
# [[events]]
# event = "text"                        # text, whole; "thinking" and "phase": text
# when = { type = "message", role = "assistant" }
# text = "content[*].text"
# whole = true                          # each is a whole message, of which the last is the answer
#
# [[events]]
# event = "tool_call"                   # name, call_id, title, input
# when = { type = "tool", "tool.state" = "started" }
# call_id = "tool.id"
# name = "tool.name"
#
# [[events]]
# event = "tool_result"                 # call_id, output, failed
# when = { type = "tool", "tool.state" = "ended" }
# call_id = "tool.id"
# output = "tool.output"
# failed = { "tool.ok" = false }
#
# [[events]]
# event = "file"                        # path, change; "plan": contents, statuses
# when = { type = "edit" }
# path = "files[*].path"
#
# [[events]]
# event = "usage"                       # input_tokens, output_tokens, …, turns, cost_usd, totals
# when = { type = "usage" }
# input_tokens = "tokens.in"
# output_tokens = "tokens.out"
#
# [[events]]
# event = "result"                      # text, summary
# when = { type = "end", ok = true }
#
# [[events]]
# event = "failure"                     # message, status (HTTP), retry_at (seconds since 1970)
# when = { type = "end", ok = false }
# message = "error.message"

# Kinds of failures; all conditions of a rule must hold, and the first rule that matches decides.
# [[failures]]
# kind = "auth_failed"
# exit_codes = [41]
#
# [[failures]]
# kind = "rate_limited"
# when = { "error.code" = "rate_limit" }   # in the line of a failure event
#
# [[failures]]
# kind = "quota_exhausted"
# contains = ["out of credits"]            # in the error's message, or at the end of standard error
"""
_READY = Path(__file__).parents[1] / "ready_made_tools"


def starter_config(checks: Sequence[Check], tools: Iterable[str], scope: Scope) -> str:
    """Return the file for ``scope``: with ``checks``, and a delegator for each of ``tools``, as comments."""
    place = "for this project" if scope is Scope.WORKSPACE else "for all your projects"
    parts = [schema_line(FileKind.CONFIG), _HEAD.replace("{place}", place)]
    if scope is Scope.USER:
        parts.append(_USER)
    parts += [_WORKTREES, _SERVER]
    for name in tools:
        parts.append(f"\n# {name} is installed:\n" + _commented({"delegators": [{"name": name, "tool": name}]}))
    for check in checks:
        table: dict[str, object] = {"name": check.name, "argv": check.argv}
        if check.cwd is not None:
            table["cwd"] = check.cwd
        parts.append("\n# This project's tests; a result is verified only if they pass:\n")
        parts.append(_commented({"checks": [table]}))
    return "".join(parts)


def _commented(tables: dict[str, list[dict[str, object]]]) -> str:
    import tomli_w

    lines = []
    for section, entries in tables.items():
        for entry in entries:
            lines += [f"[[{section}]]", *tomli_w.dumps(entry).splitlines()]
    return "".join(f"# {line}\n" for line in lines)


def ready_made() -> list[str]:
    """Return the known tools for which there is a ready-made definition."""
    return sorted(file.stem for file in _READY.glob("*.toml"))


def tool_template(name: str, like: str | None = None) -> str:
    """Return the definition of a tool ``name`` that prints plain text; everything else is in comments.

    With ``like``, one of ``ready_made``, return the definition of that tool.
    """
    text = _TEMPLATE if like is None else (_READY / f"{like}.toml").read_text(encoding="utf-8")
    return schema_line(FileKind.TOOL) + text.replace("@NAME@", name)
