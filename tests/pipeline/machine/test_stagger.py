"""Staggered reconciliation: one at a time, everybody in turn, whatever dies or is lost."""

from __future__ import annotations

import math
from random import Random

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.messages import (
    AuthGrant,
    AuthReject,
    AuthRelease,
    AuthRequest,
    Message,
    Send,
    Unsubscribe,
)
from holdfast.pipeline.machine.reconcile_lease import Stagger

RETRY, LEASE = 50, 250


def make(me: str, *peers: str) -> Stagger:
    return Stagger(me, peers, retry=RETRY, lease=LEASE)


def ask(stagger: Stagger, sender: str, now: int = 0, *, needs: bool = False) -> Message:
    [answer] = stagger.take(sender, AuthRequest(), now, needs=needs, reconciling=False)
    assert answer.to == sender
    return answer.message


def tell(stagger: Stagger, sender: str, message: Message, now: int = 0) -> list[Send]:
    return stagger.take(sender, message, now, needs=True, reconciling=stagger.granted)


class Node:
    """Has work to correct, and does it while it may."""

    def __init__(self, name: str, peers: list[str]) -> None:
        self.stagger = make(name, *peers)
        self.work = 0
        self.dead = False
        self.turns = 0

    @property
    def is_at_it(self) -> bool:
        return not self.dead and self.stagger.granted

    def advance(self, now: int) -> list[Send]:
        if self.is_at_it and not self.work:
            self.turns += 1
            return self.stagger.finish(now)
        if self.dead or not self.work:
            return []
        sends = self.stagger.want(now)
        self.work -= self.is_at_it
        return sends


class Network:
    """Nodes with messages between them that take 1 to 20 and overtake each other."""

    def __init__(self, seed: int, names: str, *, loss: float = 0, repeats: float = 0) -> None:
        self.random = Random(seed)
        self.loss = loss
        self.repeats = repeats
        self.nodes = {name: Node(name, [n for n in names if n != name]) for name in names}
        self.flying: list[tuple[int, str, Send]] = []
        self.now = 0
        self.most = 0
        self.together = 0
        self.longest_together = 0

    def run(self, until: int) -> None:
        while self.now < until:
            self.now += 1
            due = [each for each in self.flying if each[0] <= self.now]
            self.flying = [each for each in self.flying if each[0] > self.now]
            self.random.shuffle(due)
            for _, sender, send in due:
                self.deliver(sender, send)
            for name, node in self.nodes.items():
                self.post(name, node.advance(self.now))
            at_it = sum(node.is_at_it for node in self.nodes.values())
            self.most = max(self.most, at_it)
            self.together = self.together + 1 if at_it > 1 else 0
            self.longest_together = max(self.longest_together, self.together)

    def deliver(self, sender: str, send: Send) -> None:
        node = self.nodes[send.to]
        if not node.dead:
            answers = node.stagger.take(
                sender, send.message, self.now, needs=node.work > 0, reconciling=node.is_at_it
            )
            self.post(send.to, answers)

    def post(self, sender: str, sends: list[Send]) -> None:
        for send in sends:
            while self.random.random() >= self.loss:
                self.flying.append((self.now + self.random.randint(1, 20), sender, send))
                if self.random.random() >= self.repeats:
                    break

    @property
    def turns(self) -> list[int]:
        return [node.turns for node in self.nodes.values()]


@pytest.mark.parametrize("names", ["ab", "abc"])
@pytest.mark.parametrize("seed", range(40))
def test_never_two_at_once_and_everybody_in_turn(seed: int, names: str) -> None:
    network = Network(seed, names)
    for when in sorted(network.random.randint(0, 300) for _ in names):
        network.run(when)
        idle = [node for node in network.nodes.values() if not node.work and not node.turns]
        network.random.choice(idle).work = network.random.choice([1, 30, 300])
    network.run(2500)
    assert network.turns == [1] * len(names)
    assert network.most == 1


@pytest.mark.parametrize("names", ["ab", "abc"])
@pytest.mark.parametrize("seed", range(30))
def test_never_two_at_once_when_the_need_returns_again_and_again(seed: int, names: str) -> None:
    network = Network(seed, names)
    while network.now < 3000:
        node = network.random.choice(list(network.nodes.values()))
        node.work = node.work or network.random.choice([1, 5, 60])
        network.run(network.now + network.random.randint(1, 80))
    assert network.most == 1
    assert min(network.turns) >= 3


def test_of_two_that_always_need_it_neither_starves() -> None:
    network = Network(1, "ab")
    while network.now < 8000:
        for node in network.nodes.values():
            if not node.is_at_it:
                node.work = node.work or 40
        network.run(network.now + 1)
    assert network.most == 1
    assert min(network.turns) > 20


@pytest.mark.parametrize("names", ["ab", "abc", "abcd"])
@pytest.mark.parametrize("seed", range(20))
def test_loss_and_repetition_stop_nobody_and_two_at_once_are_soon_parted(
    seed: int, names: str
) -> None:
    network = Network(seed, names, loss=0.2, repeats=0.2)
    for node in network.nodes.values():
        node.work = 500
    network.run(4000)
    assert network.turns == [1] * len(names)
    if len(names) < 4:
        assert network.longest_together < LEASE


@pytest.mark.parametrize("names", ["ab", "abc"])
@pytest.mark.parametrize("seed", range(20))
def test_when_the_grantor_dies_the_work_goes_on(seed: int, names: str) -> None:
    network = Network(seed, names)
    network.nodes["a"].work = 400
    network.run(100)
    assert network.nodes["a"].is_at_it
    network.nodes["b"].dead = True
    network.run(600)
    assert network.nodes["a"].turns == 1


@pytest.mark.parametrize("names", ["ab", "abc"])
@pytest.mark.parametrize("seed", range(20))
def test_when_the_grantee_dies_the_promise_lapses(seed: int, names: str) -> None:
    network = Network(seed, names)
    network.nodes["a"].work = 400
    network.run(100)
    network.nodes["a"].dead = True
    died = network.now
    network.nodes["b"].work = 10
    assert network.nodes["b"].stagger.promised(died)
    network.run(died + LEASE - RETRY - 20)
    assert network.nodes["b"].turns == 0
    network.run(died + LEASE + 4 * RETRY)
    assert network.nodes["b"].turns == 1


@pytest.mark.parametrize("names", ["ab", "abc", "abcde"])
def test_who_hears_from_nobody_goes_alone_after_one_round(names: str) -> None:
    network = Network(0, names)
    for name in names[1:]:
        network.nodes[name].dead = True
    network.nodes["a"].work = 10
    peers = len(names) - 1
    network.run(peers * RETRY)
    assert not network.nodes["a"].is_at_it
    network.run(peers * RETRY + 20)
    assert network.nodes["a"].turns == 1


def test_a_single_replica_needs_nobody() -> None:
    single = make("a")
    for now in (0, 1, 2):
        assert single.want(now) == []
        assert single.granted
        assert single.next_wake == math.inf
        assert single.finish(now) == []
        assert not single.granted


def test_the_peers_are_asked_in_turn_one_per_retry() -> None:
    stagger = make("a", "b", "c")
    asked = []
    for now in range(0, 4 * RETRY, 10):
        for send in stagger.want(now):
            asked.append((now, send.to))
            tell(stagger, send.to, AuthReject(), now)
    assert asked == [(0, "b"), (RETRY, "c"), (2 * RETRY, "b"), (3 * RETRY, "c")]


def test_one_reject_in_the_round_and_nobody_goes_alone() -> None:
    stagger = make("a", "b", "c")
    for now in range(0, 10 * RETRY, RETRY):
        for send in stagger.want(now):
            if send.to == "c":
                tell(stagger, "c", AuthReject(), now)
        assert not stagger.granted


@pytest.mark.parametrize(
    ("me", "needs", "expected"),
    [
        ("a", False, AuthGrant()),
        ("a", True, AuthReject()),
        ("c", False, AuthGrant()),
        ("c", True, AuthGrant()),
    ],
)
def test_of_two_that_need_it_the_first_by_name_goes_first(
    me: str, needs: bool, expected: Message
) -> None:
    assert ask(make(me, "b"), "b", needs=needs) == expected


def test_who_is_at_it_or_about_to_be_rejects() -> None:
    [answer] = make("z", "b").take("b", AuthRequest(), 0, needs=True, reconciling=True)
    assert answer == Send("b", AuthReject())
    granted = make("z", "b", "c")
    granted.want(0)
    tell(granted, "b", AuthGrant())
    assert granted.granted
    assert ask(granted, "c", needs=True) == AuthReject()


def test_a_promise_is_to_one_and_lasts_until_released() -> None:
    stagger = make("z", "a", "b")
    assert ask(stagger, "a") == AuthGrant()
    assert ask(stagger, "b") == AuthReject()
    assert stagger.want(10) == []
    assert stagger.next_wake == LEASE
    tell(stagger, "b", AuthRelease())
    assert stagger.promised(10)
    tell(stagger, "a", AuthRelease())
    assert not stagger.promised(10)
    assert ask(stagger, "b") == AuthGrant()


def test_a_promise_is_renewed_by_asking_again_even_if_the_grantor_has_come_to_need_it() -> None:
    stagger = make("a", "b")
    assert ask(stagger, "b") == AuthGrant()
    assert ask(stagger, "b", LEASE - 1, needs=True) == AuthGrant()
    assert stagger.promised(2 * LEASE - 2)
    assert not stagger.promised(2 * LEASE - 1)
    assert ask(stagger, "b", 2 * LEASE, needs=True) == AuthReject()


def test_the_grant_is_renewed_while_it_is_held_and_released_at_the_end() -> None:
    stagger = make("a", "b")
    stagger.want(0)
    tell(stagger, "b", AuthGrant(), 5)
    assert stagger.next_wake == RETRY
    assert stagger.want(RETRY - 1) == []
    assert stagger.want(RETRY) == [Send("b", AuthRequest())]
    assert tell(stagger, "b", AuthGrant(), RETRY + 5) == []
    assert stagger.finish(70) == [Send("b", AuthRelease())]
    assert not stagger.granted
    assert stagger.want(70 + RETRY - 1) == []
    assert stagger.want(70 + RETRY) == [Send("b", AuthRequest())]


def test_a_grant_that_comes_too_late_is_handed_back() -> None:
    given_back = [Send("b", AuthRelease())]
    idle = make("a", "b", "c")
    assert tell(idle, "b", AuthGrant()) == given_back
    moved_on = make("a", "b", "c")
    moved_on.want(0)
    moved_on.want(RETRY)
    assert tell(moved_on, "b", AuthGrant(), RETRY) == given_back
    tell(moved_on, "c", AuthGrant(), RETRY)
    assert tell(moved_on, "b", AuthGrant(), RETRY) == given_back
    assert moved_on.granted
    healed = make("a", "b")
    healed.want(0)
    assert healed.take("b", AuthGrant(), 1, needs=False, reconciling=False) == given_back
    assert not healed.granted


def test_who_has_promised_meanwhile_hands_its_own_grant_back() -> None:
    stagger = make("b", "c", "a")
    stagger.want(0)
    assert ask(stagger, "a", 1, needs=True) == AuthGrant()
    assert tell(stagger, "c", AuthGrant(), 2) == [Send("c", AuthRelease())]
    assert not stagger.granted


def test_a_grantor_that_refuses_to_renew_withdraws_the_grant() -> None:
    stagger = make("a", "b", "c")
    stagger.want(0)
    tell(stagger, "b", AuthGrant())
    tell(stagger, "c", AuthReject())
    assert stagger.granted
    tell(stagger, "b", AuthReject())
    assert not stagger.granted


def test_who_went_alone_and_then_hears_of_a_peer_goes_by_its_word() -> None:
    words: list[tuple[Message, bool]] = [(AuthGrant(), True), (AuthReject(), False)]
    for word, granted in words:
        stagger = make("a", "b")
        stagger.want(0)
        stagger.want(RETRY)
        assert stagger.granted
        assert tell(stagger, "b", word, RETRY + 1) == []
        assert stagger.granted is granted
        assert stagger.want(2 * RETRY) == [Send("b", AuthRequest())]


def test_strangers_and_other_messages_are_ignored() -> None:
    stagger = make("a", "b")
    assert tell(stagger, "x", AuthRequest()) == []
    assert tell(stagger, "b", Unsubscribe("s", 0)) == []
    assert not stagger.promised(0)


@pytest.mark.parametrize(
    ("peers", "retry", "lease", "names"),
    [
        (["a"], 1, 2, "peers"),
        (["b", "b"], 1, 2, "peers"),
        (["b"], 0, 2, "retry"),
        (["b"], 5, 5, "lease"),
    ],
)
def test_senseless_settings_are_refused(
    peers: list[str], retry: int, lease: int, names: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=names):
        Stagger("a", peers, retry=retry, lease=lease)
