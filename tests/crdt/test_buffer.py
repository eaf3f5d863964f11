"""What is sent to whom: the document's figures, and replicas over a bad network."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.crdt import Buffer, Slot, State, pack, versions

ZERO, ONE = ("0", "s"), ("1", "s")


def counted(n: int) -> Slot:
    """A slot that has counted to n."""
    return Slot(n, n, {("count", 0): n} if n else {})


def counts(state: State) -> dict[str, int]:
    return {partition: slot.panes[("count", 0)] for (partition, _), slot in state.items()}


def hand_over(sender: Buffer, receiver: Buffer) -> State:
    """A payload and its acknowledgement; what was sent."""
    payload = sender.payload(receiver.me)
    receiver.receive(sender.me, payload)
    sender.ack(receiver.me, versions(receiver.state))
    return payload


def size(state: State) -> int:
    return len(msgspec.msgpack.encode(pack(state)))


def test_figure_2_7_a_delta_group_carries_two_increments() -> None:
    r1, r2 = Buffer("r1", ["r2"]), Buffer("r2", ["r1"])
    r1.update({ZERO: counted(1)})
    r1.update({ZERO: counted(2)})
    assert counts(hand_over(r1, r2)) == {"0": 2}
    assert counts(r2.state) == {"0": 2}


def test_figure_2_8_nothing_goes_back_to_whom_it_came_from() -> None:
    r1, r2 = Buffer("r1", ["r2"]), Buffer("r2", ["r1", "r3"])
    r1.update({ZERO: counted(2)})
    r2.update({ONE: counted(1)})
    r2.receive("r1", r1.payload("r2"))
    back = r2.payload("r1")
    assert counts(back) == {"1": 1}
    assert size(back) < size(r2.state)
    assert counts(r2.payload("r3")) == {"0": 2, "1": 1}
    assert (r2.origin(ZERO), r2.origin(ONE)) == ("r1", "r2")


def test_figure_2_9_what_was_known_is_not_forwarded() -> None:
    r3, r4 = Buffer("r3", ["r1", "r2", "r4"]), Buffer("r4", ["r3"])
    r3.receive("r1", {ZERO: counted(2)})
    hand_over(r3, r4)
    new = r3.receive("r2", {ZERO: counted(2), ONE: counted(1)})
    assert counts(new) == {"1": 1}
    forwarded = r3.payload("r4")
    assert counts(forwarded) == {"1": 1}
    assert size(forwarded) < size(r3.state)


def test_a_slot_is_sent_until_it_is_acknowledged() -> None:
    r1, r2 = Buffer("r1", ["r2"]), Buffer("r2", ["r1"])
    r1.update({ZERO: counted(2)})
    assert r1.payload("r2") == r1.payload("r2") != {}
    r1.update({ZERO: counted(3)})
    r1.ack("r2", {ZERO: (2, 2)})
    assert counts(r1.payload("r2")) == {"0": 3}
    hand_over(r1, r2)
    assert r1.payload("r2") == {}
    r1.ack("r2", {ZERO: (1, 1)})
    assert r1.payload("r2") == {}, "a late acknowledgement takes nothing back"


def test_what_waits_is_one_version_of_each_slot() -> None:
    r1 = Buffer("r1", ["dead"])
    for n in range(1, 1000):
        r1.update({ZERO: counted(n)})
    assert counts(r1.payload("dead")) == {"0": 999}
    assert len(r1.state) == 1


def test_how_far_enough_peers_have_it() -> None:
    r1 = Buffer("r1", ["r2", "r3", "r4"])
    r1.update({ZERO: counted(9)})
    r1.ack("r2", {ZERO: (9, 9)})
    r1.ack("r3", {ZERO: (5, 5)})
    assert [r1.replicated(ZERO, copies) for copies in (1, 2, 3, 4, 0)] == [9, 5, 0, 0, 0]
    r1.leave("r2")
    assert [r1.replicated(ZERO, copies) for copies in (1, 2)] == [5, 0]


def test_a_peer_that_joins_is_sent_all_and_one_that_left_nothing_is_kept_of() -> None:
    r1 = Buffer("r1", ["r2"])
    r1.update({ZERO: counted(2)})
    r1.ack("r2", versions(r1.state))
    r1.leave("r2")
    r1.ack("r2", versions(r1.state))
    assert list(r1.peers) == []
    r1.join("r2")
    assert counts(r1.payload("r2")) == {"0": 2}
    r1.drop([ZERO, ONE])
    assert r1.payload("r2") == r1.state == {}


def test_in_a_mesh_each_speaks_for_its_own_slots_and_a_taker_for_those_it_took() -> None:
    taker = Buffer("r2", ["r1", "r3"], relay=False)
    taker.receive("r1", {ZERO: counted(2)})
    taker.update({ONE: counted(1)})
    assert counts(taker.payload("r3")) == {"1": 1}
    taker.update({ZERO: taker.state[ZERO]})
    assert counts(taker.payload("r3")) == {"0": 2, "1": 1}


@settings(max_examples=60)
@given(data=st.data(), relay=st.booleans())
def test_replicas_converge_over_a_network_that_loses_repeats_and_reorders(
    data: st.DataObject, relay: bool
) -> None:
    names = ["r0", "r1", "r2", "r3"]
    replicas = {
        name: Buffer(name, [peer for peer in names if peer != name], relay=relay) for name in names
    }
    on_the_way: list[tuple[str, str, State]] = []
    truth: dict[str, int] = dict.fromkeys(names, 0)
    steps = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["count", "send", "send", "deliver", "repeat", "lose"]),
                st.integers(0, 3),
                st.integers(0, 2),
                st.booleans(),
            ),
            max_size=40,
        )
    )
    for step, i, j, acked in steps:
        name = names[i]
        if step == "count":
            truth[name] += 1
            replicas[name].update({(name, "s"): counted(truth[name])})
        elif step == "send":
            peer = names[(i + 1 + j) % 4]
            on_the_way.append((name, peer, replicas[name].payload(peer)))
        elif on_the_way:
            place = (i * 3 + j) % len(on_the_way)
            sender, receiver, payload = (
                on_the_way[place] if step == "repeat" else on_the_way.pop(place)
            )
            if step != "lose":
                replicas[receiver].receive(sender, payload)
                assert all(replicas[receiver].state[key].offset >= 1 for key in payload)
                if acked:
                    replicas[sender].ack(receiver, versions(replicas[receiver].state))
    for sender in names:
        for receiver in names:
            if sender != receiver:
                hand_over(replicas[sender], replicas[receiver])
    expected = {name: n for name, n in truth.items() if n}
    for replica in replicas.values():
        assert counts(replica.state) == expected
    for sender, receiver in ((a, b) for a in names for b in names if a != b):
        hand_over(replicas[sender], replicas[receiver])
        assert replicas[sender].payload(receiver) == {}
