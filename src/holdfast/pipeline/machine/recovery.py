"""Recovery of a replica that has lost its state, from a copy of a peer's.

`Recovery` is the side of the replica that asks. It asks its peers, one after the other, and stays
with the first that makes a copy for as long as that peer reports progress. It pulls the pieces of
the copy, a few at a time, asks again for those that were lost, and installs them when all are
there. `Backfill` then fetches what the peer has published before. `Lending` is the side of the
peer: one copy at a time, whoever asks and how often.

`Node` decides what to do when no peer has a state: converge, or process everything once more if
all of it is still kept. A replica that can do neither is stranded. It goes on asking, for a peer
may come back; but somebody has to know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

from holdfast.pipeline.machine.commands import (
    Command,
    CopyState,
    DropCopy,
    SendPiece,
    TakeCopy,
    TakePiece,
)
from holdfast.pipeline.machine.messages import (
    LogPiece,
    LogRequest,
    PieceRequest,
    Send,
    StateOffer,
    StatePiece,
    StateRequest,
)
from holdfast.pipeline.machine.output_log import Line

ROUNDS: Final = 5
"""Questions that a peer may leave unanswered before it counts as gone."""
AT_ONCE: Final = 16
"""Pieces that are asked for and have not come."""
STALLED: Final = 5
"""Retries without a piece after which the peer is asked whether the copy is still there."""
GONE: Final = 300
"""Retries without a word after which a peer whose copy is being taken counts as gone. A link may be
broken for a while, and to do without the copy takes far longer. Fewer than `UNUSED`."""
STUCK: Final = 3000
"""Retries without progress after which a peer that makes a copy counts as gone. Batches of Spark
come before the copy that take minutes where a state is large."""
SILENT: Final = 300
"""Retries for which a peer that says nothing is asked, where to do without it takes longer."""
NO_ROOM: Final = 150
"""Retries for which nobody is answered after a copy that found no room on the disk."""
UNUSED: Final = 600
"""Retries after which a copy that nobody has asked for is dropped."""


@dataclass(slots=True)
class Transfer:
    """A copy of which some pieces have come."""

    peer: str
    offer: StateOffer
    began: int
    asked: int = 0
    """All pieces before this one have been asked for."""
    missing: set[int] = field(default_factory=set)
    """Pieces that have not come."""
    is_checking: bool = False
    """Whether the peer was asked if the copy is still there, and has not answered."""

    def next(self) -> list[Command]:
        """Ask for as many pieces as may be on their way."""
        some = tuple(nsmallest(AT_ONCE, self.missing))
        self.asked = max(self.asked, some[-1] + 1)
        return [Send(self.peer, PieceRequest(self.offer.copy, some))]

    def one_more(self) -> list[Command]:
        if self.asked == self.offer.pieces:
            return []
        self.asked += 1
        return [Send(self.peer, PieceRequest(self.offer.copy, (self.asked - 1,)))]


class Recovery:
    """One replica's way back. While it `asks`, it reads nothing."""

    def __init__(
        self, peers: Sequence[str], *, lost: bool, copies: bool, retry: int, now: int
    ) -> None:
        """`lost`: it was here before and has lost its state. `copies`: it may have that of a peer.
        `retry`: how long to wait for an answer before asking again."""
        self.is_lost = lost
        """Whether it is silent, for it has no state that is right."""
        self.asks = lost and copies and bool(peers)
        self.is_stranded = False
        """Whether nobody has its state, and what it was made of is kept nowhere any more."""
        self.transfer: Transfer | None = None
        self._peers = tuple(peers)
        self._retry = retry
        self._turn = 0
        self._vain = dict.fromkeys(self._peers, 0)
        """Questions of which nothing came, by peer."""
        self._began = now
        self._empty: set[str] = set()
        """Peers that have said that they have no state."""
        self._helper: str | None = None
        """The peer that makes a copy, or has made it."""
        self._heard: float = -math.inf
        """When it last spoke."""
        self._made = (0, 0)
        """The copy that is being made, and how much of it is there."""
        self._made_at: float = -math.inf
        self._due: float = 0

    @property
    def next_wake(self) -> float:
        return self._due if self.asks else math.inf

    def is_due(self, now: int) -> bool:
        """Whether to ask, for the first time or again."""
        return self.asks and now >= self._due

    @property
    def is_in_vain(self) -> bool:
        """Whether all have been asked often enough."""
        return all(vain >= ROUNDS for vain in self._vain.values())

    def may_do_without(self, now: int, span: float) -> bool:
        """Whether to converge, which takes as long as the windows of the stage have a span: not
        while a peer that says nothing may only be cut off or just being started."""
        patience = min(span, SILENT * self._retry)
        return self._empty.issuperset(self._peers) or now >= self._began + patience

    def ask(self, now: int, since: int) -> Send:
        """Ask the peer that makes a copy how far it is, or the next one for its state."""
        if self._helper is not None and now > self._heard + GONE * self._retry:
            self._lose(self._helper)
        peer = self._helper
        if peer is None:
            peer = self._peers[self._turn % len(self._peers)]
            self._turn += 1
            self._vain[peer] += 1
        elif self.transfer is not None:
            self.transfer.is_checking = True
        self._due = now + self._retry
        return Send(peer, StateRequest(since))

    def offered(
        self, sender: str, offer: StateOffer, since: int, size: int, now: int
    ) -> list[Command]:
        """A peer has answered. `since`: from where on the inputs are kept. `size`: of a bucket."""
        if not self.asks or sender not in self._vain:
            return []
        if not offer.copy:
            self._empty.add(sender)
            self._lose(sender)
            if not self.is_in_vain:
                # The next one may have it.
                self._due = now
            return []
        self._empty.discard(sender)
        if self._helper not in (None, sender):
            return []
        self.is_stranded = False
        if offer.pieces < 0:
            return self._wait(sender, offer, now)
        if offer.bucket * size < since:
            # The next question says so too.
            return []
        self._helper, self._heard, self._vain[sender] = sender, now, 0
        return self._take(sender, offer, now)

    def _wait(self, peer: str, offer: StateOffer, now: int) -> list[Command]:
        """For as long as there is progress."""
        made = (offer.copy, offer.size)
        if made != self._made:
            self._made, self._made_at = made, now
        if now > self._made_at + STUCK * self._retry:
            self._lose(peer)
            return []
        self._helper, self._heard, self._vain[peer] = peer, now, 0
        self._due = now + self._retry
        return []

    def _take(self, peer: str, offer: StateOffer, now: int) -> list[Command]:
        transfer = self.transfer
        if transfer is not None and (transfer.peer, transfer.offer) == (peer, offer):
            if not transfer.is_checking:
                return []
            # Words come in order, so what was asked for before and has not come is lost.
            transfer.is_checking = False
            self._due = now + STALLED * self._retry
            return transfer.next() if transfer.missing else []
        missing = set(range(offer.pieces))
        self.transfer = Transfer(peer, offer, now, missing=missing)
        self._due = now + STALLED * self._retry
        return [TakeCopy(offer), *(self.transfer.next() if missing else [])]

    def piece(self, sender: str, piece: StatePiece, now: int) -> list[Command]:
        """A piece of the copy; what is no part of it, or was there before, is left."""
        transfer = self.transfer
        if transfer is None or (sender, piece.copy) != (transfer.peer, transfer.offer.copy):
            return []
        if piece.number not in transfer.missing:
            return []
        transfer.missing.remove(piece.number)
        self._helper, self._heard, self._vain[sender] = sender, now, 0
        self._due = now + STALLED * self._retry
        return [TakePiece(piece), *transfer.one_more()]

    @property
    def has_all(self) -> bool:
        """Whether all pieces of a copy are there."""
        return self.asks and self.transfer is not None and not self.transfer.missing

    def _lose(self, peer: str) -> None:
        """It is gone, or has no state: others are asked first."""
        self._vain[peer] = max(self._vain[peer], ROUNDS)
        if self._helper == peer:
            self._helper = None

    def begin_anew(self) -> None:
        """The copy is of no use: what follows it is kept no longer."""
        self.transfer = None
        self._due = 0

    def do_without(self) -> None:
        """Ask nobody any more, and read."""
        self.asks = self.is_stranded = False
        self.transfer = None

    def end(self) -> None:
        """It has a state that is right."""
        self.do_without()
        self.is_lost = False


class Backfill:
    """Fetches what a peer has kept of the stable lines, from the copied state back to the oldest.

    A replica publishes without it; but a reader that is far behind needs it once the peer is gone.
    """

    def __init__(
        self, peers: Sequence[str], first: str | None, streams: Sequence[str], retry: int
    ) -> None:
        """`first`: the peer to ask first."""
        self._peers = sorted(peers, key=lambda peer: peer != first)
        self._streams = list(streams)
        self._retry = retry
        self._asked: tuple[str, str, int] | None = None
        self._vain = 0
        self._due: float = 0

    @property
    def is_done(self) -> bool:
        return not self._streams

    @property
    def next_wake(self) -> float:
        return math.inf if self.is_done else self._due

    def ask(self, lines: Mapping[str, Line], now: int) -> list[Command]:
        """Ask for the next piece, if it is due."""
        if self.is_done or now < self._due:
            return []
        peer = self._peers[self._vain // ROUNDS % len(self._peers)]
        stream = self._streams[0]
        self._vain += 1
        self._asked = (peer, stream, lines[stream].dropped_before)
        self._due = now + self._retry * STALLED
        return [Send(peer, LogRequest(stream, self._asked[2]))]

    def expects(self, sender: str, piece: LogPiece, lines: Mapping[str, Line]) -> bool:
        """Whether this was asked for, and leads up to what is there."""
        if self._asked != (sender, piece.stream, piece.before) or self.is_done:
            return False
        place = piece.before
        for segment in reversed(piece.segments):
            if segment.end != place or segment.start >= place:
                return False
            place = segment.start
        return lines[piece.stream].dropped_before == piece.before

    def take(self, piece: LogPiece, lines: Mapping[str, Line], now: int) -> list[Command]:
        """A piece that was expected."""
        self._vain, self._due, self._asked = 0, now, None
        line = lines[piece.stream]
        if piece.segments:
            line.prepend(piece)
        # What the line lets go of at once is not needed, and nothing older is.
        if not piece.segments or not piece.start < line.dropped_before == piece.segments[0].start:
            self._streams.pop(0)
        return self.ask(lines, now)


class Lending:
    """The copy of a replica's state that its peers are given: one, for all of them."""

    def __init__(self, retry: int) -> None:
        self.offer: StateOffer | None = None
        """The copy, once it has been made."""
        self.copying = 0
        """The number of the copy that is being made, 0 if none is."""
        self.made = 0
        """Bytes of it that are there, as far as its process has told."""
        self._used = 0
        self._latest = 0
        self._paused_until: float = -math.inf
        self._retry = retry

    def asked(self, peer: str, asked: StateRequest, size: int, now: int) -> list[Command]:
        """A peer asks for the state. `size`: of a bucket."""
        self._used = now
        if self.copying:
            return [Send(peer, StateOffer(self.copying, size=self.made))]
        offer = self.offer
        if offer is not None and offer.bucket * size >= asked.since:
            return [Send(peer, offer)]
        if now < self._paused_until:
            return []
        drop: list[Command] = [] if offer is None else [DropCopy(offer.copy)]
        self._latest = self.copying = max(self._latest + 1, now, 1)
        self.offer, self.made = None, 0
        return [*drop, CopyState(self.copying), Send(peer, StateOffer(self.copying))]

    def pieces(self, peer: str, asked: PieceRequest, now: int) -> list[Command]:
        offer = self.offer
        if offer is None or offer.copy != asked.copy:
            return []
        self._used = now
        some = [number for number in asked.numbers[:AT_ONCE] if 0 <= number < offer.pieces]
        return [SendPiece(peer, offer.copy, number) for number in some]

    def copied(self, copy: int, offer: StateOffer | None, now: int) -> list[Command]:
        """The copy has been made, or could not be."""
        if copy != self.copying:
            return [] if offer is None else [DropCopy(copy)]
        self.copying, self.offer, self._used = 0, offer, now
        return []

    def fail(self, now: int) -> list[Command]:
        """The copy that is being made has found no room: leave the disk alone for a while."""
        copy, self.copying = self.copying, 0
        self._paused_until = now + NO_ROOM * self._retry
        return [DropCopy(copy)]

    def lose(self, copy: int) -> bool:
        """The copy cannot be read any more: the next who asks gets another. False if it is not the
        one that is given."""
        is_given = self.offer is not None and self.offer.copy == copy
        if is_given:
            self.offer = None
        return is_given

    def resume(self, offer: StateOffer, now: int) -> None:
        """A copy that an earlier life has made is still there."""
        self.offer, self._latest, self._used = offer, offer.copy, now

    def wake(self, now: int) -> list[Command]:
        offer = self.offer
        if offer is None or now <= self._used + UNUSED * self._retry:
            return []
        self.offer = None
        return [DropCopy(offer.copy)]
