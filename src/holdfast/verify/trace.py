"""What a replica did, as lines of JSON: which stage, in which run, from whose files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.protocol.verification import Agreed, Compute, Input

__all__ = ["Trace"]


class Trace:
    """Each line is on disk, for others to read, when the call returns."""

    def __init__(self, file: Path | int, clock: Callable[[], float] = time.time) -> None:
        """`file`: its number if it is open already."""
        if isinstance(file, Path):
            file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file
        self._clock = clock

    def starts(self, step: Compute) -> None:
        inputs = {parent: _inputs(slices) for parent, slices in step.inputs.items()}
        self._write("starts", step, inputs=inputs)

    def made(self, step: Compute, slices: Sequence[Agreed]) -> None:
        self._write(
            "made",
            step,
            slices=[
                {"digest": each.digest.hex(), "rows": each.rows, "path": each.holders[0].path}
                for each in slices
            ],
        )

    def dropped(self, step: Compute) -> None:
        """It was ended: what it read turned out to be wrong, or all is computed again."""
        self._write("dropped", step)

    def failed(self, step: Compute, why: str) -> None:
        self._write("failed", step, why=why)

    def _write(self, event: str, step: Compute, **more: Any) -> None:
        line = {"at": self._clock(), "event": event, "stage": step.stage, "run": list(step.run)}
        with open(self._file, "a", closefd=isinstance(self._file, Path)) as file:
            file.write(json.dumps(line | more) + "\n")


def _inputs(slices: Sequence[Input]) -> list[dict[str, Any]]:
    """What is read first of each slice; the others only if that is not what it should be."""
    return [
        {
            "replica": each.holders[0].replica,
            "path": each.holders[0].path,
            "digest": each.digest.hex(),
            "verified": each.verified,
        }
        for each in slices
    ]
