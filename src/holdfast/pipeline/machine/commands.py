"""Role of a replica, and the commands from its state machine to its process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.pipeline.gates.order import Delays, Stretch
from holdfast.pipeline.machine.messages import Recalculate, Send, StateOffer, StatePiece
from holdfast.pipeline.machine.output_log import Retention
from holdfast.pipeline.machine.states import Reach


@dataclass(frozen=True, slots=True)
class Settings:
    """How a stage is to be run; the same for all its replicas."""

    size: int
    """Of a bucket."""
    delays: Delays
    heartbeat: int = 100_000
    missed: int = 3
    """So many heartbeats may go unanswered."""
    long_failure: float = math.inf
    """After failing for so long, a replica that is well again is first read in the background."""
    lag: int = 3
    """With more complete buckets than this waiting, a replica does not call itself stable."""
    most: int = 1
    """So many complete buckets with rows are processed at once."""
    beside: bool = True
    """Whether corrections are made while the fork goes on; else replicas take turns."""
    retry: int = 200_000
    """How long to wait for an answer before asking another peer."""
    retain: float = math.inf
    """How far its inputs may run ahead of what is complete, in event time."""
    may_skip: bool = False
    """Beyond that, whether to give up the oldest corrections, or to make the sources wait."""
    room: float = math.inf
    """Bytes of each input that may wait at the gate; what is more is left upstream."""
    copy_state: bool = True
    """Whether a replica that has lost its state asks a peer for it, or converges."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a replica stands in the topology."""

    name: str
    peers: tuple[str, ...]
    inputs: Mapping[str, Sequence[str]]
    """The replicas, or the source, that publish each input stream."""
    outputs: Mapping[str, Reach]
    """The output streams, and how the inputs reach them."""
    readers: Mapping[str, Sequence[str]]
    """All replicas and clients that read each output stream."""
    retentions: Mapping[str, Retention] = field(default_factory=dict)
    """What is kept of each output stream, if not all that its readers have not acknowledged."""
    span: float = 0
    """How far back the state of the stage depends on its input; infinite if for ever."""
    start: int = 0
    """Where the streams begin: a multiple of the size of a bucket."""

    def consistent_from(self, boundary: int, size: int) -> int:
        """From where on the output is right if the state is empty at this boundary, in buckets of
        this size."""
        return boundary + math.ceil(self.span / size) * size


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Process this with the base or the fork, then call `finished`."""

    stretch: Stretch
    tentative: bool


@dataclass(frozen=True, slots=True)
class Fork:
    """Fork the base."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Drop the fork."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Let the base begin anew, empty, with this bucket."""

    bucket: int


@dataclass(frozen=True, slots=True)
class Install:
    """Make the copy whose pieces were taken the state of the base, and it is safe: nothing before
    the bucket is needed."""

    bucket: int
    copy: int


@dataclass(frozen=True, slots=True)
class Rerun:
    """Calculate a bucket again, from the state before it, then call `rerun`; if that state is gone,
    do nothing."""

    reader: str
    asked: Recalculate


@dataclass(frozen=True, slots=True)
class StartOver:
    """Drop this node and make a new one that has lost its state: this one cannot go on."""


@dataclass(frozen=True, slots=True)
class CopyState:
    """Make a copy of the base under this number, then call `copied`."""

    copy: int


@dataclass(frozen=True, slots=True)
class SendPiece:
    """Send a peer a piece of a copy that has been made."""

    to: str
    copy: int
    number: int


@dataclass(frozen=True, slots=True)
class DropCopy:
    """Delete a copy that has been made: nobody takes it any more."""

    copy: int


@dataclass(frozen=True, slots=True)
class TakeCopy:
    """Make room for the pieces of this copy; those of any other are of no use."""

    offer: StateOffer


@dataclass(frozen=True, slots=True)
class TakePiece:
    """Keep this piece until the copy is installed."""

    piece: StatePiece


Command = (
    Send
    | Work
    | Fork
    | Drop
    | Restart
    | Install
    | Rerun
    | StartOver
    | CopyState
    | SendPiece
    | DropCopy
    | TakeCopy
    | TakePiece
)
