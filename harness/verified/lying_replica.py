"""A replica on Spark that lies: `python -m harness.verified.lying_replica PARTS FOLDER`.

It is `holdfast.verify.process.replica_process` with a witness and a computer that do wrong what
the file PARTS says of this replica. FOLDER is that of the submission.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from harness.verified.holds import Hold, Parts, hold_back
from harness.verified.lies import Lie, LyingWitness, Wrong, fill, is_time, reach_of, rewrite_source
from holdfast.verify.machine import Agreed, Compute
from holdfast.verify.process import replica_process
from holdfast.verify.process.computing import Frames, SparkComputer
from holdfast.verify.process.pinned_files import PinnedFiles
from holdfast.verify.process.replica import Trace
from holdfast.verify.process.submission import Orders

__all__ = ["main"]

SLOW: Final = 10.0
"""Seconds that a slow replica takes longer."""


class _LyingComputer(SparkComputer):
    lies: tuple[Lie, ...] = ()
    holds: tuple[Hold, ...] = ()
    home = Path()
    sources: tuple[Path, ...] = ()

    def compute(self, step: Compute) -> tuple[Agreed, ...]:
        hold_back(self.holds, self._replica, step.stage, self.home.parent, time.sleep)
        lies = [lie for lie in self.lies if lie.stage == step.stage and is_time(lie, self.home)]
        for lie in lies:
            self._misbehave(lie.wrong)
        spoiling = {lie.wrong for lie in lies} & {Wrong.VALUE, Wrong.COUNT}
        if not spoiling:
            return super().compute(step)
        right = self._makers[step.stage]
        teller = 0 if any(lie.alike for lie in lies) else self._replica

        def make(frames: Frames) -> DataFrame:
            return _spoil(right(frames), spoiling, teller)

        self.define(step.stage, make)
        try:
            return super().compute(step)
        finally:
            self.define(step.stage, right)

    def _misbehave(self, wrong: Wrong) -> None:
        match wrong:
            case Wrong.CRASH:
                os.kill(os.getpid(), signal.SIGKILL)
            case Wrong.FILL:
                fill(str(self._writes), self._job, self._replica)
                Event().wait()
            case Wrong.HANG:
                Event().wait()
            case Wrong.SLOW:
                Event().wait(SLOW)
            case Wrong.SOURCE:
                for path in self.sources:
                    # Of what is compressed, other numbers have another size.
                    if path.suffix == ".csv":
                        rewrite_source(path)


def _spoil(df: DataFrame, lies: set[Wrong], teller: int) -> DataFrame:
    """Another last number, or rows too many."""
    if Wrong.VALUE in lies:
        name, kind = [
            (each.name, each.dataType) for each in df.schema if each.dataType.typeName() in _NUMBERS
        ][-1]
        df = df.withColumn(name, (F.col(name) + 1 + teller).cast(kind))
    if Wrong.COUNT in lies:
        df = df.unionAll(df.limit(1 + teller))
    return df


_NUMBERS: Final = ("byte", "short", "integer", "long", "float", "double", "decimal")


def run_liar(parts: Parts, folder: Path, orders: Orders, trace: Trace) -> None:
    lies = tuple(lie for lie in parts.lies if lie.replica == orders.replica)
    _LyingComputer.lies = lies
    _LyingComputer.holds = parts.holds
    _LyingComputer.home = folder / f"replica-{orders.replica}"
    _LyingComputer.sources = tuple(
        Path(file.path) for files in orders.sources.values() for file in files
    )
    if any(lie.wrong is Wrong.SOURCE for lie in lies):
        unchecked: Any = PinnedFiles
        unchecked.check = lambda *_: None
    process: Any = replica_process
    process.SparkComputer = _LyingComputer
    process.Witness = partial(
        LyingWitness, lies=lies, storage=orders.storage, reach=reach_of(orders)
    )
    replica_process.run_replica(orders, trace)


def main(arguments: list[str]) -> None:
    parts, folder = map(Path, arguments)
    replica_process.main([], partial(run_liar, Parts.read(parts), folder))


if __name__ == "__main__":
    main(sys.argv[1:])
