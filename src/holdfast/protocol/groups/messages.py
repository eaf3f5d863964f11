"""What the members of a group say to each other about failures and about who owns what."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Claim", "Election", "ElectionAck", "GroupMessage", "Leader", "NodeFailed"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A partition belongs to `node`; of two claims that with the larger (epoch, node) stands."""

    partition: int
    epoch: int
    node: str

    @property
    def rank(self) -> tuple[int, str]:
        return self.epoch, self.node


@dataclass(frozen=True, slots=True)
class NodeFailed:
    """I suspect this node, in this life of its."""

    failed: str
    life: int


@dataclass(frozen=True, slots=True)
class Election:
    """Who takes over from `failed`? I would, unless you will."""

    failed: str


@dataclass(frozen=True, slots=True)
class ElectionAck:
    """I stand above you: leave it to me."""

    failed: str


@dataclass(frozen=True, slots=True)
class Leader:
    """I have taken over from `failed`, by these claims."""

    failed: str
    node: str
    claims: tuple[Claim, ...]


GroupMessage = NodeFailed | Election | ElectionAck | Leader
