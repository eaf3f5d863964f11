"""Input and output of a gate, for all policies that look at one stream.

A log is read by bucket, so a gate need not keep what it cannot use yet: it says which buckets it
`wants` of a replica, refuses all others, and can ask again. That bounds its memory whatever a
replica claims, and a forged number stalls nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class Copy:
    """What one replica has published of one bucket."""

    replica: str
    bucket: int
    digest: bytes
    attempt: int = 0
    """How often the bucket had been asked for again when this was calculated."""


@dataclass(frozen=True, slots=True)
class Release:
    """Let the bucket with this digest through; it can be had from these replicas."""

    bucket: int
    digest: bytes
    holders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Accuse:
    """This replica has published something other than what was agreed upon, or than it had said."""

    replica: str
    bucket: int
    said: bytes
    instead_of: bytes


@dataclass(frozen=True, slots=True)
class Redo:
    """No digest of this bucket can be agreed upon: have all replicas calculate it again."""

    bucket: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Giveup:
    """Not even when it was calculated again: the stream stops here until people have looked."""

    bucket: int
    said: tuple[tuple[str, bytes], ...]
    """What each replica published last."""


@dataclass(frozen=True, slots=True)
class Split:
    """No digest of this bucket can be agreed upon, and the gate goes on without."""

    bucket: int
    said: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Taint:
    """Buckets from `first` to `last` have been released and may be wrong: `replica` lied in one."""

    first: int
    last: int
    replica: str


Command = Release | Accuse | Redo | Giveup | Split | Taint


class Gate(Protocol):
    """One stream, several replicas upstream."""

    def take(self, copy: Copy) -> list[Command]:
        """A replica has published this. What is not wanted changes nothing."""

    def wants(self, replica: str) -> range:
        """The buckets of this replica that the gate can use now."""


def check_replicas(what: str, replicas: Sequence[str], least: int) -> tuple[str, ...]:
    """The names of the replicas, if there are enough of them and none twice."""
    names = tuple(replicas)
    if len(set(names)) != len(names):
        raise InvalidArgumentError(f"{what}: replicas are {list(names)}; name each once")
    if len(names) < least:
        raise InvalidArgumentError(
            f"{what}: {len(names)} replicas are too few for that many faults; give at least {least}"
        )
    return names


def check_ahead(what: str, ahead: int) -> int:
    if ahead < 1:
        raise InvalidArgumentError(f"{what}: ahead is {ahead}; give at least 1 bucket")
    return ahead
