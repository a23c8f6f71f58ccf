"""For every delegator, every server, and whatever bytes a file may hold."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli_w
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.config.loading.loader import load
from understudy.config.parsing import file_schema
from understudy.config.parsing.config_file import render
from understudy.config.parsing.file_syntax import Positions
from understudy.config.parsing.source_file import Source
from understudy.model.config.delegators import Delegator, EnvReference, KeyReference, Launch, Limits, ModelServer

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
keys = st.one_of(st.sampled_from(["camelCase", "snake_case", "llm_tool", "from_env", "a.b", "", 'q"q', "é😀"]), texts)
leaves = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False), texts
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
maps = st.dictionaries(keys, values, max_size=3)


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


delegators = st.builds(
    Delegator,
    name=texts,
    display_name=some(texts),
    tool=some(texts),
    model_server=some(texts),
    model=texts,
    model_properties=some(maps),
    launch=some(
        st.builds(
            Launch,
            yolo=some(st.booleans()),
            flags=some(st.lists(texts, max_size=3)),
            prompt_prefix=some(texts),
            command=some(st.lists(texts, max_size=3)),
        )
    ),
    env=some(st.dictionaries(keys, texts | st.builds(EnvReference, from_env=texts), max_size=3)),
    limits=some(
        st.builds(
            Limits, total_seconds=some(st.floats(0, 1e9)), max_turns=some(st.integers(0, 2**31)), max_usd=some(texts)
        )
    ),
    locality=some(st.sampled_from(["local", "remote"])),
    extensions=some(maps),
)
servers = st.builds(
    ModelServer,
    name=texts,
    kind=texts,
    base_url=texts,
    api_key=some(st.builds(KeyReference, from_env=some(texts), keyring=some(texts), file=some(texts))),
    headers=some(st.dictionaries(keys, texts, max_size=2)),
)


@given(st.one_of(delegators, servers))
def test_wire_to_file_and_back_loses_nothing_and_is_stable(thing):
    data = render(thing)
    again = file_schema.from_file(tomllib.loads(data.decode()), type(thing))
    assert again == thing
    assert render(again) == data
    assert msgspec.json.decode(msgspec.json.encode(again), type=type(thing)) == thing


def test_each_field_of_the_contract_has_its_twin_and_unknown_ones_are_refused():
    for structure in (Delegator, ModelServer, Launch, Limits):
        assert file_schema.file_type(structure).__struct_fields__ == structure.__struct_fields__
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            msgspec.convert(
                {"name": "a", "kind": "b", "base_url": "c", "nonsense": 1}, file_schema.file_type(structure)
            )
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        file_schema.from_file({"name": "a", "displayName": "x"}, Delegator)


documents = st.dictionaries(keys, values, max_size=4)


@given(documents)
def test_every_key_and_value_of_a_document_has_a_place_that_holds_it(document):
    data = tomli_w.dumps(document).encode()
    positions = Positions(data)
    lines = data.decode().split("\n")

    def text_at(found) -> str:
        units = [line.encode("utf-16-le") for line in lines]
        start, end = found.start, found.end
        if start.line == end.line:
            return units[start.line][2 * start.character : 2 * end.character].decode("utf-16-le")
        inner = [
            units[start.line][2 * start.character :],
            *units[start.line + 1 : end.line],
            units[end.line][: 2 * end.character],
        ]
        return b"\n\0".join(inner).decode("utf-16-le")

    def walk(value, path):
        place = positions.value(path)
        assert place is not None, path
        if isinstance(value, dict):
            for key, inner in value.items():
                named = positions.key((*path, key))
                assert named is not None
                assert key in tomllib.loads(f"x.{text_at(named)} = 1")["x"] or key in _all_keys(
                    tomllib.loads(f"{text_at(named)} = 1")
                )
                walk(inner, (*path, key))
        elif isinstance(value, list):
            for number, inner in enumerate(value):
                walk(inner, (*path, number))
        else:
            assert tomllib.loads(f"x = {text_at(place)}")["x"] == value

    for key, value in document.items():
        assert positions.key((key,)) is not None
        walk(value, (key,))


def _all_keys(value) -> set[str]:
    return set(value) | {key for inner in value.values() if isinstance(inner, dict) for key in _all_keys(inner)}


fragments = st.sampled_from(
    [
        *(
            "[defaults]\n",
            "[[delegators]]\n",
            "[[model_servers]]\n",
            "[[checks]]\n",
            "[limits]\n",
            "[worktrees]\n",
            "[environment]\n",
        ),
        *(
            'name = "a"\n',
            'tool = "generic"\n',
            "tool = 3\n",
            'model_server = "a"\n',
            'kind = "ollama"\n',
            "max_usd = '1e3'\n",
        ),
        *(
            'base_url = "http://[::1"\n',
            'base_url = "http://h:99999/"\n',
            "launch = {command = []}\n",
            "slots = nan\n",
            "x = 1e999\n",
        ),
        *(
            "api_key = {}\n",
            'api_key = "k"\n',
            "env = {A = {}}\n",
            "argv = ['']\n",
            "copy = ['\\u0000']\n",
            "python = ''\n",
            "name = 1979-05-27\n",
        ),
        *(
            "extensions = {a = 07:32:00}\n",
            "model_properties = {a = [inf]}\n",
            "total_seconds = -0.0\n",
            'recipes = {"" = ""}\n',
            "[",
            "'''",
            "\r",
            "+++\n",
        ),
        *(
            "[delegators.launch]\n",
            "a.b.c = 1\n",
            '"\\uD83D" = 1\n',
            "x = 99999999999999999999\n",
            "name = ''\n",
            'title = ""\n',
            "returns = 'text'\n",
        ),
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(300))
@given(
    st.sampled_from(["config.toml", "delegators/a.toml", "model-servers/a.toml", "recipes/a.md"]),
    st.one_of(
        st.binary(max_size=80),
        st.lists(fragments, max_size=7).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass")),
    ),
)
def test_whatever_bytes_a_file_holds_there_are_problems_and_never_exceptions(tmp_path, name, data):
    workspace = tmp_path / "w"
    for root in (Path(os.environ["XDG_CONFIG_HOME"]) / "understudy", workspace / ".understudy"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    try:
        found = load(workspace, trusted=True)
    finally:
        for root in (Path(os.environ["XDG_CONFIG_HOME"]) / "understudy", workspace / ".understudy"):
            (root / name).unlink()
    assert "ghostwriter" in found.delegators
    assert len(found.recipes) >= 9
    for problem in found.problems:
        if problem.location is not None:
            start, end = problem.location.range.start, problem.location.range.end
            assert (0, 0) <= (start.line, start.character) <= (end.line, end.character)
            assert start.line <= data.count(b"\n")
    msgspec.json.encode(
        [*found.problems, *found.delegators.values(), *found.model_servers.values(), *found.recipes.values()]
    )


@given(st.binary(max_size=200))
def test_parsing_any_bytes_gives_a_value_or_a_problem(data):
    value, problems = Source(Path("/x.toml"), data).parse()
    assert (value is None) == bool(problems)
