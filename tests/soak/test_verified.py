"""What replicas on Spark do wrong in the campaign `verified`, which takes minutes a seed."""

from __future__ import annotations

from pathlib import Path
from random import Random

from harness.verified.billing import STAGES, write_cities
from harness.verified.cases import Case
from holdfast.verify import load_job
from holdfast.verify.process.jobs import Job
from soak.campaigns.verified import PASSING, TALKERS, case_beyond, case_within


def test_six_seeds_are_every_way_to_be_wrong_at_every_stage_in_every_mode() -> None:
    cases = list(map(case_within, range(6)))
    assert all(len(case.liars) == case.faults for case in cases), "no more are wrong than may be"
    assert len(tried_in(cases, len(TALKERS))) == 2 * 3 * len(TALKERS) * len(STAGES)


def test_four_seeds_are_one_liar_too_many_at_every_stage() -> None:
    cases = list(map(case_beyond, range(4)))
    assert all(len(case.liars) == case.faults + 1 for case in cases)
    assert len(tried_in(cases, len(PASSING))) == 2 * 2 * len(PASSING) * len(STAGES)


def tried_in(cases: list[Case], ways: int) -> set[object]:
    """What is tried in some city."""
    tried: set[object] = set()
    for case in cases:
        for lie in case.lies:
            stage, _, city = lie.stage.rpartition("_")
            assert 0 <= int(city) < ways * len(STAGES)
            tried.add((case.faults, case.mode, lie.wrong, stage))
    return tried


def test_each_city_has_its_own_stages_and_readings(tmp_path: Path) -> None:
    job = load_job(write_cities(tmp_path / "job", 3, Random(1)))
    assert isinstance(job, Job)
    assert list(job.stages) == [f"{stage}_{city}" for city in range(3) for stage in STAGES]
    assert job.plan.parents("charges_2") == ("hourly_2",)
    files = {job.sources[f"readings_{city}"].find(job.folder) for city in range(3)}
    assert len(files) == 3
