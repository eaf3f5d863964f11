"""A slot that carries plain partials, as the edge does, against one that carries delta-CRDTs.

One sensor's events in one partition come in at the published rate: 18,300 a second over eight
partitions, cut every 100 ms. At each cut the owner sends what changed and a peer joins it, through
the same encoding. The CRDT has an entry for each child that ever added events to the slot, so that
a slot needs no single writer; what that costs is measured, and what it does to events that two
children add after a false suspicion.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.edge.scale import Scale
from benchmarks.report import Report
from benchmarks.timing import Alternative, measure
from holdfast.crdt import PerReplica
from holdfast.edge.machine.aggregates import KINDS, aggregate
from holdfast.edge.machine.messages import Part, Query, SlotDelta
from holdfast.edge.machine.queries import Paned
from holdfast.edge.machine.slots import Slot

__all__ = ["DeltaCrdt", "Plain", "frames", "is_exact_after_both_added", "report_carriers"]

CUT: Final = 229
"""Events of a slot in 100 ms."""
PANE: Final = 10_000_000
START: Final = 1_790_000_000_000_000
SENSOR: Final = "s1~1790000000000000"
NAMES: Final = ("q",)


class Plain:
    """A slot at its owner and its copy at a peer."""

    def __init__(self, kind: str) -> None:
        self.query = Paned(Query("q", kind, PANE, PANE))
        self.owner = Slot(3, SENSOR, boundary=START)
        self.copy = Slot(3, SENSOR, boundary=START)

    def take(self, slot: Slot, values: NDArray[np.float64]) -> None:
        times = np.full(len(values), START, np.int64)
        slot.add(times, values, None, (self.query,), {})
        slot.offset += len(values)

    def cut(self, values: NDArray[np.float64]) -> int:
        """Events come, and the peer gets them; the bytes it took."""
        base = self.owner.offset
        self.take(self.owner, values)
        return self.send(self.owner, self.copy, base)

    def send(self, sender: Slot, receiver: Slot, base: int) -> int:
        data = msgspec.msgpack.encode(sender.delta(base))
        receiver.join(msgspec.msgpack.decode(data, type=SlotDelta), NAMES, NAMES)
        return len(data)

    def answer(self) -> Any:
        """At the peer."""
        (held,) = self.copy.panes["q"].values()
        return self.query.answer(held.partial)


class DeltaCrdt:
    """The same slot with a `PerReplica` in the place of the partial."""

    def __init__(self, kind: str) -> None:
        self.owner = self.copy = PerReplica(aggregate(kind))
        self.offset = 0

    def cut(self, values: NDArray[np.float64], child: str = "c1") -> int:
        delta = self.owner.add(child, values)
        self.owner = self.owner.join(delta)
        self.offset += len(values)
        return self.send(delta)

    def send(self, delta: PerReplica) -> int:
        part = Part("q", START, delta.encode(), self.offset, START)
        data = msgspec.msgpack.encode(
            SlotDelta(3, SENSOR, 0, self.offset, START, (part,), (), {}, 0, 0, 0, START)
        )
        (got,) = msgspec.msgpack.decode(data, type=SlotDelta).parts
        self.copy = self.copy.join(self.copy.decode(got.partial))
        return len(data)

    def answer(self) -> Any:
        return self.copy.value()


def frames(count: int) -> list[NDArray[np.float64]]:
    """Whole numbers, so that sums are exact in any order."""
    rng = np.random.default_rng(11)
    return [rng.integers(-500, 1_000, CUT).astype(np.float64) for _ in range(count)]


def report_carriers(report: Report, scale: Scale) -> None:
    report.progress("slots with plain partials and with delta-CRDTs")
    cuts = frames(scale.cuts)
    rows: list[list[object]] = []
    for kind in KINDS:
        timings = measure(
            [_alternative("plain", Plain, kind, cuts), _alternative("crdt", DeltaCrdt, kind, cuts)],
            clock=time.process_time,
        )
        plain, crdt = Plain(kind), DeltaCrdt(kind)
        sizes = [_run(made, cuts) / len(cuts) for made in (plain, crdt)]
        both = [is_exact_after_both_added(type(made), kind) for made in (plain, crdt)]
        rows.append(
            [
                kind,
                *sizes,
                *(1e6 / timings.rate(name).median for name in ("plain", "crdt")),
                1 / timings.ratio("crdt", "plain").median,
                *("exact" if exact else "not exact" for exact in both),
            ]
        )
    report.table(
        f"A slot with plain partials, and with delta-CRDTs, for each cut of {CUT} events",
        ["aggregate", "plain (B)", "CRDT (B)", "plain (us)", "CRDT (us)", "time of the CRDT, times",
         "two children add the same: plain", "and CRDT"],
        rows,
    )  # fmt: skip


def _alternative(
    name: str,
    carrier: type[Plain | DeltaCrdt],
    kind: str,
    cuts: Sequence[NDArray[np.float64]],
) -> Alternative:
    return Alternative(name, _run, len(cuts), lambda: (carrier(kind), cuts))


def _run(made: Plain | DeltaCrdt, cuts: Sequence[NDArray[np.float64]]) -> int:
    return sum(made.cut(values) for values in cuts)


def is_exact_after_both_added(carrier: type[Plain | DeltaCrdt], kind: str) -> bool:
    """A child is held for dead after its first cut, lives on and adds the second, as does the one
    that took over; then both copies are joined. Whether the second cut counts once."""
    first, second = frames(2)
    made = carrier(kind)
    made.cut(first)
    if isinstance(made, Plain):
        base = made.owner.offset
        made.take(made.owner, second)
        made.take(made.copy, second)
        made.send(made.owner, made.copy, base)
    else:
        delta = made.owner.add("c1", second)
        made.owner = made.copy
        made.cut(second, "c2")
        made.send(delta)
    right = aggregate(kind)
    whole = right.add(right.empty(), np.concatenate([first, second]))
    return bool(made.answer() == right.answer(whole))
