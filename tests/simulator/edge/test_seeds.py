"""Many seeds of the edge, under every guarantee and every family of faults: nothing is ever wrong.

A failure names the call that replays it; `make soak PART=edge_sim` runs any number of others.
Where a hostile reader would look (digest of the edge, §9) is where the families are:

| digest | family |
|---|---|
| 4, 5 payloads lost, or with some peers only | noise, cuts, steps (Payload) |
| 6 killed at every step, up to all but one | crashes, steps |
| 7 the taker dies, two die at once, several detect | takers, crashes |
| 8 false suspicion, zombies | freezes, cuts |
| 9 late payloads, replay among live events | freezes, noise (slow links), storm |
| 10 buffers too small | overflow |
| 11 only the tail is replayed | tests/edge/machine/test_takeover.py |
| 12 intermediates die, several layers, several groups | tiers |
| 13 edges of panes, odd sizes and slides, several queries, clocks apart | all |
| 14 silent sensors, empty windows, sensors that join | all, joins |
| 13 clocks minutes apart, set and suspended while running | clocks |
| 14 sensors that fall silent or end, events of yesterday | silence, history |

Beyond the digest: children that join a formed group (growth), sensors that come back (restarts),
two children that do not hear each other (duels), children that do not come (absent), a root whose
process dies (roots) or whose disk is full (disk), payloads that take long (busy).
"""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.edge.machine import Child, Send
from holdfast.edge.machine.formation import name_of
from holdfast.edge.machine.heartbeats import beat_of
from holdfast.edge.machine.messages import Beat
from simulator.edge import FAMILIES, GUARANTEES, Options, run
from simulator.edge.parties import Party

SEEDS = {"exactly-once": 8, "at-least-once": 4, "at-most-once": 4}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_seeds(guarantee: str, family: str) -> None:
    for seed in range(SEEDS[guarantee]):
        problems = run(seed, Options(guarantee, family)).problems
        assert not problems, (
            f"replay: simulator.edge.run({seed}, Options({guarantee!r}, {family!r}))\n"
            + "\n".join(problems)
        )


def test_the_same_seed_is_the_same_run() -> None:
    one, other = (run(3, Options("exactly-once", "storm")) for _ in range(2))
    assert one.simulation.windows == other.simulation.windows


def test_faults_do_what_they_are_for() -> None:
    """Runs in which nothing happens would show nothing."""
    takeovers = replayed = reinstated = 0
    for family in ("crashes", "freezes", "takers"):
        for seed in range(3):
            simulation = run(seed, Options("exactly-once", family)).simulation
            tenures = [child.tenure for child in simulation.children]
            takeovers += sum(tenure.takeovers for tenure in tenures)
            reinstated += sum(tenure.reinstatements for tenure in tenures)
            replayed += sum(window.replayed for _, window in simulation.windows)
    assert takeovers > 5
    assert reinstated > 5
    assert replayed > 100


def test_time_goes_wrong_where_it_is_meant_to() -> None:
    clocks = [run(seed, Options("exactly-once", "clocks")).simulation for seed in range(4)]
    assert any(abs(p.sensor.ahead) > 500_000_000 for each in clocks for p in each.sensors.values())
    silence = [run(seed, Options("exactly-once", "silence")).simulation for seed in range(4)]
    assert any(not party.process.is_up for each in silence for party in each.sensors.values())
    history = run(0, Options("exactly-once", "history")).simulation
    assert history.root.awaited == {}
    assert not history.root.groups["g1"].present
    duel = run(0, Options("exactly-once", "duels")).simulation
    assert {fault.kind for fault in duel.scenario.faults} <= {"cut", "one-way"}
    absent = [run(seed, Options("exactly-once", "absent")).simulation for seed in range(4)]
    roots = run(0, Options("exactly-once", "roots")).simulation
    assert any(fault.targets == ("root",) for fault in roots.scenario.faults)
    members = [len(each.root.groups["g1"].members) for each in absent]
    assert any(len(each.children) < count for each, count in zip(absent, members, strict=True))


def test_what_processes_do_of_themselves_is_done_in_the_simulator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They send signs of life in place of payloads, a root pauses while its disk is full, and
    children see that the process of another has ended."""
    beats = 0
    ended = 0
    paused = 0

    def count_beat(*arguments: Any) -> Beat:
        nonlocal beats
        beats += 1
        return beat_of(*arguments)

    def count_pause(party: Party) -> None:
        nonlocal paused
        paused += party.is_paused
        make_room(party)

    def count_ended(child: Child, node: str, now: int) -> list[Send]:
        nonlocal ended
        owned = child.owned
        sends = see_ended(child, node, now)
        ended += child.owned != owned
        return sends

    see_ended = Child.ended
    monkeypatch.setattr(Child, "ended", count_ended)
    make_room = Party.make_room
    monkeypatch.setattr("simulator.edge.parties.beat_of", count_beat)
    monkeypatch.setattr(Party, "make_room", count_pause)
    for seed in range(3):
        run(seed, Options("exactly-once", "busy"))
        run(seed, Options("exactly-once", "disk"))
        run(seed, Options("exactly-once", "crashes"))
    assert beats > 10
    assert ended >= 2
    assert paused >= 2


def test_those_who_join_get_their_share_and_those_who_come_back_take_part() -> None:
    joined = returned = 0
    for seed in range(4):
        simulation = run(seed, Options("exactly-once", "growth")).simulation
        owned = {child.name: child.owned for child in simulation.children}
        joined += sum(bool(owned.get(name)) for _, name in simulation.scenario.joiners)
        simulation = run(seed, Options("exactly-once", "restarts")).simulation
        present = [each.sensor for each in simulation.root.groups["g1"].present]
        returned += sum(name.endswith("~2") for name in present)
        assert len(present) == len({name_of(name) for name in present})
    assert joined >= 4
    assert returned >= 4
