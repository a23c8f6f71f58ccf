"""Register every feature: each is a module with ``register(host)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from understudy.frontends.lsp import config_files
from understudy.frontends.lsp.delegate import (
    answer_documents,
    code_actions,
    permission_messages,
    progress,
    result_messages,
    trust_messages,
)
from understudy.frontends.lsp.delegate.tracked_delegations import TrackedDelegations
from understudy.frontends.lsp.review import review_feature

if TYPE_CHECKING:
    from understudy.frontends.lsp.editor.feature_host import FeatureHost


def register(host: FeatureHost) -> None:
    """Register every feature, in the order in which code actions and lenses are listed."""
    shared = host.aggregator
    host.answer(types.TEXT_DOCUMENT_CODE_ACTION, shared.code_action)
    host.answer(types.TEXT_DOCUMENT_CODE_LENS, shared.code_lens)
    review_feature.register(host)
    config_files.register(host)
    trust_messages.register(host)
    runs = TrackedDelegations(host.client)
    progress.register(host, runs)
    permission_messages.register(host, runs)
    result_messages.register(host, runs)
    answer_documents.register(host)
    # Last, so that the actions of every other source are listed before those that delegate.
    code_actions.register(host)
