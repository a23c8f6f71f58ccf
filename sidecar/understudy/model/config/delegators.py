"""Delegators, model servers and recipes, and the branch that keeps a result."""

from __future__ import annotations

import enum
import re
from pathlib import PurePath
from typing import Any, Literal

from understudy.model.errors import Location
from understudy.model.wire import Strict, Wire

NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}$"
"""Names of delegators, model servers, recipes and checks, which are valid file names on every platform."""
MOST_FALLBACKS = 8
"""The most delegators in a list of fallbacks."""
PermissionKind = Literal["read", "edit", "execute", "fetch", "other"]
"""What a tool would do: read files, change files, run a command, access the network, or something else."""
MOST_ROUNDS = 10
"""The most rounds that a recipe or a request may ask for."""
_LANGUAGES = {
    ".py": "python", ".pyi": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".jsx": "javascriptreact", ".ts": "typescript", ".mts": "typescript", ".cts": "typescript",
    ".tsx": "typescriptreact", ".go": "go", ".rs": "rust", ".java": "java", ".kt": "kotlin", ".rb": "ruby",
    ".php": "php", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".hpp": "cpp", ".cs": "csharp",
    ".swift": "swift", ".scala": "scala", ".lua": "lua", ".sh": "shellscript", ".md": "markdown",
}  # fmt: skip
"""LSP language IDs by file name extension, for the languages that tests are most often written for."""
BRANCH_PLACEHOLDERS = ("{id}", "{recipe}", "{delegator}")
_STRANGE_IN_BRANCH = re.compile(r"[^A-Za-z0-9._@+-]")
"""A character that no part between slashes has. git allows more (``git check-ref-format``); names rarely need it."""
_MOST_CHARACTERS = 200


class Scope(enum.StrEnum):
    """Where an entry is configured; later scopes override earlier ones."""

    BUILTIN = "builtin"
    """Shipped with Understudy."""
    USER = "user"
    """The user's configuration folder."""
    WORKSPACE = "workspace"
    """The repository's ``.understudy`` folder; used only while the workspace is trusted."""


class EnvReference(Strict, kw_only=True):
    """A value that is read from an environment variable when it is needed, and never stored."""

    from_env: str
    """Name of the environment variable."""


class KeyReference(Strict, kw_only=True):
    """Where an API key is stored; exactly one field is set."""

    from_env: str | None = None
    """Name of an environment variable."""
    keyring: str | None = None
    """Entry name in the operating system's keyring (service ``understudy``)."""
    file: str | None = None
    """Absolute path of a file that only its owner can read (mode 0600)."""


class Launch(Strict, kw_only=True):
    """How a tool is started. A field that the tool's runner does not support is refused, never ignored."""

    yolo: bool | None = None
    """Let the tool do everything without asking."""
    permission_mode: str | None = None
    """What the tool may do without asking: the tool's own name of a mode."""
    flags: list[str] | None = None
    """Further arguments for the tool, passed unchanged."""
    unanswered: Literal["reject", "allow", "stop"] | None = None
    """What happens to a permission request that no one answers within the answer limit."""
    prompt_prefix: str | None = None
    """Text that every prompt begins with."""
    prompt_suffix: str | None = None
    """Text that every prompt ends with."""
    branch: str | None = None
    """New branch on which a verified result is kept, too; slots: `{id} {recipe} {delegator}`, as in `understudy/{id}`.
    The checkout does not change."""
    use_worktree: bool | None = None
    """Whether the agent works in a worktree when a recipe changes files. In your own checkout, its changes are in your
    files at once, each can be undone, and the result is never verified."""
    command: list[str] | None = None
    """Program and arguments of a custom command; slots: ``{prompt} {promptFile} {model} {worktree} {sessionId}``."""
    prompt_delivery: Literal["argument", "stdin", "file"] | None = None
    """How a custom command gets its prompt: as an argument, on standard input, or in a file."""
    without_tmux: Literal["fail", "headless"] | None = None
    """What happens in the mode `tmux` on a machine without tmux: it fails (default), or runs without a terminal."""
    relay: bool | None = None
    """Give the agent tools to ask the user, report progress, delegate further and talk to its group."""
    output: Literal["text", "events"] | None = None
    """What a custom command prints: plain text (default), or one JSON event per line, ``result`` last."""


class InputLimits(Strict, kw_only=True):
    """``[input]``: the most that `ask`, `write` and `summarize` send; more is an error, and nothing is cut."""

    max_file_bytes: int = 750_000
    """Bytes of one file. A larger one would not fit into a context window."""
    max_bytes: int = 3_000_000
    """Bytes of all files, or of standard input."""
    max_tokens: int | None = None
    """Tokens of the whole prompt, by Understudy's estimate; absent: no limit of its own."""


PROGRAM_PROCESSES = 2048
"""Browsers and parallel builds of a large project take a few hundred."""


PROGRAM_FILE_BYTES = 16 << 30
"""Above a build's largest file, below the free space of most disks."""


class ProgramLimits(Strict, kw_only=True):
    """Bounds of every program that is started, of agents and checks alike, together with all that it starts."""

    max_memory_bytes: int | None = None
    """Most memory of all its processes together; absent: three quarters of the machine's."""
    max_processes: int | None = None
    """Most processes at the same time."""
    max_file_bytes: int | None = None
    """The largest file that it may write."""


IDLE_SECONDS = 600.0
"""Agents run test suites between two events, and CLIs that hide their retries were silent for up to 270 s."""
FIRST_EVENT_SECONDS = 300.0
"""Local models load for minutes before their first token, and servers queue requests for a minute without a header."""


class Limits(Strict, kw_only=True):
    """Bounds of one delegation; times in seconds, money in USD as a decimal string."""

    total_seconds: float | None = None
    """Longest duration of all attempts together."""
    idle_seconds: float | None = None
    """Longest time between two events of the agent; also before the first one, unless that has a limit of its own.
    Other output and keep-alives do not count."""
    first_event_seconds: float | None = None
    """Longest time from the start of an attempt to its first event."""
    after_result_seconds: float | None = None
    """Longest time from the agent's result to the exit of its process."""
    answer_seconds: float | None = None
    """How long a permission request waits for the user; then it is rejected."""
    max_turns: int | None = None
    """Most turns of the agent."""
    max_output_tokens: int | None = None
    """Most tokens that the model writes, in all turns together."""
    max_tokens: int | None = None
    """Most tokens read and written, in all turns together."""
    max_usd: str | None = None
    """Highest cost of all turns together, as far as the prices are known."""


class RemoteAgent(Strict, kw_only=True):
    """An agent on another service, which that service runs; Understudy keeps, lists and exports it."""

    platform: str
    """The service: `agnt`, `openai`, …."""
    id: str
    """The name or id of the agent there."""


class RouteConditions(Strict, kw_only=True):
    """For which work something is used; a condition that is absent always holds."""

    recipes: list[str] | None = None
    """Only for these recipes."""
    languages: list[str] | None = None
    """Only if every file of the work is in one of these languages (LSP identifiers, such as `python`)."""
    max_bytes: int | None = None
    """Only if the files of the work have at most this size together."""
    labels: list[str] | None = None
    """Only if the work has one of these labels (`--label`)."""


class RouteCandidate(RouteConditions, kw_only=True):
    """One or several delegators of a route: one by its name, or all that have everything that is named here."""

    delegator: str | None = None
    """The name of one delegator; nothing else selects then."""
    tool: str | None = None
    """All with this agent CLI."""
    model_server: str | None = None
    """All on this model server."""
    model: str | None = None
    """All with this model."""
    tags: list[str] | None = None
    """All that have each of these tags."""
    local: bool | None = None
    """All that send nothing to other machines, or, if `false`, all others."""


class Route(RouteConditions, kw_only=True):
    """Who does the work: candidates in an order. Its name can be used wherever that of a delegator can."""

    candidates: list[str | RouteCandidate]
    """Delegators by their names, or what selects some; each is considered once, in the first place whose conditions
    hold."""
    order: Literal["listed", "cheapest", "fastest", "best"] = "listed"
    """`cheapest`: by the prices of their models; `fastest`: by how long their attempts of the recipe took; `best`: by
    how many of these ended as verified, less where there were few. Those of which that is not known come last."""
    remote: bool = False
    """`true`: a delegator on other machines may take over from one on this machine; in a user's own file only."""
    escalate: bool = False
    """`true`: while no result is verified, the next candidate tries, after the one before was asked once more; it
    continues a result whose checks pass. The best result counts."""
    wait: bool = False
    """`true`: while all candidates are paused, a delegation waits for the end of the first pause."""


class DayBudget(Strict, kw_only=True):
    """What work may cost in one day, by the clock of the machine; nothing new begins when it is spent."""

    usd: str | None = None
    """In USD: `"5.00"`."""
    tokens: int | None = None
    """Read and written."""

    @property
    def is_set(self) -> bool:
        """Return whether it limits anything."""
        return self.usd is not None or self.tokens is not None


class Delegator(Strict, kw_only=True):
    """A named pairing of an agent CLI, or of our own loop and a model server, with a model and launch options."""

    name: str
    """Its name in requests, defaults and lists, and the name of its file."""
    display_name: str | None = None
    """Name to display in lists."""
    tool: str | None = None
    """Agent CLI; absent: our own loop on ``model_server``."""
    mode: Literal["headless", "acp", "tmux"] | None = None
    """How the tool is driven: without a terminal (default), over the Agent Client Protocol, or in a tmux pane."""
    model_server: str | None = None
    """The model server of our own loop, or of a tool that can use one."""
    model: str = ""
    """Model ID of the tool or the server; empty: the tool's default."""
    model_properties: dict[str, Any] | None = None
    """Properties of the model: sent unchanged with each request to a model server (``temperature``, …), or those of
    the tool (``model_reasoning_effort``)."""
    launch: Launch | None = None
    """How the tool is started."""
    env: dict[str, str | EnvReference] | None = None
    """Environment variables of the tool's process; a key is given as a reference, never as a value."""
    limits: Limits | None = None
    """Limits of each delegation; the configuration supplies those that are absent here."""
    permissions: list[PermissionRule] | None = None
    """Rules for its permission requests; the first that matches decides, and without one the user is asked."""
    per_day: DayBudget | None = None
    """What its work may cost in one day, all together."""
    account: str | None = None
    """A word for the login or the key that it uses, where others of its tool or server use another one. Delegators with
    one account are paused together when its login is refused or its credit is spent."""
    locality: Literal["local", "remote"] | None = None
    """`local`: everything that is sent stays on this machine; if that is impossible, the delegator fails."""
    fallback: list[str] | None = None
    """Delegators that take over, in this order, each in a fresh worktree, when this one cannot work: its login, quota,
    rate limit, server, model or program fails, or it stalls. Their own lists do not count."""
    tags: list[str] | None = None
    """Words by which routes select it, such as `cheap`."""
    route: Route | None = None
    """The candidates of a route: one of them does the work, and the others take over in their order."""
    remote_agent: RemoteAgent | None = None
    """The agent on another service that this delegator stands for. It cannot be started here; `tool` and `model` are
    then only what its profile says."""
    extensions: dict[str, Any] | None = None
    """Values for other programs, never interpreted."""


class Price(Strict, kw_only=True):
    """What a model costs, in USD per million tokens, as decimal strings."""

    input: str
    """Tokens read."""
    output: str
    """Tokens written."""
    cache_read: str | None = None
    """Tokens read from the provider's cache; absent: as `input`."""
    cache_write: str | None = None
    """Tokens written to the provider's cache; absent: as `input`."""


class ModelServer(Strict, kw_only=True):
    """An inference endpoint."""

    name: str
    """Its name in delegators, and the name of its file."""
    display_name: str | None = None
    """Name to display in lists."""
    kind: str
    """The kind of server (see ``modelServers/presets``); ``custom`` for any other."""
    base_url: str
    """Base URL without ``/chat/completions`` (``http://127.0.0.1:11434/v1``)."""
    protocols: list[str] | None = None
    """APIs of the server, the preferred one first; `openai` unless declared. `["auto"]`: the name of the model and the
    answers of the server decide."""
    api_key: KeyReference | None = None
    """Where its key is stored; the file never contains the key itself."""
    headers: dict[str, str] | None = None
    """HTTP headers sent with every request; not for keys."""
    locality: Literal["local", "remote"] | None = None
    """`local`: its address must be on this machine, and its models cost nothing unless `prices` has a price."""
    max_concurrent: int | None = None
    """Most requests that Understudy itself sends to it at once, in all processes together; others wait."""
    prices: dict[str, Price] | None = None
    """What its models cost, by the first characters of their names; the longest that fits applies, `""` fits all."""


class ModelPrice(Wire, kw_only=True):
    """Prices in USD per million tokens, as decimal strings."""

    input: str | None = None
    """Tokens read."""
    output: str | None = None
    """Tokens written."""


class Model(Wire, kw_only=True):
    """A model as its server lists it."""

    id: str
    """Model ID on its server."""
    context_tokens: int | None = None
    """Size of its context window in tokens."""
    price: ModelPrice | None = None
    """The server's prices, if it reports them."""


class PermissionRule(Strict, kw_only=True):
    """Answers an agent's permission requests without asking; every given field must match."""

    decision: Literal["allow", "reject", "ask"]
    """`allow`, `reject`, or `ask` the user although a later rule matches."""
    kind: PermissionKind | None = None
    """What the tool would do; absent: anything."""
    command: str | None = None
    """First words of the command line (``npm test``). Allowed is only a simple command: one with operators,
    redirections or substitutions is never allowed by a rule; rejected is every command that contains it."""
    exact: bool = False
    """Allow the command only as it is, without further words."""
    path: str | None = None
    """Pattern of files, relative to the worktree (``src/**``). Allowed are only requests of which all files match and
    are in the worktree; rejected are those of which one matches."""


class AppliesTo(Strict, kw_only=True):
    """Where a recipe is offered."""

    languages: list[str] | None = None
    """Language IDs as editors use them (`python`, `typescriptreact`); absent: every language."""
    on: list[Literal["file", "selection", "diagnostic"]]
    """What must be at the cursor: a whole file, a selection, a diagnostic."""


class RecipeAction(Strict, kw_only=True):
    """How a recipe reads in an editor's menu of actions."""

    brings: str | None = None
    """The words between "Delegate" and what it is about: `tests for`. Absent: the title of the recipe."""
    answers: str | None = None
    """What the menu says instead when a model server answers and nothing is delegated: `Explain`."""
    selection: str | None = None
    """The task when the user selected lines that contain it: `The selected lines describe the task.`"""
    listed_on: list[Literal["file", "selection", "diagnostic"]] | None = None
    """What it has an action of its own for; for everything else it is among the choices behind "Delegate…"."""


class Recipe(Wire, kw_only=True):
    """A reusable task."""

    name: str
    title: str
    returns: Literal["text", "file", "tree"]
    writes: list[str] | None = None
    checks: list[str] | None = None
    delegator: str | None = None
    rounds: int | None = None
    """How often the agent is asked again: for a repair while a required check fails, then for tests that notice more.
    Absent: a model without an agent CLI is asked once for a repair."""
    applies_to: AppliesTo
    needs: list[Literal["file", "task"]] | None = None
    """What it cannot do without: a `file` to work on, which a request must name; a `task`, which frontends ask for."""
    judged_by: Literal["checks", "new_tests", "failing_test"] = "checks"
    """`new_tests`: by the tests that the result adds, and by which small changes of the code they notice.
    `failing_test`: by the checks, and by a test that fails on the code of the base and passes on the result's."""
    changes: Literal["code", "documentation", "tests"] = "code"
    """What its result changes. Only `code` is sent back because of a check that failed before the work, too."""
    action: RecipeAction | None = None
    """How editors offer it; absent: by its title."""
    order: int = 0
    """Its place in lists: smaller ones first. The user's own come before the built-in ones."""
    scope: Scope
    location: Location | None = None
    prompt: str = ""
    """The instructions, in Markdown; the user's instructions and the files are appended."""


def language_of(name: str) -> str:
    """Return the language ID of the file ``name``, empty when it is not known."""
    return _LANGUAGES.get(PurePath(name).suffix.lower(), "")


def branch_name(template: str, identifier: str, recipe: str, delegator: str) -> str:
    """Return the name for one delegation."""
    values = dict(zip(BRANCH_PLACEHOLDERS, (identifier, recipe, delegator), strict=True))
    return re.sub("|".join(map(re.escape, BRANCH_PLACEHOLDERS)), lambda match: values[match[0]], template)


def why_invalid_branch(template: str) -> str | None:
    """Return why ``template`` does not become the name of a branch, another one for each delegation; None if it does.

    The text goes on after the name of the option: "`branch` …".
    """
    unknown = next(
        (placeholder for placeholder in re.findall(r"\{[^{}]*\}", template) if placeholder not in BRANCH_PLACEHOLDERS),
        None,
    )
    if unknown is not None:
        return f"has no placeholder {unknown}; there are {', '.join(BRANCH_PLACEHOLDERS)}."
    if "{id}" not in template:
        return "must contain `{id}`, so that each result has its own branch."
    name = branch_name(template, "20260101-000000-abcde", "tests", "worker")
    if len(name) > _MOST_CHARACTERS:
        return f"must not be longer than {_MOST_CHARACTERS} characters."
    if name.startswith("-"):
        return "must not begin with a hyphen."
    for part in name.split("/"):
        if not part:
            return "must not begin or end with a slash, or contain two in a row."
        if (strange := _STRANGE_IN_BRANCH.search(part)) is not None:
            return f"must not contain {strange[0]!r}: letters, digits and . _ - @ + / are allowed."
        if ".." in part or part.startswith(".") or part.endswith("."):
            return "must not contain two dots in a row, or a dot at the beginning or end of a part."
        if part.endswith(".lock"):
            return "must not have a part that ends with .lock."
    return None
