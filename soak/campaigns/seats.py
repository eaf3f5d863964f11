"""A stage whose replicas share its work, in virtual time: seed after seed of random faults."""

from __future__ import annotations

from harness.seats import break_at_random

DESCRIPTION = "seats of a stage that is shared, with kills, cuts and loss, in virtual time"


def run(seed: int) -> str:
    rig = break_at_random(seed)
    assert rig.shown == rig.right, f"the sink has {len(rig.shown)} rows, not {len(rig.right)}"
    assert rig.read == rig.right, f"the reader has {len(rig.read)} rows, not {len(rig.right)}"
    worked = ", ".join(f"{name} {count}" for name, count in sorted(rig.done.items()))
    return f"{len(rig.shown)} rows once each, {rig.previews} previews; buckets by {worked}"
