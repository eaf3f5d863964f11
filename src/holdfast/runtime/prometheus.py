"""Prometheus endpoint over HTTP, on this machine only.

Anyone who may log in to the machine may read it; it answers no other address than 127.0.0.1.
"""

from __future__ import annotations

from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any, Final, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from holdfast.errors import InvalidArgumentError

LOOPBACK: Final = "127.0.0.1"

SLOWEST_REQUEST: Final = 5.0
"""Seconds after which a client that sends or takes nothing is hung up on."""


class _QuietHandler(WSGIRequestHandler):
    timeout = SLOWEST_REQUEST

    def log_message(self, format: str, *args: Any) -> None:
        """A request is not worth a line on the driver's error output."""


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each request; closing waits for them."""


class MetricsServer:
    """Answers http://127.0.0.1:PORT/metrics until it is closed. A context manager."""

    def __init__(self, server: WSGIServer) -> None:
        self._server = server
        self._thread = Thread(target=server.serve_forever, name="holdfast metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/metrics"

    def close(self) -> None:
        """Finish the requests under way and free the port. May be called again."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve_collector(collector: Collector, port: int = 0) -> MetricsServer:
    """Serve what it collects to Prometheus; port 0 takes any free one, see `.port`."""
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= 65535:
        raise InvalidArgumentError(
            f"port: {port!r} is not a port; give a number from 1 to 65535, or 0 for any free one"
        )
    registry = CollectorRegistry(auto_describe=True)
    registry.register(collector)
    try:
        server = make_server(LOOPBACK, port, make_wsgi_app(registry), _Server, _QuietHandler)
    except OSError as error:
        raise InvalidArgumentError(
            f"port: cannot serve metrics on {LOOPBACK}:{port}: {error.strerror}; "
            "give another port, or 0 for any free one"
        ) from error
    return MetricsServer(server)
