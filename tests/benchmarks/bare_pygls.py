"""A bare pygls server with one typed request, to measure ours against."""

import attrs
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol


@attrs.define
class Params:
    """What ``understudy/delegations/get`` takes."""

    id: str


@attrs.define
class Request:
    """The message."""

    id: int | str
    method: str
    jsonrpc: str
    params: Params


class Protocol(LanguageServerProtocol):
    """pygls, told the type of one request, as its documentation says."""

    def get_message_type(self, method):
        """Return the class of a message."""
        return Request if method == "bench/get" else super().get_message_type(method)


server = LanguageServer("bare", "1", protocol_cls=Protocol)


@server.feature("bench/get")
def get(params: Params):
    """Answer."""
    return {"version": params.id, "protocolVersion": 1}


server.start_io()
