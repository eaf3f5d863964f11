"""What a replica tells of itself."""

from __future__ import annotations

from holdfast.pipeline.gates.order import Delays
from holdfast.pipeline.machine.commands import Place, Settings
from holdfast.pipeline.machine.messages import (
    Feed,
    Heartbeat,
    Progress,
    Send,
    Stable,
    Subscribe,
    Vitals,
)
from holdfast.pipeline.machine.node import Node
from holdfast.pipeline.machine.states import AnyOf, State
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.pipeline.process.replica_host import ReplicaCounts, spark_status

SIZE = 1_000_000


def make_node(*, lost: bool = False) -> Node:
    place = Place(
        "clean/1", (), {"a": ["a"], "b": ["b"]}, {"clean": AnyOf(("a", "b"))}, {"clean": ["sink"]}
    )
    delays = Delays(2 * SIZE)
    return Node(place, Settings(SIZE, delays), 0, lost=lost)


def feed(node: Node, stream: str, numbers: dict[str, int], start: int, end: int, now: int) -> None:
    segment = Segment(start, end, (Row(start, None, stream),))
    node.receive(stream, Feed(stream, numbers[stream], 0, (Stable(segment),)), now)


def subscriptions(node: Node, now: int) -> dict[str, int]:
    """Both sources answer; the numbers of the subscriptions that follow."""
    commands = node.wake(now)
    for stream in "ab":
        assert any(
            isinstance(command, Send) and isinstance(command.message, Heartbeat)
            for command in commands
        )
        commands += node.receive(stream, Vitals({stream: Progress(State.STABLE, 0)}, now), now)
    return {
        command.to: command.message.subscription
        for command in commands
        if isinstance(command, Send) and isinstance(command.message, Subscribe)
    }


def test_before_anything_has_come() -> None:
    assert ReplicaCounts().status(0) == {
        "state": "FAILURE",
        "stable_rows": 0,
        "tentative_rows": 0,
        "start": 0,
        "boundary": 0,
        "newest": 0,
        "buckets_buffered": 0,
        "waiting_bytes": 0,
        "waiting_disk_bytes": 0,
        "previews_dropped": 0,
        "lag_seconds": 0.0,
        "delay_new_seconds": 0.0,
        "stranded": False,
    }


def test_what_a_node_has_published_and_what_waits() -> None:
    node, counts = make_node(), ReplicaCounts()
    numbers = subscriptions(node, 0)
    assert set(numbers) == {"a", "b"}
    counts.look([node])
    assert counts.state == "STABLE"
    feed(node, "a", numbers, 0, 3 * SIZE, SIZE)
    counts.look([node])
    assert (counts.buffered, counts.boundary) == (1, 0)
    assert counts.state == "FAILURE", "nobody has answered for long"
    feed(node, "b", numbers, 0, 2 * SIZE, 2 * SIZE)
    assert node.working is not None
    node.finished(node.working, {"clean": ()}, 3 * SIZE)
    counts.look([node])
    status = counts.status(3 * SIZE)
    assert (status["boundary"], status["newest"], status["start"]) == (2 * SIZE, 2 * SIZE, 0)
    assert (status["lag_seconds"], status["delay_new_seconds"]) == (1.0, 1.0)


def test_a_clock_behind_the_stream_gives_a_lag_below_zero() -> None:
    node, counts = make_node(), ReplicaCounts()
    numbers = subscriptions(node, 0)
    for stream in "ab":
        feed(node, stream, numbers, 0, 5 * SIZE, 1)
    assert node.working is not None
    node.finished(node.working, {"clean": ()}, 2)
    counts.look([node])
    status = counts.status(2 * SIZE)
    assert (status["lag_seconds"], status["delay_new_seconds"]) == (-3.0, -3.0)
    # Nothing need happen for it to grow.
    assert counts.status(9 * SIZE)["lag_seconds"] == 4.0


def test_one_that_has_lost_its_state_is_silent() -> None:
    counts = ReplicaCounts(state="STABLE")
    counts.look([make_node(lost=True)])
    assert counts.status(5 * SIZE)["state"] == "FAILURE"
    assert counts.status(5 * SIZE)["lag_seconds"] == 5.0


def test_rows_are_counted_by_the_replica() -> None:
    counts = ReplicaCounts(stable=3, tentative=4)
    counts.look([make_node()])
    assert (counts.status(0)["stable_rows"], counts.status(0)["tentative_rows"]) == (3, 4)


def test_one_with_several_seats_is_no_better_than_the_worst_and_tells_of_each() -> None:
    counts = ReplicaCounts()
    one, other = make_node(), make_node(lost=True)
    counts.look([one, other])
    assert counts.state == "FAILURE"
    counts.look([one])
    assert counts.seats == {"clean": {"start": 0, "boundary": 0}}
    counts.look([])
    assert (counts.state, counts.seats) == ("FAILURE", {})


def test_what_is_told_of_spark() -> None:
    progress = {
        "durationMs": {"triggerExecution": 412},
        "stateOperators": [
            {"numRowsTotal": 7, "memoryUsedBytes": 700},
            {"numRowsTotal": 5, "memoryUsedBytes": 500},
        ],
        "busySeconds": 3.25,
        "inputRows": 70,
    }
    assert spark_status(progress, "http://127.0.0.1:4040") == {
        "batch_seconds": 0.412,
        "busy_seconds": 3.25,
        "input_rows": 70,
        "state_rows": 12,
        "state_bytes": 1200,
        "spark_ui": "http://127.0.0.1:4040",
    }
    assert spark_status(None, None) == {
        "batch_seconds": 0,
        "busy_seconds": 0,
        "input_rows": 0,
        "state_rows": 0,
        "state_bytes": 0,
        "spark_ui": None,
    }
