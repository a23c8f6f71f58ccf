"""Rules for model servers: refuse configurations that cannot work or would disclose a key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import parse_qsl, urlsplit

from understudy.config import locality
from understudy.config.discovery import declarations
from understudy.config.discovery.server_presets import kinds
from understudy.config.findings import Finding, close, near
from understudy.config.validation.delegator_rules import VARIABLE, check_name
from understudy.model.config.delegators import NAME_PATTERN, KeyReference, ModelServer, Price

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token as RFC 9110 defines it


_SECRET_HEADER = re.compile(r"authorization|cookie|(^|[-_])(key|token|secret)$", re.IGNORECASE)


MOST_CONCURRENT = 1000
_AMOUNT = re.compile(r"[0-9]{1,6}(\.[0-9]{1,9})?")


_SECRET_QUERY = re.compile(r"key|token|secret|password|sig", re.IGNORECASE)


def check_server(server: ModelServer) -> Iterator[Finding]:
    """Find everything that keeps ``server`` from working, or would write a key into a file or log."""
    yield from check_name(server.name)
    if server.kind not in kinds():
        hint, names = near(server.kind, kinds()) or "Use `custom`.", close(server.kind, kinds()) or ["custom"]
        yield Finding(("kind",), f"Unknown kind of server `{server.kind}`.", hint, code="not_allowed", names=names)
    spoken = declarations.protocols()
    if server.protocols == []:
        yield Finding(
            ("protocols",), "`protocols` is empty.", f"Name at least one of {', '.join(spoken)}, or remove it."
        )
    if declarations.AUTO in (server.protocols or ()) and len(server.protocols or ()) > 1:
        message = f"`{declarations.AUTO}` stands for all protocols, so it must be the only one."
        yield Finding(("protocols",), message, f"Remove the others, or `{declarations.AUTO}`.")
    for number, word in enumerate(server.protocols or ()):
        if word in (server.protocols or ())[:number]:
            yield Finding(("protocols", number), f"The protocol `{word}` is listed twice.", "Remove one of them.")
        if word not in spoken:
            message = f"A protocol must be one of {', '.join(spoken)}."
            names = close(word, spoken) or spoken
            yield Finding(("protocols", number), message, near(word, spoken), code="not_allowed", names=names)
    yield from check_url(server.base_url, "base_url", instead="`api_key`")
    if server.locality == "local" and not locality.is_loopback(server.base_url):
        message = "The server is declared local, but its address is not on this machine."
        yield Finding(("locality",), message, 'Use a loopback address, or locality = "remote".')
    yield from check_key(server.api_key, "api_key")
    if server.max_concurrent is not None and not 1 <= server.max_concurrent <= MOST_CONCURRENT:
        yield Finding(("max_concurrent",), f"`max_concurrent` must be from 1 to {MOST_CONCURRENT}.")
    yield from _check_prices(server)
    for name, value in (server.headers or {}).items():
        if _SECRET_HEADER.search(name):
            hint = "Use `api_key`, which refers to the key."
            yield Finding(("headers", name), f"The header {name} would write a key into the file.", hint)
        elif not _HEADER.fullmatch(name) or not value.isascii() or not value.isprintable():
            yield Finding(("headers", name), "This header cannot be sent.", "Use printable ASCII.")


def _check_prices(server: ModelServer) -> Iterator[Finding]:
    for model, price in (server.prices or {}).items():
        for name in Price.__struct_fields__:
            amount = getattr(price, name)
            if amount is not None and not _AMOUNT.fullmatch(amount):
                hint = 'US dollars per million tokens, for example "0.25".'
                yield Finding(("prices", model, name), f"`{name}` must be a decimal of at least 0.", hint)


def check_key(key: KeyReference | None, field: str) -> Iterator[Finding]:
    """Find what is wrong with a reference to a secret in ``field``."""
    if key is None:
        return
    sources = [name for name in ("from_env", "keyring", "file") if getattr(key, name) is not None]
    if len(sources) != 1:
        message = f"`{field}` needs exactly one of from_env, keyring, file; this one has {len(sources)}."
        yield Finding((field,), message)
    elif key.from_env is not None and not VARIABLE.fullmatch(key.from_env):
        yield Finding((field, "from_env"), "`from_env` must name a variable, not contain the key.")
    elif key.keyring is not None and not re.fullmatch(NAME_PATTERN, key.keyring):
        yield Finding((field, "keyring"), "`keyring` must name a keyring entry, not contain the key.")
    elif key.file is not None and not PurePosixPath(key.file).is_absolute():
        yield Finding((field, "file"), "`file` must be an absolute path.")


def check_url(url: str, field: str, *, instead: str) -> Iterator[Finding]:
    """Find what is wrong with a URL in ``field``; ``instead`` names the fields that refer to a secret."""
    example = "For example http://127.0.0.1:11434/v1." if field == "base_url" else "For example https://example.org/in."
    try:
        parts = urlsplit(url)
        _ = parts.port
        query = parse_qsl(parts.query)
    except ValueError:
        yield Finding((field,), f"`{field}` is not a URL.", example)
        return
    if parts.scheme not in {"http", "https"} or not parts.hostname or re.search(r"[\s\x00-\x1f\x7f]", url):
        yield Finding((field,), f"`{field}` is not an http or https URL.", example)
    elif parts.username is not None or any(_SECRET_QUERY.search(name) for name, _ in query):
        message = f"`{field}` contains a key or password, which logs would show."
        yield Finding((field,), message, f"Use {instead}.")
    elif parts.fragment:
        yield Finding((field,), f"`{field}` has a fragment (after #), which is never sent.", "Remove it.")
