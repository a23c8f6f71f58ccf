"""Test files that are not a configuration: each gets a typed error with its line, and none makes an import hang."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from understudy.config.importing import import_plan, sources
from understudy.model.errors import ErrorKind, UnderstudyError

Planned = Callable[..., import_plan.ImportPlan]

BOMB = "a: &a [x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: [*b, *b, *b, *b, *b, *b, *b, *b]\n"
SERVER = '{"mcpServers": {"delegate-local": {"env": %s}}}'


@pytest.mark.parametrize(
    ("source", "text", "line"),
    [
        pytest.param("sideagent", BOMB, 1, id="yaml-aliases"),
        pytest.param("sideagent", "profiles:\n  a: " + "[" * 100 + "]" * 100, 2, id="yaml-depth"),
        pytest.param("sideagent", "profiles:\n  a: 1\n  a: 2\n", 3, id="yaml-twice"),
        pytest.param("sideagent", "a: 1\n---\nb: 2\n", 2, id="yaml-documents"),
        pytest.param("sideagent", "profiles:\n  a:\n    - !!python/object:os.system x\n", 2, id="yaml-tag"),
        pytest.param("sideagent", "profiles:\n  a: {command: x, interface: new-one}\n", 2, id="yaml-word"),
        pytest.param("sideagent", b"profiles:\n  a: \xff\n", 2, id="yaml-bytes"),
        pytest.param("sideagent", "- a\n", 1, id="yaml-list"),
        pytest.param("agent-delegator", "{\n" + '"a": ' + "[" * 200_000, 1, id="json-depth"),
        pytest.param("agent-delegator", '{"a":\n 1' + "0" * 6000 + "}", 2, id="json-digits"),
        pytest.param("agent-delegator", '{"a":\n NaN}', 2, id="json-nan"),
        pytest.param("agent-delegator", '{"a": 1,\n}', 2, id="json-syntax"),
        pytest.param("agent-delegator", "{\n" + '"a": ' * 1 + "[" * 40 + "1" + "]" * 40 + "}", 2, id="json-levels"),
        pytest.param("agent-delegator", '{\n"provider_priority": "claude"}', 2, id="json-type"),
        pytest.param("agent-delegator", "{}".encode("utf-16"), 1, id="json-utf-16"),
        pytest.param("delegate-local", SERVER % '{\n"DELEGATE_LOCAL_URL": 5}', 2, id="json-number"),
        pytest.param("agent-delegate", "default_profile = 'a'\n[profiles.a]\nbackend = 3\n", 3, id="toml-type"),
        pytest.param("agent-delegate", "[profiles.a]\nbackend = 'grpc'\n", 2, id="toml-backend"),
        pytest.param("agent-delegate", "\n[profiles.a\n", 2, id="toml-syntax"),
        pytest.param("agent-delegate", "a = " + "[" * 5000, 1, id="toml-depth"),
        pytest.param("operator", "\n[[delegators]]\nname = 'a'\nllm_tool = 'claude'\n", 2, id="toml-missing"),
        pytest.param("operator", "#" * 300_000, 1, id="toml-size"),
    ],
)
def test_the_error_names_the_line(planned: Planned, source: str, text: str | bytes, line: int) -> None:
    with pytest.raises(UnderstudyError) as caught:
        planned(source, text)
    assert caught.value.kind is ErrorKind.CONFIG_INVALID
    assert caught.value.location is not None
    assert caught.value.location.range.start.line + 1 == line
    assert caught.value.hint


def test_what_is_not_a_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "pipe", tmp_path / "circle", tmp_path / "folder", Path("/dev/zero")):
        for source in sources.SOURCES:
            with pytest.raises(UnderstudyError) as caught:
                sources.read_source(source, place, None, {}, tmp_path)
            assert caught.value.kind is ErrorKind.CONFIG_INVALID
            assert caught.value.location is not None
