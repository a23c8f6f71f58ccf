"""Tests of the kinds of model servers and of what `servers add` takes from them."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from understudy.config import locality
from understudy.config.discovery.server_presets import kinds
from understudy.config.validation.server_rules import check_server
from understudy.frontends.cli import app
from understudy.frontends.cli.calls import exit_codes
from understudy.model.config.delegators import KeyReference, ModelServer

HOSTED = [one for one in kinds().values() if one.needs_key]


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in kinds().values():
        if one.key_variable:
            monkeypatch.delenv(one.key_variable, raising=False)


def test_presets_are_valid_model_servers() -> None:
    for one in kinds().values():
        server = ModelServer(
            name=one.kind,
            kind=one.kind,
            base_url=one.base_url or "http://127.0.0.1:1/v1",
            protocols=list(one.protocols),
            api_key=KeyReference(from_env=one.key_variable) if one.key_variable else None,
        )
        assert list(check_server(server)) == [], one.kind


def test_only_presets_on_this_machine_are_local_and_only_hosted_ones_need_a_key() -> None:
    for one in kinds().values():
        assert one.local is locality.is_loopback(one.base_url or "https://example.test"), one.kind
        assert one.base_url.endswith("/") is False, one.kind
    for one in HOSTED:
        assert urlsplit(one.base_url).scheme == "https", "the key goes there"
        assert one.key_variable, one.kind
        assert urlsplit(one.key_url or "").scheme == "https", one.kind


def test_the_documentation_lists_every_kind() -> None:
    page = (Path(__file__).parents[3] / "docs" / "model-servers.md").read_text()
    rows = {cells[1].strip(" `"): cells for line in page.splitlines() if len(cells := line.split("|")) == 7}
    for one in kinds().values():
        cells = rows[one.kind]
        assert one.base_url in cells[3], one.kind
        assert [word.strip(" `") for word in cells[4].split(",")] == list(one.protocols), one.kind
        assert not one.key_variable or one.key_variable in cells[5], one.kind


def added(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    code = app.main(["servers", "add", *arguments, "--json"])
    printed = capsys.readouterr()
    assert code == exit_codes.Exit.OK, printed.err
    return json.loads(printed.out)["modelServer"]


@pytest.mark.parametrize("kind", [one.kind for one in kinds().values() if one.base_url])
def test_a_kind_is_enough_to_add_a_server(kind: str, own_home, capsys: pytest.CaptureFixture[str]) -> None:
    _ = own_home
    made = added(capsys, "s", "--kind", kind)
    assert (made["kind"], made["baseUrl"]) == (kind, kinds()[kind].base_url)
    assert made["protocols"] == list(kinds()[kind].protocols)
    assert made.get("apiKey") is None


def test_the_key_variable_of_a_kind_is_used_where_it_is_set(
    own_home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _ = own_home
    monkeypatch.setenv("GROQ_API_KEY", "gsk-1")
    assert added(capsys, "a", "--kind", "groq")["apiKey"]["fromEnv"] == "GROQ_API_KEY"
    assert added(capsys, "b", "--kind", "groq", "--key-env", "OTHER")["apiKey"]["fromEnv"] == "OTHER"
    elsewhere = added(capsys, "c", "--kind", "groq", "--url", "https://example.test/v1")
    assert elsewhere.get("apiKey") is None, "the key of a kind is not for another host"


def test_a_missing_key_is_reported_with_the_command_that_stores_one(
    own_home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _ = own_home
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    assert app.main(["servers", "add", "fast", "--kind", "groq"]) == exit_codes.Exit.OK
    assert capsys.readouterr().err == (
        "It has no key, because GROQ_API_KEY is not set: understudy servers set-key fast\n"
    )
    assert app.main(["servers", "add", "local", "--kind", "ollama"]) == exit_codes.Exit.OK
    assert capsys.readouterr().err == ""


def test_protocols_that_are_given_replace_those_of_the_kind(own_home, capsys: pytest.CaptureFixture[str]) -> None:
    _ = own_home
    assert added(capsys, "a", "--kind", "fireworks", "--protocol", "anthropic")["protocols"] == ["anthropic"]


@pytest.mark.parametrize(("said", "meant"), [("olama", "ollama"), ("lm-studio", "lmstudio"), ("cerebas", "cerebras")])
def test_a_misspelt_kind_is_corrected(said: str, meant: str, own_home, capsys: pytest.CaptureFixture[str]) -> None:
    _ = own_home
    assert app.main(["servers", "add", "s", "--kind", said]) == exit_codes.Exit.USAGE
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err
    assert app.main(["servers", "add", "s", "--kind", said, "--url", "http://127.0.0.1:1/v1"]) != exit_codes.Exit.OK
    assert f"Did you mean `{meant}`?" in capsys.readouterr().err


def test_prices_are_options(own_home, capsys: pytest.CaptureFixture[str]) -> None:
    _ = own_home
    made = added(capsys, "a", "--kind", "ollama", "--price", "qwen=0.1/0.2", "--price", "gpt=1/2/0.1/1.25")
    assert made["prices"]["qwen"] == {"input": "0.1", "output": "0.2"}
    assert made["prices"]["gpt"] == {"input": "1", "output": "2", "cacheRead": "0.1", "cacheWrite": "1.25"}
    assert app.main(["servers", "add", "b", "--kind", "ollama", "--price", "qwen=1"]) == exit_codes.Exit.USAGE
    assert "write IN/OUT" in capsys.readouterr().err
