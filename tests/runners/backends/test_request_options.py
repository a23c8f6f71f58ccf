"""Tests of options that models differ in, with the refusals of real servers."""

from __future__ import annotations

import pytest

from understudy.runners.backends.content.request_options import OUTPUT_TOKENS, adapt, default_output_tokens

NOT_MAX_TOKENS = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)
NO_TEMPERATURE = (
    "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported."
)


@pytest.mark.parametrize(
    ("body", "refusal", "after"),
    [
        ({"max_tokens": 900}, NOT_MAX_TOKENS, {"max_completion_tokens": 900}),
        ({"temperature": 0.2, "top_p": 1}, NO_TEMPERATURE, {"top_p": 1}),
        ({"temperature": 0, "max_tokens": 9}, "`temperature` is deprecated for this model.", {"max_tokens": 9}),
        (
            {"max_tokens": 8192},
            "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for this model",
            {"max_tokens": 4096},
        ),
        (
            {"max_completion_tokens": 200_000},
            (
                "max_tokens is too large: 200000. This model supports at most 16384 completion tokens, whereas you "
                "provided 200000."
            ),
            {"max_completion_tokens": 16384},
        ),
        (
            {"max_tokens": 100_000},
            (
                "`max_tokens` must be less than or equal to `32768`, the maximum value for `max_tokens` is less than the "
                "`context_window` for this model"
            ),
            {"max_tokens": 32768},
        ),
        (
            {"max_tokens": 8192},
            (
                "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (808 in the "
                "messages, 8192 in the completion)."
            ),
            {"max_tokens": 7384},
        ),
        (
            {"max_tokens": OUTPUT_TOKENS},
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 65536. This model's maximum context length is "
                "32768 tokens and your request has 1000 input tokens (65536 > 32768 - 1000)."
            ),
            {"max_tokens": 31768},
        ),
        (
            {"max_tokens": OUTPUT_TOKENS},
            "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
            {"max_tokens": 8192},
        ),
        ({"max_tokens": OUTPUT_TOKENS}, "max_tokens is too high", {"max_tokens": 8192}),
    ],
)
def test_a_refused_option_is_changed_once_and_named(body: dict, refusal: str, after: dict) -> None:
    changed = adapt(body, 400, refusal)
    assert body == after
    assert changed is not None
    assert "`" in changed, "it names the option"
    assert adapt(body, 400, refusal) is None, "the same refusal again is an error"


@pytest.mark.parametrize(
    ("body", "status", "refusal"),
    [
        ({"max_tokens": 900}, 500, NOT_MAX_TOKENS),
        ({"max_tokens": 900}, 400, "The temperature outside is not supported."),
        ({"temperature": 1}, 400, "The model `x` does not exist."),
        ({"temperature": 1}, 400, "temperature must be a number"),
        ({"max_tokens": 8192}, 400, "context length is 8192 tokens, you requested 17000 (8100 in the messages"),
        ({"max_tokens": 8192}, 400, "max_tokens: 8192 > 0"),
        ({"max_tokens": 9000}, 400, "max_tokens is too high"),
    ],
)
def test_other_refusals_change_nothing(body: dict, status: int, refusal: str) -> None:
    before = dict(body)
    assert adapt(body, status, refusal) is None
    assert body == before


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("claude-3-haiku-20240307", 4096),
        ("claude-3-5-sonnet-latest", 8192),
        ("claude-opus-4-20250514", 32_000),
        ("claude-opus-4-1", 32_000),
        ("claude-opus-4-5", 64_000),
        ("claude-haiku-4-5", 64_000),
        ("anthropic/claude-sonnet-5-5", 64_000),
        ("qwen3-coder", 65_536),
    ],
)
def test_the_default_output_limit_is_the_models_own(model: str, limit: int) -> None:
    assert default_output_tokens(model) == limit
