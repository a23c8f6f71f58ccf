"""The language ID of a file, from its name."""

from __future__ import annotations

from pathlib import PurePath

_LANGUAGES = {
    ".py": "python", ".pyi": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".jsx": "javascriptreact", ".ts": "typescript", ".mts": "typescript", ".cts": "typescript",
    ".tsx": "typescriptreact", ".go": "go", ".rs": "rust", ".java": "java", ".kt": "kotlin", ".rb": "ruby",
    ".php": "php", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".hpp": "cpp", ".cs": "csharp",
    ".swift": "swift", ".scala": "scala", ".lua": "lua", ".sh": "shellscript", ".md": "markdown",
}  # fmt: skip
"""LSP language IDs by file name extension, for the languages that tests are most often written for."""


def language_of(name: str) -> str:
    """Return the language ID of the file ``name``, empty when it is not known."""
    return _LANGUAGES.get(PurePath(name).suffix.lower(), "")
