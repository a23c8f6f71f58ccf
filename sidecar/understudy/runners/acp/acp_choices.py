"""The models and modes that an ACP agent offers for a session, in each of the places where agents offer them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acp import schema
from acp.meta import AGENT_METHODS

from understudy.runners.agent_clis.streams.stream_values import string


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A model or a mode that the agent offers, and the request that selects it."""

    value: str
    name: str
    is_current: bool
    method: str
    params: Mapping[str, Any]

    def matches(self, wanted: str) -> bool:
        """Return whether the user means it: by id, by name, or by the last part of an id that is a URL."""
        last = self.value.rpartition("#")[2]
        return wanted == self.value or wanted.lower() in {self.name.lower(), last.lower()}


def choices_of(offered: Mapping[str, Any], what: str) -> list[Choice]:
    """Return the models or modes in the answer that opened a session, in each of the places where agents offer them."""
    opened = schema.NewSessionResponse.model_validate({"sessionId": "", **offered})
    found = [
        Choice(
            value=one.value,
            name=one.name,
            is_current=one.value == option.current_value,
            method=AGENT_METHODS["session_set_config_option"],
            params={"configId": option.id, "value": one.value},
        )
        for option in opened.config_options or []
        if isinstance(option, schema.SessionConfigOptionSelect) and what in {option.category, option.id}
        for one in _flat(option.options)
    ]
    if what == "mode" and opened.modes is not None:
        found += [
            Choice(
                value=one.id,
                name=one.name,
                is_current=one.id == opened.modes.current_mode_id,
                method=AGENT_METHODS["session_set_mode"],
                params={"modeId": one.id},
            )
            for one in opened.modes.available_modes
        ]
    models = offered.get("models") if what == "model" else None
    if isinstance(models, dict):
        # An unstable part of earlier versions of the protocol, which is still all that Gemini and Qwen have.
        current = string(models.get("currentModelId"))
        listed = [one for one in models.get("availableModels") or [] if isinstance(one, dict)]
        names = {string(one.get("modelId")): string(one.get("name")) for one in listed}
        if current:
            names.setdefault(current, "")
        found += [
            Choice(
                value=value,
                name=name,
                is_current=value == current,
                method="session/set_model",
                params={"modelId": value},
            )
            for value, name in names.items()
            if value
        ]
    return found


def _flat(options: Sequence[Any]) -> Iterator[schema.SessionConfigSelectOption]:
    for one in options:
        yield from one.options if isinstance(one, schema.SessionConfigSelectGroup) else [one]
