"""Language features for Understudy's own files, as functions of a text: no transport, no document, no client in sight.

``know`` reads the configuration once (some milliseconds, no network, no process); everything else is a
function of the text and of that. Places are lines and code points, both from 0. No text and no cursor
makes any of them raise. Understanding files is the config room's: its rules (``drafts``), its shapes
(``fields``); what is only here is reading a text that is being typed (``scan``).

What may not happen here: no file is written, nothing of a workspace that is not trusted is read.
"""

from __future__ import annotations

from understudy.config.folders import FileKind
from understudy.faces.lsp.own_files.completion import Completion, complete
from understudy.faces.lsp.own_files.diagnostics import Finding, diagnostics, kind_of
from understudy.faces.lsp.own_files.fixes import Edit, Fix, fixes
from understudy.faces.lsp.own_files.hover import Hover, hover
from understudy.faces.lsp.own_files.known import Known, know
from understudy.faces.lsp.own_files.text import Place, Span

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
