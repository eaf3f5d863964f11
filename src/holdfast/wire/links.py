"""The caller's end of a link: keeps one exchange of messages with another party going, for ever.

Whatever breaks it, it is made anew, at once and then again and again with short pauses. Messages
that cannot go out are dropped: the protocol above asks again for what it misses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from secrets import token_bytes
from threading import Event, Lock, Thread
from typing import Any, Self

import pyarrow as pa
import pyarrow.flight as fl

from holdfast.wire.addresses import Address, hang_up_client
from holdfast.wire.client import connect, explain
from holdfast.wire.codec import MAX_MESSAGE, decode
from holdfast.wire.errors import WireError
from holdfast.wire.frames import LINK, Assembly, Hello, Message
from holdfast.wire.outbox import Outbox
from holdfast.wire.pulse import LOOKS, Pulse, check_times
from holdfast.wire.security import OPEN, Security, check_address

__all__ = ["Link"]

PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Seconds before the next attempt, by how many have failed in a row; the last one for all more."""
PATIENCE = 5.0
"""Seconds for the threads of a broken connection to end."""

_BROKEN = (fl.FlightError, pa.ArrowException, OSError, WireError)

logger = logging.getLogger(__name__)


class Link:
    """From `me` to the party `to`, which serves at the address. A context manager."""

    def __init__(
        self,
        me: str,
        to: str,
        address: tuple[str, int] | str,
        security: Security | None,
        receive: Callable[[str, Message], None],
        *,
        heartbeat: float = 0.2,
        silence: float = 2.0,
        max_message: int = MAX_MESSAGE,
    ) -> None:
        """`receive(to, message)` is called by a thread of the link, for one message at a time.
        `heartbeat`: seconds after which a sign of life is sent if there is nothing else. After
        `silence` seconds without any of the other side the connection is made anew."""
        self.to = to
        self.address = Address.of(address)
        security = security or OPEN
        check_address(self.address.host, security)
        check_times(heartbeat, silence)
        self.outbox = Outbox()
        self.connections = 0
        """How many times the other side has answered on a new connection."""
        self.received = 0
        self.received_bytes = 0
        self.refused = 0
        """Messages that could not be read."""
        self.trouble = ""
        """Why there is no connection, if there is none."""
        self._me = me
        self._receive = receive
        self._security = security
        self._heartbeat = heartbeat
        self._silence = silence
        self._max_message = max_message
        self._id = token_bytes(16)
        self._connected = Event()
        self._closing = Event()
        self._thread = Thread(target=self._keep, name=f"holdfast link to {to}", daemon=True)
        self._thread.start()

    @property
    def is_connected(self) -> bool:
        """Whether the other side was heard on the present connection."""
        return self._connected.is_set()

    def send(self, message: Message) -> bool:
        """Never waits; False if the message was dropped. What waited for longer than `silence`
        when a connection is made is dropped then."""
        return self.outbox.send(message)

    def close(self) -> None:
        """May be called again, but not from `receive`."""
        self._closing.set()
        self.outbox.close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refuse(self, why: object) -> None:
        """Count and log that a message of the other side is of no use."""
        self.refused += 1
        logger.warning("%s: refused message: %s (from %s)", self._me, why, self.to)

    def _keep(self) -> None:
        attempt = failures = 0
        while not self._closing.wait(PAUSES[min(failures, len(PAUSES) - 1)]):
            connection = _Connection(self, attempt)
            trouble = connection.run()
            self._connected.clear()
            attempt += 1
            # One that was made and broken at once again counts as failed too.
            failures = 0 if connection.looks > LOOKS // 2 and connection.heard else failures + 1
            if _gist(trouble) != _gist(self.trouble) and not self._closing.is_set():
                logger.warning("%s: no link to %s: %s", self._me, self.to, trouble)
            self.trouble = trouble

    # What follows is called by the threads of a connection.

    def heard(self) -> None:
        """The first sign of life of a connection."""
        self.connections += 1
        self.trouble = ""
        self._connected.set()
        logger.info("%s: link to %s at %s", self._me, self.to, self.address)

    def take(self, data: bytes) -> None:
        try:
            message = decode(data, self._max_message)
        except WireError as error:
            self.refuse(error)
            return
        self.received += 1
        self.received_bytes += len(data)
        try:
            self._receive(self.to, message)
        except Exception:
            logger.exception("%s: taking a message of %s failed", self._me, self.to)


def _gist(trouble: str) -> str:
    """Without what gRPC says in other words with every attempt."""
    return trouble.partition("; last error:")[0]


class _Connection:
    """One attempt: a thread reads, one writes, and `run` watches both."""

    def __init__(self, link: Link, attempt: int) -> None:
        self._link = link
        self._hello = Hello(link._me, link._id, attempt)
        self._client: Any = None
        self._lock = Lock()
        self._ended = Event()
        """One of the threads has ended, or both are to end."""
        self._pulse = Pulse()
        self._call: tuple[Any, Any] | None = None
        self._trouble = ""
        name = f"holdfast link to {link.to}"
        self._reading = Thread(target=self._read, name=f"{name}, reading", daemon=True)
        self._writing = Thread(target=self._write, name=f"{name}, writing", daemon=True)
        self.heard = False
        self.looks = 0

    def run(self) -> str:
        """Until it breaks; answers why."""
        link = self._link
        link.outbox.forget(link._silence)
        self._reading.start()
        while not self._ended.wait(link._silence / LOOKS) and not link._closing.is_set():
            self.looks += 1
            if not self._pulse.look():
                self._trouble = self._trouble or f"nothing was heard for {link._silence:g} s"
                break
        self._end()
        return self._trouble or "it was ended"

    def _end(self) -> None:
        with self._lock:
            self._ended.set()
            call = self._call
        self._link.outbox.wake()
        if call is not None:
            call[1].cancel()
        for _ in range(int(PATIENCE / 0.2)):
            for thread in (self._reading, self._writing):
                if thread.ident is not None:
                    thread.join(0.1)
            if not (self._reading.is_alive() or self._writing.is_alive()):
                break
            # A write into a full socket, or an attempt to connect, does not hear of the end.
            hang_up_client(self._link.address)
        else:
            logger.error("link to %s: a connection does not end; left alone", self._link.to)
            return
        with suppress(*_BROKEN):
            if self._call is not None:
                self._call[0].close()
        with suppress(*_BROKEN):
            if self._client is not None:
                self._client.close()

    def _read(self) -> None:
        link = self._link
        try:
            self._client = connect(link.address, link._security, link._silence)
            options = fl.FlightCallOptions(headers=link._security.headers)
            # Waits for the connection.
            writer, reader = self._client.do_exchange(
                fl.FlightDescriptor.for_command(LINK), options
            )
            with self._lock:
                self._call = writer, reader
                if self._ended.is_set():
                    reader.cancel()
            writer.write_metadata(self._hello.frame())
            self._writing.start()
            assembly = Assembly(link._max_message)
            while True:
                frame = reader.read_chunk().app_metadata
                if not self.heard:
                    self.heard = True
                    link.heard()
                self._pulse.beat()
                data = assembly.take(b"" if frame is None else frame.to_pybytes())
                if data is not None:
                    with self._pulse.rest():
                        link.take(data)
        except StopIteration:
            self._trouble = self._trouble or "the other side has ended it"
        except _BROKEN as error:
            said = error
            if isinstance(error, WireError):
                link.refused += 1
            else:
                said = explain(link.address, error)
            self._trouble = self._trouble or str(said)
        finally:
            self._ended.set()

    def _write(self) -> None:
        assert self._call is not None
        try:
            self._link.outbox.write_all(
                self._call[0].write_metadata, beat=self._link._heartbeat, ended=self._ended.is_set
            )
        except _BROKEN:
            # Reading gets to know why.
            pass
        finally:
            self._ended.set()
