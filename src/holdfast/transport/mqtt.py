"""Thread that serves a client of an MQTT broker.

paho's own waits with `select`, which refuses the files of a process that has more than a thousand
of them: a server with that many subscribers would never reach its broker again. And it ends without
a word when a callback raises.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from paho.mqtt.client import Client


LOOK: Final = 1.0
"""Seconds after which it looks whether the broker should hear from us."""
SOONEST: Final = 1.0
SLOWEST: Final = 5.0
"""Seconds between two attempts to connect."""
GOODBYE: Final = 5.0
"""Seconds that the broker has to take our leave."""

logger = logging.getLogger(__name__)


class BrokerThread:
    """Connects the client, which has been told where to, again and again, and lets it read and
    write; its callbacks are called here."""

    def __init__(self, client: Client, report: Callable[[str], None]) -> None:
        """`report` is told why there is no connection."""
        self._client = client
        self._report = report
        self._end = threading.Event()
        self._bell, self._rope = socket.socketpair()
        self._bell.setblocking(False)
        self._rope.setblocking(False)
        # With this one, paho writes nothing in the threads of those who publish.
        client.on_socket_register_write = self._wake
        self._thread = threading.Thread(target=self._run, name="mqtt-broker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._wake()
        self._thread.join()
        self._rope.close()

    def _wake(self, *_: Any) -> None:
        # A rope that has been pulled often enough is full, and one after the end is gone.
        with suppress(OSError):
            self._rope.send(b".")

    def _run(self) -> None:
        pause = SOONEST
        with self._bell:
            while not self._end.is_set():
                try:
                    self._client.reconnect()
                    pause = SOONEST
                    self._serve()
                except OSError as error:
                    self._report(str(error))
                except Exception:
                    logger.exception("mqtt: connects again")
                self._end.wait(pause)
                pause = min(2 * pause, SLOWEST)

    def _serve(self) -> None:
        """Until the connection ends."""
        end: float | None = None
        with DefaultSelector() as selector:
            selector.register(self._bell, EVENT_READ)
            selector.register(self._socket(), EVENT_READ)
            while self._client.socket() is not None:
                if self._end.is_set():
                    if end is None:
                        end = time.monotonic() + GOODBYE
                        self._client.disconnect()
                    elif time.monotonic() > end:
                        return
                self._serve_once(selector)

    def _serve_once(self, selector: DefaultSelector) -> None:
        link = self._socket()
        wanted = EVENT_READ | (EVENT_WRITE if self._client.want_write() else 0)
        selector.modify(link, wanted)
        # What TLS has read ahead no selector knows of.
        ahead = bool(getattr(link, "pending", int)())
        ready = {key.fileobj: events for key, events in selector.select(0 if ahead else LOOK)}
        if self._bell in ready:
            self._bell.recv(4096)
        if ahead or ready.get(link, 0) & EVENT_READ:
            self._client.loop_read()
        if ready.get(link, 0) & EVENT_WRITE:
            self._client.loop_write()
        self._client.loop_misc()

    def _socket(self) -> socket.socket:
        link = self._client.socket()
        if not isinstance(link, socket.socket):
            raise ConnectionError("the connection has ended")
        return link
