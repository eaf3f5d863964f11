"""A stage of four replicas on Spark, and one behind it that compares them: what must hold.

Used by `make soak PART=votes`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from harness.deployment import Deployment
from harness.lies import EVERY
from harness.waiting import wait_for
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.fault_tracker import readmit

__all__ = ["POLICIES", "deploy", "find_out", "lie_and_crash", "mask_a_crash"]

POLICIES: Final = ("vote", "vote-latest", "sample", "first", "latest")
PATIENCE: Final = 300.0
"""Seconds for anything to happen on a starved machine."""


def deploy(
    folder: Path, policy: str, *, liar: str | None = None, lies: str = "clean/4"
) -> Deployment:
    """One source, four replicas of `clean`, and `sums`. `liar`: how the replica `lies` lies."""
    settings = f'policy = "{policy}"\nbarrier = "10m"'
    if policy == "sample":
        settings += f"\nevery = {EVERY}"
    liars = {} if liar is None else {lies: liar}
    return Deployment(folder, replicas=4, sources=("a",), voter=settings, liars=liars)


def lie_and_crash(deployment: Deployment) -> str:
    """A replica lies from the start: it is named, and gets nothing through. It is mended and
    admitted again; then another one is killed, and nobody waits for it."""
    wait_for(
        "the liar to be named", lambda: _found(deployment)["quarantined"] == ["clean/4"], PATIENCE
    )
    assert set(_found(deployment)["accused"]) == {"clean/4"}
    deployment.check(all_replicas=False)
    deployment.kill("clean/4")
    del deployment.liars["clean/4"]
    deployment.start_replica("clean/4")
    _go_on(deployment)
    said = list(readmit(deployment.topology, "clean/4"))
    assert said == ["sums/1: clean/4 counts again"], said
    wait_for("the mended one", lambda: (deployment.status("clean/4") or {}).get("ready"), PATIENCE)
    deployment.kill("clean/1")
    _go_on(deployment)
    deployment.check(all_replicas=False)
    found = _found(deployment)
    assert (found["quarantined"], found["gave_up"]) == ([], {})
    return f"{len(deployment.told)} pieces, worst delay {max(deployment.delays()):.1f} s"


def find_out(deployment: Deployment) -> str:
    """The replica that is trusted lies where it takes nothing for a sample: it is named, what it
    got through is told, and the stream goes on."""
    wait_for("the liar to be named", lambda: "clean/1" in _found(deployment)["accused"], PATIENCE)
    _go_on(deployment)
    found = _found(deployment)
    assert set(found["accused"]) == {"clean/1"}
    assert found["tainted"] > 0
    assert found["gave_up"] == {}
    return f"{len(deployment.told)} pieces, {found['tainted']} buckets tainted"


def mask_a_crash(deployment: Deployment, *, exactly_once: bool) -> str:
    """A replica is killed: the stream goes on without it, final and in order."""
    deployment.kill("clean/1")
    _go_on(deployment)
    ends = [told.boundary for _, told in list(deployment.told)]
    assert ends == sorted(ends), "the stream went back"
    assert set(deployment.kinds()) <= {Kind.INSERT}
    assert _found(deployment)["accused"] == {}
    if exactly_once:
        deployment.check(all_replicas=False)
    return f"{len(ends)} pieces, worst delay {max(deployment.delays()):.1f} s"


def _found(deployment: Deployment) -> dict[str, Any]:
    said = deployment.status("sums/1")
    return said if said is not None else {"quarantined": None, "accused": {}, "gave_up": {}}


def _go_on(deployment: Deployment) -> None:
    """Until the client has final rows from after now."""
    now = int(time.time() * 1e6)
    wait_for("final rows from after now", lambda: deployment.boundary > now, PATIENCE)
