"""Caller's end of a link: an exchange of messages with another process, kept going.

Whatever breaks it, it is made anew, at once and then again and again with short pauses. Messages
that cannot go out are dropped: the protocol above asks again for what it misses.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_bytes
from threading import Condition, Event, Lock, Thread
from typing import Annotated, Any, Self, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.flight as fl

from holdfast.errors import HoldfastError, InvalidArgumentError, WireError
from holdfast.transport.addresses import Address, hang_up_client
from holdfast.transport.client import connect, explain
from holdfast.transport.codec import MAX_MESSAGE, decode, encode, weight
from holdfast.transport.security import OPEN, Security, check_address

# Whether the other side of a link is heard.
#
# Looks are counted, not seconds: a process that was itself stopped for a while does not take its
# own sleep for the other's silence.

LOOKS = 8
"""So many looks in a row without a sign are silence; one every `silence / LOOKS` seconds."""


class Pulse:
    """One thread looks, others beat."""

    def __init__(self) -> None:
        self._missed = 0
        self._resting = False

    def beat(self) -> None:
        self._missed = 0

    @contextmanager
    def rest(self) -> Iterator[None]:
        """No sign is expected meanwhile."""
        self._resting = True
        try:
            yield
        finally:
            self._missed = 0
            self._resting = False

    def look(self) -> bool:
        """Whether there was a sign lately."""
        if not self._resting:
            self._missed += 1
        return self._missed <= LOOKS


def check_times(heartbeat: float, silence: float) -> None:
    if not 0 < 2 * heartbeat <= silence:
        raise InvalidArgumentError(
            f"silence: {silence:g} s with a heartbeat of {heartbeat:g} s; "
            "give at least two heartbeats"
        )


# What travels on a link: messages cut into frames, so that a large one is not taken for silence.
#
# A frame is one byte that says what it is, and its content. Every frame that arrives, in whole,
# shows that the other side lives; a BEAT is sent when there is nothing else to say.

Message: TypeAlias = Any
"""What the codec of a link makes of its bytes."""

LINK = b"holdfast link"
"""The command by which a DoExchange is a link."""
FRAME = 256 << 10
"""Bytes of content in one frame at most."""

_PART, _LAST, _BEAT, _HELLO = b"PLBH"
BEAT = bytes([_BEAT])

_Id = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Hello(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The first frame of a link: who calls, with which of its links, and how often before."""

    party: _Name
    link: _Id
    attempt: _Count

    def frame(self) -> bytes:
        return bytes([_HELLO]) + msgspec.msgpack.encode(self)

    @classmethod
    def parse(cls, frame: bytes) -> Hello:
        if not frame or frame[0] != _HELLO or len(frame) > FRAME:
            raise WireError("a link does not begin with who calls")
        try:
            hello = msgspec.msgpack.decode(frame[1:], type=cls)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise WireError("a link does not say properly who calls") from None
        if not hello.party.isprintable():
            raise WireError("a link is called from a party with an unprintable name")
        return hello


def frames_of(data: bytes) -> Iterator[bytes]:
    """A message as frames."""
    view = memoryview(data)
    for start in range(0, max(len(view), 1), FRAME):
        kind = _LAST if start + FRAME >= len(view) else _PART
        yield bytes([kind]) + view[start : start + FRAME]


class Assembly:
    """Puts the frames of a link together again."""

    def __init__(self, max_message: int) -> None:
        self._max_message = max_message
        self._parts: list[bytes] = []
        self._size = 0

    def take(self, frame: bytes) -> bytes | None:
        """The message that this frame completes, if any. Raises WireError if it cannot belong to
        a link; there is no going on after that."""
        if not frame or frame[0] not in (_PART, _LAST, _BEAT) or len(frame) > FRAME + 1:
            raise WireError("a link carries something that is no frame")
        if frame[0] == _BEAT:
            return None
        self._size += len(frame) - 1
        if self._size > self._max_message:
            raise WireError(f"a message is larger than {self._max_message} bytes")
        self._parts.append(frame[1:])
        if frame[0] == _PART:
            return None
        whole = b"".join(self._parts)
        self._parts, self._size = [], 0
        return whole


# Messages on their way out of one link: a queue that never makes anybody wait.
#
# Both ends of a link have one, and a thread that writes what is in it (`write_all`).

MOST_MESSAGES = 4096
MOST_BYTES = 256 << 20

logger = logging.getLogger(__name__)


class Outbox:
    """Bounded in messages and in bytes; what does not fit is dropped, as a bad link would."""

    def __init__(self, max_count: int = MOST_MESSAGES, max_bytes: int = MOST_BYTES) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._changed = Condition()
        self._queue: deque[tuple[float, int, Message]] = deque()
        self._bytes = 0
        self._closed = False
        self.sent = 0
        self.sent_bytes = 0
        self.dropped = 0

    def send(self, message: Message) -> bool:
        """Put it in the queue; False if it was dropped. One message fits whatever its size."""
        size = weight(message)
        with self._changed:
            crowded = self._queue and self._bytes + size > self._max_bytes
            if self._closed or crowded or len(self._queue) >= self._max_count:
                self.dropped += 1
                return False
            self._queue.append((time.monotonic(), size, message))
            self._bytes += size
            self._changed.notify()
        return True

    def close(self) -> None:
        """Drop all, and let the writer end."""
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()

    def forget(self, age: float) -> None:
        """Drop what has waited for more seconds than this."""
        with self._changed:
            while self._queue and time.monotonic() - self._queue[0][0] > age:
                self._bytes -= self._queue.popleft()[1]
                self.dropped += 1

    def write_all(
        self, write: Callable[[bytes], None], *, beat: float, ended: Callable[[], bool]
    ) -> None:
        """Write frames as they come, and a BEAT when there was nothing for so many seconds, until
        the outbox is closed, or `ended`, which `wake` makes it look at, or `write` raises."""
        while not ended():
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed or ended(), timeout=beat)
                if self._closed or ended():
                    return
                message = None
                if self._queue:
                    _, size, message = self._queue.popleft()
                    self._bytes -= size
            if message is None:
                write(BEAT)
                continue
            try:
                data = encode(message)
            except HoldfastError as error:
                self.dropped += 1
                logger.error("a %s was not sent: %s", type(message).__name__, error)
                continue
            for frame in frames_of(data):
                write(frame)
            self.sent += 1
            self.sent_bytes += len(data)

    def wake(self) -> None:
        """Make the writer look whether it has ended."""
        with self._changed:
            self._changed.notify_all()


PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Seconds before the next attempt, by how many have failed in a row; the last one for all more."""
PATIENCE = 5.0
"""Seconds for the threads of a broken connection to end."""

_BROKEN = (fl.FlightError, pa.ArrowException, OSError, WireError)


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
