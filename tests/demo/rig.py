"""Answers as the client of the demonstration gets them, and a pipeline that plays a part."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from holdfast.demo.answers import Answer, Answers
from holdfast.demo.calculation import make_topology
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Told
from holdfast.pipeline.process.supervisor import Keeper

__all__ = ["Actor", "answer", "told"]

TIME = pa.timestamp("us", "UTC")
SECOND = 1_000_000


def answer(end: int, total: int = 5) -> Answer:
    """Of one sensor, for a window that ends at a second."""
    return Answer(end * SECOND, "sensor-0", 2, total)


def told(kind: Kind, boundary: int, *answers: Answer) -> Told:
    """As a reader tells it."""
    if not answers:
        return Told(kind, boundary)
    ends = pa.array([each.end for each in answers], pa.int64()).cast(TIME)
    rows = {
        "stime": ends,
        "sensor": [each.sensor for each in answers],
        "window": pa.StructArray.from_arrays([ends, ends], ["start", "end"]),
        "n": [each.n for each in answers],
        "total": [each.total for each in answers],
    }
    return Told(kind, boundary, pa.table(rows))


class Actor:
    """A pipeline in which all that is done has its effect at once. It has a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.topology = make_topology(folder)
        self.answers = Answers()
        self.states: list[tuple[int, dict[str, State]]] = []
        self.keepers: dict[str, Keeper] = {}
        self.logs = folder
        self.replicas = ["clean/1", "clean/2", "sums/1", "sums/2"]
        self.read_from = "sums/1"
        self.done: list[str] = []
        self.wrong: list[Answer] = []
        self.comes_back = True
        self._seconds = 1000
        """Up to where there are final answers."""
        self._right: list[Answer] = []

    def now(self) -> int:
        """Each answer takes half a second to come."""
        return self._seconds * SECOND + SECOND // 2

    def start(self) -> None:
        self.done.append("start")

    def is_ready(self) -> bool:
        return True

    def open_sources(self) -> None:
        self.done.append("open sources")
        self.look()
        self._publish()

    def close(self) -> None:
        self.done.append("close")

    def look(self, **states: State) -> None:
        """Note how the replicas are; names with an underscore for the slash."""
        given = {name.replace("_", "/"): state for name, state in states.items()}
        self.states.append((self.now(), dict.fromkeys(self.replicas, State.STABLE) | given))

    def is_stable(self) -> bool:
        return all(state is State.STABLE for state in self.states[-1][1].values())

    def check(self) -> None:
        """Time goes by: another second of answers."""
        self._publish()

    def kill(self, name: str) -> None:
        self.done.append(f"kill {name}")
        self.look(sums_1=State.FAILURE)
        self.read_from = "sums/2"
        self._publish()

    def cut(self) -> None:
        self.done.append("cut")
        self.look(clean_1=State.UP_FAILURE, sums_1=State.FAILURE)
        for ahead in range(6):
            end = self._seconds + ahead
            self._tell(Kind.TENTATIVE, end, answer(end, total=1))

    def heal(self) -> None:
        self.done.append("heal")
        self._tell(Kind.UNDO, self._seconds)
        for _ in range(6):
            self._publish()
        self._tell(Kind.REC_DONE, self._seconds)
        self.look(**({} if self.comes_back else {"sums_1": State.FAILURE}))

    def right_answers(self, until: int) -> list[Answer]:
        return [each for each in self._right if each.end <= until] + self.wrong

    def _publish(self) -> None:
        self._seconds += 1
        final = answer(self._seconds)
        self._right.append(final)
        self._tell(Kind.INSERT, self._seconds, final)

    def _tell(self, kind: Kind, seconds: int, *answers: Answer) -> None:
        self.answers.take(self.now(), told(kind, seconds * SECOND, *answers))
