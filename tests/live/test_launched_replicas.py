"""A whole job whose drivers are launched, each in a process of its own, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from harness.processes import spark_environment
from harness.verified.cases import STAGES, is_bill
from harness.verified.plain import write_energy
from holdfast.verify.process.command import verify_job
from holdfast.verify.process.config import Config, Pool
from holdfast.verify.process.processes import TRACE, ProcessLauncher
from holdfast.verify.process.submission import Submission

REPLICA = ("-m", "harness.verified.plain_replica")


def test_a_job_of_launched_drivers(tmp_path: Path) -> None:
    file, expected = write_energy(tmp_path / "job", 3)
    pools = tuple(
        Pool(
            name=f"p{n}",
            hosts=(f"h{n}",),
            environment={"HOLDFAST_HOST": f"h{n}"},
            launch=("env", "-C", "/"),
        )
        for n in range(1, 5)
    )
    config = Config(
        pools=pools,
        linger=60.0,
        storage=str(tmp_path / "storage"),
        work=str(tmp_path / "work"),
    )

    def launch(submission: Submission) -> ProcessLauncher:
        return ProcessLauncher(submission, replica=REPLICA, environment=spark_environment(tmp_path))

    with (tmp_path / "screen").open("w") as screen:
        account = verify_job(file, config, tmp_path / "out", Console(file=screen), launch=launch)
    assert account.output is not None
    assert is_bill(expected)(account.output)
    assert account.findings == ()
    # Three of four must agree; one that starts when they have has nothing to do.
    assert account.hosts.items() <= {n: (f"h{n}",) for n in range(1, 5)}.items()
    assert len(account.hosts) >= 3
    found = set()
    for number in account.hosts:
        trace = account.folder / f"replica-{number}" / TRACE
        lines = [json.loads(line) for line in trace.read_text().splitlines()]
        found |= {(line["event"], line["stage"]) for line in lines}
    assert found == {(event, stage) for event in ("starts", "made") for stage in STAGES}
