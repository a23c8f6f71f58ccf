"""Language features for Understudy's configuration files, as functions of a text, without transport or client.

``know`` reads the configuration once (some milliseconds, no network, no process); everything else is a function of
the text and of the result of ``know``, and never raises, whatever the text and the cursor. Positions are lines and code
points, both from 0. The rules are those of ``config``: ``config.loading.unsaved`` finds problems in an unsaved text,
``config.reference.fields`` describes the fields. Only ``toml_scanner``, which reads incomplete TOML, is specific to
this package.

Nothing here writes a file or reads one of an untrusted workspace.
"""

from __future__ import annotations

from understudy.api.config_language.completion import Completion, complete
from understudy.api.config_language.diagnostics import Finding, diagnostics, kind_of
from understudy.api.config_language.hover import Hover, hover
from understudy.api.config_language.known_names import Known, know
from understudy.api.config_language.quick_fixes import Edit, Fix, fixes
from understudy.api.config_language.text_positions import Place, Span
from understudy.config.locations import FileKind

__all__ = [
    "Completion",
    "Edit",
    "FileKind",
    "Finding",
    "Fix",
    "Hover",
    "Known",
    "Place",
    "Span",
    "complete",
    "diagnostics",
    "fixes",
    "hover",
    "kind_of",
    "know",
]
