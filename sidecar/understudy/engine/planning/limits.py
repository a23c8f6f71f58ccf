"""Choose the limits that apply: the request's, else the delegator's, else the configuration's, else these."""

from __future__ import annotations

import msgspec

from understudy.model.config.delegators import Limits

DEFAULTS = Limits(
    total_seconds=3600.0,
    # An agent CLI that hides its retries is silent for minutes (measured: up to 270 s).
    idle_seconds=600.0,
    # A model server may queue a request for a minute without sending even headers (measured: 60 s of silence).
    first_event_seconds=300.0,
    # Some CLIs hang after their result; this leaves them time to write a session file.
    after_result_seconds=30.0,
    # Long enough for a coffee break, short enough that a forgotten question does not occupy a slot for hours.
    answer_seconds=900.0,
)


def merged(*layers: Limits | None) -> Limits:
    """Return the limits of the first layer that names each one, ``DEFAULTS`` last.

    Where only the idle limit is named, it applies before the first event, too.
    """
    values: dict[str, object] = {}
    named = [layer for layer in layers if layer is not None]
    idle = next((layer.idle_seconds for layer in named if layer.idle_seconds is not None), None)
    if idle is not None:
        named.append(Limits(first_event_seconds=min(idle, DEFAULTS.first_event_seconds or idle)))
    for layer in (*named, DEFAULTS):
        for name in Limits.__struct_fields__:
            value = getattr(layer, name)
            if value is not None and name not in values:
                values[name] = value
    return msgspec.structs.replace(Limits(), **values)
