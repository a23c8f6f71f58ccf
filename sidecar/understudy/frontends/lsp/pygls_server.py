"""The features of the editor, served by pygls: everything that needs lsprotocol is imported from here.

``session`` loads this module when an editor needs it, because the import takes a third of a second.
"""

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

import enum
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import cattrs
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

import understudy
from understudy.frontends.lsp.editor import aggregator, server_capabilities
from understudy.frontends.lsp.strict_protocol import StrictProtocol

if TYPE_CHECKING:
    from understudy.frontends.lsp.editor.client import Client
    from understudy.frontends.lsp.editor.feature_host import Review

log = logging.getLogger(__name__)


def prepare() -> cattrs.Converter:
    """Create the converter, which takes a while and can be done in any thread."""
    # pygls logs every message body at INFO, and bodies contain prompts and keys.
    logging.getLogger("pygls").setLevel(logging.ERROR)
    return converter()


class PyglsServer(LanguageServer):
    """The ``FeatureHost`` of one editor, and the ``StandardRequests`` of its session."""

    protocol: StrictProtocol
    review: Review

    def __init__(self, client: Client, converter: cattrs.Converter) -> None:
        """Register every feature with ``client``."""
        self.on_progress_cancel: list[Callable[[str | int], None]] = []
        super().__init__(
            server_capabilities.NAME,
            understudy.__version__,
            protocol_cls=StrictProtocol,
            converter_factory=lambda: converter,
        )
        client.unstructure = converter.unstructure
        self.client = self.protocol.client = client
        self.aggregator = aggregator.Aggregator(client)
        register_features(self)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log an error; pygls would send it to the editor, and never exit if the editor is gone."""
        log.warning("%s: %s", getattr(source, "__name__", source), error)

    def answer(self, method: str, handler: Callable[[Any], Awaitable[Any]]) -> None:
        """Register the handler of a standard request."""

        # pygls sets attributes on handlers, which bound methods do not allow.
        async def answered(params: Any) -> Any:
            return await handler(params)

        self.feature(method)(answered)

    def add_command(self, name: str, handler: Callable[..., Awaitable[Any]]) -> None:
        """Register the handler of a command, which gets the command's arguments."""
        self.command(name)(handler)

    # -- StandardRequests ------------------------------------------------------------------------------------------

    def request(self, identifier: Any, method: str, params: Any, on_answer: Callable[[], None]) -> None:
        """Answer a request; call ``on_answer`` right before the answer is sent."""
        self.protocol.request(identifier, method, params, on_answer)

    def cancel(self, identifier: Any) -> None:
        """Cancel a pending request."""
        self.protocol.cancel(identifier)

    def cancel_all(self) -> None:
        """Cancel every pending request."""
        self.protocol.cancel_all()

    def cancel_progress(self, token: str | int) -> None:
        """Notify the features that the user cancelled a progress."""
        self.client.run_hooks(self.on_progress_cancel, token)


def converter() -> cattrs.Converter:
    """Return pygls' converter, changed to accept unknown enum values.

    The specification demands that unknown values are ignored (LSP 3.17, "Enumerations" and the notes on capabilities).
    Each enum class needs a hook of its own, because str and int enums match primitives first.
    """
    converter: cattrs.Converter = default_converter()  # type: ignore[no-untyped-call]
    for value in vars(types).values():
        if isinstance(value, type) and issubclass(value, enum.Enum):
            converter.register_structure_hook(value, functools.partial(_either, value))
    return converter


def _either(kind: type[enum.Enum], value: Any, _: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        return value


def register_features(host: FeatureHost) -> None:
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
