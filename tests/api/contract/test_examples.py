"""Test the examples of the protocol: they survive decoding and encoding, and every method and event has one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from understudy.api import error_answers, method_table
from understudy.model.delegation.events import AnyEvent
from understudy.model.errors import ErrorInfo, UnderstudyError

PROTOCOL = Path(__file__).parents[3] / "protocol"
EXAMPLES = sorted((PROTOCOL / "examples").glob("*.json"))
OPENRPC = json.loads((PROTOCOL / "openrpc.json").read_text())
UNRESOLVED = object()


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def is_request(path: Path) -> bool:
    return not path.name.startswith("notification.")


def refused(path: Path) -> bool:
    """Return whether decoding refuses the request, before any handler runs."""
    return load(path).get("expect", {}).get("error", {}).get("code") in {
        error_answers.INVALID_PARAMS,
        error_answers.METHOD_NOT_FOUND,
    }


REQUESTS = [path for path in EXAMPLES if is_request(path)]
WELL_FORMED = [path for path in REQUESTS if not refused(path)]
REFUSED = [path for path in REQUESTS if refused(path)]
NOTIFICATIONS = [path for path in EXAMPLES if not is_request(path)]


def fits(name: str, value: Any) -> None:
    """Assert that ``value`` matches the published schema ``name``."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": OPENRPC["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)


def without_null(value: Any) -> Any:
    """Return parameters without null values, which encoding omits."""
    if isinstance(value, dict):
        return {key: without_null(part) for key, part in value.items() if part is not None}
    return [without_null(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_has_a_title_and_valid_contents(path: Path):
    example = load(path)
    allowed = {"title", "method", "params"} | ({"expect"} if is_request(path) else set())
    assert {"title", "method"} <= set(example) <= allowed
    assert example["title"].endswith(".")
    if is_request(path):
        assert list(example["expect"]) in (["result"], ["error"])
        assert path.name == "unknown-method.json" or path.name.split(".")[0].replace("-", "/") == example[
            "method"
        ].removeprefix(method_table.PREFIX)
    assert path.read_text(encoding="utf-8") == json.dumps(example, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("path", WELL_FORMED, ids=lambda path: path.stem)
def test_requests_survive_decoding_and_encoding(path: Path):
    example = load(path)
    method = method_table.method(example["method"])
    decoded = method_table.decode_params(method, example.get("params"))
    assert msgspec.to_builtins(decoded) == without_null(example.get("params") or {})
    assert msgspec.json.decode(msgspec.json.encode(decoded), type=method.params) == decoded
    if "params" in example:
        fits(method.params.__name__, example["params"])


@pytest.mark.parametrize("path", WELL_FORMED, ids=lambda path: path.stem)
def test_answers_survive_decoding_and_encoding(path: Path):
    example = load(path)
    method = method_table.method(example["method"])
    expected = example["expect"]
    if "error" in expected:
        error = expected["error"]
        info = msgspec.convert(error["data"], ErrorInfo, strict=True)
        assert error_answers.to_json_rpc(UnderstudyError.from_info(info)) == (
            error["code"],
            error["message"],
            error["data"],
        )
        fits("ErrorInfo", error["data"])
        return
    decoded = msgspec.convert(expected["result"], method.result)
    assert msgspec.to_builtins(decoded) == expected["result"]
    fits(method.result.__name__, expected["result"])


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_bad_requests_are_refused_by_the_decoder_and_by_the_schema(path: Path):
    example = load(path)
    with pytest.raises(UnderstudyError) as caught:
        method_table.decode_params(method_table.method(example["method"]), example.get("params"))
    code, message, data = error_answers.to_json_rpc(caught.value)
    expected = example["expect"]["error"]
    assert message
    assert code == expected["code"]
    assert {key: data.get(key) for key in expected["data"]} == expected["data"]
    if code == error_answers.INVALID_PARAMS:
        with pytest.raises(jsonschema.ValidationError):
            fits(method_table.method(example["method"]).params.__name__, example["params"])


@pytest.mark.parametrize("path", NOTIFICATIONS, ids=lambda path: path.stem)
def test_notifications_survive_decoding_and_encoding(path: Path):
    example = load(path)
    python = method_table.NOTIFICATIONS[example["method"].removeprefix(method_table.PREFIX)]
    decoded = msgspec.convert(example["params"], python)
    assert msgspec.to_builtins(decoded) == example["params"]
    fits(python.__name__, example["params"])


def test_every_method_has_a_good_example_and_a_bad_one():
    good = {load(path)["method"] for path in WELL_FORMED if "result" in load(path)["expect"]}
    bad = {load(path)["method"] for path in REFUSED}
    every = {method.wire_name for method in method_table.METHODS.values()}
    assert good == every
    assert every <= bad
    assert {load(path)["method"].removeprefix(method_table.PREFIX) for path in NOTIFICATIONS} == set(
        method_table.NOTIFICATIONS
    )


def test_every_event_and_every_state_has_an_example():
    events = load(PROTOCOL / "examples" / "notification.event.json")["params"]["events"]
    decoded = [msgspec.convert(event, AnyEvent) for event in events]
    assert {type(event) for event in decoded} == set(AnyEvent.__args__)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


def test_an_unknown_field_in_an_example_is_detected():
    """A misspelt field in an example would decode, because readers ignore unknown fields."""
    example = load(PROTOCOL / "examples" / "version.valid.json")["expect"]["result"]
    decoded = msgspec.convert({**example, "protocolVersoin": 1}, method_table.method("version").result)
    assert msgspec.to_builtins(decoded) == example
