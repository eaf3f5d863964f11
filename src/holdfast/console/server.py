"""Web server of the console: the page, its data and its controls.

Answers from what the collector has; asks nobody. Reading needs no token on loopback; doing anything
always needs it. Every answer forbids the browser to load anything from elsewhere.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, Literal, Self

import msgspec
import uvicorn
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.console.chaos import Breaker
from holdfast.console.collector import Collector
from holdfast.console.history import HOUR
from holdfast.console.views import Choice, LiveView, past_view
from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.topology import Topology, is_loopback
from holdfast.transport.security import Security, check_address

PAGE: Final = Path(__file__).parent / "page"
LOOK: Final = 0.1
"""Seconds between two looks for something new to send."""
MOST_PAGES: Final = 32
"""That are sent what is new at the same time."""
NO_TOKEN: Final = (
    "the token is missing or wrong; it stands after # in the address that the console printed"
)
MOST_BODY: Final = 4096
MOST_CELLS: Final = 1000

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be done to a party, or to its link to another."""

    do: Literal["freeze", "thaw", "kill", "cut", "heal"]
    party: str
    to: str = ""


def make_app(
    collector: Collector,
    security: Security,
    *,
    hosts: Sequence[str],
    is_open: bool = True,
    breaker: Breaker | None = None,
    is_closing: Callable[[], bool] = lambda: False,
) -> Starlette:
    """`hosts`: what the browser may call us. `is_open`: whether reading needs no token.
    `breaker`: what can be broken, if anything may."""
    handlers = _Handlers(collector, security, breaker, is_closing)
    return Starlette(
        routes=[
            Route("/", handlers.page),
            Route("/grafana.json", handlers.dashboard),
            Route("/api/outline", handlers.outline),
            Route("/api/events", handlers.events),
            Route("/api/view", handlers.view),
            Route("/api/range", handlers.range),
            Route("/api/act", handlers.act, methods=["POST"]),
            Mount("/page", StaticFiles(directory=PAGE)),
        ],
        middleware=[
            Middleware(_Headers),
            Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False),
            Middleware(_Doorkeeper, security=security, is_open=is_open),
        ],
        exception_handlers={InvalidArgumentError: _refuse},
    )


def _json(value: Any, status: int = 200) -> Response:
    return Response(
        msgspec.json.encode(value),
        status,
        {"cache-control": "no-store"},
        media_type="application/json",
    )


async def _refuse(request: Request, error: Exception) -> Response:
    return _json({"error": str(error)}, 400)


class _Headers:
    """Puts the headers on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *self._added]
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


class _Doorkeeper:
    """Beyond loopback, lets nobody read without the token."""

    def __init__(self, app: ASGIApp, security: Security, is_open: bool) -> None:
        self._app = app
        self._security = security
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/api/") and not self._is_open:
            headers = dict(scope["headers"])
            said = headers.get(b"authorization", b"").decode("utf-8", "surrogateescape")
            if not self._security.admits(said):
                answer = _json({"error": NO_TOKEN}, 401)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


class _Handlers:
    def __init__(
        self,
        collector: Collector,
        security: Security,
        breaker: Breaker | None,
        is_closing: Callable[[], bool],
    ) -> None:
        self._collector = collector
        self._security = security
        self._breaker = breaker
        self._is_closing = is_closing
        self._pages = 0

    async def page(self, request: Request) -> Response:
        return FileResponse(PAGE / "index.html", headers={"cache-control": "no-cache"})

    async def dashboard(self, request: Request) -> Response:
        return FileResponse(PAGE.parent / "grafana.json", filename="holdfast.json")

    async def outline(self, request: Request) -> Response:
        return _json(
            {
                **self._collector.outline,
                "demo": self._breaker is not None,
                "may_act": self._may_act(request),
            }
        )

    async def view(self, request: Request) -> Response:
        now = self._collector.clock()
        at = _number(request, "at", now * 1000) / 1000
        return _json(past_view(self._collector, self._choice(request), min(at, now)))

    async def range(self, request: Request) -> Response:
        """What can be gone back to, at a glance."""
        history, now = self._collector.history, self._collector.clock()
        cells = int(_number(request, "cells", 240))
        if not 1 <= cells <= MOST_CELLS:
            raise InvalidArgumentError(f"cells: give 1 to {MOST_CELLS}")
        # Always an hour: a page that is just open has most of it before it.
        start = now - HOUR
        return _json(
            {
                "start": round(start * 1000),
                "known": round(history.begins(now) * 1000),
                "end": round(now * 1000),
                "cells": history.overview(start, now, cells),
            }
        )

    async def events(self, request: Request) -> Response:
        """Server-sent events, until the page is closed."""
        choice = self._choice(request)
        if self._pages >= MOST_PAGES:
            return _json({"error": f"{MOST_PAGES} pages are open already; close one"}, 503)
        view = LiveView(self._collector, choice)
        return StreamingResponse(
            self._send(view),
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
            media_type="text/event-stream",
        )

    async def _send(self, view: LiveView) -> AsyncIterator[bytes]:
        self._pages += 1
        try:
            while not self._is_closing():
                message = view.next()
                if message is not None:
                    yield b"data: " + message + b"\n\n"
                await asyncio.sleep(LOOK)
        finally:
            self._pages -= 1

    def _choice(self, request: Request) -> Choice:
        asked = request.query_params
        outline = self._collector.outline
        stream = asked.get("stream") or (outline["leaves"] or outline["streams"])[0]
        span = _number(request, "span", 120)
        if not 1 <= span <= HOUR:
            raise InvalidArgumentError(f"span: give 1 to {HOUR} seconds")
        self._collector.tails.of(stream)
        return Choice(stream, asked.get("key", ""), asked.get("column", ""), span)

    def _may_act(self, request: Request) -> bool:
        said = request.headers.get("authorization")
        return self._breaker is not None and self._security.admits(said)

    async def act(self, request: Request) -> Response:
        if not self._security.admits(request.headers.get("authorization")):
            return _json({"error": NO_TOKEN}, 401)
        if self._breaker is None:
            return _json({"error": "nothing can be broken here: start it with --demo"}, 403)
        length = request.headers.get("content-length", "")
        if not length.isdigit() or int(length) > MOST_BODY:
            return _json({"error": "order: send a small JSON object with its length"}, 413)
        try:
            order = msgspec.json.decode(await request.body(), type=Order)
        except (msgspec.MsgspecError, RecursionError):
            raise InvalidArgumentError(
                "order: write do (freeze, thaw, kill, cut or heal), party, and to for a link"
            ) from None
        await run_sync(self._obey, self._breaker, order)
        await run_sync(self._collector.look)
        return _json({"done": order.do})

    @staticmethod
    def _obey(breaker: Breaker, order: Order) -> None:
        match order.do:
            case "freeze":
                breaker.freeze(order.party)
            case "thaw":
                breaker.thaw(order.party)
            case "kill":
                breaker.kill(order.party)
            case "cut":
                breaker.cut(order.party, order.to)
            case "heal":
                breaker.heal(order.party, order.to)


def _number(request: Request, name: str, default: float) -> float:
    said = request.query_params.get(name)
    if said is None:
        return default
    try:
        value = float(said)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidArgumentError(f"{name}: is no number; give one, as 12.5")
    return value


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
