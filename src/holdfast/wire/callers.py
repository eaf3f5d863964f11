"""The server's end of links: who has called, what they say, and whether they are still heard."""

from __future__ import annotations

import logging
from collections import Counter
from threading import Event, Lock, Thread

import pyarrow as pa
import pyarrow.flight as fl

from holdfast.errors import HoldfastError
from holdfast.wire.addresses import hang_up_peer
from holdfast.wire.codec import decode
from holdfast.wire.errors import WireError
from holdfast.wire.frames import BEAT, Assembly, Hello
from holdfast.wire.identities import Identities
from holdfast.wire.ledger import Ledger
from holdfast.wire.outbox import Outbox
from holdfast.wire.pulse import LOOKS, Pulse, check_times
from holdfast.wire.service import Service
from holdfast.wire.untrusted import ARROW_ERRORS

__all__ = ["Callers"]

logger = logging.getLogger(__name__)


class _Link:
    def __init__(self, hello: Hello, peer: str) -> None:
        self.hello = hello
        self.peer = peer
        self.outbox = Outbox()
        self.reading = Pulse()
        self.writing = Pulse()
        self.ended = Event()


class Callers:
    """The links that others have opened, at most one of each party."""

    def __init__(
        self,
        service: Service,
        ledger: Ledger,
        identities: Identities | None,
        *,
        max_message: int,
        max_links: int,
        heartbeat: float,
        silence: float,
    ) -> None:
        check_times(heartbeat, silence)
        self._service = service
        self._ledger = ledger
        self._identities = identities
        self._max_message = max_message
        self._max_links = max_links
        self._heartbeat = heartbeat
        self._silence = silence
        self._port = 0
        self._lock = Lock()
        self._links: dict[str, _Link] = {}
        self._serving: set[_Link] = set()
        """Links whose threads have not ended, be they replaced."""
        self._sent: Counter[str] = Counter()
        """By links that are gone."""
        self._closing = Event()
        self._watch = Thread(target=self._look, name="holdfast server watch", daemon=True)

    def start(self, port: int) -> None:
        """Hang up on whoever is silent. `port`: of the server."""
        self._port = port
        self._watch.start()

    def close(self) -> None:
        """Take no more, and watch no longer; those there are end with their calls."""
        self._closing.set()
        self._watch.join()

    @property
    def parties(self) -> list[str]:
        """Who has a link now."""
        with self._lock:
            return sorted(self._links)

    @property
    def sent(self) -> Counter[str]:
        """What went out on links, and what was dropped instead."""
        with self._lock:
            sent = Counter(self._sent)
            for link in self._serving:
                _add(sent, link.outbox)
        return sent

    def serve(
        self,
        peer: str,
        certificate: bytes,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.MetadataRecordBatchWriter,
    ) -> None:
        """Serve a link for as long as it lasts. `certificate`: the name in that of the caller."""
        frame = _next_frame(reader)
        if frame is None:
            return
        link = _Link(Hello.parse(frame), peer)
        if self._identities is not None:
            self._identities.check(link.hello.party, certificate.decode("utf-8", "replace"))
        self._admit(link)
        try:
            self._carry(link, reader, writer)
        finally:
            self._leave(link)

    def _carry(
        self,
        link: _Link,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.MetadataRecordBatchWriter,
    ) -> None:
        party = link.hello.party
        writing = Thread(
            target=self._write, args=(link, writer), name=f"holdfast to {party}", daemon=True
        )
        writing.start()
        try:
            with self._ledger.excusing():
                self._service.opened(party, link.outbox)
            assembly = Assembly(self._max_message)
            while (frame := _next_frame(reader)) is not None:
                link.reading.beat()
                data = assembly.take(frame)
                if data is not None:
                    with link.reading.rest():
                        self._take(party, data)
        finally:
            link.ended.set()
            link.outbox.close()
            # The call, and what the thread writes to, live until this returns.
            writing.join(0.2)
            while writing.is_alive():
                hang_up_peer(self._port, link.peer)
                writing.join(0.2)
            with self._ledger.excusing():
                self._service.closed(party, link.outbox)

    def _take(self, party: str, data: bytes) -> None:
        try:
            message = decode(data, self._max_message)
        except WireError as error:
            self._ledger.refuse("message", f"{error} (from {party})")
            return
        self._ledger.count("messages")
        self._ledger.count("bytes", len(data))
        with self._ledger.excusing():
            try:
                self._service.received(party, message)
            except HoldfastError as error:
                self._ledger.refuse("message", f"{error} (from {party})")

    def _write(self, link: _Link, writer: fl.MetadataRecordBatchWriter) -> None:
        def write(frame: bytes) -> None:
            link.writing.beat()
            writer.write_metadata(frame)

        try:
            # The caller hears at once that it is through.
            write(BEAT)
            link.outbox.write_all(write, beat=self._heartbeat, ended=link.ended.is_set)
        except (fl.FlightError, pa.ArrowException, OSError) as error:
            logger.debug("%s: to %s: %s", self._ledger.where, link.hello.party, error)
        if not link.ended.is_set():
            hang_up_peer(self._port, link.peer)

    def _admit(self, link: _Link) -> None:
        hello = link.hello
        with self._lock:
            if self._closing.is_set() or len(self._serving) >= self._max_links:
                raise WireError(
                    f"there are {len(self._serving)} links, no more are taken; close some"
                )
            old = self._links.get(hello.party)
            if old and old.hello.link == hello.link and old.hello.attempt >= hello.attempt:
                # It was held up on its way, and its caller has given it up.
                raise WireError(f"an older link of {hello.party} came after a newer one")
            self._links[hello.party] = link
            self._serving.add(link)
        self._ledger.count("links")
        if old:
            hang_up_peer(self._port, old.peer)

    def _leave(self, link: _Link) -> None:
        with self._lock:
            self._serving.discard(link)
            _add(self._sent, link.outbox)
            if self._links.get(link.hello.party) is link:
                del self._links[link.hello.party]

    def _look(self) -> None:
        while not self._closing.wait(self._silence / LOOKS):
            with self._lock:
                links = list(self._links.values())
            for link in links:
                heard, taken = link.reading.look(), link.writing.look()
                if not (heard and taken):
                    logger.warning(
                        "%s: %s %s for %g s; hung up",
                        self._ledger.where,
                        link.hello.party,
                        "took nothing" if heard else "said nothing",
                        self._silence,
                    )
                    hang_up_peer(self._port, link.peer)


def _add(sent: Counter[str], outbox: Outbox) -> None:
    sent["sent"] += outbox.sent
    sent["sent bytes"] += outbox.sent_bytes
    sent["dropped"] += outbox.dropped


def _next_frame(reader: fl.MetadataRecordBatchReader) -> bytes | None:
    """None when the other side has ended the link, or is gone."""
    try:
        chunk = reader.read_chunk()
    except (StopIteration, fl.FlightError):
        return None
    except ARROW_ERRORS as error:
        raise WireError(f"a link carries no frames ({type(error).__name__})") from None
    if chunk.data is not None or chunk.app_metadata is None:
        raise WireError("a link carries rows instead of frames")
    return chunk.app_metadata.to_pybytes()
