"""Runs the console's web server in a thread, on loopback unless there are TLS and a token."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, Self

import uvicorn

from holdfast.console.breaking import Breaker
from holdfast.console.collector import Collector
from holdfast.console.server import make_app
from holdfast.errors import InvalidArgumentError
from holdfast.topology import Topology, is_loopback
from holdfast.wire.security import Security, check_address

__all__ = ["ConsoleServer", "console_security"]

STARTED: Final = 10.0
LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "::1", "[::1]")


def console_security(topology: Topology, token_file: Path | None = None) -> Security:
    """The console's own token, from a file or made for this run, and the topology's certificate."""
    given = topology.security
    files: dict[str, Any] = {}
    if given is not None:
        for name in ("certificate", "key", "authority"):
            path = getattr(given, name)
            files[name] = None if path is None else topology.path(path)
    read = Security.read(token_file=token_file, **files)
    token = read.token or secrets.token_hex(16)
    return Security(token, read.certificate, read.key, read.authority)


class ConsoleServer:
    """Serves until it is closed. A context manager. Port 0 takes any free one: see `url`."""

    def __init__(
        self,
        collector: Collector,
        security: Security,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        names: tuple[str, ...] = (),
        breaker: Breaker | None = None,
    ) -> None:
        """`names`: what else the browser may call this host."""
        check_address(host, security)
        self._closing = Event()
        self.security = security
        self.host = host
        self._is_open = is_loopback(host.strip("[]"))
        files = collector.topology.security
        tls: dict[str, Any] = {}
        if not self._is_open:
            if files is None or files.certificate is None or files.key is None:
                raise InvalidArgumentError(
                    f"console: {host} can be reached from other machines, and the topology has no "
                    "certificate; add certificate and key under [security], or use 127.0.0.1"
                )
            tls = {
                "ssl_certfile": str(collector.topology.path(files.certificate)),
                "ssl_keyfile": str(collector.topology.path(files.key)),
            }
        self._socket = _listen(host, port)
        self.port = self._socket.getsockname()[1]
        app = make_app(
            collector,
            security,
            hosts=[*LOCAL_NAMES, host, *names],
            is_open=self._is_open,
            breaker=breaker,
            is_closing=self._closing.is_set,
        )
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                limit_concurrency=200,
                timeout_graceful_shutdown=1,
                **tls,
            )
        )
        self._thread = Thread(
            target=self._server.run, args=([self._socket],), name="holdfast console", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        scheme = "http" if self._is_open else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}/"

    @property
    def url_with_token(self) -> str:
        """What comes after # stays in the browser."""
        return f"{self.url}#token={self.security.token}"

    def close(self) -> None:
        self._closing.set()
        self._server.should_exit = True
        self._thread.join(STARTED)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _listen(host: str, port: int) -> socket.socket:
    bare = host.strip("[]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    try:
        return socket.create_server((bare, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidArgumentError(
            f"console: cannot serve on {host}:{port}: {why}; give another port, or 0 for any"
        ) from None
