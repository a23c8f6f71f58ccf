"""Test files that are not a configuration: each gets a typed error with its line, and none makes an import hang."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.config.importing import import_plan
from understudy.model.config.config_entries import ImportSource
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
        pytest.param("agent-delegate", "\n[profiles.a\n", 2, id="toml-syntax"),
        pytest.param("agent-delegate", "a = " + "[" * 5000, 1, id="toml-depth"),
        pytest.param("operator", "#" * 300_000, 1, id="toml-size"),
        pytest.param("agent-delegator", '{"a": {"b": 1,\n"b": 2}}', 2, id="json-twice"),
        pytest.param("agent-delegator", '{"a": [{"b": 1},\n{"b": 1,\n\n"b": 2}]}', 4, id="json-twice-in-a-list"),
        pytest.param("agent-delegator", '{"a": 1,\n "b": 1e999}', 2, id="json-infinity"),
        pytest.param("agent-delegator", '{"a": 1,\n "b": 99999999999999999999}', 2, id="json-64-bits"),
        pytest.param("agent-delegator", b'{"a": "\xff"}', 1, id="json-bytes"),
        pytest.param("agent-delegator", "", 1, id="json-empty"),
        pytest.param("sideagent", "profiles:\n  a: &x {command: y}\n", 2, id="yaml-anchor"),
        pytest.param("sideagent", "profiles:\n  ? [a]\n  : 1\n", 2, id="yaml-list-as-name"),
        pytest.param("sideagent", "a: " + "{b: " * 60 + "}" * 60, 1, id="yaml-flow-depth"),
        pytest.param("sideagent", "a:\n" + "- 1\n" * 30_000, 19_997, id="yaml-values"),
        pytest.param("sideagent", "a: '\n\0'\n", 1, id="yaml-control"),
        pytest.param("operator", "a = 1\na = 2\n", 2, id="toml-twice"),
        pytest.param("operator", "a = 1\nb = 99999999999999999999\n", 2, id="toml-64-bits"),
        pytest.param("operator", "a = 1\nb = inf\n", 2, id="toml-infinity"),
        pytest.param("operator", b"a = 1\nb = '\xff'\n", 2, id="toml-bytes"),
    ],
)
def test_the_error_names_the_line(planned: Planned, source: str, text: str | bytes, line: int) -> None:
    with pytest.raises(UnderstudyError) as caught:
        planned(source, text)
    assert caught.value.kind is ErrorKind.CONFIG_INVALID
    assert caught.value.location is not None
    assert caught.value.location.range.start.line + 1 == line
    assert caught.value.hint


@pytest.mark.parametrize(
    ("source", "text", "line"),
    [
        pytest.param("sideagent", "profiles:\n  a: {command: x, interface: new-one}\n", 2, id="yaml-word"),
        pytest.param("agent-delegate", "default_profile = 'a'\n[profiles.a]\nbackend = 3\n", 3, id="toml-type"),
        pytest.param("agent-delegate", "[profiles.a]\nbackend = 'grpc'\n", 2, id="toml-backend"),
        pytest.param("operator", "\n[[delegators]]\nname = 'a'\nllm_tool = 'claude'\n", 2, id="toml-missing"),
        pytest.param("operator", "[[model_servers]]\nname = 'a'\nkind = 'new-kind'\n", 3, id="toml-kind"),
    ],
)
def test_a_wrong_entry_is_named_with_its_line_and_the_others_are_imported(
    planned: Planned, source: str, text: str, line: int
) -> None:
    right = {
        "sideagent": "  z: {command: x}\n",
        "agent-delegate": "[profiles.z]\nbackend = 'openai-compat'\nbase_url = 'http://127.0.0.1:1/v1'\ndefault_model = 'm'\n",
        "operator": "[[delegators]]\nname = 'z'\nllm_tool = 'claude'\nmodel = 'm'\n",
    }
    made = planned(source, text + right[source])
    assert "z" in {file.name for file in made.files}
    (named,) = [one for one in made.not_carried if one.reason.startswith("Not carried over: ")]
    assert named.location is not None
    assert named.location.range.start.line + 1 == line


def test_what_is_not_a_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "pipe", tmp_path / "circle", tmp_path / "folder", Path("/dev/zero")):
        for source in import_plan.SOURCES:
            with pytest.raises(UnderstudyError) as caught:
                import_plan.read_source(source, place, None, {}, tmp_path)
            assert caught.value.kind is ErrorKind.CONFIG_INVALID
            assert caught.value.location is not None


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    for source in import_plan.SOURCES:
        with pytest.raises(UnderstudyError) as caught:
            import_plan.read_source(source, huge, None, {}, tmp_path)
        assert caught.value.kind is ErrorKind.CONFIG_INVALID
        assert "larger than" in caught.value.message


@pytest.mark.parametrize("key", ["version", "schema", "format_version"])
@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("agent-delegate", "{key} = 99\n"),
        ("operator", "{key} = 99\n"),
        ("sideagent", "{key}: 99\n"),
        ("agent-delegator", '{{"{key}": 99}}'),
    ],
)
def test_a_version_that_is_not_known_is_named_with_its_line(planned: Planned, source: str, text: str, key: str) -> None:
    made = planned(source, text.format(key=key))
    assert [(one.setting, one.location.range.start.line) for one in made.not_carried if one.location] == [(key, 0)]
    assert made.files == []


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1536 * 1024 * 1024,) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
from pathlib import Path
from understudy.config.importing import import_plan
from understudy.model.config.config_entries import ImportSource
from understudy.model.errors import UnderstudyError
for name in sys.argv[1:]:
    try:
        import_plan.read_source(name.partition("@")[2], Path(name), None, {}, Path("/nonexistent"))
    except UnderstudyError as error:
        print(error.kind, error.location is not None)
    else:
        print("read")
"""
BIG = {
    "1@sideagent": "a: " + "[" * 100_000,
    "2@sideagent": BOMB * 2000,
    "3@operator": "a" + ".a" * 100_000 + " = 1",
    "4@operator": "a = [" + "[]," * 20_000 + "1e400]",
    "5@agent-delegator": '{"a": ' + "[" * 900 + "1," * 300_000 + "1" + "]" * 900 + "}",
    "6@agent-delegator": "{" + ",".join(f'"{number}": {{}}' for number in range(100_000)) + "}",
    "7@delegate-local": '{"mcpServers": {"delegate-local": {"env": {' + '"A": "x",' * 100_000 + '"B": "y"}}}}',
    "8@agent-delegate": "[profiles." + '"' + "x" * 200_000 + '"]\nbackend = "openai-compat"\n',
}


@pytest.mark.heavy
def test_large_hostile_files_stay_within_memory_and_time(tmp_path: Path) -> None:
    for name, text in BIG.items():
        (tmp_path / name).write_text(text)
    names = [str(tmp_path / name) for name in BIG]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *names], capture_output=True, text=True, timeout=120, check=True
    )
    refused = [f"{ErrorKind.CONFIG_INVALID} True"] * len(BIG)
    refused[5] = "read"  # unknown settings are named, also if they are many
    refused[7] = "read"  # an entry that is wrong is named
    assert done.stdout.splitlines() == refused


pieces = st.sampled_from(
    [
        *"{}[]:,\"'\n-=#&*|>!%@`\\ ",
        *("profiles", "delegators", "model_servers", "mcpServers", "name", "command", "env", "null", "true"),
        *("1e999", "0x", "nan", "---", "<<: *a", "[[", "]]", "\t", "\x00", "\ufeff", "9" * 400, "é", "'''"),
    ]
)


@settings(max_examples=examples(150), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(import_plan.SOURCES), st.lists(pieces, max_size=30).map("".join) | st.binary(max_size=80))
def test_any_content_is_read_or_refused(source: ImportSource, content: str | bytes) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder, "theirs")
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        with contextlib.suppress(UnderstudyError):
            import_plan.read_source(source, file, None, {}, Path(folder))
            return
        with pytest.raises(UnderstudyError) as caught:
            import_plan.read_source(source, file, None, {}, Path(folder))
    assert caught.value.kind in {ErrorKind.CONFIG_INVALID, ErrorKind.INVALID_PARAMS}
    assert caught.value.hint
    assert caught.value.kind is ErrorKind.INVALID_PARAMS or caught.value.location is not None
