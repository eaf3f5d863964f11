"""Who takes over: by bully, ring and spread."""

from __future__ import annotations

from collections import Counter, deque

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.groups import Bully, Election, ElectionAck, Spread, ranked, succession, successor

TIMEOUT = 100


def elect(
    nodes: list[str], failed: str, detectors: list[str], dead: set[str] = frozenset()
) -> tuple[list[str], int]:
    """Who wins when these notice, and how many messages it takes. The `dead` are held for alive
    and do not answer."""
    parties = {name: Bully(name, TIMEOUT) for name in nodes if name != failed}
    won: list[str] = []
    wire: deque = deque()
    messages = 0

    def do(name: str, outcome: object) -> None:
        nonlocal messages
        for to, message in outcome.sends:
            messages += 1
            wire.append((name, to, message))
        if outcome.won:
            won.append(name)

    def live(name: str) -> list[str]:
        return [each for each in parties if each != name]

    now = 0
    for name in detectors:
        do(name, parties[name].start(failed, live(name), now))
    for _ in range(20):
        while wire:
            sender, to, message = wire.popleft()
            if to in parties and to not in dead:
                do(to, parties[to].receive(sender, message, live(to), now))
        if won:
            break
        now += TIMEOUT
        for name in parties.keys() - dead:
            do(name, parties[name].wake(live(name), now))
    return won, messages


TEN = [f"n{number}" for number in range(10)]


@pytest.mark.parametrize(
    ("failed", "detectors", "dead", "leader"),
    [
        ("n1", ["n5"], set(), "n9"),
        ("n1", ["n9"], set(), "n9"),
        ("n9", ["n0"], set(), "n8"),
        ("n1", ["n5"], {"n6", "n7", "n8", "n9"}, "n5"),
        ("n1", ["n5"], {"n8", "n9"}, "n7"),
        ("n1", ["n2", "n3", "n5"], set(), "n9"),
        ("n1", ["n2", "n3", "n5"], {"n9"}, "n8"),
    ],
)
def test_the_highest_that_answers_leads(
    failed: str, detectors: list[str], dead: set[str], leader: str
) -> None:
    won, _ = elect(TEN, failed, detectors, dead)
    assert set(won) == {leader}


def test_an_election_that_was_left_to_one_who_died_is_held_again() -> None:
    bully = Bully("a", TIMEOUT)
    assert bully.start("f", ["b"], 0).sends == (("b", Election("f")),)
    bully.receive("b", ElectionAck("f"), ["b"], 10)
    assert bully.wake(["b"], 50).won == ()
    assert bully.due == 10 + 2 * TIMEOUT
    assert bully.wake([], 10 + 2 * TIMEOUT).won == ("f",), "b is dead by now"


def test_a_second_word_of_the_same_failure_starts_nothing() -> None:
    bully = Bully("a", TIMEOUT)
    assert bully.start("f", ["b", "c"], 0).sends
    assert not bully.start("f", ["b", "c"], 1).sends
    bully.settled("f")
    assert bully.due is None


@pytest.mark.parametrize(
    ("failed", "live", "expected"),
    [
        ("b", {"a", "c", "d"}, "c"),
        ("d", {"a", "b", "c"}, "a"),
        ("b", {"a", "d"}, "d"),
        ("b", {"a"}, "a"),
        ("b", {"b"}, None),
        ("b", set(), None),
    ],
)
def test_the_next_living_one_round_the_ring(
    failed: str, live: set[str], expected: str | None
) -> None:
    assert successor(failed, ["a", "b", "c", "d"], live) == expected


@pytest.mark.parametrize("live", [["a", "c", "d"], ["a", "d"], ["d"]])
def test_of_all_who_count_alike_one_takes_over(live: list[str]) -> None:
    parties = {name: succession("ring", name, ["a", "b", "c", "d"], TIMEOUT) for name in live}
    won = [n for n, p in parties.items() if p.start("b", [o for o in live if o != n], 0).won]
    assert len(won) == 1


def test_spread_divides_the_load_and_moves_no_more_than_it_must() -> None:
    nodes = [f"n{number}" for number in range(8)]
    before = {partition: ranked(partition, nodes)[0] for partition in range(400)}
    left = [node for node in nodes if node != "n3"]
    after = {partition: ranked(partition, left)[0] for partition in range(400)}
    assert all(after[p] == before[p] for p in before if before[p] != "n3")
    assert len(Counter(after[p] for p in before if before[p] == "n3")) > 4


def test_each_partition_of_the_dead_has_one_taker() -> None:
    nodes = ["a", "b", "c", "d"]
    parties = {name: Spread(name) for name in nodes}
    for partition in range(50):
        takers = [n for n in nodes if parties[n].takes(partition, [o for o in nodes if o != n])]
        assert len(takers) == 1


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="bully, ring or spread"):
        succession("paxos", "a", ["a"], TIMEOUT)
