"""Report of a job: whether it is verified, which replicas were wrong, what was redone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from holdfast.errors import StoreUnavailableError
from holdfast.verify.machine import Finding, Kind, Mode, Model, Run, Standing

NAME: Final = "account.json"
_WORDS: Mapping[Kind, str] = {
    Kind.OUTVOTED: "outvoted",
    Kind.MISSING: "missing",
    Kind.EQUIVOCATED: "said two things",
    Kind.OVER_QUOTA: "took too much room",
    Kind.BROKEN_DATA: "right digest, wrong data",
    Kind.SPOILED_FILE: "spoiled file",
    Kind.MISPLACED: "on a host that is not its own",
    Kind.SHARED_HOST: "shared a host",
    Kind.NO_QUORUM: "no quorum",
}


@dataclass(frozen=True)
class Account:
    submission: str
    job: str
    model: Model
    faults: int
    replicas: int
    needed: int
    mode: Mode
    is_verified: bool
    failure: str
    """Why it is not."""
    output: Path | None
    rows: int
    seconds: float
    """From the start until the result was there, or was given up."""
    runs: dict[str, Run]
    """In which run each stage was agreed upon, or is."""
    findings: tuple[Finding, ...]
    pools: dict[int, tuple[str, ...]]
    """Where each replica was started, one after the other."""
    hosts: dict[int, tuple[str, ...]]
    """Where the tasks were whose results were agreed upon, as they say."""
    verifier_starts: int
    """How often verifiers were started again."""
    replica_seconds: float
    """How long replicas ran, all together and whenever they were started."""
    price: float | None
    """Of one replica for an hour."""
    cut: dict[int, int]
    """Bytes of the log and the trace of each replica that were not kept, where that are any."""
    warning: str
    folder: Path
    """With logs, journals and traces."""
    refused: str = ""
    """What the code was to write by itself, and did not; or how it failed after its end."""
    lives: int = 1
    """How often the command was started for it: each time that it was killed, once more."""
    arguments: tuple[str, ...] = ()
    """Of the job's code."""
    written: dict[str, str] = field(default_factory=dict)
    """Where each write of the program went, by its name."""
    receipt: str = ""
    """The digest of the receipt in the folder of the result."""
    pinned: dict[str, str] = field(default_factory=dict)
    """SHA-256 of all that the result depends on, in hexadecimal: the job's file, each file of each
    source, each setting."""
    pins: str = ""
    """The digest of arguments and pins, which every replica has signed with each report."""
    stages: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The digests of the slices that were agreed upon."""

    def write(self) -> Path:
        """As text and as JSON, into the folder of the submission; where the text is.

        Raises StoreUnavailableError with the text if it cannot be written.
        """
        text = self.folder / "account.txt"
        found = msgspec.json.encode(self, enc_hook=str)
        try:
            text.write_text(self.text())
            (self.folder / NAME).write_bytes(msgspec.json.format(found) + b"\n")
        except OSError as error:
            raise StoreUnavailableError(
                f"{self.folder}: {error.strerror}; make room for accounts there. This one is:\n"
                f"{self.text()}"
            ) from error
        return text

    @classmethod
    def read(cls, folder: Path) -> Account:
        """The account of a job that ran before."""
        return msgspec.json.decode(
            (folder / NAME).read_bytes(), type=cls, dec_hook=lambda kind, value: kind(value)
        )

    @property
    def is_disputed(self) -> bool:
        """Whether another result came after one was delivered on the word of a single replica."""
        return (
            self.is_verified
            and self.model is Model.CRASH
            and any(each.kind in (Kind.OUTVOTED, Kind.EQUIVOCATED) for each in self.findings)
        )

    def text(self) -> str:
        return "\n".join(map(printable, self._lines())) + "\n"

    def _lines(self) -> list[str]:
        agree = f"{self.needed} of {self.replicas} replicas must agree"
        lines = [f"{self.submission}: {self.model}, faults: {self.faults}, {self.mode}; {agree}"]
        if self.is_verified:
            lines.append(f"verified in {self.seconds:.1f} s: {self.rows:,} rows in {self.output}")
            lines += [f"written: {name} to {place}" for name, place in self.written.items()]
            if self.receipt:
                lines.append(f"the receipt there has the SHA-256 {self.receipt}")
        else:
            first, *more = self.failure.splitlines() or [""]
            known = "not all of it was delivered" if self.written else "nothing was delivered"
            lines.append(f"NOT VERIFIED, {known}: {first}")
            lines += [f"    {line}" for line in more]
            lines += [
                f"written all the same, agreed upon: {name} to {place}"
                for name, place in self.written.items()
            ]
        if self.is_disputed:
            lines.append(
                "WARNING: replicas have different results, and the crash model cannot tell which "
                "is right. One of them was delivered before the other was there: do not use it, "
                "and submit the job again with --model byzantine"
            )
        if self.refused:
            lines.append(f"WARNING: what was agreed upon is delivered, but {self.refused}")
        if self.warning:
            lines.append(f"warning: {self.warning}")
        for stage, run in self.runs.items():
            if run.attempt:
                lines.append(f"stage {stage} was computed again {_times(run.attempt)}")
        epoch = max((run.epoch for run in self.runs.values()), default=0)
        if epoch:
            lines.append(f"the whole job was begun again {_times(epoch)}")
        if self.lives > 1:
            lines.append(f"the command was interrupted and went on {_times(self.lives - 1)}")
        if self.verifier_starts:
            lines.append(f"verifiers were started again {_times(self.verifier_starts)}")
        lines.append(self._cost())
        lines += self._named()
        for replica, pools in self.pools.items():
            seen = ", ".join(self.hosts.get(replica, ())) or "none whose results count"
            if cut := self.cut.get(replica):
                lines.append(f"replica {replica}: {cut:,} bytes of its log and trace were cut")
            lines.append(f"replica {replica}: in {', then '.join(pools)}; hosts: {seen}")
        return lines

    def _cost(self) -> str:
        told = f"replicas ran {self.replica_seconds:,.1f} s, all together"
        if self.price is None:
            return told
        return f"{told}; that costs {self.replica_seconds * self.price / 3600:,.2f}"

    def _named(self) -> list[str]:
        """What was found, once for each stage."""
        groups: Counter[tuple[Kind, int, str, str]] = Counter()
        for each in self.findings:
            groups[each.kind, each.replica, each.stage, each.text] += 1
        if not groups:
            return ["nobody was found out"]
        lines = []
        for (kind, replica, stage, text), count in groups.items():
            who = f"replica {replica}: " if replica else ""
            where = f", stage {stage}" if stage else ""
            times = f" ({count} slices)" if count > 1 else ""
            lines.append(f"{who}{self._word(kind)}{where}: {text}{times}")
        return lines

    def _word(self, kind: Kind) -> str:
        # Who differs from one other may be the one that is right.
        is_one_to_one = kind is Kind.OUTVOTED and self.model is Model.CRASH
        return "differs" if is_one_to_one else _WORDS[kind]


def printable(line: str) -> str:
    """On one line and without what moves a cursor: replicas choose the names of their hosts."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in line
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def hosts_of(standing: Standing) -> dict[int, tuple[str, ...]]:
    """Where the tasks of each replica were that made what was agreed upon."""
    found: dict[int, dict[str, None]] = {}
    for verdict in standing.verdicts.values():
        for agreed in verdict.slices.values():
            for holder in agreed.holders:
                found.setdefault(holder.replica, {})[holder.host] = None
    return {replica: tuple(hosts) for replica, hosts in sorted(found.items())}
