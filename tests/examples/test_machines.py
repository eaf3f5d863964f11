"""The example of the machine's alarms, without its processes; `make soak PART=alarms` has those."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.examples import EXAMPLES, load_example
from holdfast.pictures import save_picture
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Told
from holdfast.pipeline.topology import Topology

machines = load_example("machines")
START = 1_800_000_000_000_000
PACE = machines.Pace(START)


def row(day: float, above: float) -> dict[str, Any]:
    end = datetime.fromtimestamp((START + day * machines.DAY) / 1e6, UTC)
    alarm = "runs hot" if above > 26 else "well"
    return {"window": {"start": end, "end": end}, "above": above, "alarm": alarm}


def told(kind: Kind, day: float, *rows: dict[str, Any]) -> tuple[int, Told]:
    moment = START + int(day * machines.DAY)
    return moment + 200_000, Told(kind, moment, pa.Table.from_pylist(list(rows)) if rows else None)


def outcome(alarms: list[tuple[int, Told]]) -> Any:
    calm = [told(Kind.INSERT, 1, row(1, 20.0)), told(Kind.INSERT, 2, row(2, 30.0))]
    cut = (PACE.replayed(machines.CUT), PACE.replayed(machines.HEAL))
    return machines.Outcome(PACE, cut, machines.Seen(alarms), machines.Seen(calm), 2_000_000)


CORRECTED = [
    told(Kind.INSERT, 1, row(1, 20.0)),
    told(Kind.TENTATIVE, 2, row(2, 25.0)),
    told(Kind.UNDO, 1),
    told(Kind.INSERT, 2, row(2, 30.0)),
    told(Kind.REC_DONE, 2),
]


def test_both_stages_calculate_the_same() -> None:
    topology = Topology.read(EXAMPLES / "machines" / "alarms.toml")
    alarms, undisturbed = topology.stages["alarms"], topology.stages["undisturbed"]
    assert alarms.steps == undisturbed.steps
    assert alarms.inputs == undisturbed.inputs
    assert len(alarms.replicas) == 2


@pytest.mark.parametrize("sensor", machines.FILES)
def test_the_series_cover_the_days_in_order(sensor: str) -> None:
    series = machines.read_series(sensor)
    times = [at for at, _ in series]
    assert times == sorted(times)
    assert times[0] == machines.FIRST
    assert times[-1] >= machines.LAST + timedelta(hours=6)
    table = PACE.table(sensor, series)
    assert table.schema == machines.SCHEMA
    assert PACE.original(table["at"].cast(pa.int64())[0].as_py()) == machines.FIRST


def test_corrected_alarms_are_right(tmp_path: Path) -> None:
    found = outcome(CORRECTED)
    assert found.is_right
    assert "1 said something else than was found in the end" in found.summary()
    assert "the same, to the last bit" in found.summary()
    save_picture(machines.draw(found), tmp_path / "machines.png")
    assert (tmp_path / "machines.png").stat().st_size > 20_000


def test_alarms_that_were_not_corrected_are_not_right() -> None:
    found = outcome(CORRECTED[:2])
    assert not found.is_right
    assert "NOT the same" in found.summary()


def test_alarms_without_a_preview_show_nothing_of_a_cut() -> None:
    assert not outcome([each for each in CORRECTED if each[1].kind is Kind.INSERT]).is_right
