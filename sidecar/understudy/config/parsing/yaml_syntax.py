"""Read the syntax of YAML within limits, as PyYAML's nodes.

Nothing is constructed, so tags create no objects. Aliases are refused, because a few lines of them can stand for
gigabytes.
"""

from __future__ import annotations

from typing import Any

NULL = "tag:yaml.org,2002:null"


class Refused(Exception):  # noqa: N818 - a finding, not an error
    """A text that is not read, with a zero-based place in it."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        """Store the parts."""
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


def compose(text: str, *, most_nodes: int, most_levels: int) -> Any:
    """Return the root node of the only document, or None if there is none; raise ``Refused`` with a place."""
    import yaml  # here, because few requests need it

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_bounds(yaml, loader, text, most_nodes, most_levels)
        return yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"The YAML cannot be read: {error.problem or error.context or 'syntax error'}."
        raise Refused(message, mark.line if mark else 0, mark.column if mark else 0) from None
    except yaml.YAMLError:  # a character that YAML does not allow
        raise Refused("The YAML cannot be read: it contains a control character.") from None


def _check_bounds(yaml: Any, loader: Any, text: str, most_nodes: int, most_levels: int) -> None:
    depth = 0
    for nodes, event in enumerate(yaml.parse(text, Loader=loader), 1):
        at = (event.start_mark.line, event.start_mark.column)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise Refused("Anchors and aliases (& and *) are not read.", *at)
        if isinstance(event, yaml.DocumentStartEvent) and event.start_mark.line and event.explicit:
            raise Refused("There is more than one document.", *at)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > most_levels:
            raise Refused(f"It is nested more than {most_levels} levels deep.", *at)
        if nodes > most_nodes:
            raise Refused(f"It has more than {most_nodes} values.", *at)
