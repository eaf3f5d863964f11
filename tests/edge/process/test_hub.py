"""Real sockets: messages arrive, strangers do not get in, nothing grows without bound."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from harness.ports import free_port
from holdfast.config.security import Security
from holdfast.edge.machine.messages import Beat, Events, Part, Payload, Resume, SlotDelta
from holdfast.edge.process.frames import Carried
from holdfast.edge.process.hub import Hub
from holdfast.edge.process.security import OPEN, Credentials, read_credentials
from holdfast.errors import InvalidArgumentError
from tests.transport.certificates import Authority

KEY = Credentials(b"a key that nobody else has")


class Node:
    def __init__(
        self,
        name: str,
        credentials: Credentials = OPEN,
        *,
        address: str | None = None,
        addresses: dict[str, str] | None = None,
        queue: int = 4 << 20,
        largest: int = 1 << 30,
    ) -> None:
        self.found: list[tuple[str, Carried]] = []
        self.address = address
        self.hub = Hub(
            name,
            credentials,
            lambda sender, message: self.found.append((sender, message)),
            address=address,
            addresses=addresses,
            queue=queue,
            largest=largest,
        )


def address() -> str:
    return f"127.0.0.1:{free_port()}"


def turn(nodes: list[Node], until: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline, "nothing came of it"
        for node in nodes:
            node.hub.poll(0.002)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def pair(stack: ExitStack, credentials: Credentials = OPEN, **more: int) -> tuple[Node, Node]:
    called = Node("c1", credentials, address=address())
    assert called.address is not None
    caller = Node("s1", credentials, addresses={"c1": called.address}, **more)
    stack.callback(called.hub.close)
    stack.callback(caller.hub.close)
    return called, caller


@pytest.mark.parametrize("credentials", [OPEN, KEY])
def test_messages_go_both_ways_over_one_connection(
    stack: ExitStack, credentials: Credentials
) -> None:
    called, caller = pair(stack, credentials)
    assert caller.hub.send("c1", Beat(1, 2, 3))
    turn([called, caller], lambda: bool(called.found))
    assert called.found == [("s1", Beat(1, 2, 3))]
    assert called.hub.send("s1", Resume(1, 2, "c1", 3))
    turn([called, caller], lambda: bool(caller.found))
    assert caller.found == [("c1", Resume(1, 2, "c1", 3))]


def test_tls_with_certificates_alone(stack: ExitStack, tmp_path: Path) -> None:
    authority = Authority("edge")
    credentials = certified(authority, tmp_path)
    called, caller = pair(stack, credentials)
    big = np.arange(200_000, dtype=np.int64)
    caller.hub.send("c1", Beat(1, 2, 3))
    turn([called, caller], lambda: bool(called.found))
    caller.hub.send("c1", Events("s1", 0, 0, 1, big, big / 3, 0))
    turn([called, caller], lambda: len(called.found) == 2)
    events = called.found[1][1]
    assert isinstance(events, Events)
    assert events.times.tobytes() == big.tobytes()


def test_a_certificate_of_others_is_refused(stack: ExitStack, tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    called = Node("c1", certified(Authority("edge"), tmp_path / "ours"), address=address())
    stack.callback(called.hub.close)
    assert called.address is not None
    theirs = certified(Authority("others"), tmp_path / "theirs")
    stranger = Node("s1", theirs, addresses={"c1": called.address})
    stack.callback(stranger.hub.close)
    stranger.hub.keep("c1")
    for _ in range(100):
        stranger.hub.poll(0.002)
        called.hub.poll(0.002)
    assert not stranger.hub.is_open("c1")
    assert not called.hub.is_open("s1")


@pytest.mark.parametrize("said", [b"", b"no TLS"])
def test_who_hangs_up_before_tls_closes_only_its_own_connection(
    stack: ExitStack, tmp_path: Path, said: bytes
) -> None:
    called, caller = pair(stack, certified(Authority("edge"), tmp_path))
    assert called.address is not None
    host, port = called.address.split(":")
    with socket.create_connection((host, int(port))) as stranger:
        stranger.sendall(said)
        # Closing it resets the connection: there is none any more when it is accepted.
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    turn([called], lambda: called.hub.counts["refused"] == 1)
    caller.hub.send("c1", Beat(1, 2, 3))
    turn([called, caller], lambda: bool(called.found))


def certified(authority: Authority, folder: Path) -> Credentials:
    identity = authority.sign()
    files = {
        "certificate": identity.certificate,
        "key": identity.key,
        "authority": authority.certificate,
    }
    for name, data in files.items():
        (folder / f"{name}.pem").write_bytes(data)
    security = Security(certificate="certificate.pem", key="key.pem", authority="authority.pem")
    return read_credentials(security, folder)


def test_a_wrong_key_is_refused_and_counted(stack: ExitStack) -> None:
    called = Node("c1", KEY, address=address())
    assert called.address is not None
    wrong = Node("s1", Credentials(b"guessed"), addresses={"c1": called.address})
    right = Node("s2", KEY, addresses={"c1": called.address})
    for node in (called, wrong, right):
        stack.callback(node.hub.close)
    wrong.hub.send("c1", Beat(1, 2, 3))
    turn([called, wrong], lambda: called.hub.counts["refused"] == 1)
    right.hub.send("c1", Beat(4, 5, 6))
    turn([called, wrong, right], lambda: bool(called.found))
    assert called.found == [("s2", Beat(4, 5, 6))]


def test_noise_closes_only_its_own_connection(stack: ExitStack) -> None:
    called, caller = pair(stack)
    caller.hub.send("c1", Beat(1, 2, 3))
    turn([called, caller], lambda: bool(called.found))
    assert called.address is not None
    host, port = called.address.split(":")
    noisy = stack.enter_context(socket.create_connection((host, int(port))))
    noisy.sendall(struct.pack("<I", 2**31) + b"x" * 100)
    turn([called, caller], lambda: called.hub.counts["malformed"] == 1)
    noisy.settimeout(5)
    while noisy.recv(1000):
        pass
    caller.hub.send("c1", Beat(2, 2, 3))
    turn([called, caller], lambda: len(called.found) == 2)


def test_a_malformed_message_closes_the_connection_which_comes_back(stack: ExitStack) -> None:
    called, caller = pair(stack)
    caller.hub.keep("c1")
    turn([called, caller], lambda: caller.hub.is_open("c1"))
    connection = caller.hub._open["c1"][-1]
    caller.hub._put(connection, struct.pack("<IB", 3, 200) + b"xx")
    turn([called, caller], lambda: called.hub.counts["malformed"] == 1)
    turn([called, caller], lambda: not caller.hub.is_open("c1"))
    turn([called, caller], lambda: caller.hub.is_open("c1"))


def test_who_says_nothing_is_hung_up_on(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.edge.process.hub.PATIENCE", 0.1)
    called, _ = pair(stack)
    assert called.address is not None
    host, port = called.address.split(":")
    silent = stack.enter_context(socket.create_connection((host, int(port))))
    turn([called], lambda: bool(called.hub._strangers))
    turn([called], lambda: not called.hub._strangers)
    silent.settimeout(5)
    while silent.recv(1000):
        pass


def test_what_a_slow_node_does_not_read_stays_bounded(stack: ExitStack) -> None:
    called, caller = pair(stack, queue=1 << 20)
    caller.hub.keep("c1")
    turn([called, caller], lambda: caller.hub.is_open("c1"))
    big = np.zeros(2_000, np.int64)
    events = Events("s1", 0, 0, 1, big, big / 1.0, 0)
    while caller.hub.send("c1", events):
        assert caller.hub.backlog("c1") <= 1 << 20
    assert caller.hub.counts["dropped"] == 1
    assert caller.hub.backlog("c1") > 1 << 19
    turn([called, caller], lambda: caller.hub.backlog("c1") == 0)
    assert caller.hub.send("c1", events)


def test_a_node_that_comes_back_is_found_again(stack: ExitStack) -> None:
    called, caller = pair(stack)
    caller.hub.keep("c1")
    turn([called, caller], lambda: caller.hub.is_open("c1"))
    called.hub.close()
    turn([caller], lambda: not caller.hub.is_open("c1"))
    for _ in range(20):
        caller.hub.poll(0.002)
    again = Node("c1", address=called.address)
    stack.callback(again.hub.close)
    turn([again, caller], lambda: caller.hub.is_open("c1"))
    caller.hub.send("c1", Beat(1, 2, 3))
    turn([again, caller], lambda: bool(again.found))


def test_nobody_is_called_or_heard_beyond_this_machine_without_key_or_tls() -> None:
    with pytest.raises(InvalidArgumentError, match="other machines"):
        Node("c1", address="192.0.2.1:7000")
    lonely = Node("s1", addresses={"c1": "192.0.2.1:7000"})
    with pytest.raises(InvalidArgumentError, match="other machines"):
        lonely.hub.send("c1", Beat(1, 2, 3))
    lonely.hub.close()


def test_an_address_that_is_taken_is_told(stack: ExitStack) -> None:
    called, _ = pair(stack)
    with pytest.raises(InvalidArgumentError, match="cannot listen"):
        Node("c2", address=called.address)


def test_a_process_that_is_gone_is_told_and_one_that_hangs_up_is_not(stack: ExitStack) -> None:
    called = Node("c1", address=address())
    assert called.address is not None
    ended: list[str] = []
    watcher = Hub(
        "c2",
        OPEN,
        lambda sender, message: None,
        addresses={"c1": called.address},
        watched={"c1": called.address},
        ended=ended.append,
    )
    stack.callback(watcher.close)
    watcher.keep("c1")

    def until(done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10
        while not done():
            assert time.monotonic() < deadline
            watcher.poll(0.002)
            if called.hub._selector.get_map() is not None:
                called.hub.poll(0.002)

    until(lambda: watcher.is_open("c1"))
    until(lambda: called.hub.is_open("c2"))
    called.hub.drop("c2")
    until(lambda: watcher.counts["probes_answered"] > 0)
    until(lambda: watcher.is_open("c1"))
    assert ended == []
    # Its listener closes last: the first probes are still answered.
    called.hub.drop("c2")
    until(lambda: watcher.counts["probes_answered"] > 1)
    called.hub.close()
    until(lambda: ended == ["c1"])


def payload(size: int) -> Payload:
    part = Part("q", 0, bytes(size), 1, 1)
    return Payload(1, 0, 1, (), (SlotDelta(0, "s", 0, 1, 1, (part,)),))


@pytest.mark.parametrize("size", [(1 << 20) - 200, (1 << 20) - 20, 5 << 20, 9 << 20, 40 << 20])
def test_a_state_of_any_size_arrives(stack: ExitStack, size: int) -> None:
    called, caller = pair(stack)
    caller.hub.keep("c1")
    turn([called, caller], lambda: caller.hub.is_open("c1"))
    assert caller.hub.send("c1", payload(size))
    turn([called, caller], lambda: len(called.found) == 1, 30)
    assert called.found[0][1] == payload(size)


def test_a_long_message_does_not_hold_up_a_short_one(stack: ExitStack) -> None:
    called, caller = pair(stack)
    caller.hub.keep("c1")
    turn([called, caller], lambda: caller.hub.is_open("c1"))
    assert caller.hub.send("c1", payload(60 << 20))
    assert caller.hub.is_busy("c1")
    assert not caller.hub.send("c1", payload(2 << 20)), "one of them at a time"
    assert caller.hub.send("c1", Beat(1, 2, 3))
    assert caller.hub.counts["dropped"] == 1
    turn([called, caller], lambda: len(called.found) == 2, 30)
    assert [type(message) for _, message in called.found] == [Beat, Payload]
    assert not caller.hub.is_busy("c1")
    assert caller.hub.send("c1", payload(2 << 20))
    turn([called, caller], lambda: len(called.found) == 3, 30)


def test_what_is_too_long_for_any_message_is_left_out_and_said(
    stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    called, caller = pair(stack, largest=3 << 20)
    caller.hub.keep("c1")
    turn([called, caller], lambda: caller.hub.is_open("c1"))
    assert not caller.hub.send("c1", payload(4 << 20))
    assert not caller.hub.send("c1", payload(4 << 20))
    assert caller.hub.counts["oversized"] == 2
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "fewer keys" in caplog.text
    assert caller.hub.send("c1", Beat(1, 2, 3))
    turn([called, caller], lambda: len(called.found) == 1)
