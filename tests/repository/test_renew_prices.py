"""Renew the table of prices from excerpts of both published formats."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from understudy.model.config.price_table import price_table

SCRIPT = Path(__file__).parents[2] / "scripts" / "renew_prices.py"
SHIPPED = Path(__file__).parents[2] / "sidecar/understudy/model/config/price_table.toml"
LITELLM: dict[str, Any] = {
    "sample_spec": {"litellm_provider": "one of https://docs.litellm.ai/docs/providers", "mode": "one of chat, …"},
    "gpt-5": {"litellm_provider": "openai", "mode": "responses", "input_cost_per_token": 1.25e-06, "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 1.25e-07},
    "o4-mini-2025-04-16": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 1.1e-06, "output_cost_per_token": 4.4e-06},
    "gpt-5-2025-08-07": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 9e-06, "output_cost_per_token": 9e-05},
    "ft:gpt-5": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 3e-06, "output_cost_per_token": 1e-05},
    "whisper-1": {"litellm_provider": "openai", "mode": "audio_transcription", "input_cost_per_second": 0.0001},
    "azure/gpt-5": {"litellm_provider": "azure", "mode": "chat", "input_cost_per_token": 7e-06, "output_cost_per_token": 7e-05},
    "claude-sonnet-4-5": {"litellm_provider": "anthropic", "mode": "chat", "input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05, "cache_read_input_token_cost": 3e-07, "cache_creation_input_token_cost": 3.75e-06, "input_cost_per_token_above_200k_tokens": 6e-06},
    "gemini/gemini-2.5-flash": {"litellm_provider": "gemini", "mode": "chat", "input_cost_per_token": 3e-07, "output_cost_per_token": 2.5e-06},
    "gemini/gemini-free": {"litellm_provider": "gemini", "mode": "chat", "input_cost_per_token": 0, "output_cost_per_token": 0},
    "groq/llama-3.1-8b-instant": {"litellm_provider": "groq", "mode": "chat", "input_cost_per_token": 5e-08, "output_cost_per_token": 8e-08},
    "cerebras/llama3.1-8b": {"litellm_provider": "cerebras", "mode": "chat", "input_cost_per_token": 1e-07, "output_cost_per_token": 1e-07},
}  # fmt: skip
MODELS_DEV: dict[str, Any] = {
    "openai": {"models": {
        "gpt-5": {"cost": {"input": 1.25, "output": 10, "cache_read": 0.125}},
        "o4-mini": {"cost": {"input": 1.1, "output": 4.4}},
        "gpt-image": {"cost": {"input": 5, "output": 40}, "modalities": {"input": ["text"], "output": ["image"]}},
    }},
    "anthropic": {"models": {"claude-sonnet-4-5": {"cost": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75, "context_over_200k": {"input": 6, "output": 22.5}}}}},
    "google": {"models": {"gemini-2.5-flash": {"cost": {"input": 0.3, "output": 2.5}}}},
    "groq": {"models": {"llama-3.1-8b-instant": {"cost": {"input": 0.05, "output": 0.08}}}},
    "cerebras": {"models": {"llama3.1-8b": {"cost": {"input": 0.1, "output": 0.1}}}},
}  # fmt: skip
EXPECTED = {
    "api.openai.com": {"gpt-5": ("1.25", "10", "0.125"), "o4-mini": ("1.1", "4.4")},
    "api.anthropic.com": {"claude-sonnet-4-5": ("3", "15", "0.3", "3.75", "200000")},
    "generativelanguage.googleapis.com": {"gemini-2.5-flash": ("0.3", "2.5")},
    "api.groq.com": {"llama-3.1-8b-instant": ("0.05", "0.08")},
    "api.cerebras.ai": {"llama3.1-8b": ("0.1", "0.1")},
}


def renew(folder: Path, value: Any) -> tuple[int, Path]:
    spec = importlib.util.spec_from_file_location("renew_prices", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table = folder / "table.toml"
    table.write_text(SHIPPED.read_text())
    (folder / "prices.json").write_text(json.dumps(value))
    return module.main([str(folder / "prices.json"), "--date", "2031-02-03", "--table", str(table)]), table


@pytest.mark.parametrize("value", [LITELLM, MODELS_DEV], ids=["litellm", "models.dev"])
def test_both_formats_give_the_same_table(tmp_path, capsys, value):
    code, table = renew(tmp_path, value)
    assert code == 0
    renewed = tomllib.loads(table.read_text())
    assert {
        host: {name: tuple(row) for name, row in rows.items()} for host, rows in renewed["prices"].items()
    } == EXPECTED
    assert (renewed["date"], renewed["source"]) == ("2031-02-03", "prices.json")
    assert "gpt-4o-mini" in capsys.readouterr().out.partition("Without a price now: ")[2]


@pytest.mark.parametrize("value", [[], {}, {**MODELS_DEV, "groq": {"models": {}}}, {**MODELS_DEV, "google": {}}])
def test_an_incomplete_source_changes_nothing(tmp_path, capsys, value):
    code, table = renew(tmp_path, value)
    assert code == 1
    assert "Cannot use" in capsys.readouterr().err
    assert table.read_text() == SHIPPED.read_text()


def test_the_table_that_is_shipped_has_the_providers_of_the_script():
    assert list(price_table().prices) == list(EXPECTED)
