"""Bytes per tuple and operator: records of tuples against copies of them, over tuple sizes.

Real replicas exchange real messages, encoded as on a link. With records the colleagues get ids, and
the origin keeps the tuple until the next operator has it; with copies they get the tuple itself,
and the origin may forget it as soon as they have it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from benchmarks.sharing.frames import Copies, encode
from holdfast.pipeline.machine.sharing import Plan, Replica, Rules, Send, Sink, Source
from holdfast.pipeline.machine.sharing.messages import Confirm, Packet, Record

__all__ = ["SIZES", "crossover", "overhead", "table"]

SIZES: Final = (4, 8, 16, 32, 64, 256, 1024, 4096, 16_384, 65_536)
BATCH: Final = 100


def table(replicas: int = 3) -> tuple[list[str], list[list[object]]]:
    """Columns and rows: sizes, records, copies, how many times more; one tuple in a packet and
    many; and what the digest's formula gives."""
    columns = [
        "tuple B",
        "records B",
        "copies B",
        "copies/records",
        f"records B, {BATCH} at once",
        f"copies B, {BATCH} at once",
        "copies/records, at once",
        "formula: records B",
        "formula: copies B",
    ]
    rows: list[list[object]] = []
    for size in SIZES:
        alone = overhead(size, replicas=replicas, batch=1)
        many = overhead(size, replicas=replicas, batch=BATCH)
        formula = 16 * (replicas + 1), (replicas - 1) * size
        ratios = [copies / records for records, copies in (alone, many)]
        rows.append([size, *alone, ratios[0], *many, ratios[1], *formula])
    return columns, rows


def crossover(*, replicas: int = 3, batch: int = 1) -> int:
    """The smallest tuple, in bytes, for which copies cost more than records; 0 if all do."""

    def is_dearer(size: int) -> bool:
        records, copies = overhead(size, replicas=replicas, batch=batch)
        return copies > records

    return next(size for size in range(1024) if is_dearer(size))


def overhead(size: int, *, replicas: int, batch: int) -> tuple[float, float]:
    """Bytes per tuple that an operator adds to the tuples themselves: with records, with copies."""
    packets = _exchange(size, replicas, batch)
    count = BATCH
    records = sum(len(encode(_without(packet, _is_delivery))) for packet in packets)
    copies = sum(
        len(encode(copied))
        for packet in packets
        if (copied := _with_copies(_without(packet, _is_delivery), b"x" * size)).items
    )
    return records / count, copies / count


def _is_delivery(item: Any) -> bool:
    return type(item).__name__ == "Deliver"


def _without(packet: Packet, is_out: Callable[[Any], bool]) -> Packet:
    return replace(packet, items=tuple(item for item in packet.items if not is_out(item)))


def _with_copies(packet: Packet, value: bytes) -> Packet:
    items: list[Any] = []
    for item in packet.items:
        if isinstance(item, Confirm) and item.level > 0:
            continue
        items.append(Copies(item.ids, value) if isinstance(item, Record) else item)
    return replace(packet, items=tuple(items))


def _exchange(size: int, replicas: int, batch: int) -> list[Packet]:
    """What the replicas of one operator say to each other and to the source about tuples."""
    plan = Plan.chain(source=1, work=replicas, sink=1)
    rules = Rules(linger=0 if batch == 1 else 1_000, capacity=4 * BATCH)
    source, sink = Source("source/0", plan, rules), Sink("sink/0", plan, rules)
    parties: dict[str, Source | Sink | Replica] = {source.me: source, sink.me: sink}
    for name in plan.replicas("work"):
        parties[name] = Replica(name, plan, lambda value: [value], rules)
    said: list[Packet] = []
    queue: deque[tuple[str, Send]] = deque()
    for start in range(0, BATCH, batch):
        now = 2_000 + 40_000 * (start // batch)
        for at in range(batch):
            queue.extend((source.me, each) for each in source.emit(b"x" * size, now + at))
        for moment in range(now + batch, now + batch + 30_000, 1_000):
            _carry(parties, queue, said, moment)
            for name, party in parties.items():
                queue.extend((name, each) for each in party.wake(moment))
        _carry(parties, queue, said, now + 35_000)
    assert source.mark == source.sent == BATCH, "some tuples have not gone through"
    return said


def _carry(
    parties: dict[str, Source | Sink | Replica],
    queue: deque[tuple[str, Send]],
    said: list[Packet],
    now: int,
) -> None:
    while queue:
        sender, send = queue.popleft()
        is_ours = sender.startswith("work") and not send.to.startswith("sink")
        if isinstance(send.message, Packet) and is_ours and send.message.items:
            said.append(send.message)
        answers = parties[send.to].receive(sender, send.message, now)
        queue.extend((send.to, each) for each in answers)
