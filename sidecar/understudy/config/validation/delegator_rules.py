"""Rules for delegators, limits, names and checks: nothing that cannot work or has no effect passes.

A finding names the field by its path as written in the file. ``config.loading`` turns findings into problems with a
place, ``config.editing.edit`` and a start raise the first error among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from understudy.config import locality
from understudy.config.discovery import declarations
from understudy.config.findings import Finding, KeyPath, close, near
from understudy.model.capabilities import USAGE_LIMITS, Capabilities
from understudy.model.config import delegators, tool_definitions
from understudy.model.config.delegators import (
    MOST_FALLBACKS,
    NAME_PATTERN,
    DayBudget,
    Delegator,
    EnvReference,
    Launch,
    Limits,
    ModelServer,
    PermissionRule,
    Recipe,
    Route,
)
from understudy.model.config.tool_definitions import RUNNER as DEFINED
from understudy.model.config.tool_definitions import ToolDefinition, delivery_of
from understudy.model.evidence.checks import Check

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names of environment variables."""
NAME_HINT = "Use lowercase letters, digits, dots, hyphens and underscores; at most 64."

SECRET_NAME = re.compile(r"(^|_)(API_?KEY|TOKEN|SECRET|PASSWORD|ACCESS_?KEY)$", re.IGNORECASE)
"""The end of the names of variables that hold keys."""
_SLOT = re.compile(r"\{[A-Za-z]+\}")
_CHECK_SLOTS = {"{python}", "{tests}"}
REMOTE_FIELDS = frozenset({"name", "display_name", "tool", "model", "remote_agent", "extensions"})
"""The fields of a delegator that stands for an agent on another service."""
SELECTORS = ("delegator", "tool", "model_server", "model", "tags", "local")
"""The fields of a candidate of a route that select delegators."""
_OWN_SLOTS = ("{prompt}", "{promptFile}", "{sessionId}", "{mcpConfig}")
"""Slots of a command for what a protocol delivers instead."""


class Surroundings(msgspec.Struct, frozen=True):
    """What a delegator is checked against."""

    servers: Mapping[str, ModelServer] = msgspec.field(default_factory=dict)
    """The model servers that it can see."""
    tools: Mapping[str, ToolDefinition] = msgspec.field(default_factory=dict)
    """The tools that files define, as far as it can see them."""


def check_name(name: str) -> Iterator[Finding]:
    """Find names that are not valid file names on every platform."""
    if not re.fullmatch(NAME_PATTERN, name):
        yield Finding(("name",), "Invalid name.", NAME_HINT)


def check_delegator(delegator: Delegator, around: Surroundings) -> Iterator[Finding]:
    """Find everything that keeps ``delegator`` from working, and every field without effect."""
    yield from check_name(delegator.name)
    if delegator.remote_agent is not None:
        yield from _check_remote(delegator)
        return
    if delegator.route is not None:
        yield from _check_route(delegator.route)
        return
    if delegator.tool is None and delegator.model_server is None:
        yield Finding((), "The delegator names neither a `tool` nor a `model_server`.", "Name one of them.")
        return
    server = around.servers.get(delegator.model_server or "")
    if delegator.model_server is not None and server is None:
        message = f"There is no model server `{delegator.model_server}`."
        hint, names = near(delegator.model_server, around.servers), close(delegator.model_server, around.servers)
        yield Finding(("model_server",), message, hint, code="unknown_name", names=names)
    supported = declarations.capabilities_of(delegator, server, around.tools.get(delegator.tool or ""))
    if supported is None:
        yield _not_driven(delegator, server, around.tools)
        return
    what = described(delegator)
    if delegator.mode is not None and delegator.tool is None:
        yield no_effect(("mode",), f"`mode` is not supported by {what}.")
    yield from _check_model(delegator, server, supported, what)
    yield from _check_launch(delegator.launch, supported, what)
    for finding in check_day(delegator.per_day):
        yield msgspec.structs.replace(finding, path=("per_day", *finding.path))
    for finding in check_limits(delegator.limits):
        yield msgspec.structs.replace(finding, path=("limits", *finding.path))
    for finding in check_supported_limits(delegator.limits, delegator, supported):
        yield msgspec.structs.replace(finding, path=("limits", *finding.path))
    yield from _check_permissions(delegator.permissions, supported, what)
    yield from _check_env(delegator)
    yield from _check_locality(delegator, server, what)


def _check_remote(delegator: Delegator) -> Iterator[Finding]:
    """Find what has no effect on a delegator that stands for an agent on another service."""
    for name in ("platform", "id"):
        if not getattr(delegator.remote_agent, name).strip():
            message = f"`remote_agent.{name}` is empty."
            yield Finding(("remote_agent", name), message, "Name the service and its agent.")
    for name in _fields(delegator):
        if name not in REMOTE_FIELDS:
            message = f"`{name}` has no effect: the agent runs on another service."
            yield no_effect((name,), message, "Remove it, or remove `remote_agent`.")


def _check_route(route: Route) -> Iterator[Finding]:
    """Find candidates of a route that select nothing, or in two ways."""
    if not route.candidates:
        yield Finding(("candidates",), "The route has no candidates.", "Name delegators, or what selects them.")
    for number, candidate in enumerate(route.candidates):
        if isinstance(candidate, str):
            continue
        selecting = [name for name in SELECTORS if getattr(candidate, name) is not None]
        if not selecting:
            message = "The candidate names no delegator, and nothing that selects one."
            yield Finding(("candidates", number), message, f"Name one of {', '.join(SELECTORS)}.")
        elif "delegator" in selecting and len(selecting) > 1:
            message = f"`{selecting[1]}` has no effect beside `delegator`."
            yield no_effect(("candidates", number, selecting[1]), message)


def check_fallback(names: Sequence[str], owner: str) -> Iterator[Finding]:
    """Find mistakes in the list of the delegators that take over from ``owner``.

    Only the list of the delegator that a request begins with counts, so two may name each other.
    """
    if len(names) > MOST_FALLBACKS:
        message = f"`fallback` names {len(names)} delegators; at most {MOST_FALLBACKS} are tried."
        yield Finding(("fallback",), message, "Keep those that help most.")
    for number, name in enumerate(names):
        if name == owner:
            yield Finding(("fallback", number), f"`{name}` cannot take over from itself.", "Name another delegator.")
        elif name in names[:number]:
            yield Finding(("fallback", number), f"`fallback` names `{name}` twice.", "Keep one.", code="duplicate")


def check_recipe_support(supported: Capabilities, delegator: Delegator, recipe: Recipe) -> Iterator[Finding]:
    """Find that ``delegator`` cannot run ``recipe``."""
    if not supported.supports_recipe(recipe.returns, recipe.judged_by):
        message = f"The recipe `{recipe.name}` is not supported by {described(delegator)}."
        yield Finding((), message, "Choose another delegator.", code="no_effect")


def described(delegator: Delegator) -> str:
    """Return what drives ``delegator``, for messages."""
    modes = {"acp": " over the Agent Client Protocol", "tmux": " in tmux"}
    return f"the tool `{delegator.tool}`{modes.get(delegator.mode or '', '')}" if delegator.tool else "a model server"


def check_limits(limits: Limits | None) -> Iterator[Finding]:
    """Find limits with values that make no sense; paths are relative to the limits."""
    for name in _fields(limits):
        value = getattr(limits, name)
        if name == "max_usd":
            if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value) or not float(value):
                hint = 'Write it as a decimal string: "0.50".'
                yield Finding((name,), "`max_usd` must be a positive decimal.", hint)
        elif value <= 0:
            yield Finding((name,), f"`{name}` must be above zero.", "Remove it for the default.")


def check_day(budget: DayBudget | None) -> Iterator[Finding]:
    """Find amounts of a day that make no sense; paths are relative to the budget."""
    names = {"max_usd": "usd", "max_tokens": "tokens"}
    limits = None if budget is None else Limits(max_usd=budget.usd, max_tokens=budget.tokens)
    for finding in check_limits(limits):
        limit = str(finding.path[0])
        message = finding.message.replace(limit, names[limit])
        yield msgspec.structs.replace(finding, path=(names[limit],), message=message)


def check_supported_limits(limits: Limits | None, delegator: Delegator, supported: Capabilities) -> Iterator[Finding]:
    """Find limits that have no effect on ``delegator``; paths are relative to the limits."""
    for name in _fields(limits):
        asks = name == "answer_seconds" and delegator.launch is not None and delegator.launch.relay
        if name not in supported.limits and not asks:
            yield no_effect((name,), f"`{name}` is not supported by {described(delegator)}.")
        elif name in USAGE_LIMITS and supported.usage_needs is not None:
            option, value = supported.usage_needs
            if delegator.launch is None or getattr(delegator.launch, option) != value:
                message = f"`{name}` has no effect, because plain text output does not report usage."
                hint = f'Set `launch.{option}` to "{value}" if the program supports it, or remove the limit.'
                yield no_effect((name,), message, hint)


def check_check(check: Check) -> Iterator[Finding]:
    """Find checks that cannot run."""
    yield from check_name(check.name)
    if not check.argv or not check.argv[0]:
        yield Finding(
            ("argv",), "`argv` is empty.", 'Write, for example, argv = ["{python}", "-m", "pytest", "{tests}"].'
        )
    for number, argument in enumerate(check.argv):
        if "\0" in argument:
            yield Finding(("argv", number), "An argument contains a NUL byte.")
        elif _SLOT.fullmatch(argument) and argument not in _CHECK_SLOTS:
            yield Finding(("argv", number), f"{argument} is not a placeholder.", "Use {python} or {tests}.")
    if check.cwd is not None and not is_inside(check.cwd):
        yield Finding(("cwd",), "`cwd` must be inside the workspace.", "Use a relative path without `..`.")
    if check.timeout_seconds is not None and check.timeout_seconds <= 0:
        yield Finding(("timeout_seconds",), "`timeout_seconds` must be above zero.")
    for name, value in (check.env or {}).items():
        if not VARIABLE.fullmatch(name) or "\0" in value:
            yield Finding(("env", name), "Invalid name or value of an environment variable.")
    if check.files and not check.hidden:
        yield no_effect(("files",), "`files` has an effect only for a hidden check.", "Set hidden = true.")
    for number, path in enumerate(check.files):
        if not is_inside(path):
            message = "`files` accepts only paths inside your configuration folder."
            yield Finding(("files", number), message, "Use a relative path without `..`.")


def is_inside(path: str) -> bool:
    """Return whether a relative POSIX path stays inside its base folder, and outside of ``.git``."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and ".git" not in parts and "\0" not in path


def _check_model(
    delegator: Delegator, server: ModelServer | None, supported: Capabilities, what: str
) -> Iterator[Finding]:
    if delegator.model_server is not None and not supported.takes_model_server:
        yield no_effect(("model_server",), f"`model_server` is not supported by {what}.")
    if server is not None and supported.takes_model_server and declarations.protocol_for(server, supported) is None:
        message = f"The model server `{server.name}` speaks {_spoken(server)}, which is not supported by {what}."
        yield Finding(("model_server",), message, f"Name one whose `protocols` have {_either(supported.protocols)}.")
    if delegator.model and not supported.takes_model:
        defined = supported.runner == DEFINED
        message = f"`model` is not supported by {what}{': its definition has no arguments for it' if defined else ''}."
        hint = "Remove it, or set `options.model` in the definition." if defined else "Remove it."
        yield no_effect(("model",), message, hint)
    needed = supported.needs_model_server or (supported.server_needs_model and delegator.model_server is not None)
    if needed and not delegator.model:
        yield Finding((), "`model` is missing.", "Set it to the id that the model server lists.")
    if delegator.model_server is None and not has_own_model(delegator.model, supported):
        message = (
            f"`model` names no provider, which {what} needs."
            if delegator.model
            else (f"The delegator names neither a model server nor a model, and {what} needs one.")
        )
        yield Finding(
            ("model",) if delegator.model else (), message, supported.own_model[1] if supported.own_model else ""
        )
    if delegator.model_properties and not supported.properties and not supported.own_properties:
        yield no_effect(("model_properties",), f"`model_properties` is not supported by {what}.")
    elif supported.own_properties:
        names = list(supported.own_properties)
        for name in sorted(set(delegator.model_properties or ()) - set(names)):
            message = f"`model_properties.{name}` is not supported by {what}."
            yield Finding(
                ("model_properties", name), message, near(name, names), code="not_allowed", names=close(name, names)
            )
    if delegator.env and delegator.tool is None:
        yield no_effect(("env",), "`env` has no effect: no process is started for a model server.")


def has_own_model(model: str, supported: Capabilities) -> bool:
    """Return whether a tool can work with ``model`` and without a model server."""
    return supported.own_model is None or re.fullmatch(supported.own_model[0], model) is not None


def _check_launch(launch: Launch | None, supported: Capabilities, what: str) -> Iterator[Finding]:
    for name in _fields(launch):
        value = getattr(launch, name)
        allowed = supported.values(name)
        if name == "relay" and value is False:
            continue  # the tool has none
        if name not in supported.launch:
            yield no_effect(("launch", name), f"`launch.{name}` is not supported by {what}.")
        elif allowed and value not in allowed:
            message = f"`launch.{name}` must be one of {', '.join(allowed)}."
            names = close(str(value), allowed) or list(allowed)
            yield Finding(("launch", name), message, near(str(value), allowed), code="not_allowed", names=names)
    if launch is not None and launch.yolo and launch.permission_mode is not None and supported.runner == DEFINED:
        message = "`launch.permission_mode` contradicts `launch.yolo`."
        yield Finding(("launch", "permission_mode"), message, "Remove one of them.")
    branch = launch.branch if launch is not None else None
    if branch is not None and (reason := delegators.why_invalid_branch(branch)) is not None:
        yield branch_finding(("launch", "branch"), reason)
    if launch is not None and branch is not None and launch.use_worktree is False:
        message = "`launch.branch` has no effect with `launch.use_worktree = false`: such a result is never verified."
        yield no_effect(("launch", "branch"), message, "Remove one of them.")
    if launch is not None and launch.relay and lacks_relay_slot(launch, supported):
        message = f"`launch.relay` has no effect: {tool_definitions.MCP_CONFIG} is not in the command."
        hint = f"Add {tool_definitions.MCP_CONFIG} where the program takes a file with MCP servers, or remove `relay`."
        yield no_effect(("launch", "relay"), message, hint)
    if "command" not in supported.launch:
        return
    command = launch.command if launch is not None else None
    delivers, terminal = "prompt_delivery" in supported.launch, bool(supported.prompt_note)
    if not command or not command[0]:
        word = "{prompt}" if delivers or terminal else "--acp"
        hint = f'Write launch = {{ command = ["PROGRAM", "{word}"] }}.'
        yield Finding(("launch",), f"`launch.command` is missing; {what} is the program that it names.", hint)
        return
    for number, word in tool_definitions.misspelt(command):
        hint = f"The placeholders are {', '.join(slot.value for slot in tool_definitions.SLOTS)}."
        yield Finding(("launch", "command", number), f"{word} is not a placeholder.", hint)
    if terminal:
        yield from _check_terminal_command(command)
        return
    if not delivers:
        for number, argument in enumerate(command):
            for slot in (slot for slot in _OWN_SLOTS if slot in argument):
                message = f"The placeholder {slot} has no effect: the Agent Client Protocol delivers it."
                yield no_effect(("launch", "command", number), message)
        return
    _, contradiction = delivery_of(command, launch.prompt_delivery if launch is not None else None)
    if contradiction is not None:
        hint = "Use {prompt} for an argument, {promptFile} for a file, neither for standard input."
        yield Finding(("launch", "prompt_delivery"), f"The command {contradiction}.", hint)


def lacks_relay_slot(launch: Launch, supported: Capabilities) -> bool:
    """Return whether relay tools would not reach a custom command: over a protocol, they need no slot."""
    by_command = "command" in supported.launch and ("prompt_delivery" in supported.launch or supported.prompt_note)
    return bool(by_command) and not any(tool_definitions.MCP_CONFIG in word for word in launch.command or ())


def _check_terminal_command(command: list[str]) -> Iterator[Finding]:
    if not any("{prompt}" in word or "{promptFile}" in word for word in command):
        message = "The command does not say how the program gets its task: in a terminal, its input is the keyboard."
        yield Finding(("launch", "command"), message, "Add {prompt}, or {promptFile} for the path of the task.")
    for number, word in enumerate(command):
        if "{sessionId}" in word:
            message = "The placeholder {sessionId} has no effect: nothing names the session of a terminal."
            yield no_effect(("launch", "command", number), message)


def _check_permissions(rules: list[PermissionRule] | None, supported: Capabilities, what: str) -> Iterator[Finding]:
    if rules and "answer_seconds" not in supported.limits:
        yield no_effect(("permissions",), f"`permissions` is not supported by {what}: it asks for none.")
    for number, rule in enumerate(rules or ()):
        if rule.command is not None and (rule.kind not in {None, "execute"} or not rule.command.strip()):
            message = "`command` must name a command, and applies to the kind `execute` only."
            yield Finding(("permissions", number, "command"), message, "Remove it, or the kind.")
        if rule.path is not None and (rule.kind not in {None, "read", "edit"} or not rule.path.strip()):
            message = "`path` must be a pattern of files, and applies to the kinds `read` and `edit` only."
            yield Finding(("permissions", number, "path"), message, "Remove it, or the kind.")


def _check_env(delegator: Delegator) -> Iterator[Finding]:
    for name, value in (delegator.env or {}).items():
        if not VARIABLE.fullmatch(name):
            yield Finding(("env", name), "This is not the name of a variable.")
        elif isinstance(value, EnvReference):
            if not VARIABLE.fullmatch(value.from_env):
                yield Finding(("env", name, "from_env"), "`from_env` is not the name of a variable.")
        elif "\0" in value:
            yield Finding(("env", name), "The value contains a NUL byte.")
        elif value and SECRET_NAME.search(name):
            hint = f'Write {name} = {{ from_env = "{name}" }}.'
            yield Finding(
                ("env", name), f"{name} looks like a key written into the file.", hint, "warning", code="secret"
            )


def _check_locality(delegator: Delegator, server: ModelServer | None, what: str) -> Iterator[Finding]:
    if delegator.locality != "local":
        return
    if delegator.model_server is None:
        message = f'`locality = "local"` cannot be guaranteed: nothing prevents {what} from contacting other hosts.'
        yield no_effect(("locality",), message, "Name a local `model_server`, or remove `locality`.")
    elif server is not None and not locality.is_loopback(server.base_url):
        message = f"The delegator is declared local, but the address of `{server.name}` is not on this machine."
        yield Finding(("locality",), message, "Name a local model server, or remove `locality`.")


def _spoken(server: ModelServer) -> str:
    return " and ".join(f"`{name}`" for name in declarations.protocols_of(server))


def _either(names: Iterable[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)


def branch_finding(path: KeyPath, reason: str) -> Finding:
    """Return the finding about a branch that cannot be made for each result, for a ``reason`` of ``why_invalid``."""
    hint = "For example understudy/{id}; {recipe} and {delegator} may be in it, too."
    return Finding(path, f"`branch` {reason}", hint)


def no_effect(path: KeyPath, message: str, hint: str = "Remove it.") -> Finding:
    """Return the finding about a field that would have no effect."""
    return Finding(path, message, hint, code="no_effect")


def _not_driven(delegator: Delegator, server: ModelServer | None, defined: Mapping[str, ToolDefinition]) -> Finding:
    if delegator.tool is None:
        protocols = sorted({word for backend in declarations.backends().values() for word in backend.protocols})
        spoken = _spoken(server) if server is not None else f"`{declarations.DEFAULT_PROTOCOL}`"
        hint = f"Name one whose `protocols` have {_either(protocols)}, or name a `tool`."
        message = f"The model server `{delegator.model_server}` speaks {spoken}, which no backend supports yet."
        return Finding(("model_server",), message, hint)
    if delegator.tool in defined:
        message = f'`mode = "{delegator.mode}"` is not supported by the tool `{delegator.tool}`.'
        hint = "Set `interactive` in its definition." if delegator.mode == "tmux" else "Remove it."
        return Finding(("mode",), message, hint, code="not_allowed", names=["headless"])
    if (tool := declarations.tools().get(delegator.tool)) is not None:
        if delegator.mode in {"acp", "tmux"}:
            message = f'`mode = "{delegator.mode}"` is not supported by the tool `{delegator.tool}`.'
            hint = 'If another program speaks the Agent Client Protocol for it, name that: tool = "generic" with a '
            if delegator.mode == "tmux":
                hint = 'If it has a command that works in a terminal, name that: tool = "generic" with a '
            hint += "`launch.command`."
            return Finding(("mode",), message, hint, code="not_allowed", names=list(tool.modes))
        message = f"The tool `{delegator.tool}` is not supported yet."
        hint = 'Run it as tool = "generic" with a `launch.command`.'
        if other := [f'"{mode}"' for mode in tool.modes if mode != "headless"]:
            hint = f"Set mode = {' or '.join(other)}. {hint.replace('Run it', 'Or run it')}"
        return Finding(("tool",), message, hint, code="not_allowed", names=["generic"])
    known_tools = [*declarations.runnable_tools(), *defined]
    nearest = near(delegator.tool, known_tools)
    names = close(delegator.tool, known_tools)
    return Finding(("tool",), f"There is no tool `{delegator.tool}`.", nearest, code="unknown_name", names=names)


def _fields(value: msgspec.Struct | None) -> list[str]:
    return [name for name in value.__struct_fields__ if getattr(value, name) is not None] if value is not None else []
