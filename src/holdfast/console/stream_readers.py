"""Readers of streams for the page, as guests for which nothing is kept.

A stream is read from when somebody first wants to see it. Few are read at a time: a new one takes
the place of the one that nobody has wanted for longest.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event, Lock, Thread
from typing import Any, Final, Protocol

from holdfast.console.stream_history import Pieces
from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.pipeline.process.reader import Told
from holdfast.pipeline.process.tail import read_stream
from holdfast.pipeline.topology import VOTING, Sink, Stage, Topology, Window

AGAIN: Final = 1.0
"""Seconds before a stream that nobody published is tried again."""
LOOK: Final = 0.5
UNWANTED: Final = 5.0
"""Seconds after which nobody looks at a stream; a page asks ten times a second."""
MOST: Final = 6
"""Streams that are read at a time."""

logger = logging.getLogger(__name__)


class StreamReader(Protocol):
    """What `read_stream` gives."""

    @property
    def found(self) -> Mapping[str, Any]: ...

    def next(self, timeout: float | None = None) -> Told | None: ...

    def close(self) -> None: ...


Open = Callable[[str], StreamReader]


def opener(topology: Topology) -> Open:
    """Reads the streams of a topology from now on. Where a reader of the topology votes, so do we:
    what one replica says alone may be a lie."""

    def open_(stream: str) -> StreamReader:
        readers: list[Stage | Sink] = [
            *(stage for stage in topology.stages.values() if stream in stage.inputs),
            *(sink for sink in topology.sinks.values() if sink.stream == stream),
        ]
        for reader in readers:
            if reader.policy in VOTING:
                return read_stream(topology, stream, policy=reader.policy, faults=reader.faults)
        return read_stream(topology, stream)

    return open_


class _Tail:
    def __init__(self, stream: str, pieces: Pieces, open_: Open, clock: Callable[[], float]):
        self.stream = stream
        self.pieces = pieces
        self.problem: str | None = None
        """Why it cannot be read now."""
        self.found: Mapping[str, Any] = {}
        """What reading it has shown of its publishers, if they are compared."""
        self.wanted = 0.0
        self._open = open_
        self._clock = clock
        self._closing = Event()
        self._thread = Thread(target=self._run, name=f"console reads {stream}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._read()
            except HoldfastError as error:
                self.problem = str(error)[:300]
                self._closing.wait(AGAIN)
            except Exception:
                # The page of one stream must not take the others with it.
                logger.exception("console: reading %s has failed; it is tried again", self.stream)
                self.problem = "reading it has failed; the log of the console says why"
                self._closing.wait(AGAIN)

    def _read(self) -> None:
        reader = self._open(self.stream)
        try:
            self.problem = None
            while not self._closing.is_set():
                told = reader.next(LOOK)
                self.found = reader.found
                if told is not None:
                    self.pieces.add(self._clock(), told)
        finally:
            reader.close()

    def close(self) -> None:
        self._closing.set()

    def join(self) -> None:
        self._thread.join(5)


class Tails:
    """`keep`: the streams that are read all the time."""

    def __init__(
        self,
        topology: Topology,
        open_: Open | None = None,
        *,
        keep: Sequence[str] = (),
        most: int = MOST,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._topology = topology
        self._open = open_ or opener(topology)
        self._clock = clock
        self._most = max(most, len(keep) + 1)
        self._keep = frozenset(keep)
        self._lock = Lock()
        self._tails: dict[str, _Tail] = {}
        for stream in keep:
            topology.publishers(stream)
            self._start(stream)

    @property
    def open(self) -> list[str]:
        """The streams that are read now."""
        return list(self._tails)

    def of(self, stream: str) -> Pieces:
        """What was told of a stream; begins to read it if need be."""
        with self._lock:
            tail = self._tails.get(stream)
            if tail is None:
                if stream not in self._topology.streams and stream not in self._topology.stages:
                    raise InvalidArgumentError(
                        f"stream: there is no {stream[:80]!r} here; choose one of the topology"
                    )
                tail = self._start(stream)
            tail.wanted = self._clock()
            return tail.pieces

    def problem(self, stream: str) -> str | None:
        """Why a stream cannot be read now, if it cannot."""
        tail = self._tails.get(stream)
        return None if tail is None else tail.problem

    def found(self, stream: str) -> Mapping[str, Any]:
        """What reading a stream has shown of its publishers, if they are compared."""
        tail = self._tails.get(stream)
        return {} if tail is None else tail.found

    def _start(self, stream: str) -> _Tail:
        others = [tail for name, tail in self._tails.items() if name not in self._keep]
        if len(self._tails) >= self._most and others:
            oldest = min(others, key=lambda tail: tail.wanted)
            if self._clock() - oldest.wanted < UNWANTED:
                raise InvalidArgumentError(
                    f"stream: {len(self._tails)} are read already, and somebody looks at each; "
                    "choose one of these, or close a page"
                )
            oldest.close()
            del self._tails[oldest.stream]
        tail = _Tail(stream, Pieces(self._window(stream)), self._open, self._clock)
        self._tails[stream] = tail
        return tail

    def _window(self, stream: str) -> Window | None:
        """With which a stage ends."""
        stage = self._topology.stages.get(stream)
        last = stage.steps[-1] if stage is not None and stage.steps else None
        return last if isinstance(last, Window) else None

    def close(self) -> None:
        with self._lock:
            for tail in self._tails.values():
                tail.close()
            for tail in self._tails.values():
                tail.join()
