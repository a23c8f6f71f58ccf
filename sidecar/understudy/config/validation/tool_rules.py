"""Rules for the tools that files define: nothing that cannot work or has no effect passes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from understudy.config.discovery import declarations
from understudy.config.findings import Finding, KeyPath, close, near
from understudy.config.validation.delegator_rules import SECRET_NAME, VARIABLE, check_name, is_inside, no_effect
from understudy.model.config import tool_definitions
from understudy.model.config.tool_definitions import (
    OPTIONS_SLOT,
    DefinedOptions,
    EventRule,
    FailureRule,
    ToolDefinition,
    delivery_of,
)
from understudy.model.text import foreign_json

MOST_RULES = 100
"""The most rules for events, and for failures; each is compared with every line, or every failure."""
MOST_TEXTS = 20
"""The most texts, values and exit codes of one rule."""
MOST_CHARACTERS = 200
"""The longest text of a rule."""
_WORD = re.compile(r"\{[A-Za-z]+\}")
_SLOTS = (OPTIONS_SLOT, *(slot.value for slot in tool_definitions.SLOTS))

FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "session": (("session_id",), ()),
    "text": (("text",), ("whole",)),
    "thinking": (("text",), ()),
    "phase": (("text",), ()),
    "plan": (("contents",), ("statuses",)),
    "tool_call": (("name",), ("call_id", "title", "input")),
    "tool_result": (("call_id",), ("output", "failed")),
    "file": (("path",), ("change",)),
    "usage": (
        (),
        (
            *("totals", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
            *("reasoning_tokens", "turns", "cost_usd"),
        ),
    ),
    "result": ((), ("text", "summary")),
    "failure": ((), ("message", "status", "retry_at")),
}
"""Event → the fields that its rules need, and those that they may have."""
_LITERALS = frozenset({"event", "when", "failed", "whole", "change", "totals"})
"""Fields of a rule that are not paths."""
MAPPED = frozenset({"json", "codex", "pi"})
"""The dialects whose lines are described by rules."""


def check_tool(tool: ToolDefinition) -> Iterator[Finding]:
    """Find everything that keeps a tool from working, and every field without effect."""
    yield from check_name(tool.name)
    if tool.name in declarations.tools():
        message = f"`{tool.name}` is a tool that Understudy knows, which a file may not replace."
        yield Finding(("name",), message, "Rename the file, and the name in it.")
    yield from _check_command(tool)
    yield from _check_interactive(tool)
    yield from _check_options(tool)
    yield from _check_dialect(tool)
    for number, rule in enumerate(tool.events[:MOST_RULES]):
        yield from _check_event(rule, ("events", number))
    for number, failure in enumerate(tool.failures[:MOST_RULES]):
        yield from _check_failure(tool, failure, ("failures", number))
    for name in ("events", "failures"):
        if len(getattr(tool, name)) > MOST_RULES:
            yield Finding((name, MOST_RULES), f"`{name}` has more than {MOST_RULES} rules.", "Remove some.")
    yield from _check_environment(tool)
    for number, repository_path in enumerate(tool.repository_paths):
        if not is_inside(repository_path.path):
            message = "`repository_paths` accepts only paths inside a repository."
            yield Finding(("repository_paths", number, "path"), message, "Use a relative path without `..`.")


def _check_command(tool: ToolDefinition) -> Iterator[Finding]:
    command = tool.command
    if not tool.program:
        hint = 'Write, for example, command = ["my-agent", "{options}"].'
        yield Finding(("command",), "`command` is empty.", hint)
        return
    if "{" in tool.program and _WORD.search(tool.program):
        yield Finding(("command", 0), "The program cannot have a placeholder.", "Write its name or path.")
    yield from _check_arguments(command, ("command",), _SLOTS)
    places = [number for number, argument in enumerate(command) if OPTIONS_SLOT in argument]
    for number in places:
        if command[number] != OPTIONS_SLOT:
            yield Finding(("command", number), f"{OPTIONS_SLOT} must be an argument of its own.", "Separate it.")
    for number in places[1:]:
        yield Finding(("command", number), f"{OPTIONS_SLOT} occurs twice.", "Keep one.")
    _, contradiction = delivery_of(command, tool.prompt_delivery)
    if contradiction is not None:
        hint = "Use {prompt} for an argument, {promptFile} for a file, neither for standard input."
        yield Finding(("prompt_delivery",), f"The command {contradiction}.", hint)
    yield from _check_arguments(tool.version or [], ("version",), ())
    if tool.version is not None and not tool.version:
        yield no_effect(("version",), "`version` is empty.", "Write its arguments, or remove it.")


def _check_interactive(tool: ToolDefinition) -> Iterator[Finding]:
    command, path = tool.interactive, ("interactive",)
    if command is None:
        return
    if not command or command[0] != tool.program:
        yield Finding(path, "`interactive` must begin with the program of `command`.", f'Begin with "{tool.program}".')
        return
    yield from _check_arguments(command, path, [slot for slot in _SLOTS if slot != "{sessionId}"])
    for number, argument in enumerate(command):
        if OPTIONS_SLOT in argument and (argument != OPTIONS_SLOT or OPTIONS_SLOT in command[:number]):
            message = f"{OPTIONS_SLOT} must be an argument of its own, and occur once."
            yield Finding(("interactive", number), message, "Separate it.")
    if not any("{prompt}" in argument or "{promptFile}" in argument for argument in command):
        message = "`interactive` does not say how the program gets its task: in a terminal, its input is the keyboard."
        yield Finding(path, message, "Add {prompt}, or {promptFile} for the path of the task.")


def _check_options(tool: ToolDefinition) -> Iterator[Finding]:
    options = tool.options or DefinedOptions()
    arguments_with_slots: list[tuple[KeyPath, list[str], tuple[str, ...]]] = [
        (("options", name), value, slots)
        for name, value, slots in (
            ("model", options.model, ("{model}",)),
            ("yolo", options.yolo, ()),
            ("resume", options.resume, ("{sessionId}",)),
            ("relay", options.relay, ("{mcpConfig}",)),
        )
        if value is not None
    ]
    arguments_with_slots += [
        (("permission_modes", number, "arguments"), mode.arguments, ())
        for number, mode in enumerate(tool.permission_modes)
    ]
    for path, arguments, slots in arguments_with_slots:
        yield from _check_arguments(arguments, path, slots)
        if slots and not any(slots[0] in argument for argument in arguments):
            yield Finding(path, f"`{path[-1]}` has no {slots[0]}, so its value would be lost.", f"Add {slots[0]}.")
        elif not arguments and path[0] == "options":
            yield no_effect(path, f"`{path[-1]}` is empty.", "Write its arguments, or remove it.")
    names = [mode.name for mode in tool.permission_modes]
    for number, name in enumerate(names):
        if not name.strip() or name in names[:number]:
            message = "A permission mode needs a name of its own."
            yield Finding(("permission_modes", number, "name"), message, code="duplicate")
    if arguments_with_slots and OPTIONS_SLOT not in tool.command:
        message = f"`{arguments_with_slots[0][0][0]}` has no effect: the command does not say where its arguments go."
        yield no_effect((arguments_with_slots[0][0][0],), message, f"Add {OPTIONS_SLOT} to `command`.")
    if "sessionId" in tool.slots() and not tool.names_session:
        path = ("options", "resume") if options.resume else ("command",)
        message = "{sessionId} has no effect: nothing that the tool prints names its session."
        yield no_effect(path, message, 'Use a dialect that does, or a rule with event = "session".')


def _check_dialect(tool: ToolDefinition) -> Iterator[Finding]:
    if tool.dialect != "json":
        for name in ("events", "completion"):
            if getattr(tool, name):
                message = f'`{name}` has no effect with dialect = "{tool.dialect}".'
                yield no_effect((name,), message, 'Remove it, or set dialect = "json".')
        return
    if not tool.events:
        hint = 'Add a rule: [[events]] with event = "text", `when` and `text`.'
        yield Finding((), 'dialect = "json" needs rules that say which lines are events.', hint, code="missing")
    if tool.completion == "result" and not any(rule.event == "result" for rule in tool.events):
        message = 'completion = "result" needs a rule with event = "result".'
        yield Finding(("completion",), message, 'Add one, or set completion = "exit".')


def _check_event(rule: EventRule, path: KeyPath) -> Iterator[Finding]:
    needed, possible = FIELDS[rule.event]
    names_known = {*needed, *possible}
    names_given = [
        name for name in rule.__struct_fields__ if name not in {"event", "when"} and getattr(rule, name) is not None
    ]
    for name in names_given:
        if name not in names_known:
            message = f'`{name}` has no effect on a rule with event = "{rule.event}".'
            names = sorted(names_known)
            hint = f"It may have {', '.join(f'`{one}`' for one in names)}." if names else "Remove it."
            yield no_effect((*path, name), message, hint)
        elif name not in _LITERALS:
            yield from _check_path(getattr(rule, name), (*path, name))
    for name in needed:
        if name not in names_given:
            message = f'`{name}` is missing: event = "{rule.event}" needs it.'
            yield Finding(path, message, f'Write {name} = "PATH".', code="missing")
    if rule.event == "usage" and not set(names_given) - {"totals"}:
        yield no_effect(path, "This rule names no count.", 'Write, for example, input_tokens = "usage.input".')
    yield from _check_conditions(rule.when, (*path, "when"))
    if rule.failed is not None:
        yield from _check_conditions(rule.failed, (*path, "failed"))
    if not rule.when:
        message = "`when` is missing, so that every line would be this event."
        yield Finding(path, message, 'Write, for example, when = { type = "message" }.', code="missing")


def _check_failure(tool: ToolDefinition, rule: FailureRule, path: KeyPath) -> Iterator[Finding]:
    if rule.exit_codes is None and rule.when is None and rule.contains is None:
        message = "This rule has no condition, so that every failure would be of its kind."
        yield Finding(path, message, "Add `exit_codes`, `when` or `contains`.", code="missing")
    for number, code in enumerate(rule.exit_codes or ()):
        if not 1 <= code <= 255:
            yield Finding((*path, "exit_codes", number), "The exit code of a failure is from 1 to 255.")
    for number, text in enumerate(rule.contains or ()):
        if not text.strip() or len(text) > MOST_CHARACTERS:
            message = f"A text of `contains` has from 1 to {MOST_CHARACTERS} characters."
            yield Finding((*path, "contains", number), message)
    for name in ("exit_codes", "contains"):
        count = len(getattr(rule, name) or ())
        if getattr(rule, name) is not None and not 1 <= count <= MOST_TEXTS:
            yield Finding((*path, name), f"`{name}` has from 1 to {MOST_TEXTS} elements.")
    if rule.when is not None:
        if not rule.when:
            yield no_effect((*path, "when"), "`when` is empty.")
        reports = tool.dialect in MAPPED - {"json"} or any(one.event == "failure" for one in tool.events)
        if tool.dialect not in MAPPED or not reports:
            message = "`when` has no effect: it applies to the lines of `failure` events, and there are none."
            yield no_effect((*path, "when"), message)
        yield from _check_conditions(rule.when, (*path, "when"))


def _check_environment(tool: ToolDefinition) -> Iterator[Finding]:
    for name, value in (tool.env or {}).items():
        if not VARIABLE.fullmatch(name):
            yield Finding(("env", name), "This is not the name of a variable.")
        elif "\0" in value:
            yield Finding(("env", name), "The value contains a NUL byte.")
        elif value and SECRET_NAME.search(name):
            message = "A key is never written into a configuration file."
            hint = f'Write env = {{ {name} = {{ from_env = "{name}" }} }} in the delegator.'
            yield Finding(("env", name), message, hint)


def _check_arguments(arguments: Sequence[str], path: KeyPath, slots: Sequence[str]) -> Iterator[Finding]:
    for number, argument in enumerate(arguments):
        if "\0" in argument:
            yield Finding((*path, number), "An argument contains a NUL byte.")
        for word in dict.fromkeys(_WORD.findall(argument)):
            if word not in slots:
                hint = near(word, slots) or "No placeholder is possible here."
                yield Finding((*path, number), f"{word} is not a placeholder here.", hint, names=close(word, slots))


def _check_conditions(conditions: dict[str, Any], path: KeyPath) -> Iterator[Finding]:
    if len(conditions) > MOST_TEXTS:
        yield Finding(path, f"`{path[-1]}` has more than {MOST_TEXTS} conditions.")
    for name, condition in conditions.items():
        yield from _check_path(name, (*path, name), key=True)
        values = condition if isinstance(condition, list) else [condition]
        if not 1 <= len(values) <= MOST_TEXTS or not all(isinstance(one, str | int | float | bool) for one in values):
            message = f"`{name}` must be a text, a number, true or false, or a list of up to {MOST_TEXTS} of these."
            hint = (
                'Write the whole path in quotes: { "item.type" = "message" }.' if isinstance(condition, dict) else None
            )
            yield Finding((*path, name), message, hint, code="wrong_type")


def _check_path(text: str, path: KeyPath, *, key: bool = False) -> Iterator[Finding]:
    try:
        foreign_json.parse_path(text)
    except foreign_json.PathError as error:
        message = f"The path `{text[: foreign_json.MOST_CHARACTERS]}` {error.message} (character {error.at + 1})."
        yield Finding(path, message, "Paths look like `item.text`, `choices[0].text` or `content[*].text`.", key=key)
