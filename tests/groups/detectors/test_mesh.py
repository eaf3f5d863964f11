"""A group of peers, each with a detector of its own."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.groups.detectors import PhiMesh

PERIOD = 100_000


def beat_all(mesh: PhiMesh, beats: int, *, start: int = 0, period: int = PERIOD) -> int:
    now = start
    for _ in range(beats):
        now += period
        for peer in mesh.peers:
            mesh.beat(peer, now)
    return now


def test_the_silent_one_is_suspected_when_it_was_said_and_a_beat_clears_it() -> None:
    mesh = PhiMesh(["a", "b"], PERIOD)
    now = beat_all(mesh, 50)
    for _ in range(2):
        now += PERIOD
        mesh.beat("a", now)
    due = mesh.next_check(now)
    assert mesh.suspects(due - 1) == set()
    assert mesh.suspects(due) == {"b"}
    assert mesh.phi("b", due) >= 8 > mesh.phi("a", due)
    assert mesh.next_check(due) > due
    mesh.beat("b", due + 1)
    assert mesh.suspects(due + 1) == set()


def test_two_lost_beats_are_too_many_and_one_is_not() -> None:
    mesh = PhiMesh(["a"], PERIOD)
    now = beat_all(mesh, 300)
    assert mesh.suspects(now + 2 * PERIOD) == set()
    assert mesh.suspects(now + 4 * PERIOD) == {"a"}


def test_one_that_never_beats_is_suspected_and_one_that_left_is_not() -> None:
    mesh = PhiMesh(["a", "b"], PERIOD, now=5_000_000)
    assert mesh.suspects(5_000_000) == set()
    mesh.leave("b")
    mesh.leave("b")
    assert mesh.suspects(60_000_000) == {"a"}
    mesh.leave("a")
    assert mesh.suspects(60_000_000) == set()
    assert mesh.next_check(60_000_000) == 60_000_000 + PERIOD
    mesh.beat("a", 60_000_000)
    assert mesh.phis(60_000_000) == {}


def test_one_that_joins_again_begins_anew() -> None:
    mesh = PhiMesh(["a"], PERIOD)
    now = beat_all(mesh, 30, period=10 * PERIOD)
    mesh.leave("a")
    mesh.join("a", now)
    mesh.beat("a", now)
    assert mesh.suspects(now + 5 * PERIOD) == {"a"}


def test_a_long_stop_does_not_make_the_next_one_unseen() -> None:
    mesh = PhiMesh(["a"], PERIOD)
    now = beat_all(mesh, 50)
    usual = mesh.next_check(now) - now
    mesh.beat("a", now + 60_000_000)
    now = beat_all(mesh, 5, start=now + 60_000_000)
    assert mesh.next_check(now) - now < 2 * usual


@pytest.mark.parametrize("slower", [3, 10, 30])
def test_beats_that_have_become_slower_are_learnt(slower: int) -> None:
    mesh = PhiMesh(["a"], PERIOD)
    now = beat_all(mesh, 50)
    now = beat_all(mesh, 60, start=now, period=slower * PERIOD)
    assert mesh.suspects(now + slower * PERIOD) == set()


def test_who_was_stopped_itself_does_not_suspect_the_others() -> None:
    mesh = PhiMesh(["a", "b"], PERIOD)
    now = beat_all(mesh, 50) + 10_000_000
    assert mesh.suspects(now) == {"a", "b"}
    mesh.resume(now)
    assert mesh.suspects(now) == set()
    assert mesh.suspects(now + 10 * PERIOD) == {"a", "b"}


def test_jitter_widens_what_is_tolerated() -> None:
    rng = np.random.default_rng(1)
    calm, jittery = PhiMesh(["a"], PERIOD), PhiMesh(["a"], PERIOD)
    now = beat_all(calm, 200)
    for n in range(1, 201):
        jittery.beat("a", n * PERIOD + int(rng.normal(0, 0.5 * PERIOD)))
    jittery.beat("a", now)
    assert jittery.next_check(now) > calm.next_check(now) + PERIOD


def test_a_period_is_above_nothing() -> None:
    with pytest.raises(InvalidArgumentError, match="mesh: period"):
        PhiMesh([], 0)
