"""Replicas of a job in one process, on one Spark session, that take turns."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.verify.machine import Mode, Model, Plan, Quorum, Rules, Standing, Verifier
from holdfast.verify.process.computing import Binding, Frames, SparkComputer, define_job
from holdfast.verify.process.jobs import Job
from holdfast.verify.process.replica import Replica, Trace
from holdfast.verify.process.submission import pin_sources
from tests.verify.process.witnesses import FolderVerifiers, FolderWitness, WaitsError

__all__ = ["Fleet"]

TURNS = 40


class Fleet:
    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        plan: Plan,
        *,
        mode: Mode = Mode.HYBRID,
        model: Model = Model.BYZANTINE,
    ) -> None:
        (folder / "told").mkdir()
        quorum = Quorum(model)
        rules = Rules(mode=mode, shared_hosts=True, own_files=True)
        verifier = Verifier("job", plan, quorum, rules)
        self.plan = plan
        self.storage = folder / "storage"
        self.verifiers = FolderVerifiers(verifier, folder / "told")
        self.computers: dict[int, SparkComputer] = {}
        self.replicas: dict[int, Replica] = {}
        self._folder = folder
        for number in quorum.numbers:
            witness = FolderWitness(folder / "told", number)
            self.computers[number] = SparkComputer(
                spark, "job", number, plan.slices, self.storage, witness
            )
            trace = Trace(folder / f"{number}.trace")
            self.replicas[number] = Replica(
                number, plan, mode, self.verifiers, self.computers[number], trace
            )

    def define(self, job: Job) -> None:
        files = pin_sources(job)
        for computer in self.computers.values():
            define_job(computer, job, files)

    def corrupt(self, number: int, stage: str, change: Callable[[DataFrame], DataFrame]) -> None:
        """Let a replica make something else of a stage."""
        computer = self.computers[number]
        right = computer._makers[stage]

        def make(frames: Frames) -> DataFrame:
            return change(right(frames))

        computer.define(stage, make)

    def run(self) -> Standing:
        """Until all are done, each going as far as it can when it is its turn."""
        for _ in range(TURNS):
            done = 0
            for replica in self.replicas.values():
                with suppress(WaitsError):
                    standing = replica.finish()
                    done += 1
            if done == len(self.replicas):
                return standing
        raise AssertionError(f"not done after {TURNS} turns")

    def agreed(self, stage: str) -> pa.Table:
        """What was agreed upon, read from whoever holds it."""
        standing = self.verifiers.consult()
        inputs = self.replicas[1].inputs_of(stage, standing)
        binding = Binding(self.storage, stage, inputs, FolderWitness(self._folder / "told"))
        return pa.concat_tables(
            table for number in range(self.plan.slices) for table in binding.read(number)
        )

    def events(self, number: int, event: str) -> list[dict[str, Any]]:
        lines = (self._folder / f"{number}.trace").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["event"] == event]
