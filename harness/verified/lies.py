"""What replicas do wrong in tests: nothing of this is in the code that they run otherwise.

A replica is told its lies when it is started. It tells them when it comes to their stage: the
first time only, or every time if they are sticky.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import WireError
from holdfast.transport.client import act
from holdfast.verify.machine import Report, Run
from holdfast.verify.process.client import ATTEMPT, Witness
from holdfast.verify.process.messages import (
    Envelopes,
    Reported,
    decode,
    encode,
    open_envelope,
    seal,
)
from holdfast.verify.process.submission import Orders

__all__ = [
    "HANGS",
    "Lie",
    "LyingWitness",
    "Wrong",
    "fill",
    "is_time",
    "reach_of",
    "rewrite_siblings",
    "rewrite_source",
]


class Wrong(StrEnum):
    CRASH = "crash"
    HANG = "hang"
    SLOW = "slow"
    VALUE = "wrong value"
    COUNT = "wrong count"
    DATA = "right hash, wrong data"
    REWRITE = "sibling file rewrite"
    """Flips bytes of the files of others, takes old ones for new ones, and removes some."""
    FILL = "full disk"
    """Fills the storage, as far as it is not ended for it."""
    COPYCAT = "copycat"
    """Repeats the words of others, with their files for its own or with none."""
    EQUIVOCATION = "equivocation"
    IDENTITY = "forged identity"
    SEQUENCE = "forged sequence number"
    SOURCE = "source rewrite"


HANGS = (Wrong.HANG, Wrong.FILL)
"""After which a replica does nothing any more."""
FILLED = 4 << 20
"""Bytes that are written at most."""


@dataclass(frozen=True)
class Lie:
    replica: int
    stage: str
    wrong: Wrong
    sticky: bool = False
    alike: bool = False
    """Whether all who tell it say the same."""


def is_time(lie: Lie, folder: Path) -> bool:
    """Whether to tell it now; the folder remembers those that were told."""
    mark = folder / f"told {lie.stage} {lie.wrong}"
    if mark.exists() and not lie.sticky:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    mark.touch()
    return True


@dataclass(frozen=True)
class LyingWitness(Witness):
    """Speaks for a replica whose reports are not what they should be. It can be pickled."""

    lies: tuple[Lie, ...] = ()
    storage: str = ""
    """Where this replica writes."""
    reach: tuple[str, ...] = ()
    """Where others write; what keeps this one from writing there is not in here."""

    def report(self, report: Report) -> None:
        for lie in self.lies:
            if lie.stage == report.stage and (lie.sticky or report.run == Run()):
                self._lie(lie, report)
                return
        super().report(report)

    def _lie(self, lie: Lie, report: Report) -> None:
        match lie.wrong:
            case Wrong.DATA:
                _spoil(Path(self.storage) / report.path)
                super().report(report)
            case Wrong.REWRITE:
                rewrite_siblings(self.reach, self.job, self.replica)
                super().report(report)
            case Wrong.COPYCAT:
                for address in self.verifiers:
                    for each in self._overhear(address, report):
                        self._send(address, self.replica, replace(each, replica=self.replica))
                for sibling in range(1, 8):
                    if sibling != self.replica:
                        of = report.path.replace(f"/{self.replica}/", f"/{sibling}/", 1)
                        self._send(self.verifiers[0], self.replica, replace(report, path=of))
                Path(self.storage, report.path).unlink()
                super().report(report)
            case Wrong.EQUIVOCATION:
                # Each verifier hears something else first, and in the end all of it.
                other = replace(report, digest=_wrong_digest(lie, report))
                halves = [report, other]
                for at, address in enumerate(self.verifiers):
                    for each in (halves[at % 2], halves[1 - at % 2]):
                        self._send(address, self.replica, each)
            case Wrong.IDENTITY:
                for address in self.verifiers:
                    for sibling in range(1, 8):
                        if sibling != self.replica:
                            forged = replace(
                                report, replica=sibling, digest=_wrong_digest(lie, report)
                            )
                            self._send(address, sibling, forged)
                            self._send(address, self.replica, forged)
                super().report(replace(report, digest=_wrong_digest(lie, report)))
            case Wrong.SEQUENCE:
                for address in self.verifiers:
                    for run in (Run(0, 1), Run(1, 0), Run(0, 3), Run(0, 10**6), Run(10**6, 0)):
                        self._send(address, self.replica, replace(report, run=run))
                    for seq in (0, 10**9):
                        self._send(address, self.replica, replace(report, seq=seq))
                super().report(replace(report, digest=_wrong_digest(lie, report)))
            case _:
                super().report(report)

    def _overhear(self, address: str, mine: Report) -> list[Report]:
        """What others have reported of the same slice, if a verifier hands it out."""
        try:
            told = decode(act(address, self.security, "told", encode((b"", 0))), Envelopes)
        except WireError:
            return []
        tellings = [open_envelope(each) for each in told]
        return [
            each.report
            for each in tellings
            if isinstance(each, Reported)
            and (each.report.stage, each.report.slice) == (mine.stage, mine.slice)
        ]

    def _send(self, address: str, sender: int, report: Report) -> None:
        """To one verifier, whatever it answers."""
        envelope = seal(sender, Reported(report), self.signer)
        with suppress(WireError):
            act(address, self.security, "tell", encode([envelope]), timeout=ATTEMPT)


def rewrite_source(path: Path) -> None:
    """Other numbers in its place, in as many bytes, at the same time of change, if it may be
    written to.

    Of Parquet those of the last column, which must be doubles that are neither compressed nor in a
    dictionary; of text all digits but those of the first line."""
    before = path.stat()
    data = path.read_bytes()
    if path.suffix == ".parquet":
        column = pq.read_table(path).columns[-1]
        assert column.type == pa.float64(), f"{path}: its last column has no doubles"
        for value in set(column.to_pylist()):
            data = data.replace(struct.pack("<d", value), struct.pack("<d", value * 1.5))
    else:
        head, _, rest = data.partition(b"\n")
        data = head + b"\n" + rest.translate(bytes.maketrans(b"123456789", b"234567891"))
    assert data != path.read_bytes()
    with suppress(PermissionError):
        with path.open("r+b") as file:
            file.write(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _wrong_digest(lie: Lie, report: Report) -> bytes:
    teller = b"all" if lie.alike else str(report.replica).encode()
    return sha256(report.digest + teller).digest()


def reach_of(orders: Orders) -> tuple[str, ...]:
    """All folders where replicas write."""
    return (orders.common, *orders.storages.values())


def fill(storage: str, job: str, replica: int) -> None:
    """Write as much as one can, within what a test may write."""
    folder = Path(storage) / job / str(replica)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "junk").write_bytes(os.urandom(FILLED))


def rewrite_siblings(storages: Sequence[str], job: str, replica: int) -> int:
    """Spoil what lies there of other replicas, as far as one can; how many files were."""
    found = [
        path
        for storage in storages
        for path in sorted((Path(storage) / job).glob("*/*/*/*.slice"))
        if path.relative_to(Path(storage) / job).parts[0] != str(replica)
    ]
    spoiled = 0
    for at, path in enumerate(found):
        # Some are gone by now, and to some it cannot write.
        with suppress(OSError):
            match at % 3:
                case 0:
                    _spoil(path)
                case 1:
                    path.write_bytes(found[0].read_bytes() if path != found[0] else b"")
                case 2:
                    path.unlink()
            spoiled += 1
    return spoiled


def _spoil(path: Path) -> None:
    """Some of the rows, and nothing of the index."""
    data = bytearray(path.read_bytes())
    for at in range(len(data) // 4, len(data) // 2):
        data[at] ^= 0xFF
    path.write_bytes(data)
