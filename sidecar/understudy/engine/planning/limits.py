"""Choose the limits that apply: the request's, else the delegator's, else the configuration's, else the defaults."""

from __future__ import annotations

import msgspec

from understudy.config.configuration import DEFAULT_LIMITS
from understudy.model.config.delegators import Limits


def merged(*layers: Limits | None) -> Limits:
    """Return the limits of the first layer that names each one, ``DEFAULT_LIMITS`` last.

    Where only the idle limit is named, it applies before the first event, too.
    """
    values: dict[str, object] = {}
    named = [layer for layer in layers if layer is not None]
    idle = next((layer.idle_seconds for layer in named if layer.idle_seconds is not None), None)
    if idle is not None:
        named.append(Limits(first_event_seconds=min(idle, DEFAULT_LIMITS.first_event_seconds or idle)))
    for layer in (*named, DEFAULT_LIMITS):
        for name in Limits.__struct_fields__:
            value = getattr(layer, name)
            if value is not None and name not in values:
                values[name] = value
    return msgspec.structs.replace(Limits(), **values)
