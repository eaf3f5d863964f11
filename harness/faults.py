"""Faults done to a deployment, one at a time, and what must hold after each.

Each case breaks something, mends it, and waits until the client has final rows from after that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.deployment import Deployment
from harness.waiting import wait_for
from holdfast.pipeline.machine.tuples import Kind
from holdfast.transport.proxy import Direction, Proxy

__all__ = ["CASES", "Case", "measure_latency", "settle"]

Case = Callable[[Deployment, float], str]
"""Breaks a deployment whose normal latency is known; tells what was seen."""

SETTLED = 300.0
"""Seconds for all to be well again."""
SLACK = 2.0
"""Seconds that a starved machine may add to any delay."""


def measure_latency(deployment: Deployment, seconds: float = 10.0) -> float:
    """The worst that new rows take while nothing is broken."""
    since = len(deployment.told)
    time.sleep(seconds)
    return max(deployment.delays(since))


def settle(deployment: Deployment) -> None:
    """Until all replicas are stable and the client has final rows from after now; then check."""
    now = int(time.time() * 1e6)
    wait_for("all to be stable again", deployment.all_stable, SETTLED, 0.5)
    wait_for("final rows from after the fault", lambda: deployment.boundary > now, SETTLED)
    deployment.check()


@contextmanager
def broken(proxies: list[Proxy], direction: Direction | None = None) -> Iterator[None]:
    assert proxies, "there is nothing to cut"
    for proxy in proxies:
        proxy.cut(direction)
    try:
        yield
    finally:
        for proxy in proxies:
            proxy.heal()


def no_fault(deployment: Deployment, latency: float) -> str:
    since = len(deployment.told)
    time.sleep(3)
    settle(deployment)
    assert set(deployment.kinds(since)) <= {Kind.INSERT}
    return f"worst delay {max(deployment.delays(since)):.2f} s"


def replica_killed(deployment: Deployment, latency: float) -> str:
    """And started again on its disk."""
    return _kill(deployment, latency, f"{deployment.last}/1", empty=False)


def disk_lost(deployment: Deployment, latency: float) -> str:
    """A peer gives it its state: without, it would be silent for as long as its windows last."""
    name = f"{deployment.last}/1"
    said = _kill(deployment, latency, name, empty=True)
    status = deployment.status(name) or {}
    size = status.get("copy_size", 0)
    assert 0 < size == status["copy_bytes"], f"{name} has no copy of a state: {status}"
    return f"{said}, copied {size} bytes"


def upstream_killed(deployment: Deployment, latency: float) -> str:
    return _kill(deployment, latency, f"{deployment.stages[0]}/1", empty=False)


def _kill(deployment: Deployment, latency: float, name: str, *, empty: bool) -> str:
    since = len(deployment.told)
    deployment.kill(name)
    time.sleep(2)
    deployment.start_replica(name, empty=empty)
    wait_for(f"{name} to be back", lambda: (deployment.status(name) or {}).get("ready"), SETTLED)
    settle(deployment)
    kinds = deployment.kinds(since)
    return f"{name}, {_told(kinds)}"


def short_cut(deployment: Deployment, latency: float) -> str:
    """All replicas before the last stage cannot be reached, for less than `max_delay`."""
    since = len(deployment.told)
    with broken(deployment.links(deployment.last, deployment.stages[-2])):
        time.sleep(0.8 * deployment.max_delay - min(latency, 0.3 * deployment.max_delay))
    settle(deployment)
    kinds = deployment.kinds(since)
    assert set(kinds) <= {Kind.INSERT}, f"a short failure shows: {_told(kinds)}"
    return _told(kinds)


def long_cut(deployment: Deployment, latency: float) -> str:
    return _long_cut(deployment, latency, None)


def one_way_cut(deployment: Deployment, latency: float) -> str:
    """What is asked arrives, what is answered does not."""
    return _long_cut(deployment, latency, "from")


def _long_cut(deployment: Deployment, latency: float, direction: Direction | None) -> str:
    """One source can be reached by nobody: what the others bring is shown as tentative."""
    since = len(deployment.told)
    with broken(deployment.links(deployment.stages[0], deployment.sources_names[0]), direction):
        time.sleep(2.5 * deployment.max_delay)
    settle(deployment)
    return _corrected(deployment, since, latency)


def upstream_cut(deployment: Deployment, latency: float) -> str:
    """All replicas before the last stage cannot be reached for five times `max_delay`."""
    since = len(deployment.told)
    with broken(deployment.links(deployment.last, deployment.stages[-2])):
        time.sleep(5 * deployment.max_delay)
    settle(deployment)
    kinds = deployment.kinds(since)
    return f"{_told(kinds)}; nothing was left to calculate from"


def source_without_boundaries(deployment: Deployment, latency: float) -> str:
    """It answers and takes rows in, but nobody can tell how far it has come."""
    since = len(deployment.told)
    deployment.stop_clock(deployment.sources_names[0])
    time.sleep(2.5 * deployment.max_delay)
    deployment.stuck.clear()
    settle(deployment)
    return _corrected(deployment, since, latency)


def driver_killed(deployment: Deployment, latency: float) -> str:
    """Spark's driver is killed in the middle of a batch: the node ends and is started again."""
    since = len(deployment.told)
    name = f"{deployment.last}/2"
    deployment.kill_driver(name)
    wait_for(f"{name} to end", lambda: deployment.processes[name].status is not None, 60)
    settle(deployment)
    deployment.ended.remove(name)
    return _told(deployment.kinds(since))


def source_silent(deployment: Deployment, latency: float) -> str:
    """Its boundaries go on, so nothing is missing."""
    since = len(deployment.told)
    deployment.silent.add(deployment.sources_names[0])
    time.sleep(1.5 * deployment.max_delay)
    deployment.silent.clear()
    settle(deployment)
    kinds = deployment.kinds(since)
    assert set(kinds) <= {Kind.INSERT}, f"silence is taken for a failure: {_told(kinds)}"
    return _told(kinds)


def killed_while_correcting(deployment: Deployment, latency: float) -> str:
    since = len(deployment.told)
    name = f"{deployment.last}/2"
    with broken(deployment.links(deployment.stages[0], deployment.sources_names[0])):
        time.sleep(2 * deployment.max_delay)
    wait_for("the corrections to begin", lambda: Kind.UNDO in deployment.kinds(since), 60, 0.02)
    deployment.kill(name)
    deployment.start_replica(name)
    settle(deployment)
    return _corrected(deployment, since, latency)


def slow_link(deployment: Deployment, latency: float) -> str:
    since = len(deployment.told)
    proxies = deployment.links(deployment.last, f"{deployment.stages[-2]}/1")
    for proxy in proxies:
        proxy.delay(0.4)
    time.sleep(8)
    for proxy in proxies:
        proxy.heal()
    settle(deployment)
    kinds = deployment.kinds(since)
    assert set(kinds) <= {Kind.INSERT}, f"a slow link shows: {_told(kinds)}"
    return _told(kinds)


def frozen(deployment: Deployment, latency: float) -> str:
    """A replica of the last stage stands still (SIGSTOP) and then goes on."""
    since = len(deployment.told)
    name = f"{deployment.last}/1"
    deployment.freeze(name)
    time.sleep(2 * deployment.max_delay)
    deployment.thaw(name)
    settle(deployment)
    return _told(deployment.kinds(since))


def _corrected(deployment: Deployment, since: int, latency: float) -> str:
    """Tentative rows came in time, and all of them were withdrawn."""
    kinds = deployment.kinds(since)
    assert Kind.TENTATIVE in kinds, f"a long failure shows nothing tentative: {_told(kinds)}"
    worst = max(deployment.delays(since))
    limit = deployment.max_delay + latency + SLACK
    assert worst <= limit, f"new rows came {worst:.2f} s after their time; allowed are {limit:.2f}"
    wait_for("REC_DONE", lambda: Kind.REC_DONE in deployment.kinds(since), 30)
    assert deployment.folds_to_final(), "what is not withdrawn is not what is final"
    return f"{_told(kinds)}, worst delay {worst:.2f} s of {limit:.2f}"


def _told(kinds: list[Kind]) -> str:
    return ", ".join(f"{kinds.count(kind)} {kind.name}" for kind in Kind if kind in kinds)


CASES: dict[str, Case] = {
    "no-fault": no_fault,
    "replica-killed": replica_killed,
    "upstream-killed": upstream_killed,
    "short-cut": short_cut,
    "long-cut": long_cut,
    "one-way-cut": one_way_cut,
    "upstream-cut": upstream_cut,
    "source-silent": source_silent,
    "source-without-boundaries": source_without_boundaries,
    "driver-killed": driver_killed,
    "killed-while-correcting": killed_while_correcting,
    "disk-lost": disk_lost,
    "slow-link": slow_link,
    "frozen": frozen,
}
