"""Closed panes are sent until the root has them."""

from __future__ import annotations

from holdfast.edge.machine.closing import RARELY, Outbox
from holdfast.edge.machine.messages import PanePartial, PaneTaken

RESEND = 100


def filled(*partitions: int) -> Outbox:
    outbox = Outbox("g", RESEND)
    for partition in partitions:
        outbox.put("q", 0, PanePartial(partition, 1, 0, 1))
    return outbox


def to(outbox: Outbox, now: int, down: set[str] = frozenset()) -> list[tuple[str, tuple[int, ...]]]:
    sends = outbox.send(["i", "j"], down, (), now)
    return [(s.to, tuple(p.partition for p in s.message.partials)) for s in sends]


def test_until_it_is_taken() -> None:
    outbox = filled(0, 1)
    assert to(outbox, 0) == [("i", (0, 1)), ("j", (0, 1))]
    assert to(outbox, 50) == []
    outbox.taken("i", PaneTaken("g", "q", 0, (0,), 0))
    outbox.taken("j", PaneTaken("g", "q", 0, (0, 1), 0))
    assert to(outbox, 100) == [("i", (1,))]


def test_ever_more_rarely_while_nobody_takes_it() -> None:
    """The disk of the root may be full for hours, and thousands of panes wait then."""
    outbox = filled(0)
    times = [now for now in range(0, 3_200, RESEND) if to(outbox, now)]
    assert times == [0, 100, 300, 700, 800, 1_600, 2_400]
    outbox.put("q", 0, PanePartial(0, 2, 0, 2))
    assert [now for now in range(3_200, 3_600, RESEND) if to(outbox, now)] == [3_200, 3_300, 3_500]


def test_what_a_parent_took_goes_out_again_as_long_as_the_root_does_not_have_it() -> None:
    outbox = filled(0)
    to(outbox, 0)
    for parent in "ij":
        outbox.taken(parent, PaneTaken("g", "q", 0, (0,), 0))
    times = [now for now in range(0, 2_000, RESEND) if to(outbox, now)]
    assert times == [RARELY * RESEND, 2 * RARELY * RESEND]
    outbox.free("q", 10, 10)
    assert len(outbox) == 0
    assert outbox.due is None


def test_parents_held_for_dead_are_tried_rarely() -> None:
    outbox = filled(0)
    to(outbox, 0)
    assert to(outbox, 100, {"j"}) == [("i", (0,))]


def test_a_newer_state_is_sent_to_those_who_took_the_old_one() -> None:
    outbox = filled(0)
    to(outbox, 0)
    outbox.taken("i", PaneTaken("g", "q", 0, (0,), 0))
    outbox.put("q", 0, PanePartial(0, 2, 0, 2))
    assert to(outbox, 10) == [("i", (0,)), ("j", (0,))]
    outbox.drop(0)
    assert len(outbox) == 0
