"""Bounds on connections: time for each phase of a request, and room for new ones.

uvicorn waits for ever for the head and the body of a request, and for a client that does not read;
with all places taken it refuses everybody, whoever took them. Here a connection that makes no
progress is closed, and of too many the oldest idle one of the host that has most, so that a new
one finds a place.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, Literal

from uvicorn.protocols.http.h11_impl import H11Protocol

# Event loop of the server: TLS handshakes take no longer than the head of a request may.
#
# uvicorn has no setting for that, and asyncio waits for a minute.

HANDSHAKE_SECONDS: Final = 10.0


class _Loop(asyncio.SelectorEventLoop):
    async def create_server(self, *given: Any, **named: Any) -> Any:
        if named.get("ssl") is not None:
            named.setdefault("ssl_handshake_timeout", HANDSHAKE_SECONDS)
        return await super().create_server(*given, **named)


def new_loop() -> asyncio.AbstractEventLoop:
    return _Loop()


Phase = Literal["head", "body", "answer", "work"]

SECONDS: Final[dict[Phase, float]] = {"head": 10.0, "body": 30.0, "answer": 60.0}
"""A phase may last so long: the head of a request is awaited, its body, or that the client reads
on. Whoever follows events may be silent for ever."""
LOOK_SECONDS: Final = 1.0


class ConnectionBounds:
    """Bounds of all connections of one server; used from its event loop only. An instance is what
    `uvicorn.Config(http=...)` takes."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`most`: fewer than where the server refuses new ones."""
        self._most = most
        self._clock = clock
        self._hosts: dict[str, dict[_Connection, None]] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self.closed = 0
        """Connections that were closed for want of progress or of room."""

    def __call__(self, **given: Any) -> asyncio.Protocol:
        return _Connection(self, **given)

    def told(self) -> dict[str, int]:
        """For /health."""
        return {"open": self._count, "closed": self.closed}

    def enter(self, connection: _Connection) -> None:
        if self._count >= self._most:
            self._make_room()
        self._hosts.setdefault(connection.host, {})[connection] = None
        self._count += 1
        connection.note(self._clock())
        if self._timer is None:
            self._timer = connection.loop.call_later(LOOK_SECONDS, self._look, connection.loop)

    def leave(self, connection: _Connection) -> None:
        mine = self._hosts.get(connection.host, {})
        if connection in mine:
            del mine[connection]
            self._count -= 1
            if not mine:
                del self._hosts[connection.host]

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = self._clock()
        for connection in [each for some in self._hosts.values() for each in some]:
            if connection.is_late(now):
                self._close(connection)
        self._timer = loop.call_later(LOOK_SECONDS, self._look, loop) if self._count else None

    def _make_room(self) -> None:
        busiest = max(self._hosts.values(), key=len)
        for phase in SECONDS:
            for connection in busiest:
                if connection.phase == phase:
                    self._close(connection)
                    return

    def _close(self, connection: _Connection) -> None:
        self.closed += 1
        self.leave(connection)
        connection.transport.abort()


class _Connection(H11Protocol):
    def __init__(self, bounds: ConnectionBounds, **given: Any) -> None:
        super().__init__(**given)
        self._bounds = bounds
        self._reads = 0
        """Times that the client has read on."""
        self._state: tuple[Any, ...] = ()
        self._since = 0.0

    @property
    def host(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def phase(self) -> Phase:
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return "head"
        if cycle.more_body:
            return "body"
        return "answer" if self.flow.write_paused else "work"

    def note(self, now: float) -> None:
        """Note since when it is where it is."""
        state = (self.phase, self.cycle, self._reads)
        if state != self._state:
            self._state, self._since = state, now

    def is_late(self, now: float) -> bool:
        self.note(now)
        return now - self._since > SECONDS.get(self.phase, now)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._bounds.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._bounds.leave(self)
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        self._reads += 1
        super().resume_writing()
