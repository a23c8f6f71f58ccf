"""Read ``profiles.toml`` of agent-delegate: a profile is a model server, and a delegator on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from understudy.config.discovery.server_presets import kinds
from understudy.config.importing.draft import Draft, Drafted, FoundKey, Table, is_secret, read_each, reasons
from understudy.config.importing.foreign_files import Document
from understudy.model.config.delegators import Delegator, KeyReference, Limits, ModelServer

_BACKENDS = ("openai-compat", "anthropic")
_USUAL = {"anthropic": "https://api.anthropic.com/v1"}


LIMITS = {"AGENT_DELEGATE_MAX_FILE_BYTES": "max_file_bytes", "AGENT_DELEGATE_MAX_CORPUS_BYTES": "max_bytes"}
"""Variable → the key of the table ``[input]``."""


def read(document: Document, draft: Draft, variables: Mapping[str, str]) -> None:
    """Add the profiles to ``draft``."""
    draft.drop_variables(variables, reasons("agent-delegate-variables"))
    for name, field in LIMITS.items():
        value = variables.get(name, "").strip()
        if re.fullmatch(r"[0-9]{1,10}", value) and int(value) > 0:
            draft.set("input", field, int(value), name)
        elif value:
            draft.drop(name, "It must be a whole number above zero.", None)
    top = Table(document, draft, (), document.values)
    default = top.text("default_profile")
    if default is not None:
        draft.default = (default, "default_profile", top.location("default_profile"))
    profiles = top.table("profiles")
    names = dict(profiles.named()) if profiles is not None else {}
    read_each(names.values(), lambda profile: _profile(str(profile.path[-1]), profile, draft))
    top.end()


def _profile(name: str, profile: Table, draft: Draft) -> None:
    backend = profile.required("backend")
    if backend not in _BACKENDS:
        raise profile.document.invalid(
            (*profile.path, "backend"), f"`{profile.name('backend')}` must be `openai-compat` or `anthropic`."
        )
    url = profile.text("base_url") or _USUAL.get(backend)
    if url is None:
        raise profile.document.invalid(profile.path, f"`{profile.name('base_url')}` is missing.")
    reference, key = None, None
    variable, value = profile.text("api_key_env"), profile.text("api_key")
    if value:
        # The tool prefers it to the variable.
        key = FoundKey(value, profile.name("api_key"), profile.location("api_key"))
    if variable and not value:
        reference = KeyReference(from_env=variable)
    elif variable:
        profile.drop("api_key_env", "The profile also has `api_key`, which agent-delegate prefers.")
    server = ModelServer(
        name=name,
        kind=kind_of(url),
        base_url=url,
        protocols=None if backend == "openai-compat" else [backend],
        api_key=reference,
        headers=_headers(profile),
    )
    timeout, temperature = profile.number("timeout"), profile.any("temperature")
    if temperature is not None and (isinstance(temperature, bool) or not isinstance(temperature, int | float)):
        raise profile.document.invalid(
            (*profile.path, "temperature"), f"`{profile.name('temperature')}` must be a number."
        )
    delegator = Delegator(
        name=name,
        model_server=name,
        model=profile.required("default_model"),
        model_properties={"temperature": temperature} if temperature is not None else None,
        limits=Limits(total_seconds=timeout) if timeout is not None else None,
    )
    profile.end()
    draft.servers.append(Drafted(server, profile.name(), profile.location(), key))
    draft.delegators.append(Drafted(delegator, profile.name(), profile.location()))


def _headers(profile: Table) -> dict[str, str] | None:
    table = profile.table("extra_headers")
    if table is None:
        return None
    headers = {}
    for name in table.values:
        value = table.text(name)
        if is_secret(name, value):
            table.drop(name, "A header with a key is not copied. Store the key: understudy servers set-key")
        elif value is not None:
            headers[name] = value
    return headers or None


def kind_of(url: str) -> str:
    """Return the kind of server that has this address, ``custom`` for any other."""
    place = _place(url)
    return next((kind.kind for kind in kinds().values() if kind.base_url and _place(kind.base_url) == place), "custom")


def _place(url: str) -> tuple[str, int | None] | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    host = "127.0.0.1" if parts.hostname in {"localhost", "::1"} else parts.hostname
    return (host, port) if host else None
