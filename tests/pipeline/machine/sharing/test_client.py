"""The seats of a shared stream, read as one."""

from __future__ import annotations

from holdfast.pipeline.machine.messages import (
    Feed,
    Gap,
    Heartbeat,
    Item,
    Progress,
    Send,
    Stable,
    Vitals,
)
from holdfast.pipeline.machine.sharing.client import SharedClient
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Kind, Row, Segment

SEATS = {"clean@1": ("clean/1", "clean/2"), "clean@2": ("clean/2", "clean/1")}


class Reading:
    """A client whose replicas all are well; each has its own seat."""

    def __init__(self, **settings: bool) -> None:
        self.client = SharedClient(SEATS, **settings)
        self.client.wake(0)
        self.numbers = {
            send.message.stream: send.message.subscription
            for seat, (name, _) in SEATS.items()
            for send in self._vitals(seat, name)
            if not isinstance(send.message, Heartbeat)
        }
        self.sent = dict.fromkeys(SEATS, 0)

    def _vitals(self, seat: str, name: str) -> list[Send]:
        shown, sends = self.client.receive(name, Vitals({seat: Progress(State.STABLE, 0)}, 0), 0)
        assert not shown
        return sends

    def feed(self, seat: str, *items: Item) -> list[tuple[int, list[str]]]:
        """What is shown: boundaries and values."""
        number, self.sent[seat] = self.sent[seat], self.sent[seat] + 1
        feed = Feed(seat, self.numbers[seat], number, items)
        shown, _ = self.client.receive(SEATS[seat][0], feed, 1)
        assert all(each.kind is Kind.INSERT for each in shown)
        return [(each.boundary, [row.value for row in each.rows]) for each in shown]


def piece(start: int, *values: str) -> Stable:
    rows = tuple(Row(start, None, value) for value in values)
    return Stable(Segment(start, start + 10, rows))


def test_buckets_are_shown_in_order_once_all_seats_have_come_so_far() -> None:
    reading = Reading()
    assert reading.feed("clean@1", piece(0, "a", "b"), piece(10), piece(20, "d")) == []
    assert reading.feed("clean@2", piece(0)) == [(10, ["a", "b"])]
    assert reading.feed("clean@2", piece(10, "c"), piece(20)) == [(30, ["c", "d"])]
    assert reading.client.position == 30


def test_what_is_safe_is_told_to_all() -> None:
    reading = Reading()
    reading.client.done = 20
    reading.feed("clean@1", piece(0), piece(10), piece(20))
    reading.feed("clean@2", piece(0), piece(10))
    _, sends = reading.client.wake(200_000)
    acks = [send.message.acks for send in sends if isinstance(send.message, Heartbeat)]
    assert {"clean@1": 20} in acks
    assert {"clean@2": 20} in acks


def test_what_nobody_keeps_is_a_gap_for_who_may_skip() -> None:
    reading = Reading(may_skip=True)
    reading.feed("clean@1", piece(0, "a"), piece(10, "b"), piece(20, "c"))
    shown = reading.feed("clean@2", Gap(20), piece(20))
    for name in ("clean/1", "clean/2"):
        vitals = Vitals({"clean@2": Progress(State.STABLE, 30, start=20)}, 2)
        more, _ = reading.client.receive(name, vitals, 2)
        shown += [(each.boundary, [row.value for row in each.rows]) for each in more]
    assert shown == [(30, ["a", "b", "c"])]
    assert reading.client.gaps == [(0, 20)]
