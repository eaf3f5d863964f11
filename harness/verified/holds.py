"""Who waits for whom in tests, so that what is to be seen happens whoever is faster.

A replica on a busy machine may come to its stage when the others have agreed upon it, and then
never tells its lie. So the others are held until it has begun; nothing depends on seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.verified.lies import Lie, Wrong

__all__ = ["Hold", "Parts", "Seen", "hold_back", "holds_for"]

PAUSE: Final = 0.01
"""Seconds between two looks."""


@dataclass(frozen=True)
class Seen:
    """So often a replica's trace says this of a stage."""

    replica: int
    stage: str
    event: str = "starts"
    times: int = 1
    verified: bool = False
    """Whether only steps count that read nothing but what was agreed upon."""

    def is_so(self, folder: Path) -> bool:
        """`folder`: of the submission."""
        try:
            text = (folder / f"replica-{self.replica}" / "trace.jsonl").read_text()
        except FileNotFoundError:
            return False
        whole = text[: text.rfind("\n") + 1].splitlines()
        return sum(map(self._counts, map(json.loads, whole))) >= self.times

    def _counts(self, line: dict[str, Any]) -> bool:
        if (line["event"], line["stage"]) != (self.event, self.stage):
            return False
        slices = [each for parent in line.get("inputs", {}).values() for each in parent]
        return not self.verified or all(each["verified"] for each in slices)


@dataclass(frozen=True)
class Hold:
    """A replica that does not compute a stage until something was seen."""

    replica: int
    stage: str
    until: Seen


@dataclass(frozen=True)
class Parts:
    """What replicas in processes of their own are to do, as a file."""

    lies: tuple[Lie, ...]
    holds: tuple[Hold, ...]

    def write(self, path: Path) -> None:
        path.write_bytes(msgspec.json.encode(self))

    @classmethod
    def read(cls, path: Path) -> Parts:
        return msgspec.json.decode(path.read_bytes(), type=cls)


def holds_for(lies: Sequence[Lie], replicas: Iterable[int]) -> list[Hold]:
    """Let every lie be told: the others come to its stage when the liar has."""
    wrong = [lie for lie in lies if lie.wrong is not Wrong.SLOW]
    return [
        Hold(replica, lie.stage, Seen(lie.replica, lie.stage))
        for lie in wrong
        for replica in replicas
        if not any((each.replica, each.stage) == (replica, lie.stage) for each in wrong)
    ]


def hold_back(
    holds: Sequence[Hold], replica: int, stage: str, folder: Path, pause: Callable[[float], object]
) -> None:
    """Return when this replica may compute the stage. `folder`: of the submission."""
    for hold in holds:
        if (hold.replica, hold.stage) == (replica, stage):
            while not hold.until.is_so(folder):
                pause(PAUSE)
