"""Sensors of an edge are fed anything but events: no process ends, and good events all count."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from random import Random
from typing import IO, Any, Final

from harness.edge import EdgeTrial
from harness.poison import lines
from holdfast.errors import InvalidArgumentError

DESCRIPTION = "odd types, sizes, keys and numbers fed to sensors: no process of the edge ends"
ROUNDS: Final = 6
GOOD: Final = 200
"""Events a round that must count, of a key that no odd line has."""
KEY: Final = "good"
QUERIES: Final = {
    "all": {"aggregate": "count", "size": "1s"},
    "count": {"aggregate": "count", "size": "1s", "keyed": True},
    "sum": {"aggregate": "sum", "size": "1s", "slide": "500ms", "keyed": True},
    "mean": {"aggregate": "mean", "size": "1s"},
    "range": {"aggregate": "range", "size": "1s", "keyed": True},
    "variance": {"aggregate": "variance", "size": "1s", "keyed": True},
    "quantiles": {"aggregate": "quantiles", "size": "1s", "keyed": True},
    "distinct": {"aggregate": "distinct", "size": "1s", "keyed": True},
    "top": {"aggregate": "top_k", "size": "1s", "k": 3},
}


def run(seed: int) -> str:
    """Rounds of odd lines among good ones for two sensors; in some a child or the root is killed,
    or a query comes and goes. All that runs must run on, and each good event be in a window."""
    random = Random(seed)
    with tempfile.TemporaryDirectory(prefix="holdfast-edge-input-") as folder:
        trial = EdgeTrial(
            Path(folder),
            children=random.choice([1, 2, 3]),
            sensors=3,
            layers=random.choice([[], [2]]),
            rate=100,
            keys=2,
            queries=QUERIES,
            fed=["s2", "s3"],
            settings={"routing": random.choice(["round-robin", "hash", "random", "primary"])},
        )
        with trial:
            return _fed(trial, random)


def _fed(trial: EdgeTrial, random: Random) -> str:
    pipes = {name: trial.feed(name) for name in ("s2", "s3")}
    good = 0
    for number in range(ROUNDS):
        for pipe in pipes.values():
            good += _feed(pipe, random)
        _disturb(trial, random, number)
        trial.fleet.check()
    for pipe in pipes.values():
        pipe.close()
    for name in pipes:
        trial.wait(lambda name=name: trial.report(name)["left"], 60)  # type: ignore[misc]
        try:
            trial.client.ask("root", "dismiss", {"sensor": name})
        except InvalidArgumentError:
            # It has left by itself.
            continue
    trial.wait_for_window(int(time.time() * 1e6) + 1_000_000, 60)
    trial.fleet.check()
    windows = trial.windows()
    counted = _counted(windows)
    lost = sum(each["lost"] + each["late"] for each in windows if each["query"] == "count")
    assert counted <= good, f"{counted} good events counted, {good} were fed"
    assert counted + lost >= good, f"{counted} of {good} good events counted, {lost} called lost"
    refused = sum(each["refused"] for each in windows if each["query"] == "count")
    assert refused, "nothing was refused"
    text = trial.layout.path("windows.jsonl").read_text()
    json.loads(f"[{','.join(text.splitlines())}]", parse_constant=_no_json)
    return f"{good} good events among odd ones, {refused} refused, {len(windows)} windows"


def _feed(pipe: IO[bytes], random: Random) -> int:
    odd = list(lines(random, 300))
    if random.random() < 0.7:
        # Those that only break what is broken; the rest of the lines are found again.
        random.shuffle(odd)
    # A time of the future would make all later events late: here the sensor gives the times.
    mixed = [line for line in odd if b'"time"' not in line]
    mixed += [line for line in odd if b'"time": 1700000000000' in line or b"NaN" in line]
    mixed += [b'{"value": 2, "key": "%s"}' % KEY.encode()] * GOOD
    random.shuffle(mixed)
    for line in mixed:
        pipe.write(line + b"\n")
    pipe.flush()
    return GOOD


def _disturb(trial: EdgeTrial, random: Random, number: int) -> None:
    match random.choice(["child", "root", "query", "nothing"]):
        case "child" if len(trial.layout.children) > 1:
            victim = random.choice(list(trial.layout.children))
            trial.fleet.kill(victim)
            time.sleep(random.uniform(0.0, 1.0))
            trial.fleet.start(victim)
            trial.wait(lambda: trial.status(victim).get("ready"), 60)
        case "root":
            trial.fleet.kill("root")
            trial.fleet.start("root")
            trial.wait(lambda: trial.status("root"), 60)
        case "query":
            body: dict[str, Any] = {"aggregate": random.choice(["max", "sum"]), "size": "1s"}
            trial.client.ask("root", "add", {"name": "extra", "keyed": True, **body})
            time.sleep(random.uniform(0.0, 1.0))
            trial.client.ask("root", "remove", {"name": "extra"})
        case _:
            time.sleep(random.uniform(0.0, 1.0))


def _counted(windows: list[dict[str, Any]]) -> int:
    return sum(each["answer"].get(KEY, 0) for each in windows if each["query"] == "count")


def _no_json(constant: str) -> None:
    raise AssertionError(f"{constant} in windows.jsonl is no JSON")
