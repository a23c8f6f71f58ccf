"""For every configuration that a tool accepts: what its import writes has no errors, no keys, and is stable."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import tomli_w
import yaml
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.config.editing.edit import Editor
from understudy.config.importing import import_plan
from understudy.config.loading.loader import load

SECRET = "sk-test-0123456789abcdef"

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8) | st.sampled_from(
    ["a", "B c", "../x", "opus", "{prompt}", "{other}", "--yolo", "-c", SECRET, "${NAME}", "ghostwriter"]
)
names = st.sampled_from(["a", "A", "b-2", "Long Name", "ghostwriter", "é", "", "x" * 80]) | texts
urls = st.sampled_from(
    ["http://localhost:11434/v1", "https://models.example/v1", "x", f"https://u:{SECRET}@h/v1", "http://[::1"]
)
leaves = st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | texts
maps = st.dictionaries(texts, leaves, max_size=2)
environments = st.dictionaries(
    st.sampled_from(["HOME_X", "API_KEY", "ANTHROPIC_AUTH_TOKEN", "a b"]),
    texts | st.fixed_dictionaries({"from_env": texts}),
    max_size=3,
)


def table(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


agent_delegate = table(
    {
        "profiles": st.dictionaries(
            names,
            table(
                {"backend": st.sampled_from(["openai-compat", "anthropic"]), "base_url": urls, "default_model": texts},
                {
                    "api_key": texts,
                    "api_key_env": texts,
                    "timeout": st.integers(-1, 10**12) | st.floats(-1, 1e12),
                    "temperature": st.floats(-1, 1e6),
                    "extra_headers": st.dictionaries(texts, texts, max_size=2),
                },
            ),
            max_size=3,
        )
    },
    {"default_profile": names},
)
sideagent = table(
    {
        "default_profile": names,
        "profiles": st.dictionaries(
            names,
            table(
                {"command": texts | st.sampled_from(["claude", "/opt/codex", "opencode", "cursor-agent"])},
                {
                    "interface": st.sampled_from(["generic", "claude", "codex", "cursor", "opencode"]),
                    "args": st.lists(texts | st.sampled_from(["{prompt_file}", "--model"]), max_size=3),
                    "env": environments,
                    "prompt": st.sampled_from(["argument", "stdin", "prompt-file-arg"]),
                    "headless": st.booleans(),
                },
            ),
            max_size=3,
        ),
    },
    {"headless": st.booleans()},
)
operator = table(
    {},
    {
        "model_servers": st.lists(
            table(
                {
                    "name": names,
                    "kind": st.sampled_from(["ollama", "anthropic-api", "openai-compat"]),
                    "base_url": urls,
                },
                {"api_key_env": texts, "display_name": texts},
            ),
            max_size=2,
        ),
        "delegators": st.lists(
            table(
                {"name": names, "llm_tool": st.sampled_from(["claude", "codex", "gemini", "x"]), "model": texts},
                {
                    "model_server": names,
                    "model_properties": maps,
                    "launch_config": table(
                        {},
                        {
                            "yolo": st.booleans(),
                            "permission_mode": st.sampled_from(["plan", "delegate", "default"]),
                            "flags": st.lists(texts, max_size=2),
                            "use_worktrees": st.booleans(),
                            "create_branch": st.booleans(),
                            "prompt_prefix": texts,
                        },
                    ),
                },
            ),
            max_size=3,
        ),
        "queue": maps,
    },
)
agent_delegator = table(
    {},
    {
        "preferred_models": st.dictionaries(
            st.sampled_from(["implementation", "code_review", "research"]),
            st.sampled_from(["claude:opus", "federated-coding", "mine", "x:y", "codex:"]) | texts,
        ),
        "logical_models": st.dictionaries(
            st.sampled_from(["mine", "federated-free"]),
            st.fixed_dictionaries({"providers": st.lists(st.sampled_from(["claude:a", "codex:b", "x:y", ":"]))}),
        ),
        "cooldown": st.dictionaries(
            st.sampled_from(["failure_threshold", "base_minutes", "max_minutes"]),
            st.integers(-1, 2**40) | st.floats(allow_nan=False, allow_infinity=False),
        ),
        "worktree_ttl_hours": st.floats(allow_nan=False, allow_infinity=False),
        "provider_priority": st.lists(
            st.sampled_from(["claude", "opencode", "generic", "ghostwriter", "x"]), max_size=3
        ),
        "custom": leaves,
    },
)
delegate_local = st.dictionaries(
    st.sampled_from(
        [
            *("DELEGATE_LOCAL_URL", "DELEGATE_LOCAL_KEY", "DELEGATE_LOCAL_MODEL", "DELEGATE_LOCAL_MAX_TURNS"),
            *("DELEGATE_CONCURRENCY_DEFAULT", "DELEGATE_CODEX_MODEL", "DELEGATE_STREAMING"),
        ]
    ),
    texts | urls | st.sampled_from(["0", "7", "99999999999"]),
    max_size=4,
).map(lambda env: {"mcpServers": {"delegate-local": {"env": env}}})
files = st.one_of(
    agent_delegate.map(lambda value: ("agent-delegate", tomli_w.dumps(value))),
    operator.map(lambda value: ("operator", tomli_w.dumps(value))),
    agent_delegator.map(lambda value: ("agent-delegator", json.dumps(value))),
    delegate_local.map(lambda value: ("delegate-local", json.dumps(value))),
    sideagent.map(lambda value: ("sideagent", yaml.safe_dump(json.loads(json.dumps(value))))),
)


@settings(max_examples=examples(15), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(files)
def test_every_import_is_valid_and_stable(file: tuple[Any, str]) -> None:
    source, text = file
    with TemporaryDirectory() as folder:
        place = Path(folder, "theirs")
        place.write_text(text, encoding="utf-8")
        user = Path(folder, "config")
        with mock.patch.dict(os.environ, {"UNDERSTUDY_CONFIG": str(user)}):
            editor = Editor(None, state=Path(folder, "state"))
            made = import_plan.make_plan(import_plan.read_source(source, place, None, {}, Path(folder)), editor)
            assert SECRET not in made.diff()
            made.write(editor)
            found = load(None, trusted=False)
            errors = [problem for problem in found.problems if problem.severity == "error"]
            for entry in found.delegators.values():
                errors += [problem for problem in entry.state.problems if problem.severity == "error"]
            assert errors == []
            assert {str(path): path.read_bytes() for path in user.rglob("*.toml")} == {
                str(one.path): one.after for one in made.files
            }
            again = import_plan.make_plan(import_plan.read_source(source, place, None, {}, Path(folder)), editor)
            assert again.files == []
