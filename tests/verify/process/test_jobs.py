"""Jobs: what a description means, and what is wrong with one that means nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.verify import Job
from holdfast.verify.process.task_api import Unverified


def billing() -> Job:
    job = Job("billing", slices=4)
    job.source("readings", "readings/*.parquet")
    job.source("tariffs", "tariffs.csv")

    @job.stage
    def hourly(readings): ...

    @job.stage(name="bills", inputs=["hourly", "tariffs"])
    def charge(consumption, prices): ...

    return job


def test_stages_read_what_their_parameters_are_named_after() -> None:
    job = billing()
    assert job.stages["hourly"].inputs == ("readings",)
    assert job.stages["bills"].inputs == ("hourly", "tariffs")


def test_a_stage_may_want_calls() -> None:
    job = billing()

    @job.stage
    def checked(hourly, *, calls):
        return hourly, calls

    assert job.stages["checked"].inputs == ("hourly",)
    calls = Unverified()
    assert job.stages["checked"].frame(["rows"], calls) == ("rows", calls)


def test_sources_are_no_part_of_the_plan() -> None:
    plan = billing().plan
    assert plan.stages == {"hourly": (), "bills": ("hourly",)}
    assert plan.outputs == ("bills",)
    assert plan.slices == 4


def test_paths_are_relative_to_the_file_that_makes_the_job() -> None:
    assert billing().folder == Path(__file__).resolve().parent


def test_a_relative_folder_is_that_of_here_wherever_spark_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Job("billing", folder="data").folder == tmp_path / "data"


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda job: job.source("hourly", "x.csv"), "a source or stage 'hourly' already"),
        (lambda job: job.source("../etc", "x.csv"), "is no name"),
        (lambda job: job.source("x", "x.csv", options={"path": "y"}), "option path"),
        (lambda job: job.stage(name="readings")(lambda: None), "'readings' already"),
        (lambda job: job.stage(name="x", inputs=["daily"])(lambda y: None), "reads 'daily'"),
        (lambda job: job.stage(name="x", inputs=["hourly"] * 2)(lambda y: None), "twice"),
        (lambda job: job.stage(name="a/b")(lambda hourly: None), "is no name"),
        (lambda job: job.stage(lambda hourly: None), "is no name"),
        (lambda job: Job(".."), "is no name"),
    ],
)
def test_mistakes_are_named(mistake: Callable[[Job], object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        mistake(billing())
