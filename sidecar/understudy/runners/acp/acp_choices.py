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

    def matches(self, requested: str) -> bool:
        """Return whether the user means it: by id, by name, or by the last part of an id that is a URL."""
        last = self.value.rpartition("#")[2]
        return requested == self.value or requested.lower() in {self.name.lower(), last.lower()}


def choices_of(offered: Mapping[str, Any], what: str) -> list[Choice]:
    """Return the models or modes in the answer that opened a session, in each of the places where agents offer them."""
    opened = schema.NewSessionResponse.model_validate({"sessionId": "", **offered})
    choices = [
        Choice(
            value=choice.value,
            name=choice.name,
            is_current=choice.value == option.current_value,
            method=AGENT_METHODS["session_set_config_option"],
            params={"configId": option.id, "value": choice.value},
        )
        for option in opened.config_options or []
        if isinstance(option, schema.SessionConfigOptionSelect) and what in {option.category, option.id}
        for choice in _flat(option.options)
    ]
    if what == "mode" and opened.modes is not None:
        choices += [
            Choice(
                value=mode.id,
                name=mode.name,
                is_current=mode.id == opened.modes.current_mode_id,
                method=AGENT_METHODS["session_set_mode"],
                params={"modeId": mode.id},
            )
            for mode in opened.modes.available_modes
        ]
    models = offered.get("models") if what == "model" else None
    if isinstance(models, dict):
        # An unstable part of earlier versions of the protocol, which is still all that Gemini and Qwen have.
        current = string(models.get("currentModelId"))
        listed = [model for model in models.get("availableModels") or [] if isinstance(model, dict)]
        names = {string(model.get("modelId")): string(model.get("name")) for model in listed}
        if current:
            names.setdefault(current, "")
        choices += [
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
    return choices


def _flat(options: Sequence[Any]) -> Iterator[schema.SessionConfigSelectOption]:
    for option in options:
        yield from option.options if isinstance(option, schema.SessionConfigSelectGroup) else [option]
