"""Short requests to servers of Google's Gemini API (https://ai.google.dev/api), which only Gemini CLI works with.

A connection test lists their models and asks one of them; our own loop does not support this protocol.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

PROTOCOL = "gemini"
_VERSION = re.compile(r"/v1(beta)?/?$")


class GeminiProbe:
    """Builds the requests of a connection test."""

    answer_field = "candidates"

    @staticmethod
    def path_of(model: str) -> str:
        """Return the path of a request to ``model``."""
        return f"/models/{model.removeprefix('models/')}:generateContent"

    @staticmethod
    def below(base: str, path: str) -> str:
        """Return where ``path`` is: addresses are given with and without the version, which Gemini CLI adds."""
        return path if _VERSION.search(base) else f"/v1beta{path}"

    @staticmethod
    def headers(headers: Mapping[str, str], key: str | None) -> dict[str, str]:
        """Return the headers with the key where this API expects it; it takes ``Authorization`` for a login."""
        kept = {name: value for name, value in headers.items() if name != "Authorization"}
        return kept | ({"x-goog-api-key": key.strip()} if key and key.strip() else {})

    @staticmethod
    def probe(prompt: str, tokens: int) -> dict[str, Any]:
        """Return the body of a short request. The model is in its path, and unknown fields are refused."""
        return {
            "contents": [{"role": "user", "parts": [{"text": prompt}]}],
            "generationConfig": {"maxOutputTokens": tokens},
        }
