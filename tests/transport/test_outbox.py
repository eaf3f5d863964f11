"""The outbox: bounded, in order, never waited for."""

from __future__ import annotations

import threading

from holdfast.pipeline.machine.messages import Heartbeat, StatePiece, StateRequest
from holdfast.transport.codec import decode
from holdfast.transport.links import BEAT, Assembly, Outbox
from tests.transport.parties import wait_for


def test_count_and_bytes_are_bounded() -> None:
    outbox = Outbox(max_count=3)
    assert [outbox.send(StateRequest(i)) for i in range(5)] == [True, True, True, False, False]
    assert outbox.dropped == 2
    large = StatePiece(1, 0, bytes(1000))
    outbox = Outbox(max_bytes=1500)
    assert [outbox.send(large), outbox.send(large), outbox.send(StateRequest(1))] == [
        True,
        False,
        True,
    ]
    assert Outbox(max_bytes=10).send(large)


def test_what_is_old_is_forgotten() -> None:
    outbox = Outbox()
    outbox.send(StateRequest(1))
    outbox.forget(60)
    assert outbox.dropped == 0
    outbox.forget(-1)
    assert outbox.dropped == 1


def test_writing_goes_on_until_it_is_closed() -> None:
    outbox = Outbox()
    frames: list[bytes] = []
    thread = threading.Thread(
        target=outbox.write_all, args=(frames.append,), kwargs={"beat": 0.01, "ended": bool}
    )
    thread.start()
    wait_for(lambda: frames.count(BEAT) > 2)
    for number in range(3):
        outbox.send(StateRequest(number))
    # What cannot be written does not stop the rest.
    outbox.send(Heartbeat({"s": 2**70}))
    outbox.send(StateRequest(3))
    wait_for(lambda: outbox.sent == 4)
    outbox.close()
    thread.join(5)
    assert not thread.is_alive()
    assert not outbox.send(StateRequest(4))
    assembly = Assembly(1 << 20)
    whole = [data for frame in frames if (data := assembly.take(frame)) is not None]
    assert [decode(data) for data in whole] == [StateRequest(number) for number in range(4)]
    assert outbox.sent_bytes == sum(map(len, whole))


def test_writing_ends_when_it_is_told_to() -> None:
    outbox = Outbox()
    ended = threading.Event()
    thread = threading.Thread(
        target=outbox.write_all, args=(bytes,), kwargs={"beat": 60, "ended": ended.is_set}
    )
    thread.start()
    ended.set()
    outbox.wake()
    thread.join(5)
    assert not thread.is_alive()
    assert outbox.send(StateRequest(1))
