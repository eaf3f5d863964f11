"""What one replica is told to do. It holds secrets: it travels by pipes, and is in no file."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.verification import Mode
from holdfast.verify.pinned_files import SourceFile
from holdfast.wire.security import Security

__all__ = ["Orders"]


@dataclass(frozen=True)
class Orders:
    file: str
    """That describes the job; it is not read again."""
    code: bytes
    """What was in it when the job was submitted."""
    job: str
    """What this submission of it is called, in reports and in the storage."""
    replica: int
    mode: Mode
    slices: int
    retries: int
    """As the verifiers have them."""
    submitted: int
    """When, in microseconds since 1970."""
    sources: dict[str, tuple[SourceFile, ...]]
    """The files that there were then."""
    storage: str
    """A folder that all replicas see, drivers and executors."""
    hosts: tuple[str, ...]
    """Where its driver is to be; empty if that is beside the coordinator."""
    verifiers: tuple[str, ...]
    """Whom it reports to."""
    asks: tuple[str, ...]
    """Whom it asks: all of them, or with one in each replica its own."""
    secret: bytes = field(repr=False)
    """Its signing key."""
    security: Security | None = field(default=None, repr=False)
    spark: dict[str, str] = field(default_factory=dict)
    """Settings of its session, among them `spark.master`."""
    arguments: tuple[str, ...] = ()
    """Of the program, or of the Python file that makes the job."""
    pins: bytes = b""
    """The digest of code, arguments, sources and settings; part of the basis of every report."""

    def encode(self) -> bytes:
        """One line."""
        return msgspec.json.encode(self) + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Orders:
        try:
            return msgspec.json.decode(line, type=cls)
        except msgspec.MsgspecError as error:
            raise InvalidArgumentError(
                f"orders: {error}; give those of a replica, as a line of JSON"
            ) from None
