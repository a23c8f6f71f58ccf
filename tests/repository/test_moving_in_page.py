"""Test docs/moving-in.md: it has every command and key of the other tools. ``test_readme_commands`` resolves our commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from understudy.config.importing.draft import reasons

PAGE = (Path(__file__).parents[2] / "docs" / "moving-in.md").read_text(encoding="utf-8")
PAGE = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
_CODE = re.compile(r"`([^`]+)`")

_FIXED: dict[str, tuple[str, list[str]]] = {
    "agent-delegate": (
        """ask write summarize install uninstall status doctor ledger profiles list show init --paths --question --json
        --context --spec --target --target-root --force --stdout --diff --strip-fences --no-strip-fences --profile
        --model --temperature --dry-run --tool --print --limit --log --version
        default_profile backend base_url default_model api_key_env api_key extra_headers timeout temperature
        AGENT_DELEGATE_HOME AGENT_DELEGATE_CONFIG CLAUDE_SESSION_ID CODEX_SESSION_ID""",
        list(reasons("agent-delegate-variables")),
    ),
    "delegate-local": (
        """delegate_to_local_agent delegate_batch delegate_to_provider delegate_to_codex list_local_agents
        local_backend_status agent_name task workdir max_turns model max_tokens sandbox timeout_s DELEGATE_LOCAL_URL
        DELEGATE_LOCAL_KEY DELEGATE_LOCAL_MODEL DELEGATE_LOCAL_CODING_MODEL DELEGATE_LOCAL_MAX_TURNS
        DELEGATE_DISPATCH_TIMEOUT DELEGATE_CONCURRENCY_DEFAULT DELEGATE_CODEX_MODEL""",
        [name for name in reasons("delegate-local") if not name.startswith("DELEGATE_BASH_")],
    ),
    "agent-delegator": (
        """exec status health routes model cleanup capabilities optimize learn metrics dashboard init config test --task
        --model --workflow --from-agent --stream --no-worktree --from-file --output --ttl --project --agent --days
        --limit --port --suite --no-dashboard preferred_models provider_priority AGENT_DELEGATOR_PROVIDER_PRIORITY
        AGENT_DELEGATOR_NO_DASHBOARD""",
        list(reasons("agent-delegator")),
    ),
    "sideagent": (
        """run monitor profiles install-skill --profile --config --headless --runs-root --poll-interval-ms --once
        --provider default_profile command interface args env prompt headless from_env""",
        [],
    ),
    "Operator": (
        """launch queue agents pause resume stalled alert create docs api mcp acp setup workflow --delegator --llm-tool
        --model --format name llm_tool model display_name model_server model_properties launch_config yolo
        permission_mode flags use_worktrees create_branch docker prompt_prefix prompt_suffix operator_relay remote_agent
        x_agnt x_openai unmapped_core kind base_url api_key_env extra_env from-tool import-profile profile""",
        list(reasons("operator")),
    ),
}
DOCUMENTED = {title: {*words.split(), *known} for title, (words, known) in _FIXED.items()}
"""What the tools document, and what an import names with its reason."""


def section(title: str) -> list[tuple[str, str]]:
    """Return the rows of the table below a heading that begins with ``title``."""
    (text,) = [part for part in PAGE.split("\n## ") if part.startswith((f"{title}\n", f"{title} "))]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [(row[0].strip(), row[1].strip()) for row in rows[1:]]


def named(title: str) -> set[str]:
    """Return the words in the first column."""
    code = [found for theirs, _ in section(title) for found in _CODE.findall(theirs)]
    return {word for text in code for word in re.split(r"[^A-Za-z0-9_-]+", text)}


@pytest.mark.parametrize("title", DOCUMENTED)
def test_every_documented_command_and_key_has_a_row(title: str) -> None:
    assert DOCUMENTED[title] - named(title) == set()


@pytest.mark.parametrize("title", DOCUMENTED)
def test_no_row_is_empty(title: str) -> None:
    assert [theirs for theirs, ours in section(title) if len(ours) < 3] == []
