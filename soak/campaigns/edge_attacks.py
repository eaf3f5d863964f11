"""Environments that ended an edge or stopped its windows: at running processes, with kills."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from harness.edge import EdgeTrial, StagedTrial, linked, open_input, write
from holdfast.errors import SilentError

DESCRIPTION = "wrong clocks, history, silence, full disks, dead links, large states: windows exact"
SECOND: Final = 1_000_000
PATIENCE_S: Final = 90.0
SKEWS_S: Final = (-600, -2, 0, 2, 600)
DAY_S: Final = 86_400
RATE: Final = 200


def run(seed: int) -> str:
    """One kind of attack, at a plant of its own."""
    random = Random(seed)
    attack = random.choice(ATTACKS)
    with tempfile.TemporaryDirectory(prefix="holdfast-edge-attacks-") as folder:
        return f"{attack.__name__}: {attack(Path(folder), random)}"


def _says(trial: EdgeTrial, node: str, what: str) -> Any:
    """What a node says of itself; nothing while it starts."""
    try:
        return trial.status(node, patience=1.0).get(what)
    except SilentError:
        return None


def _disturb(trial: EdgeTrial, random: Random) -> None:
    """A child or the root is killed and started again, in some."""
    victim = random.choice([*trial.layout.children, "root", None, None])
    if victim is None or victim not in trial.fleet.processes or len(trial.layout.children) < 2:
        return
    trial.fleet.kill(victim)
    time.sleep(random.uniform(0.0, 1.0))
    trial.fleet.start(victim)
    # A root whose disk is full takes nobody in.
    trial.wait(lambda: _says(trial, victim, "node"), PATIENCE_S)


def _wait_for_now(trial: EdgeTrial) -> None:
    trial.wait_for_window(int(time.time() * 1e6) + SECOND, PATIENCE_S)


def history(folder: Path, random: Random) -> str:
    """Files of long ago, read to their ends while a child or the root dies: each event counts."""
    begin = int(time.time()) - random.choice([100, DAY_S, 20 * DAY_S])
    names = [f"s{number}" for number in range(1, random.choice([2, 3]) + 1)]
    sensors = dict.fromkeys(names, 'input = "jsonl"\nlateness = "500ms"')
    with StagedTrial(folder, sensors, children=random.choice([2, 3])) as trial:
        trial.fleet.start("root", *trial.layout.children)
        count = 0
        processes = {name: trial.start(name) for name in names}
        for name in names:
            with open_input(processes[name]) as pipe:
                times = [begin + at / 50 + random.uniform(0, 0.4) for at in range(1_500)]
                count += len(times)
                write(pipe, *({"time": at, "value": 1} for at in times))
        _disturb(trial, random)
        for name in names:
            assert trial.fleet.processes[name].wait(PATIENCE_S) == 0, trial.said(name)
            assert trial.report(name)["taken"] == 1_500, trial.report(name)
        trial.wait(lambda: trial.through() >= (begin + 30) * SECOND, PATIENCE_S)
        windows = trial.windows()
    counted = sum(each["answer"] or 0 for each in windows)
    assert counted == count, f"{counted} of {count} events counted"
    assert all(each["complete"] for each in windows)
    return f"{count} events of {len(names)} files, {len(windows)} windows"


def clocks(folder: Path, random: Random) -> str:
    """Sensors and children whose clocks are wrong, by minutes, and set back while they are down."""
    sensors = dict.fromkeys(["s1", "s2"], f"rate = {RATE}\nseed = 1")
    with StagedTrial(folder, sensors, children=3) as trial:
        trial.fleet.start("root")
        skews = {name: random.choice(SKEWS_S) for name in ("c1", "c2", "c3", "s1", "s2")}
        for name, ahead in skews.items():
            trial.start(name, ahead=ahead)
        trial.wait(lambda: len(trial.windows()) > 1, PATIENCE_S)
        for _ in range(3):
            victim = random.choice(["c1", "c2", "c3"])
            trial.fleet.kill(victim)
            trial.start(victim, ahead=random.choice(SKEWS_S))
            trial.wait(lambda victim=victim: _says(trial, victim, "owned"), PATIENCE_S)  # type: ignore[misc]
        _wait_for_now(trial)
        assert abs(trial.through() / 1e6 - time.time()) < PATIENCE_S
        for name in ("s1", "s2"):
            trial.report(name)
        windows = trial.check()
        assert all(each["complete"] for each in windows)
        assert all(trial.status(name)["down"] == [] for name in trial.layout.children)
    return f"{skews}; {len(windows)} windows exact"


def silence(folder: Path, random: Random) -> str:
    """Sensors that say little, send times of a wrong clock, or end: windows go on."""
    quiet = 'input = "jsonl"\nidle = "300ms"'
    sensors = {"s1": f"rate = {RATE}", "s2": quiet, "s3": quiet, "s4": quiet}
    with StagedTrial(folder, sensors, children=random.choice([2, 3])) as trial:
        trial.fleet.start("root", *trial.layout.children, "s1")
        processes = {name: trial.start(name) for name in ("s2", "s3", "s4")}
        with open_input(processes["s2"]) as some, open_input(processes["s3"]) as wrong:
            with open_input(processes["s4"]) as over:
                write(over, *({"value": at} for at in range(100)))
            # A start of seconds: nothing has to wait for an event that is minutes off.
            trial.wait(lambda: len(trial.windows()) > 1, PATIENCE_S)
            behind = random.choice([-600, 600])
            written = 0
            for _ in range(4):
                write(some, {"value": 1})
                for _ in range(20):
                    write(wrong, {"value": 1, "time": time.time() + behind})
                    time.sleep(0.05)
                written += 20
                _disturb(trial, random)
            end = int(time.time() * 1e6)
            for _ in range(400):
                # It goes on all the time, and is of no use.
                write(wrong, {"value": 1, "time": time.time() + behind})
                written += 1
                time.sleep(0.05)
                if trial.through() >= end:
                    break
            trial.wait_for_window(end, 1.0)
            trial.wait(lambda: _dealt(trial.report("s3")) >= written, PATIENCE_S)
            said = trial.report("s3")
            assert said["taken"] == 0, said
        for name in ("s2", "s3", "s4"):
            assert trial.fleet.processes[name].wait(PATIENCE_S) == 0, trial.said(name)
        trial.wait(lambda: trial.sensors() == ["s1"], PATIENCE_S)
        _wait_for_now(trial)
        windows = trial.windows()
    return f"{written} events {behind} s off refused, {len(windows)} windows"


def _dealt(report: dict[str, Any]) -> int:
    return int(report["taken"] + report["late"] + report["early"])


def disk(folder: Path, random: Random) -> str:
    """The root's disk is full, again and again, and a child dies then: no window is lost."""
    queries = {
        "count": {"aggregate": "count", "size": "200ms"},
        "sum": {"aggregate": "sum", "size": "400ms", "slide": "100ms"},
    }
    with EdgeTrial(folder, children=2, sensors=2, rate=RATE, queries=queries) as trial:
        output = trial.layout.path("windows.jsonl")
        for _ in range(3):
            root = trial.fleet.processes["root"].pid
            size = output.stat().st_size + random.randrange(2_000)
            resource.prlimit(root, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            trial.wait(lambda: trial.status("root")["paused"], PATIENCE_S)
            _disturb(trial, random)
            time.sleep(random.uniform(0.0, 2.0))
            root = trial.fleet.processes["root"].pid
            unlimited = resource.RLIM_INFINITY, resource.RLIM_INFINITY
            resource.prlimit(root, resource.RLIMIT_FSIZE, unlimited)
            trial.wait(lambda: _says(trial, "root", "paused") == "", PATIENCE_S)
            _wait_for_now(trial)
        windows = trial.check()
        assert all(each["complete"] for each in windows)
    return f"{len(windows)} windows exact"


def link(folder: Path, random: Random) -> str:
    """Two children do not hear each other, the sensors and the root hear both: no duel."""
    succession = random.choice(["spread", "ring", "bully"])
    children = random.choice([2, 3])
    plant = {"children": children, "rate": RATE, "settings": {"succession": succession}}
    with linked(folder, **plant) as (trial, proxy):
        for _ in range(2):
            before = _takeovers(trial)
            proxy.cut(random.choice([None, "to", "from"]))
            time.sleep(random.uniform(3.0, 8.0))
            proxy.heal()
            fought = _takeovers(trial) - before
            # Each may take what the other has once before it is told that the other lives.
            assert fought <= 2 * len(trial.layout.children), f"{fought} take-overs"
            trial.wait(lambda: _are_home(trial), PATIENCE_S)
        _wait_for_now(trial)
        windows = trial.check()
        assert all(each["complete"] for each in windows)
    return f"{succession}, {_told(fought)}, {len(windows)} windows exact"


def _takeovers(trial: EdgeTrial) -> int:
    return sum(trial.status(name)["takeovers"] for name in trial.layout.children)


def _are_home(trial: EdgeTrial) -> bool:
    owned = [trial.status(name)["owned"] for name in sorted(trial.layout.children)]
    return owned == [[number] for number in range(len(owned))]


def _told(fought: int) -> str:
    return f"{fought} take-overs in the last cut"


def large(folder: Path, random: Random) -> str:
    """A state larger than a frame; its owner dies, and a copy has all of it."""
    queries = {"by_key": {"aggregate": "count", "size": "8s", "keyed": True}}
    count = random.choice([5_000, 40_000])
    settings = {"routing": "primary", "buffer": 100_000}
    with EdgeTrial(
        folder,
        children=3,
        sensors=2,
        keys=1,
        rate=10,
        queries=queries,
        settings=settings,
        fed=["s2"],
    ) as trial:
        pipe = trial.feed("s2")
        keys = [f"{number:0>250}" for number in range(count)]
        for key in keys:
            pipe.write(b'{"value": 1, "key": "%s"}\n' % key.encode())
        pipe.flush()
        trial.wait(lambda: trial.report("s2")["taken"] == count, PATIENCE_S)
        trial.wait(lambda: trial.report("s2")["buffered"] == 0, PATIENCE_S)
        victims = random.sample(list(trial.layout.children), 2)
        trial.fleet.kill(*victims)
        time.sleep(random.uniform(0.0, 1.0))
        trial.fleet.start(*victims)
        end = int(time.time() * 1e6) + 1
        pipe.close()
        trial.wait_for_window(end, PATIENCE_S)
        found: dict[str, int] = {}
        for window in trial.windows():
            assert window["complete"], {**window, "answer": len(window["answer"] or ())}
            for key, number in (window["answer"] or {}).items():
                found[key] = found.get(key, 0) + number
    assert {key: found.get(key, 0) for key in keys} == dict.fromkeys(keys, 1)
    return f"{count} keys, {', '.join(victims)} killed"


ATTACKS: Final[list[Callable[[Path, Random], str]]] = [
    history,
    clocks,
    silence,
    disk,
    link,
    large,
]
