"""What a configuration says, held against what Understudy can do: nothing that would have no effect passes.

A finding names the field by its path in the file's spelling; whoever knows the file turns it into a
``Problem`` with a place, whoever edits turns the first error into the answer.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Literal, Protocol
from urllib.parse import parse_qsl, urlsplit

import msgspec

from understudy.config.sources import Code
from understudy.model.delegators import NAME_PATTERN, Check, Delegator, EnvReference, Launch, Limits, ModelServer

OUR_LOOP = "openai"
"""The name among the abilities of what runs a delegator without a tool."""

KINDS = ("openai", "ollama", "lmstudio", "llamacpp", "vllm", "openrouter", "deepseek", "custom")
"""Kinds of model servers."""

ASKS_NOTHING: dict[str, tuple[object, ...]] = {
    "mode": ("headless",),
    "sandbox": ("off",),
    "yolo": (False,),
    "docker": (False,),
    "relay": (False,),
}
"""Launch values that ask for nothing beyond what every runner does anyway."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token as RFC 9110 defines it
_SECRET_HEADER = re.compile(r"authorization|cookie|(^|[-_])(key|token|secret)$", re.IGNORECASE)
_SECRET_NAME = re.compile(r"(^|_)(API_?KEY|TOKEN|SECRET|PASSWORD|ACCESS_?KEY)$", re.IGNORECASE)
_SECRET_QUERY = re.compile(r"key|token|secret|password|sig", re.IGNORECASE)
_ADDRESS_NAME = re.compile(r"(URL|URI|BASE|HOST|ENDPOINT|PROXY|ADDRESS|SERVER)$", re.IGNORECASE)
_SLOT = re.compile(r"\{[A-Za-z]+\}")
_CHECK_SLOTS = {"{python}", "{tests}"}


class Abilities(Protocol):
    """What a runner honours; the table of the runners room fits this."""

    @property
    def launch(self) -> frozenset[str]:
        """Fields of ``Launch`` that have an effect."""
        ...

    @property
    def limits(self) -> frozenset[str]:
        """Fields of ``Limits`` that have an effect."""
        ...

    @property
    def recipes(self) -> frozenset[str] | None:
        """Recipes by name; ``None``: any."""
        ...

    @property
    def needs_model_server(self) -> bool:
        """It cannot do without one."""
        ...

    @property
    def takes_model_server(self) -> bool:
        """It can be pointed at one."""
        ...

    @property
    def protocols(self) -> frozenset[str]:
        """What a model server that it takes may speak."""
        ...

    @property
    def properties(self) -> bool:
        """``model_properties`` have an effect."""
        ...


@dataclass(frozen=True, kw_only=True)
class Honours:
    """A plain table row, for whoever has no runners at hand."""

    launch: frozenset[str] = frozenset()
    limits: frozenset[str] = frozenset(Limits.__struct_fields__)
    recipes: frozenset[str] | None = None
    needs_model_server: bool = False
    takes_model_server: bool = False
    protocols: frozenset[str] = frozenset({"openai", "auto"})
    properties: bool = False


_PROMPT = frozenset({"prompt_prefix", "prompt_suffix"})

DEFAULT_ABILITIES: Mapping[str, Abilities] = {
    "generic": Honours(launch=_PROMPT | {"command", "prompt_delivery", "output"}, takes_model_server=True),
    "ghostwriter": Honours(recipes=frozenset({"tests"})),
    OUR_LOOP: Honours(launch=_PROMPT, needs_model_server=True, takes_model_server=True, properties=True),
}
"""What holds where the caller brings no table of its own."""


@dataclass(frozen=True)
class Finding:
    """Something wrong (or worth saying) about a field."""

    path: tuple[str | int, ...]
    message: str
    hint: str | None = None
    severity: Literal["error", "warning", "information"] = "error"
    key: bool = False
    """The name is wrong, not the value."""
    code: Code = "value"
    names: Sequence[str] = ()
    """What may have been meant, the likeliest first."""


@dataclass(frozen=True)
class Surroundings:
    """What a delegator or a server is judged against."""

    abilities: Mapping[str, Abilities] = field(default_factory=lambda: DEFAULT_ABILITIES)
    servers: Mapping[str, ModelServer] = field(default_factory=dict)
    """The model servers that it can see."""
    known_tools: frozenset[str] = frozenset()
    """Agent CLIs that Understudy knows, driven by it or not."""


def unsupported_fields(delegator: Delegator, abilities: Mapping[str, Abilities]) -> list[str]:
    """Return the launch fields that ``delegator`` sets and its runner does not honour, in the file's spelling."""
    able = abilities.get(delegator.tool or OUR_LOOP)
    honoured = able.launch if able is not None else frozenset[str]()
    return [name for name in _set(delegator.launch) if name not in honoured]


def check_name(name: str) -> Iterator[Finding]:
    """Find names that could not be file names everywhere."""
    if not re.fullmatch(NAME_PATTERN, name):
        hint = "Use lower case letters, digits, dots, dashes and underscores, at most 64."
        yield Finding(("name",), "The name is not one.", hint)


def check_delegator(delegator: Delegator, around: Surroundings) -> Iterator[Finding]:
    """Find everything that would keep ``delegator`` from working, or would have no effect."""
    yield from check_name(delegator.name)
    if delegator.remote_agent is not None:
        yield Finding(
            ("remote_agent",),
            "An agent of another platform cannot be run here.",
            "Remove `remote_agent`.",
            code="no_effect",
        )
    if delegator.tool is None and delegator.model_server is None:
        yield Finding((), "The delegator names neither a `tool` nor a `model_server`.", "Name one of them.")
        return
    if delegator.model_server is not None and delegator.model_server not in around.servers:
        message = f"There is no model server `{delegator.model_server}`."
        hint, names = _near(delegator.model_server, around.servers), _close(delegator.model_server, around.servers)
        yield Finding(("model_server",), message, hint, code="unknown_name", names=names)
    able = around.abilities.get(delegator.tool or OUR_LOOP)
    if able is None or delegator.tool == OUR_LOOP:
        yield _unknown_tool(str(delegator.tool), around)
        return
    what = f"the tool `{delegator.tool}`" if delegator.tool else "a model server"
    if delegator.model_server is not None and not able.takes_model_server:
        yield Finding(
            ("model_server",), f"`model_server` is not supported yet by {what}.", "Remove it.", code="no_effect"
        )
    yield from _check_protocol(delegator, able, what, around)
    if able.needs_model_server and delegator.model_server is None:
        yield Finding(("tool",), f"A `model_server` is needed by {what}.")
    if able.needs_model_server and not delegator.model:
        yield Finding((), "`model` is missing.", "Set it to the id that the model server lists.")
    if delegator.model_properties and not able.properties:
        yield Finding(
            ("model_properties",), f"`model_properties` are not supported by {what}.", "Remove them.", code="no_effect"
        )
    if delegator.agent is not None:
        yield _refused(("agent",), f"`agent` is not supported yet by {what}.")
    if able.needs_model_server and delegator.env:
        yield Finding(
            ("env",), "`env` has no effect: no process is started for a model server.", "Remove it.", code="no_effect"
        )
    for name in unsupported_fields(delegator, around.abilities):
        yield Finding(
            ("launch", name), f"`launch.{name}` is not supported yet by {what}.", "Remove it.", code="no_effect"
        )
    if "command" in able.launch and not (delegator.launch and delegator.launch.command and delegator.launch.command[0]):
        hint = 'Write launch = { command = ["PROGRAM", "{prompt}"] }.'
        yield Finding(("launch",), f"`launch.command` is missing; {what} is the program it names.", hint)
    for finding in check_limits(delegator.limits, able.limits, what):
        yield replace(finding, path=("limits", *finding.path))
    yield from _check_env(delegator)
    yield from _check_locality(delegator, around)


def _check_protocol(delegator: Delegator, able: Abilities, what: str, around: Surroundings) -> Iterator[Finding]:
    server = around.servers.get(delegator.model_server or "")
    if server is None or not able.takes_model_server:
        return
    spoken = server.protocol or "openai"
    if spoken not in able.protocols:
        message = f"The model server `{server.name}` speaks the protocol `{spoken}`, which is not supported by {what}."
        names = " or ".join(f"`{name}`" for name in sorted(able.protocols))
        yield Finding(("model_server",), message, f"Name one whose `protocol` is {names}.")


def check_limits(limits: Limits | None, honoured: frozenset[str], what: str) -> Iterator[Finding]:
    """Find limits that are not above zero, and those without effect; paths are relative to the limits."""
    for name in _fields(limits):
        value = getattr(limits, name)
        if name not in honoured:
            yield _refused((name,), f"`{name}` is not supported yet by {what}.")
        elif name == "max_usd":
            if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value) or not float(value):
                yield Finding((name,), "`max_usd` is not an amount.", 'Write it as a decimal string: "0.50".')
        elif value <= 0:
            yield Finding((name,), f"`{name}` must be above zero.", "Remove it for no limit.")


def check_server(server: ModelServer) -> Iterator[Finding]:
    """Find everything that would keep ``server`` from working, would have no effect, or would give a key away."""
    yield from check_name(server.name)
    if server.kind not in KINDS:
        hint, names = _near(server.kind, KINDS) or "Use `custom`.", _close(server.kind, KINDS) or ["custom"]
        yield Finding(("kind",), "`kind` is not one Understudy knows.", hint, code="not_allowed", names=names)
    yield from _check_url(server.base_url)
    for name in ("concurrency", "extra_env"):
        if getattr(server, name) is not None:
            yield _refused((name,), f"`{name}` is not supported yet.")
    if server.locality == "local" and not is_loopback(server.base_url):
        message = "The server is declared local, but its address is not of this machine."
        yield Finding(("locality",), message, 'Use a loopback address, or locality = "remote".')
    key = server.api_key
    if key is not None:
        given = [name for name in ("from_env", "keyring", "file") if getattr(key, name) is not None]
        if len(given) != 1:
            message = f"`api_key` needs exactly one of from_env, keyring, file; this one has {len(given)}."
            yield Finding(("api_key",), message)
        elif key.from_env is not None and not _VARIABLE.fullmatch(key.from_env):
            yield Finding(("api_key", "from_env"), "`from_env` is not the name of a variable.", "Not the key itself.")
        elif key.keyring is not None and not re.fullmatch(NAME_PATTERN, key.keyring):
            yield Finding(("api_key", "keyring"), "`keyring` is not the name of an entry.", "Not the key itself.")
        elif key.file is not None and not PurePosixPath(key.file).is_absolute():
            yield Finding(("api_key", "file"), "`file` must be an absolute path.")
    for name, value in (server.headers or {}).items():
        if _SECRET_HEADER.search(name):
            hint = "Use `api_key`, which refers to the key."
            yield Finding(("headers", name), f"A key in the header {name} would stand in the file.", hint)
        elif not _HEADER.fullmatch(name) or not value.isascii() or not value.isprintable():
            yield Finding(("headers", name), "This header cannot be sent.", "Use printable ASCII.")


def check_check(check: Check) -> Iterator[Finding]:
    """Find checks that cannot run."""
    yield from check_name(check.name)
    if not check.argv or not check.argv[0]:
        yield Finding(
            ("argv",), "`argv` is empty.", 'Write, for example, argv = ["{python}", "-m", "pytest", "{tests}"].'
        )
    for number, argument in enumerate(check.argv):
        if "\0" in argument:
            yield Finding(("argv", number), "An argument holds a NUL byte.")
        elif _SLOT.fullmatch(argument) and argument not in _CHECK_SLOTS:
            yield Finding(("argv", number), f"There is no slot {argument}.", "There are {python} and {tests}.")
    if check.cwd is not None and not is_inside(check.cwd):
        yield Finding(("cwd",), "`cwd` must lie in the workspace.", "Write it relative, without `..`.")
    if check.timeout_seconds is not None and check.timeout_seconds <= 0:
        yield Finding(("timeout_seconds",), "`timeout_seconds` must be above zero.")
    for name, value in (check.env or {}).items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            yield Finding(("env", name), "This is not a variable a program can have.")


def check_workspace_server(server: ModelServer, user: Mapping[str, ModelServer]) -> Iterator[Finding]:
    """Find what a repository may not say: a key of the person's sent to a host they did not name with it."""
    if server.api_key is not None and not any(
        own.api_key == server.api_key and origin(own.base_url) == origin(server.base_url) for own in user.values()
    ):
        yield Finding(
            ("api_key",),
            "A workspace file may not send your key to a host that you have not named with it.",
            "Make a model server with this key and address in your own configuration; the workspace may then name it.",
        )
    hidden = user.get(server.name)
    if hidden is not None and origin(hidden.base_url) != origin(server.base_url):
        message = "A workspace file may not put another host in the place of your own model server of this name."
        yield Finding(("base_url",), message, "Give it another name.")


def check_workspace_delegator(
    delegator: Delegator, user: Mapping[str, Delegator], servers: Mapping[str, ModelServer]
) -> Iterator[Finding]:
    """Find what a repository may not say: variables of the person's handed on, tools pointed elsewhere."""
    hint = "Make a delegator with the same `tool` and `env` in your own configuration to allow it."
    if not any(own.tool == delegator.tool and own.env == delegator.env for own in user.values()):
        for name, value in (delegator.env or {}).items():
            if isinstance(value, EnvReference):
                message = f"A workspace file may not hand on your variable {value.from_env}."
                yield Finding(("env", name), message, hint)
            elif _ADDRESS_NAME.search(name):
                message = f"A workspace file may not set {name}: it could send what you are signed in with elsewhere."
                yield Finding(("env", name), message, hint)
    hidden = user.get(delegator.name)
    if hidden is not None and is_local(hidden, servers) and not is_local(delegator, servers):
        message = "A workspace file may not put a remote delegator in the place of your own local one of this name."
        yield Finding(("name",), message, "Give it another name.")


def is_local(delegator: Delegator, servers: Mapping[str, ModelServer]) -> bool:
    """Tell whether what is sent stays on this machine: by declaration, else by the server's address."""
    server = servers.get(delegator.model_server or "")
    declared = delegator.locality or (server.locality if server else None)
    return declared == "local" if declared else server is not None and is_loopback(server.base_url)


def is_loopback(url: str) -> bool:
    """Tell whether an address is of this machine by its text (resolving names is the connection's business)."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port: what a key is bound to."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        return parts.scheme, (parts.hostname or "").rstrip("."), port
    except ValueError:
        return "", url, None


def is_inside(path: str) -> bool:
    """Tell whether a relative POSIX path stays where it begins, and out of ``.git``."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and ".git" not in parts and "\0" not in path


def _check_url(url: str) -> Iterator[Finding]:
    example = "For example http://127.0.0.1:11434/v1."
    try:
        parts = urlsplit(url)
        _ = parts.port
        query = parse_qsl(parts.query)
    except ValueError:
        yield Finding(("base_url",), "`base_url` is not an address.", example)
        return
    if parts.scheme not in {"http", "https"} or not parts.hostname or re.search(r"[\s\x00-\x1f\x7f]", url):
        yield Finding(("base_url",), "`base_url` is not an http or https address.", example)
    elif parts.username is not None or any(_SECRET_QUERY.search(name) for name, _ in query):
        yield Finding(("base_url",), "`base_url` holds a key or password, which would stand in logs.", "Use `api_key`.")
    elif parts.fragment:
        yield Finding(("base_url",), "`base_url` has a part after #, which is never sent.", "Remove it.")


def _check_env(delegator: Delegator) -> Iterator[Finding]:
    for name, value in (delegator.env or {}).items():
        if not _VARIABLE.fullmatch(name):
            yield Finding(("env", name), "This is not the name of a variable.")
        elif isinstance(value, EnvReference):
            if not _VARIABLE.fullmatch(value.from_env):
                yield Finding(("env", name, "from_env"), "`from_env` is not the name of a variable.")
        elif "\0" in value:
            yield Finding(("env", name), "The value holds a NUL byte.")
        elif value and _SECRET_NAME.search(name):
            hint = f'Write {name} = {{ from_env = "{name}" }}.'
            yield Finding(
                ("env", name), f"{name} looks like a key that stands in the file.", hint, "warning", code="secret"
            )


def _check_locality(delegator: Delegator, around: Surroundings) -> Iterator[Finding]:
    if delegator.locality != "local":
        return
    server = around.servers.get(delegator.model_server or "")
    if server is not None and not is_loopback(server.base_url):
        message = f"The delegator is declared local, but the address of `{server.name}` is not of this machine."
        yield Finding(("locality",), message, "Name a local model server, or remove `locality`.")


def _refused(path: tuple[str | int, ...], message: str, hint: str = "Remove it.") -> Finding:
    """Return the finding about a field that would have no effect."""
    return Finding(path, message, hint, code="no_effect")


def _unknown_tool(tool: str, around: Surroundings) -> Finding:
    if tool in around.known_tools:
        message = f"The tool `{tool}` is not supported yet."
        hint = 'Drive it as tool = "generic" with a `launch.command`.'
        return Finding(("tool",), message, hint, code="not_allowed", names=["generic"])
    known = set(around.abilities) - {OUR_LOOP}
    names = _close(tool, known)
    return Finding(("tool",), f"There is no tool `{tool}`.", _near(tool, known), code="unknown_name", names=names)


def _near(name: str, known: Iterable[str]) -> str | None:
    from understudy.config.problems import near  # noqa: PLC0415 - only when something is wrong

    return near(name, known)


def _close(name: str, known: Iterable[str]) -> list[str]:
    from understudy.config.problems import close  # noqa: PLC0415 - only when something is wrong

    return close(name, known)


def _fields(value: msgspec.Struct | None) -> list[str]:
    return [name for name in value.__struct_fields__ if getattr(value, name) is not None] if value is not None else []


def _set(launch: Launch | None) -> list[str]:
    return [name for name in _fields(launch) if getattr(launch, name) not in ASKS_NOTHING.get(name, ())]
