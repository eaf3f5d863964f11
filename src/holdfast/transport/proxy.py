"""TCP proxy that breaks links: cuts, resets and slows them down.

What is cut is held back, not lost, as TCP would repeat it: after `heal` it arrives.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from threading import Thread
from typing import Any, Literal, Self

Direction = Literal["to", "from"]

PIECE = 64 << 10


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close at once, with nothing more said than that it is over."""
    connection = writer.get_extra_info("socket")
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Proxy:
    """Listens on a free loopback port for connections to the target. A context manager."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._thread.start()
        self._open: dict[Direction, asyncio.Event] = {}
        self._delay = 0.0
        self._rate = float("inf")
        self._connections: set[asyncio.Task[None]] = set()
        self.bytes: Counter[Direction] = Counter()
        """That came through, `to` the target and `from` it."""
        self.accepted = 0
        self.port = 0
        self._call(self._start)

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def connections(self) -> int:
        """How many are open now."""
        return len(self._connections)

    def cut(self, direction: Direction | None = None) -> None:
        """Hold back everything, or what goes to the target, or what comes from it."""

        async def close() -> None:
            for way in ("to", "from") if direction is None else (direction,):
                self._open[way].clear()

        self._call(close)

    def reset(self) -> None:
        """Close all connections and refuse new ones until `heal`."""
        self._call(self._stop)

    def delay(self, seconds: float) -> None:
        """Everything takes so much longer, each way."""
        self._delay = seconds

    def slow(self, rate: float) -> None:
        """At most so many bytes a second each way of each connection."""
        self._rate = rate

    def heal(self) -> None:
        """As if nothing had been; what was held back arrives."""
        self._delay = 0.0
        self._rate = float("inf")

        async def open_again() -> None:
            for way in self._open.values():
                way.set()
            if not self._server.is_serving():
                await self._listen()

        self._call(open_again)

    def close(self) -> None:
        if self._thread.is_alive():
            self._call(self._stop)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine in the proxy's thread."""
        asyncio.run_coroutine_threadsafe(action(), self._loop).result(10)

    async def _start(self) -> None:
        for way in ("to", "from"):
            self._open[way] = asyncio.Event()
            self._open[way].set()
        await self._listen()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self.accepted += 1
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            _reset(writer)
        finally:
            self._connections.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        try:
            # If one of them fails, so does the connection.
            async with asyncio.TaskGroup() as group:
                self._carry(group, "to", reader, far_writer)
                self._carry(group, "from", far_reader, writer)
        except asyncio.CancelledError:
            _reset(far_writer)
            raise
        except BaseExceptionGroup as failed:
            _reset(far_writer)
            raise failed.exceptions[0] from None
        for ended in (writer, far_writer):
            ended.close()
            with suppress(OSError):
                await ended.wait_closed()

    def _carry(
        self,
        group: asyncio.TaskGroup,
        way: Direction,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        held: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(1024)
        group.create_task(self._take(held, reader))
        group.create_task(self._leave(way, held, writer))

    async def _take(
        self, held: asyncio.Queue[tuple[float, bytes]], reader: asyncio.StreamReader
    ) -> None:
        """Each piece leaves at its due time, so that a delay does not lessen what gets through."""
        while True:
            piece = await reader.read(PIECE)
            await held.put((self._loop.time() + self._delay, piece))
            if not piece:
                return

    async def _leave(
        self,
        way: Direction,
        held: asyncio.Queue[tuple[float, bytes]],
        writer: asyncio.StreamWriter,
    ) -> None:
        while True:
            due, piece = await held.get()
            await asyncio.sleep(max(due - self._loop.time(), len(piece) / self._rate))
            await self._open[way].wait()
            if not piece:
                writer.write_eof()
                return
            self.bytes[way] += len(piece)
            writer.write(piece)
            await writer.drain()
