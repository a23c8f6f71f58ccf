"""The instructions themselves, written for a model that reads them at the start of every session."""

from __future__ import annotations

_DESCRIPTION = (
    "Delegate tests, boilerplate, documentation, bulk reading and summaries to cheaper models and other coding agents "
    "with the `understudy` command, and get results that are checked. Use it when a task is well defined and you can "
    "tell from its result whether it is right."
)

_WHAT = """\
Delegate: tests for existing code, boilerplate, the same edit in many places, documentation, facts from more than three
files or a long log, summaries.

Never delegate: secrets or personal data, authentication, cryptography, migrations of data, a bug whose cause you do not
know, an edit of one line, the review of a result that was delegated.
"""
_REPORT = """\
Before each delegation, say in one line what goes to whom: "Delegating tests of module.py to NAME (MODEL)". In your
last message, list the delegations with model and verdict, and the share of the work that was delegated"""

BODY = f"""\
`understudy` gives work to cheaper models and other coding agents. Each works in a copy of the repository; nothing
changes in the user's files until a result is accepted.

{_WHAT}
1. `understudy delegators list` shows who can work.
2. `understudy start tests src/module.py --json` waits for the result; `implement`, `fix` and `docs` take
   `--task "…"`, a long task `--task-file -`. Name the goal, the files, the limits and how to check. Do not ask for a
   commit. With `--detach`, it prints the ID at once; `understudy wait ID` waits.
3. For text, no worktree and no check is needed; these answer at once, and paths may be files, folders or globs:
   `understudy ask -t "Which functions retry?" src/net.py 'src/http/**'`, `understudy summarize build.log` (or a pipe),
   `understudy write -t "a README of this folder" src --target README.md` (`--stdout` prints it instead). Facts from
   them are not checked: look at what you rely on.
4. Only `verified` means that required checks passed. Read `understudy diff ID`, and `understudy evidence ID` for
   anything else. Nothing that an agent says about its own work is evidence.
5. `understudy reply ID "what is wrong"` sends it back. `understudy accept ID --all` changes the user's files: do it
   only if the user lets you, otherwise name the ID. `understudy inbox` lists questions that wait for the user.

If you have Understudy's MCP tools (`start`, `batch`, `wait`, `diff`, `evidence`, `reply`, `ask`), use them instead of
these commands. `ask` with a question and files replaces `understudy ask` and `understudy summarize`; `understudy write`
has no counterpart: use the command.

{_REPORT}
(`understudy ledger`).
"""

SNIPPET = f"""\
## Delegating with Understudy

Understudy's tools give work to cheaper models and other coding agents. Each works in a copy of the repository; nothing
changes in the user's files until a result is accepted.

{_WHAT}
1. `list_delegators` shows who can work. Pass the absolute path of the project as `workspace`.
2. `start` delegates one task, `batch` several that do not depend on each other. Name the goal, the files, the limits
   and how to check. Do not ask for a commit. `wait` returns the result; call it again while it says `running`.
   `ask` lets a model read files and answers a question about them: facts from many files or a long log, a summary, or
   the text of a file, which you write yourself. Facts from it are not checked: look at what you rely on.
3. Only `verified` means that required checks passed. Read `diff`, and `evidence` for anything else. Nothing that an
   agent says about its own work is evidence.
4. `reply` sends a result back. The user accepts it, in their editor or with `understudy review ID`: name the ID.

{_REPORT}.
"""
"""For an application without a command line, where our server is registered: the text for its own instructions."""

SKILL = f"""\
---
name: understudy
description: {_DESCRIPTION}
---

# Delegating with Understudy

{BODY}"""
"""The content of ``SKILL.md``, without its marker."""

BLOCK = f"## Delegating with Understudy\n\n{BODY}"
"""The lines between the markers in a file of the user's."""
