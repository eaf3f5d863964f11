"""What replicas on Spark do wrong in the campaign `verified`, which takes minutes a seed."""

from __future__ import annotations

from pathlib import Path
from random import Random

from harness.verified.billing import STAGES, write_cities
from harness.verified.lies import Wrong
from holdfast.verify import load_job
from holdfast.verify.jobs import Job
from soak.campaigns.verified import TALKERS, case_within

SEEDS = range(6)


def test_six_seeds_are_every_way_to_be_wrong_at_every_stage_in_every_mode() -> None:
    tried = set()
    for case in map(case_within, SEEDS):
        assert len(case.liars) == case.faults, "no more are wrong than may be"
        for lie in case.lies:
            stage, _, city = lie.stage.rpartition("_")
            tried.add((case.faults, case.mode, lie.wrong, stage))
            assert 0 <= int(city) < len(TALKERS) * len(STAGES)
    assert len(tried) == 2 * 3 * (len(Wrong) - 1) * len(STAGES)


def test_each_city_has_its_own_stages_and_readings(tmp_path: Path) -> None:
    job = load_job(write_cities(tmp_path / "job", 3, Random(1)))
    assert isinstance(job, Job)
    assert list(job.stages) == [f"{stage}_{city}" for city in range(3) for stage in STAGES]
    assert job.plan.parents("charges_2") == ("hourly_2",)
    files = {job.sources[f"readings_{city}"].find(job.folder) for city in range(3)}
    assert len(files) == 3
