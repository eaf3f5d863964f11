"""Draws the time line of docs/dependability.md from a real simulation (`make pictures`)."""

import math
from dataclasses import replace
from pathlib import Path

from holdfast.pipeline.gates.order import Delays
from simulator.campaign.picture import draw_run
from simulator.faults import Fault, FaultKind
from simulator.scenario import HEADROOM, PATIENCE, Options, draw_scenario
from simulator.simulation import Simulation

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
SOURCE_LOST = Fault(FaultKind.PARTITION, 1_500_000, 3_600_000, ("b",))


def main() -> None:
    scenario = draw_scenario(3, Options("chain-2"))
    settings = replace(
        scenario.settings["s1"],
        delays=Delays(800_000, HEADROOM, patience=PATIENCE),
        beside=True,
        long_failure=math.inf,
    )
    scenario = replace(
        scenario.with_faults([SOURCE_LOST]),
        settings=dict.fromkeys(scenario.settings, settings),
        replicas={stage: (f"{stage}/0", f"{stage}/1") for stage in scenario.settings},
    )
    draw_run(Simulation(scenario).run(), PICTURES / "failure.svg")


if __name__ == "__main__":
    main()
