"""What other tools with the same purpose get wrong, and the tests that hold it here.

The table is for readers who ask "is that tested, and where?"; a test that is renamed or removed is noticed.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PROMISES: dict[str, tuple[str, ...]] = {
    "An answer that talks about failures (429, quota) does not count as one.": (
        "runners/backends/test_answers_about_failures.py::test_an_answer_about_failures_is_an_answer",
        "runners/driver/test_driver.py::test_an_answer_about_failures_is_no_failure",
    ),
    "A prompt of 256 KiB arrives, or is refused before anything starts.": (
        "runners/driver/test_driver.py::test_a_prompt_of_half_a_megabyte_that_looks_like_options_arrives",
        "runners/driver/test_driver.py::test_prompts_that_cannot_be_delivered_are_refused",
        "runners/defined_tools/test_defined_tools.py::test_a_large_prompt_arrives_exactly",
        "integration/agent_clis/test_opencode.py::test_a_prompt_of_any_size_arrives_as_it_is",
    ),
    "A prompt that begins with a dash is not taken for an option.": (
        "runners/driver/test_driver.py::test_a_prompt_of_half_a_megabyte_that_looks_like_options_arrives",
        "runners/driver/test_driver.py::test_prompts_that_cannot_be_delivered_are_refused",
        "runners/defined_tools/test_defined_tools.py::test_the_prompt_arrives",
        "integration/agent_clis/test_claude.py::test_a_prompt_arrives_as_it_is",
        "integration/agent_clis/test_codex.py::test_a_prompt_arrives_as_it_is",
    ),
    "Each field of a delegator has an effect or is refused by its name.": (
        "config/validation/test_workspace_rules.py::test_each_launch_field_has_an_effect_or_is_refused_by_name",
        "runners/test_supported_options.py::test_supported_is_what_is_not_refused",
        "runners/test_supported_options.py::test_every_launch_and_limit_field_is_supported_somewhere",
    ),
    "A key is in no argument, environment of a child, log, journal or prompt.": (
        "engine/test_cancel_and_limits.py::test_a_key_never_reaches_journal_log_prompt_or_argv",
        "runners/model_loop/test_model_loop.py::test_keys_reach_neither_the_server_nor_the_journal",
        "runners/backends/test_openai.py::test_the_key_is_in_the_header_and_nowhere_else",
        "frontends/cli/test_app.py::test_a_key_is_never_an_argument",
    ),
    "Files with secrets are left out unless they are named.": (
        "engine/text_recipes/test_corpus.py::test_secrets_and_binary_files_of_folders_are_left_out_and_named",
        "engine/text_recipes/test_corpus.py::test_the_name_that_a_link_hides_counts_as_a_secret",
        "runners/model_loop/test_model_loop.py::test_files_with_secrets_stay_on_this_machine",
    ),
    "The same test command runs again after an edit.": (
        "runners/model_loop/test_model_loop.py::test_a_test_that_failed_runs_again_after_the_edit_and_passes",
        "runners/model_loop/test_model_loop.py::test_the_same_call_is_executed_again",
    ),
    "A minified file can be read to its end.": (
        "runners/model_loop/test_model_loop.py::test_every_byte_of_a_file_of_one_line_can_be_read",
    ),
    "A delegator that is declared local reaches no other host.": (
        "runners/backends/test_openai.py::test_local_means_this_machine",
        "engine/running/test_fallback.py::test_a_delegator_that_is_declared_local_has_no_remote_fallback_at_all",
        "config/test_locality.py::test_an_address_is_local_by_what_it_resolves_to",
    ),
    "A cancel works while it is queued, prepared, answered, in a tool, checked; a kill while it is applied.": (
        "engine/queueing/test_queue_order.py::test_a_paused_delegation_can_be_cancelled",
        "engine/test_cancel_and_limits.py::test_cancel_at_once_in_the_preparing_phase",
        "engine/test_cancel_and_limits.py::test_cancel_from_another_process",
        "runners/model_loop/test_model_loop.py::test_a_cancel_ends_the_command_and_keeps_the_work",
        "engine/test_cancel_and_limits.py::test_cancel_while_checks_run",
        "engine/test_decision_kills.py",
    ),
    "One of eight that crashes leaves the others as they are.": (
        "engine/running/test_start.py::test_one_of_eight_that_crashes_leaves_the_others_as_they_are",
    ),
    "When a server limits the rate, all processes wait.": (
        "runners/backends/test_exchange.py::test_requests_of_all_processes_wait_together_after_a_refusal",
        "runners/backends/test_exchange.py::test_a_refusal_is_passed_on_to_other_processes",
    ),
    "Whatever a backend sends, there is one outcome, and no file is damaged.": (
        "runners/backends/test_any_backend.py::test_whatever_a_backend_sends_there_is_one_outcome_in_time",
        "runners/backends/test_any_backend.py::test_whatever_a_backend_sends_the_target_of_write_is_whole",
        "runners/backends/test_any_backend.py::test_whatever_a_backend_calls_there_is_one_outcome_and_no_half_file",
        "runners/backends/test_recorded_servers.py",
        "integration/model_servers/test_llama_server.py",
        "integration/model_servers/test_litellm.py",
        "integration/model_servers/test_nginx.py",
    ),
}


@pytest.mark.parametrize("promise", PROMISES)
def test_what_holds_a_promise_exists(promise: str) -> None:
    for place in PROMISES[promise]:
        path, _, name = place.partition("::")
        text = (TESTS / path).read_text("utf-8")
        assert re.search(rf"^(async )?def {name or 'test_'}", text, re.MULTILINE), place
