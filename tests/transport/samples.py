"""Messages of every kind, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa

from holdfast.pipeline.machine.messages import (
    Again,
    AuthGrant,
    AuthReject,
    AuthRelease,
    AuthRequest,
    Feed,
    Gap,
    Heartbeat,
    Item,
    LogPiece,
    LogRequest,
    Message,
    PieceRequest,
    Preview,
    Progress,
    Read,
    Recalculate,
    RecDone,
    Stable,
    StateOffer,
    StatePiece,
    StateRequest,
    Subscribe,
    Undo,
    Unsubscribe,
    Vitals,
)
from holdfast.pipeline.machine.sharing.messages import (
    Announce,
    Announced,
    Join,
    Ping,
    Pong,
    Snapshot,
    TakeOver,
    View,
)
from holdfast.pipeline.machine.sharing.ownership import Claim
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.storage.chunks import Chunk

FAR = 2**63 - 1


def readings(rows: int, first: int = 0) -> pa.Table:
    return pa.table(
        {
            "stime": pa.array(range(first, first + rows), pa.timestamp("us", "UTC")),
            "sensor": pa.array([f"sensor-{i % 7}" for i in range(rows)], pa.string()),
            "value": pa.array([None if i % 5 == 0 else i / 4 for i in range(rows)], pa.float64()),
        }
    )


def draw_segment(rng: random.Random) -> Segment:
    start = rng.choice([-FAR - 1, -1, 0, rng.randrange(10**15)])
    end = start + rng.randrange(1, 1000)
    stimes = sorted(rng.sample(range(start, end), min(rng.randrange(3), end - start)))
    return Segment(
        start, end, tuple(Row(s, None, Chunk.of(readings(rng.randrange(5), 9))) for s in stimes)
    )


def draw_item(rng: random.Random) -> Item:
    kinds: list[Callable[[], Item]] = [
        lambda: Stable(draw_segment(rng)),
        lambda: Preview(draw_segment(rng)),
        lambda: Undo(rng.choice([-5, FAR])),
        RecDone,
        lambda: Gap(rng.randrange(10**15)),
        lambda: Again(draw_segment(rng), rng.randrange(5)),
    ]
    return rng.choice(kinds)()


def draw_message(rng: random.Random) -> Message:
    stream = rng.choice(["readings", "clean", "größe", "x" * 255])

    def number() -> int:
        return rng.choice([0, 1, rng.randrange(10**16), FAR])

    def view() -> View:
        some = range(rng.randrange(4))
        return View(stream, tuple(Claim(number(), f"clean/{at}", number()) for at in some))

    kinds: list[Callable[[], Message]] = [
        view,
        lambda: Ping(number(), view().claims),
        lambda: Pong(number(), view().claims),
        lambda: TakeOver(stream, number(), view().claims),
        lambda: Announce(number(), view()),
        lambda: Announced(number()),
        lambda: Join(number()),
        lambda: Snapshot(number(), (view(), view())[: rng.randrange(3)], (), (), ()),
        lambda: Subscribe(
            stream, number(), -number(), number(), *(rng.random() < 0.5 for _ in range(2))
        ),
        lambda: Unsubscribe(stream, number()),
        lambda: Read(stream, number(), -number()),
        lambda: Recalculate(stream, number(), number()),
        lambda: Feed(
            stream, number(), number(), tuple(draw_item(rng) for _ in range(rng.randrange(4)))
        ),
        lambda: Heartbeat(
            {f"{stream[:9]}{i}": number() for i in range(rng.randrange(4))},
            number(),
            {f"{stream[:9]}{i}": number() for i in range(rng.randrange(3))},
        ),
        lambda: Vitals(
            {
                f"{stream[:9]}{i}": Progress(
                    rng.choice(list(State)), number(), number(), rng.choice([-1, 7]), number(), 4
                )
                for i in range(rng.randrange(3))
            },
            number(),
        ),
        AuthRequest,
        AuthGrant,
        AuthReject,
        AuthRelease,
        lambda: StateRequest(number()),
        lambda: StateOffer(
            number(),
            rng.choice([-1, 0, 7]),
            number(),
            -number(),
            number(),
            rng.choice([None, rng.randbytes(rng.randrange(100))]),
        ),
        lambda: PieceRequest(number(), tuple(range(rng.randrange(20)))),
        lambda: StatePiece(number(), number(), rng.randbytes(rng.randrange(100))),
        lambda: LogRequest(stream, number()),
        lambda: LogPiece(
            stream, number(), -number(), tuple(draw_segment(rng) for _ in range(rng.randrange(3)))
        ),
    ]
    return rng.choice(kinds)()


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Bytes that somebody has tampered with."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        place = rng.randrange(len(changed) + 1)
        match rng.randrange(5):
            case 0 if place < len(changed):
                changed[place] ^= 1 << rng.randrange(8)
            case 1 if place < len(changed):
                changed[place] = rng.randrange(256)
            case 2:
                del changed[place : place + rng.choice([1, 4, 100])]
            case 3:
                changed[place:place] = rng.randbytes(rng.choice([1, 4, 100]))
            case _:
                changed = changed[:place]
    return bytes(changed)
