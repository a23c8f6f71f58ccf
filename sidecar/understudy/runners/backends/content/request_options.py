"""Options of a request that models differ in: the default output limit, and what to change after a refusal.

A server that refuses an option names it in its message. The request is sent again without it, or with the value that
the message names: the same prompt is a better answer than an error about an option.
"""

from __future__ import annotations

import re
from typing import Any

OUTPUT_TOKENS = 65_536
"""The output limit where a protocol requires one, the user has set none, and the model's own is not known.

Thinking counts, and a whole file may have a thousand lines.
"""
_FEW_OUTPUT_TOKENS = 8192
"""What is asked for instead where the server refuses that, and does not say what the model can write."""
_CLAUDE_OUTPUT_TOKENS = (
    (r"claude-3-(opus|sonnet|haiku)", 4096),
    (r"claude-3-5-", 8192),
    (r"claude-opus-4(-[01])?(-2\d{7})?$", 32_000),
    (r"claude-(3-7|[a-z]+-[4-9])", 64_000),
)
"""The limits of Claude models (https://platform.claude.com/docs/en/about-claude/models/overview), first match wins."""

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "seed")
_UNSUPPORTED = r"(?i)not support|unsupported|deprecated|not (?:be )?(?:allowed|permitted)|cannot|unknown|extra"
_LARGEST = (
    r"max_tokens\D{0,20}\d+\s*>\s*(\d{1,9})",  # max_tokens: 8192 > 4096, which is the maximum
    r"(?i)at most (\d{1,9}) (?:completion |output )?tokens",
    r"(?is)max_(?:completion_|output_)?tokens\W.{0,60}?less than or equal to\W{0,3}(\d{1,9})",
    r"(?is)max_(?:completion_|output_)?tokens\W.{0,60}?range\W.{0,40}?\[\d{1,9}, ?(\d{1,9})\]",  # DeepSeek
)
_CONTEXT = (
    r"(?is)context length is (\d{1,9}) tokens.{0,120}?(?:\(|request has )(\d{1,9}) (?:in the messages|input tokens)"
)
"""Compiled when a request is refused, which few are: that takes as long as importing five modules."""
_LEAST = 256
"""An answer with a smaller limit is not worth a request."""


def default_output_tokens(model: str) -> int:
    """Return the output limit for a request that must have one."""
    name = model.lower().rpartition("/")[2]
    return next((limit for pattern, limit in _CLAUDE_OUTPUT_TOKENS if re.match(pattern, name)), OUTPUT_TOKENS)


def adapt(body: dict[str, Any], status: int, refusal: str) -> str | None:
    """Change ``body`` as a refusal asks; return what was changed, None if the refusal is about something else."""
    if status not in {400, 422}:
        return None
    largest = _largest(refusal)
    renamed = "max_completion_tokens" in refusal and "max_completion_tokens" not in body
    if "max_tokens" in body and renamed and largest is None:
        body["max_completion_tokens"] = body.pop("max_tokens")
        return "It is sent as `max_completion_tokens`."
    for name in _LIMITS:
        limit = body.get(name)
        if isinstance(limit, int) and largest is not None and _LEAST <= largest < limit:
            body[name] = largest
            return f"The model writes at most {largest} tokens; `{name}` was {limit}."
        if limit == OUTPUT_TOKENS and largest is None and name in refusal:
            body[name] = _FEW_OUTPUT_TOKENS
            return f"The model refused `{name}` = {limit}; {_FEW_OUTPUT_TOKENS} is asked for."
    for name in _SAMPLING:
        if name in body and re.search(rf"\b{name}\b", refusal) and re.search(_UNSUPPORTED, refusal):
            value = body.pop(name)
            return f"The model refused `{name}` = {str(value)[:40]}, which is left out."
    return None


def _largest(refusal: str) -> int | None:
    for pattern in _LARGEST:
        match = re.search(pattern, refusal)
        if match is not None:
            return int(match[1])
    context = re.search(_CONTEXT, refusal)
    return int(context[1]) - int(context[2]) if context is not None else None
