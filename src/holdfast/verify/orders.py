"""What one replica is told to do. It holds secrets: it travels by pipes, and is in no file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.verification import Mode
from holdfast.verify.pinned_files import SourceFile
from holdfast.verify.slice_files import Storage
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
    """The folder that it writes to, seen by its driver and its executors."""
    hosts: tuple[str, ...]
    """Where its driver is to be; empty if that is beside the coordinator."""
    verifiers: tuple[str, ...]
    """Whom it reports to."""
    asks: tuple[str, ...]
    """Whom it asks: all of them, or with one in each replica its own."""
    secret: bytes = field(repr=False)
    """Its signing key."""
    security: Security | None = field(default=None, repr=False)
    common: str = ""
    """The folder of those that have none of their own; empty if that is `storage`."""
    storages: dict[str, str] = field(default_factory=dict)
    """The folders of those that have one, by host."""
    spark: dict[str, str] = field(default_factory=dict)
    """Settings of its session, among them `spark.master`."""
    arguments: tuple[str, ...] = ()
    """Of the program, or of the Python file that makes the job."""
    pins: bytes = b""
    """The digest of code, arguments, sources and settings; part of the basis of every report."""

    @property
    def reads(self) -> Storage:
        """Where the copies of all lie."""
        own = {host: Path(folder) for host, folder in self.storages.items()}
        return Storage(Path(self.common or self.storage), own)

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
