"""A PySpark program in a replica, from boundary to boundary.

What a program has read of a boundary may turn out to be wrong later, if the mode lets it go on.
Then the program begins again from its first line. Boundaries that are agreed upon are not computed
then: they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import InvalidArgumentError, RefusedWriteError
from holdfast.verify.machine import JobState, Standing
from holdfast.verify.process.boundaries import Marker, Target, marking, target_of
from holdfast.verify.process.computing import SparkComputer
from holdfast.verify.process.job_files import SOURCES, WRITES, Program, run_code
from holdfast.verify.process.pinned_files import CODE, PROGRAM, PinnedFiles
from holdfast.verify.process.reads import Reads, reads_checked
from holdfast.verify.process.refusing import writes_refused
from holdfast.verify.process.replica import Replica
from holdfast.verify.process.submission import Orders


def run_program(
    program: Program,
    replica: Replica,
    computer: SparkComputer,
    orders: Orders | None = None,
    pinned: PinnedFiles | None = None,
) -> Standing:
    """Until the job is done. What the code does besides its boundaries, it does in every replica,
    and again if it begins again.

    `orders`: of the replica, with the program's arguments and the files that it may read. `pinned`:
    of the process, if it has checked files before.
    """
    reads = None if orders is None else _Reads(program, orders, pinned or PinnedFiles())
    while True:
        walk = _Walk(program, replica, computer, reads)
        try:
            arguments = orders.arguments if orders is not None else ()
            with reads_checked(reads) if reads is not None else nullcontext():
                run_marked(program, walk, computer.spark, arguments)
            return walk.finish()
        except _StaleError:
            continue


def run_marked(
    program: Program, marker: Marker, spark: SparkSession, arguments: Sequence[str]
) -> None:
    """Once, from its first line to its last. Raises RefusedWriteError if it writes."""
    with marking(marker), _kept_open(spark), writes_refused(str(program.path)) as refused:
        _run(program, arguments)
    if refused:
        raise RefusedWriteError(refused[0])


def _run(program: Program, arguments: Sequence[str]) -> None:
    """To its end, which may be a call of `sys.exit`."""
    try:
        run_code(program.path, program.code, "__main__", arguments)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise InvalidArgumentError(
                f"{program.path}: has ended itself with {end.code!r}; see what it said before, and "
                "let it end with 0 when all is well"
            ) from None


class _Reads(Reads):
    """Of a program, and of the code that it imports."""

    def __init__(self, program: Program, orders: Orders, pinned: PinnedFiles) -> None:
        self._all_pinned = pinned
        self._code = orders.sources.get(CODE, ())
        super().__init__(
            str(program.path),
            PROGRAM,
            orders.sources.get(PROGRAM, ()),
            pinned,
            f"{SOURCES} does not list; write {SOURCES} = [...] with all files that are read at "
            "the top of the file",
        )

    def check(self, df: DataFrame | None = None) -> None:
        # Tasks import it again.
        self._all_pinned.check(CODE, self._code)
        super().check(df)


class _StaleError(BaseException):
    """The program has gone on from something that is not so. It must not catch this itself."""


class _Walk:
    """A program on its way; see `Marker`."""

    def __init__(
        self, program: Program, replica: Replica, computer: SparkComputer, reads: _Reads | None
    ) -> None:
        self._program = program
        self._reads = reads
        self._replica = replica
        self._computer = computer
        self._passed: dict[str, list[bytes]] = {}
        """The digests of what the program was given of each boundary."""

    def mark(self, df: DataFrame, name: str) -> DataFrame:
        boundaries = self._program.boundaries
        if name in self._passed or name not in boundaries:
            raise InvalidArgumentError(
                f"{self._program.path}: boundary {name!r} is marked twice or was not announced; "
                f"mark each of these once: {', '.join(boundaries)}"
            )
        self._check_all_passed(boundaries[: boundaries.index(name)])
        check = None
        if self._reads is not None:
            self._reads.raise_failure()
            self._reads.note(df)
            check = partial(self._reads.check, df)
        self._computer.define(name, lambda _: df, check)

        def is_enough(standing: Standing) -> bool:
            self._check_fresh(standing)
            return self._replica.may_pass(name, standing)

        standing = self._replica.work([name], is_enough)
        inputs = self._replica.inputs_of(name, standing)
        self._passed[name] = [each.digest for each in inputs]
        return self._computer.open(name, inputs)

    def write(self, df: DataFrame, name: str, target: Target) -> None:
        if name not in self._program.writes:
            raise InvalidArgumentError(
                f"{self._program.path}: the write {name!r} was not announced; list it in {WRITES}"
            )
        row = [(target.encode(),)]
        self.mark(df, name)
        self.mark(self._computer.spark.createDataFrame(row, "target STRING"), target_of(name))

    def finish(self) -> Standing:
        """The program has come to its end: wait until the job is done."""
        self._check_all_passed(self._program.boundaries)

        def is_enough(standing: Standing) -> bool:
            is_done = standing.state is JobState.DONE
            if not is_done:
                self._check_fresh(standing)
            return is_done

        return self._replica.work([], is_enough)

    def _check_fresh(self, standing: Standing) -> None:
        for name, digests in self._passed.items():
            if not self._replica.may_pass(name, standing) or digests != [
                each.digest for each in self._replica.inputs_of(name, standing)
            ]:
                raise _StaleError

    def _check_all_passed(self, boundaries: tuple[str, ...]) -> None:
        for name in boundaries:
            if name not in self._passed:
                raise InvalidArgumentError(
                    f"{self._program.path}: boundary {name!r} was passed by; mark all boundaries, "
                    "in the order in which they stand in the file, whatever the data"
                )


@contextmanager
def _kept_open(spark: SparkSession) -> Iterator[None]:
    """Programs stop their session in the end; it is still needed if they begin again."""
    stop = spark.stop
    spark.stop = lambda: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        spark.stop = stop  # type: ignore[method-assign]
