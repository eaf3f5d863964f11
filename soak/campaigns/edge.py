"""An edge of real processes: children killed at every point of a window, random schedules, odd
input, and environments that are against it."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from random import Random
from typing import Final

from harness.edge import EdgeTrial
from soak.campaigns import edge_attacks, edge_input

DESCRIPTION = "edge processes killed, stopped, misfed and attacked: each event counts once"
SIZE: Final = 4_000_000
POINTS: Final = {"early": 0.3, "middle": 0.6, "end": 0.985}
CASES: Final = list(product((1, 2, 3), POINTS))
SOME: Final = 6
"""Faults in one random schedule."""
QUERIES: Final = {
    "count": {"aggregate": "count", "size": "4s"},
    "sum": {"aggregate": "sum", "size": "4s", "slide": "1s"},
    "mean": {"aggregate": "mean", "size": "2s", "keyed": True},
}


def run(seed: int) -> str:
    """Seed 0: 1, 2 and 3 of 8 children killed early, in the middle and at the end of a window, each
    brought back. Of the others every third: random faults at random moments, with intermediates;
    odd input; another attack."""
    if seed and seed % 3:
        return (edge_input if seed % 3 == 1 else edge_attacks).run(seed)
    with tempfile.TemporaryDirectory(prefix="holdfast-edge-") as name:
        if seed == 0:
            return _every_case(Path(name))
        return _random(Path(name), Random(seed))


def _every_case(folder: Path) -> str:
    with EdgeTrial(folder, rate=5_000, keys=5, queries=QUERIES) as trial:
        for count, point in CASES:
            victims = [f"c{number}" for number in range(1, 2 * count, 2)]
            start = (int(time.time() * 1e6) // SIZE + 1) * SIZE
            trial.sleep_to(start + int(SIZE * POINTS[point]))
            trial.fleet.kill(*victims)
            trial.wait_for_window(start + SIZE, 60)
            trial.check()
            trial.fleet.start(*victims)
            _wait_for_homes(trial)
        windows = trial.check()
    return _told(trial, windows, f"{len(CASES)} cases")


def _random(folder: Path, rng: Random) -> str:
    trial = EdgeTrial(
        folder,
        children=rng.choice([3, 5, 8]),
        sensors=rng.choice([1, 3, 6]),
        layers=rng.choice([[], [2], [2, 2]]),
        rate=rng.choice([500, 5_000, 15_000]),
        keys=5,
        queries=QUERIES,
        settings={
            "spread": rng.choice([1, 3]),
            "succession": rng.choice(["spread", "ring", "bully"]),
        },
    )
    done = []
    with trial:
        for _ in range(SOME):
            fault = rng.choice(_FAULTS)
            done.append(fault.__name__)
            fault(trial, rng)
            time.sleep(rng.uniform(0, 3))
        trial.wait_for_window(int(time.time() * 1e6) + SIZE, 90)
        windows = trial.check()
    return _told(trial, windows, ", ".join(done))


def kill_children(trial: EdgeTrial, rng: Random) -> None:
    children = list(trial.layout.children)
    victims = rng.sample(children, rng.randint(1, max(1, len(children) - 2)))
    trial.fleet.kill(*victims)
    time.sleep(rng.uniform(0.0, 2.0))
    trial.fleet.start(*victims)
    _wait_for_homes(trial)


def kill_the_taker(trial: EdgeTrial, rng: Random) -> None:
    """One after the other, while the first take-over is under way."""
    first, second = rng.sample(list(trial.layout.children), 2)
    trial.fleet.kill(first)
    time.sleep(rng.uniform(0.0, 0.5))
    trial.fleet.kill(second)
    time.sleep(rng.uniform(0.5, 2.0))
    trial.fleet.start(first, second)
    _wait_for_homes(trial)


def stop_a_child(trial: EdgeTrial, rng: Random) -> None:
    victim = rng.choice(list(trial.layout.children))
    trial.fleet.signal(victim, signal.SIGSTOP)
    time.sleep(rng.uniform(0.2, 3.0))
    trial.fleet.signal(victim, signal.SIGCONT)


def kill_an_intermediate(trial: EdgeTrial, rng: Random) -> None:
    if not trial.layout.intermediates:
        return kill_children(trial, rng)
    victim = rng.choice(list(trial.layout.intermediates))
    trial.fleet.kill(victim)
    time.sleep(rng.uniform(0.0, 2.0))
    trial.fleet.start(victim)
    return None


def add_a_child(trial: EdgeTrial, rng: Random) -> None:
    """It joins while another is killed, or is killed itself."""
    name = f"c{len(trial.layout.children) + 1}"
    trial.add_child(name)
    time.sleep(rng.uniform(0.0, 4.0))
    victim = rng.choice(list(trial.layout.children))
    trial.fleet.kill(victim)
    time.sleep(rng.uniform(0.0, 2.0))
    trial.fleet.start(victim)
    trial.wait(lambda: name in trial.status("root")["groups"]["edge"]["members"], 60)
    _wait_for_homes(trial)


def restart_a_sensor(trial: EdgeTrial, rng: Random) -> None:
    trial.restart_sensor(rng.choice(list(trial.layout.sensors)))


def kill_the_root(trial: EdgeTrial, rng: Random) -> None:
    trial.fleet.kill("root")
    time.sleep(rng.uniform(0.0, 1.0))
    trial.fleet.start("root")


_FAULTS: Final[list[Callable[[EdgeTrial, Random], None]]] = [
    kill_children,
    kill_the_taker,
    stop_a_child,
    kill_an_intermediate,
    kill_the_root,
    add_a_child,
    restart_a_sensor,
]


def _wait_for_homes(trial: EdgeTrial) -> None:
    def is_home() -> bool:
        homes = trial.status("root")["groups"]["edge"]["homes"]
        owned = {name: trial.status(name).get("owned", []) for name in trial.layout.children}
        return homes == {str(each): name for name, own in owned.items() for each in own}

    trial.wait(is_home, 60)


def _told(trial: EdgeTrial, windows: list[dict[str, object]], what: str) -> str:
    again = sum(int(str(each["replayed"])) for each in windows if each["query"] == "count")
    return f"{what}; {len(windows)} windows exact, {again:,} events sent again"
