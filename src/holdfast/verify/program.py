"""Runs a PySpark program in a replica, from boundary to boundary."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.verification import Standing
from holdfast.verify.boundaries import marking
from holdfast.verify.computing import SparkComputer
from holdfast.verify.job_files import Program
from holdfast.verify.replica import Replica

__all__ = ["run_program"]


def run_program(program: Program, replica: Replica, computer: SparkComputer) -> Standing:
    """Run it to its end, and compute what is asked for until the job is done.

    What the code does besides its boundaries, it does in every replica.
    """
    walk = _Walk(program, replica, computer)
    with marking(walk), _kept_open(computer.spark), _arguments(str(program.path)):
        runpy.run_path(str(program.path), run_name="__main__")
    walk.check_end()
    return replica.finish()


class _Walk:
    """A program on its way; see `Marker`."""

    def __init__(self, program: Program, replica: Replica, computer: SparkComputer) -> None:
        self._program = program
        self._replica = replica
        self._computer = computer
        self._marked: list[str] = []

    def mark(self, df: DataFrame, name: str) -> DataFrame:
        boundaries = self._program.boundaries
        if name in self._marked or name not in boundaries:
            raise InvalidArgumentError(
                f"{self._program.path}: boundary {name!r} is marked twice or was not announced; "
                f"mark each of these once: {', '.join(boundaries)}"
            )
        self._check_none_left_out(boundaries[: boundaries.index(name)])
        self._computer.define(name, lambda _: df)
        self._marked.append(name)
        standing = self._replica.reach(name, self._marked)
        return self._computer.open(name, self._replica.inputs_of(name, standing))

    def check_end(self) -> None:
        self._check_none_left_out(self._program.boundaries)

    def _check_none_left_out(self, before: tuple[str, ...]) -> None:
        for name in before:
            if name not in self._marked:
                raise InvalidArgumentError(
                    f"{self._program.path}: boundary {name!r} was passed by; mark all boundaries, "
                    "in the order in which they stand in the file, whatever the data"
                )


@contextmanager
def _kept_open(spark: SparkSession) -> Iterator[None]:
    """Programs stop their session in the end; it is still needed if a stage is computed again."""
    stop = spark.stop
    spark.stop = lambda: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        spark.stop = stop  # type: ignore[method-assign]


@contextmanager
def _arguments(*arguments: str) -> Iterator[None]:
    before = sys.argv
    sys.argv = list(arguments)
    try:
        yield
    finally:
        sys.argv = before
