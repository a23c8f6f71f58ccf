"""Read ``config.yaml`` of sideagent (formerly agent-offload): a profile is a delegator with a tool or a command."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from understudy.config.discovery import declarations
from understudy.config.importing.draft import Draft, Drafted, Table, environment, read_each, secret_argument
from understudy.config.importing.foreign_files import Document
from understudy.model.config.delegators import Delegator, Launch

_INTERFACES = ("generic", "claude", "codex", "cursor", "opencode")
_PROMPTS = ("argument", "stdin", "prompt-file-arg")
_YOLO = {
    "claude": ("--dangerously-skip-permissions",),
    "codex": ("--yolo", "--dangerously-bypass-approvals-and-sandbox"),
    "cursor": ("--force", "-f"),
}
_HEADLESS = {"claude": ("-p",), "codex": ("exec",), "cursor": ("--print", "--trust"), "opencode": ("run",)}
"""What sideagent adds without a terminal."""
_PROPERTY = re.compile(r"""([a-z_]+)=["']?([A-Za-z0-9._-]+)["']?""")


def read(document: Document, draft: Draft) -> None:
    """Add the profiles to ``draft``."""
    top = Table(document, draft, (), document.values)
    default = top.text("default_profile")
    if default is not None:
        draft.default = (default, "default_profile", top.location("default_profile"))
    headless = top.flag("headless") or False
    profiles = top.table("profiles")
    names = dict(profiles.named()) if profiles is not None else {}
    read_each(names.values(), lambda profile: _profile(str(profile.path[-1]), profile, draft, headless=headless))
    top.end()


def _profile(name: str, profile: Table, draft: Draft, *, headless: bool) -> None:
    command = profile.required("command")
    interface = profile.text("interface") or "generic"
    prompt = profile.text("prompt") or "argument"
    for key, value, choices in (("interface", interface, _INTERFACES), ("prompt", prompt, _PROMPTS)):
        if value not in choices:
            message = f"`{profile.name(key)}` must be one of {', '.join(choices)}."
            raise profile.document.invalid((*profile.path, key), message)
    arguments = profile.texts("args") or []
    if secret_argument(arguments):
        profile.drop("args", "They may contain a key, which is not copied.")
        draft.drop(
            profile.name(), "Not carried over: without its arguments it would do something else.", profile.location()
        )
        profile.end("Its profile is not carried over.")
        return
    headless = bool(profile.flag("headless")) or headless
    if not headless and interface != "generic":
        headless = True
        reason = "It runs without a terminal: in one, its agent may ask whether to trust each new worktree. "
        draft.drop(profile.name(), f"{reason}To watch it in tmux: --mode tmux", profile.location())
    table = profile.table("env")
    env = (environment(table) if table is not None else {}) or None
    tool = declarations.tools().get(interface) if interface != "generic" else None
    program = PurePosixPath(command).name
    if tool is not None and tool.runner is not None and program in tool.binaries and prompt != "prompt-file-arg":
        delegator = _driven(name, interface, arguments, tool.own_properties)
        if command != program:
            profile.drop("command", f"The program is found on PATH as {program}.")
    else:
        if prompt == "stdin" and not headless:
            profile.drop("prompt", "A program in a terminal cannot read its task from standard input, so it has none.")
            headless = True
        added = _HEADLESS.get(interface, ()) if headless else ()
        delegator = _command(name, [command, *added, *arguments], interface, prompt, headless=headless)
    mode: Literal["tmux"] | None = None if headless else "tmux"
    profile.end()
    made = msgspec.structs.replace(delegator, mode=mode, env=env)
    draft.delegators.append(Drafted(made, profile.name(), profile.location()))


def _driven(name: str, tool: str, arguments: list[str], properties: object) -> Delegator:
    """Return the delegator of a tool that Understudy drives; arguments that are options become those."""
    defined = properties if isinstance(properties, dict) else {}
    model, yolo, model_properties, flags = "", False, {}, []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument in _YOLO.get(tool, ()):
            yolo = True
        elif argument in {"--model", "-m"} and rest:
            model = rest.pop(0)
        elif argument.startswith("--model="):
            model = argument.removeprefix("--model=")
        elif (
            argument in {"-c", "--config"} and rest and (match := _PROPERTY.fullmatch(rest[0])) and match[1] in defined
        ):
            model_properties[match[1]] = match[2]
            rest.pop(0)
        else:
            flags.append(argument)
    launch = Launch(yolo=yolo or None, flags=flags or None) if yolo or flags else None
    return Delegator(name=name, tool=tool, model=model, model_properties=model_properties or None, launch=launch)


def _command(name: str, arguments: list[str], interface: str, prompt: str, *, headless: bool) -> Delegator:
    """Return the delegator of a program that its profile describes."""
    words = [argument.replace("{prompt_file}", "{promptFile}") for argument in arguments]
    if prompt == "argument":
        words += ["--prompt", "{prompt}"] if interface == "opencode" and not headless else ["--", "{prompt}"]
    return Delegator(name=name, tool="generic", launch=Launch(command=words))
