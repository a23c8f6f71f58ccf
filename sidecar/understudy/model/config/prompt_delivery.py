"""How a custom command gets its prompt."""

from __future__ import annotations


def delivery_of(command: list[str], asked: str | None) -> tuple[str, str | None]:
    """Return how ``command`` gets its prompt (``argument``, ``file``, ``stdin``), and a contradiction if there is one.

    Without ``asked`` the template decides: ``{prompt}`` → argument, ``{promptFile}`` → file, neither → standard input.
    """
    joined = "\n".join(command)
    delivery = asked or ("argument" if "{prompt}" in joined else "file" if "{promptFile}" in joined else "stdin")
    if delivery != "argument" and "{prompt}" in joined:
        return delivery, f"delivers its prompt by {delivery} but has {{prompt}} in its command"
    if delivery == "file" and "{promptFile}" not in joined:
        return delivery, "delivers its prompt as a file but has no {promptFile} in its command"
    return delivery, None
