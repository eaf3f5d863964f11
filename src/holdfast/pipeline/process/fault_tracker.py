"""Fault bookkeeping for compared replicas, and their readmission."""

from __future__ import annotations

import json
import logging
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.errors import InvalidArgumentError, StoreCorruptError, UnreachableError, WireError
from holdfast.pipeline.gates.ballot import Stand
from holdfast.pipeline.gates.sample import KEY_BYTES
from holdfast.pipeline.machine.findings import Findings
from holdfast.pipeline.machine.vote_subscription import Comparison, VoteIntake
from holdfast.pipeline.process.replica_config import addresses_of, security_of
from holdfast.pipeline.topology import VOTING, Topology
from holdfast.storage.atomic_file import write_whole
from holdfast.transport.client import act

# What a party has found out about the replicas that it compares: told, noted, kept.
#
# A replica of a stage, or a sink, makes the intakes of its inputs here. What they find outlives
# them: who is in quarantine stays there when the party is started again.

LAST: Final = 32
"""Of so many buckets it is told who voted how."""
LETTERS: Final = {Stand.AGREED: "a", Stand.DISSENTED: "d", Stand.MISSING: "m", Stand.WAITING: "w"}

logger = logging.getLogger(__name__)


class Verdicts:
    """Written by the loop of the party only; `status` may be read by other threads."""

    def __init__(
        self,
        me: str,
        comparison: Comparison,
        inputs: Mapping[str, Sequence[str]],
        note: Path | None = None,
    ) -> None:
        """`inputs`: the streams that are read so, and their replicas. `note`: the file in which
        those in quarantine are kept; without one they are forgotten with this process."""
        self.me = me
        self._comparison = comparison
        self._inputs = inputs
        self._note = note
        self._findings = {stream: comparison.findings() for stream in inputs}
        self._secret = secrets.token_bytes(KEY_BYTES)
        """From which samples are drawn. It never leaves this process, and the next one draws its
        own: votes that are open are not kept over a restart either, so nothing depends on it, and
        there is no file from which it could be read."""
        self._intakes: dict[str, VoteIntake] = {}
        self._told: Counter[str] = Counter()
        self._missing: dict[str, tuple[str, ...]] = {}
        self._recall()
        self._kept = self._quarantined
        self.status: dict[str, Any] = self._say()

    def intakes(self, *, size: int, grace: int, position: int = 0) -> dict[str, VoteIntake]:
        """New ones, from this position on. `size`: of a bucket. `grace`: as intakes have it."""
        self._intakes = {
            stream: self._comparison.intake(
                stream,
                replicas,
                size=size,
                grace=grace,
                position=position,
                findings=self._findings[stream],
                secret=self._secret,
            )
            for stream, replicas in self._inputs.items()
        }
        return self._intakes

    def look(self) -> None:
        """Tell what is new, and note who is in quarantine."""
        for stream, findings in self._findings.items():
            self._tell(stream, findings)
        for stream in self._intakes:
            self._tell_missing(stream)
        quarantined = self._quarantined
        if quarantined != self._kept:
            self._kept = quarantined
            if self._note is not None:
                write_whole(self._note, json.dumps(quarantined).encode())
        self.status = self._say()

    def _tell(self, stream: str, findings: Findings) -> None:
        for name, count in findings.counts.items():
            if count >= 1 and self._is_new(f"{name} lied", 1):
                logger.error("%s: %s lies: it publishes other rows than agreed", self.me, name)
        for name in findings.quarantined:
            if self._is_new(f"{name} quarantined", 1):
                logger.error(
                    "%s: %s is in quarantine after %d accusations: its votes do not count; "
                    "see to it, then `holdfast readmit`",
                    self.me,
                    name,
                    findings.counts[name],
                )
        if self._is_new(f"{stream} tainted", len(findings.tainted)):
            taint = findings.tainted[-1]
            logger.error(
                "%s: buckets %d to %d of %s have been released and may be wrong: %s lied",
                self.me,
                taint.first,
                taint.last,
                stream,
                taint.replica,
            )
        if findings.gave_up is not None and self._is_new(f"{stream} stopped", 1):
            logger.error(
                "%s: %s stops at bucket %d: %s; see to the replicas, then start %s again",
                self.me,
                stream,
                findings.gave_up.bucket,
                _who_said_what(findings.gave_up.said),
                self.me,
            )
        # Told when there are twice as many.
        if findings.split is not None and self._is_new(
            f"{stream} split", findings.splits.bit_length()
        ):
            logger.error(
                "%s: no agreement on bucket %d of %s: %s; it goes on without, see to the replicas",
                self.me,
                findings.split.bucket,
                stream,
                _who_said_what(findings.split.said),
            )

    def _tell_missing(self, stream: str) -> None:
        """Who is waited for, once anybody is there."""
        barrier = self._intakes[stream].barrier
        missing = () if barrier.is_open else barrier.missing
        before, self._missing[stream] = self._missing.get(stream, ()), missing
        if missing != before and 0 < len(missing) < len(self._inputs[stream]):
            logger.warning(
                "%s: does not begin with %s before %s answers, or %.0f s have passed and enough "
                "others do",
                self.me,
                stream,
                ", ".join(missing),
                barrier.patience / 1e6,
            )

    def _is_new(self, what: str, count: int) -> bool:
        """Whether it has not been told, or there is more of it."""
        before, self._told[what] = self._told[what], count
        return count > before

    def readmitted(self, replica: str) -> None:
        """It begins anew: what it does from now on is told again."""
        del self._told[f"{replica} lied"], self._told[f"{replica} quarantined"]
        self.look()

    @property
    def _quarantined(self) -> dict[str, list[str]]:
        return {
            stream: sorted(findings.quarantined)
            for stream, findings in self._findings.items()
            if findings.quarantined
        }

    def _recall(self) -> None:
        if self._note is None or not self._note.exists():
            return
        try:
            kept = json.loads(self._note.read_bytes())
            for stream, names in kept.items():
                if stream in self._findings:
                    found = self._findings[stream]
                    # There may have been more when the topology allowed for more.
                    known = sorted(set(names) & set(self._inputs[stream]))[: found.faults]
                    found.quarantined.update(known)
        except (ValueError, TypeError, AttributeError):
            raise StoreCorruptError(
                f"{self._note}: cannot be read; delete it, and liars are found out anew"
            ) from None

    def _say(self) -> dict[str, Any]:
        found = self._findings.values()
        barriers = [intake.barrier for intake in self._intakes.values()]
        return {
            "accused": {
                name: count for each in found for name, count in each.counts.items() if count
            },
            "quarantined": sorted({name for each in found for name in each.quarantined}),
            "recalculated": sum(each.redone for each in found),
            "splits": sum(each.splits for each in found),
            "tainted": sum(
                taint.last - taint.first + 1 for each in found for taint in each.tainted
            ),
            "gave_up": {
                stream: _who_said_what(each.gave_up.said)
                for stream, each in self._findings.items()
                if each.gave_up is not None
            },
            "waits_for": sorted({n for each in barriers if not each.is_open for n in each.missing}),
            "votes": {stream: self._votes(stream) for stream in self._intakes},
        }

    def _votes(self, stream: str) -> dict[str, Any]:
        """Of each of the last buckets: when it begins, a letter for each replica, and how often it
        was calculated again."""
        replicas, intake = self._inputs[stream], self._intakes[stream]
        ballots = intake.ballots
        return {
            "replicas": list(replicas),
            "buckets": [
                [
                    number * intake.size,
                    "".join(LETTERS[ballots[number].stand_of(each)] for each in replicas),
                    ballots[number].attempt,
                ]
                for number in sorted(ballots)[-LAST:]
            ],
        }


def _who_said_what(said: Iterable[tuple[str, bytes]]) -> str:
    """Those who agreed stand together."""
    groups: dict[bytes, list[str]] = {}
    for name, digest in said:
        groups.setdefault(digest, []).append(name)
    return " against ".join(", ".join(sorted(names)) for names in groups.values())


PATIENCE: Final = 5.0
"""Seconds for a reader to answer."""


def readmit(
    topology: Topology, party: str, routes: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Ask all stages that vote on the replica; a line for each of their replicas. Sinks have no
    server: they forget who lied when they are started again."""
    stream = party.partition("/")[0]
    if stream not in topology.stages or party not in topology.publishers(stream):
        raise InvalidArgumentError(
            f"party: {party!r} is no replica of a stage; give STAGE/REPLICA, as clean/1"
        )
    readers = [
        reader
        for name, stage in topology.stages.items()
        if stream in stage.inputs and stage.policy in VOTING
        for reader in topology.publishers(name)
    ]
    if not readers:
        raise InvalidArgumentError(
            f"party: no stage of the topology votes on {stream}, so nobody has {party} in "
            "quarantine; a sink that votes on it forgets that when it is started again"
        )
    security, reached = security_of(topology), 0
    for reader, address in addresses_of(topology, readers, routes).items():
        try:
            was = json.loads(act(address, security, "readmit", party.encode(), timeout=PATIENCE))
        except WireError as error:
            yield f"{reader}: cannot be asked ({error})"
            continue
        reached += 1
        yield f"{reader}: {party} {'counts again' if was else 'was not in quarantine'}"
    if not reached:
        raise UnreachableError(f"nobody who votes on {stream} answers; start them, then ask again")
