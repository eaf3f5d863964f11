"""How a replica that has lost its state comes by one again: it asks its peers, one after the other.

Used by `Node`, which says what to do when nobody answers: converge, or process everything once more
if all of it is still kept. A replica that can do neither is stranded. It goes on asking, for a peer
may come back; but somebody has to know.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from holdfast.protocol.messages import Send, StateRequest

__all__ = ["Recovery"]

ROUNDS: Final = 5
"""So often all peers are asked for their state before a replica does without it, if it can."""


class Recovery:
    """One replica's way back. While it `asks`, it reads nothing."""

    def __init__(
        self, peers: Sequence[str], *, lost: bool, copies: bool, retry: int, now: int
    ) -> None:
        """`lost`: it was here before and has lost its state. `copies`: it may have that of a peer.
        `retry`: how long to wait for an answer before asking the next."""
        self.is_lost = lost
        """Whether it is silent, for it has no state that is right."""
        self.asks = lost and copies and bool(peers)
        self.is_stranded = False
        """Whether nobody has its state, and what it was made of is kept nowhere any more."""
        self._peers = tuple(peers)
        self._retry = retry
        self._since = now
        self._asked = 0
        self._asked_at = -math.inf

    def is_due(self, now: int) -> bool:
        """Whether the last one that was asked does not answer, if any was."""
        return self.asks and now >= self._asked_at + self._retry

    @property
    def is_in_vain(self) -> bool:
        """Whether all have been asked often enough."""
        return self._asked >= ROUNDS * len(self._peers)

    def ask(self, now: int) -> Send:
        """Ask the next peer."""
        peer = self._peers[self._asked % len(self._peers)]
        self._asked, self._asked_at = self._asked + 1, now
        return Send(peer, StateRequest(now))

    def takes(self, number: int) -> bool:
        """Whether the answer to this question is of use. That of an earlier life is not: what
        follows its state may be kept no longer."""
        return self.asks and number >= self._since

    def do_without(self) -> None:
        """Ask nobody any more, and read."""
        self.asks = self.is_stranded = False

    def end(self) -> None:
        """It has a state that is right."""
        self.do_without()
        self.is_lost = False
