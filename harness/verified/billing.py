"""The example of hourly billing with replicas on Spark, small enough for two cores."""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from rich.console import Console

from harness.parts import REPOSITORY
from harness.processes import spark_environment
from harness.verified.cases import read_output
from harness.verified.holds import Hold, Parts, holds_for
from harness.verified.lies import Lie
from harness.verified.oracle import expected_bills, rows_by_bill
from holdfast.errors import JobFailedError
from holdfast.verify.machine import Mode, Model, Quorum
from holdfast.verify.process.command import verify_job
from holdfast.verify.process.config import Config, Need, Pool
from holdfast.verify.process.processes import REPLICA, ProcessLauncher
from holdfast.verify.process.report import Account
from holdfast.verify.process.submission import Submission

__all__ = [
    "STAGES",
    "is_city_right",
    "read_nightly",
    "small_config",
    "steps_of",
    "verify_billing",
    "write_billing",
    "write_cities",
    "write_nightly",
]

STAGES: Final = ("hourly", "charges", "bills")
EXAMPLE: Final = REPOSITORY / "examples" / "billing"


def write_billing(
    folder: Path, *, meters: int = 20, days: int = 2, seed: int = 7, minutes: int = 15
) -> Path:
    """The job's file, with its data beside it; a meter is read every so many minutes."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(EXAMPLE / "billing.py", folder)
    _generate(folder / "data", meters, days, seed, minutes)
    return folder / "billing.py"


def write_cities(folder: Path, count: int, random: Random) -> Path:
    """A job that bills so many cities one after the other, each with readings of its own. Their
    stages are called `hourly_0`, `charges_0` and so on."""
    folder.mkdir(parents=True)
    shutil.copy(EXAMPLE / "billing.py", folder)
    shutil.copy(Path(__file__).with_name("cities.py"), folder)
    for number in range(count):
        meters, days, seed = random.randint(3, 40), random.randint(1, 3), random.randrange(10**6)
        _generate(folder / f"city-{number}" / "data", meters, days, seed)
    return folder / "cities.py"


NIGHTLY: Final = 60
"""Readings of the nightly program."""


def write_nightly(folder: Path) -> tuple[Path, list[tuple[int, int]]]:
    """A program that writes, with its data; and what it is to write, by side."""
    (folder / "readings").mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("nightly.py"), folder)
    rows = [{"meter": number % 7, "wh": number * number} for number in range(NIGHTLY)]
    for part in range(2):
        pq.write_table(pa.Table.from_pylist(rows[part::2]), folder / "readings" / f"{part}.parquet")
    sums = [sum(row["wh"] for row in rows if row["meter"] == meter) for meter in range(7)]
    return folder / "nightly.py", [(0, max(sums[0::2])), (1, max(sums[1::2]))]


def read_nightly(folder: Path) -> list[tuple[int, int]]:
    """All that lies where it writes, by side."""
    found = ds.dataset(folder, partitioning="hive").to_table().to_pylist()
    return sorted((row["side"], row["wh"]) for row in found)


def is_city_right(file: Path, output: Path, number: int) -> bool:
    """Whether the bills of a city are what its readings say."""
    bills = rows_by_bill(read_output(output, f"bills_{number}"))
    return bills == expected_bills(file.parent / f"city-{number}" / "data")


def _generate(folder: Path, meters: int, days: int, seed: int, minutes: int = 15) -> None:
    runpy.run_path(str(EXAMPLE / "generate.py"))["generate"](folder, meters, days, seed, minutes)


def small_config(
    folder: Path,
    *,
    model: Model = Model.BYZANTINE,
    faults: int = 1,
    mode: Mode = Mode.HYBRID,
    linger: float = 30.0,
    verifiers: int | Literal["all-to-all"] = 1,
    restarts: int = 1,
    spark: Mapping[int, Mapping[str, str]] | None = None,
) -> Config:
    """Hosts are made up: each replica's processes are told what to call this machine. `spark`:
    settings of some replicas."""
    numbers = Quorum(model, faults).numbers
    return Config(
        model=model,
        faults=faults,
        mode=mode,
        slices=2,
        restarts=restarts,
        patience=60.0,
        limit=90.0,
        linger=linger,
        verifiers=verifiers,
        storage=str(folder / "storage"),
        work=str(folder / "work"),
        replica=Need(cores=1, memory="512m"),
        spark={"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"},
        pools=tuple(
            Pool(
                name=f"pool {n}",
                hosts=(f"h{n}",),
                environment={"HOLDFAST_HOST": f"h{n}"},
                spark=dict((spark or {}).get(n, {})),
            )
            for n in (*numbers, len(numbers) + 1)
        ),
    )


def verify_billing(
    file: Path,
    config: Config,
    folder: Path,
    lies: Sequence[Lie] = (),
    holds: Sequence[Hold] | None = None,
    environment: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> Account:
    """Verified or not: the account says so. What the command shows goes to a file. Unless `holds`
    say who waits for whom, every lie is told: others wait for it. `environment`: of replicas;
    `arguments`: of the job's code."""
    if holds is None:
        holds = holds_for(lies, Quorum(config.model, config.faults).numbers)
    parts = folder / "parts.json"
    Parts(tuple(lies), tuple(holds)).write(parts)
    submissions = []

    def launch(submission: Submission) -> ProcessLauncher:
        submissions.append(submission)
        replica: Sequence[str] = REPLICA
        if lies or holds:
            liar = "harness.verified.lying_replica"
            replica = ("-m", liar, str(parts), str(submission.folder))
        return ProcessLauncher(
            submission,
            replica=replica,
            environment=environment or spark_environment(folder),
        )

    with (folder / "screen.txt").open("a") as screen:
        console = Console(file=screen, width=120)
        try:
            return verify_job(
                file, config, folder / "output", console, arguments=arguments, launch=launch
            )
        except JobFailedError:
            return Account.read(submissions[-1].folder)


def steps_of(account: Account, replica: int, stage: str) -> list[dict[str, Any]]:
    """What a replica began to compute, as its trace has it."""
    trace = account.folder / f"replica-{replica}" / "trace.jsonl"
    lines = map(json.loads, trace.read_text().splitlines())
    return [line for line in lines if line["event"] == "starts" and line["stage"] == stage]
