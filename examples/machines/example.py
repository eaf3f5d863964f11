"""Alarms that survive a partition: a machine and its room, replayed; the room is cut off.

`make example NAME=machines` runs alarms.toml, each replica a process with a Spark of its own, and
replays 24 days, each in two seconds. While the link to the room's sensor is cut the alarms go on,
as tentative; when it is back they are corrected. In the end they are those of a stage beside it
whose links nobody touched.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import Any

import pyarrow as pa
from matplotlib.figure import Figure

import holdfast
from holdfast.pictures import new_picture, save_picture
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Reader, Told
from holdfast.pipeline.process.supervisor import Supervisor
from holdfast.pipeline.topology import Topology, parse_address
from holdfast.spark.sessions import SHORT_LIVED
from holdfast.transport.client import LogClient
from holdfast.transport.proxy import Proxy

HERE = Path(__file__).parent
FILES = {
    "machine": "machine_temperature_system_failure.csv",
    "room": "ambient_temperature_system_failure.csv",
}
FIRST, LAST = datetime(2014, 1, 26, tzinfo=UTC), datetime(2014, 2, 19, tzinfo=UTC)
CUT, HEAL = datetime(2014, 2, 6, tzinfo=UTC), datetime(2014, 2, 12, tzinfo=UTC)
"""When the link to the room's sensor is cut and mended, in the time of the series."""
DAY = 2_000_000
"""Microseconds that a day of the series takes."""
SCHEMA = pa.schema(
    [
        ("hall", pa.string()),
        ("sensor", pa.string()),
        ("fahrenheit", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
PATIENCE = 300.0
"""Seconds for anything to happen, on a slow machine."""
ENDS = 2
"""So often a process may end by itself: on a starved machine Spark may fail to start."""

Readings = list[tuple[datetime, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description="alarms that survive a partition")
    parser.add_argument("--folder", type=Path, default=HERE / "output", help="made anew")
    folder = parser.parse_args().folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file = folder / "alarms.toml"
    shutil.copy(HERE / "alarms.toml", file)
    outcome = run(file, print)
    print(outcome.summary())
    print(f"picture: {save_picture(draw(outcome), folder / 'machines.png')}")
    if not outcome.is_right:
        raise SystemExit(f"the alarms are not those without the cut; see the logs in {folder}")


# The series


def read_series(sensor: str) -> Readings:
    """From the first day to half a day after the last, so that the last bucket ends."""
    with (HERE / "data" / FILES[sensor]).open() as file:
        rows = [
            (datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC), float(row["value"]))
            for row in csv.DictReader(file)
        ]
    return [row for row in rows if FIRST <= row[0] < LAST + timedelta(hours=12)]


@dataclass(frozen=True)
class Pace:
    """The time of the series against that of this run, in microseconds since 1970."""

    start: int

    def replayed(self, at: datetime) -> int:
        return self.start + int((at - FIRST) / timedelta(days=1) * DAY)

    def original(self, moment: int) -> datetime:
        return FIRST + (moment - self.start) / DAY * timedelta(days=1)

    def table(self, sensor: str, readings: Readings) -> pa.Table:
        moments = [self.replayed(at) for at, _ in readings]
        columns = [["hall-1"] * len(readings), [sensor] * len(readings)]
        return pa.table([*columns, [value for _, value in readings], moments], schema=SCHEMA)


# What is seen


@dataclass
class Seen:
    """What a reader was told, and when."""

    told: list[tuple[int, Told]] = field(default_factory=list)

    def rows(self, kind: Kind) -> list[tuple[int, dict[str, Any]]]:
        """And when they came."""
        return [
            (at, row)
            for at, told in list(self.told)
            if told.kind is kind and told.rows is not None
            for row in told.rows.to_pylist()
        ]

    def has(self, kind: Kind, since: int = 0) -> bool:
        return any(told.kind is kind for at, told in list(self.told) if at >= since)

    @property
    def boundary(self) -> int:
        """Up to where there are final rows."""
        finals = [told.boundary for _, told in list(self.told) if told.kind is Kind.INSERT]
        return finals[-1] if finals else 0


@dataclass(frozen=True)
class Outcome:
    pace: Pace
    cut: tuple[int, int]
    alarms: Seen
    undisturbed: Seen
    max_delay: int

    def finals(self, seen: Seen) -> list[dict[str, Any]]:
        until = self.pace.replayed(LAST)
        rows = [row for _, row in seen.rows(Kind.INSERT)]
        return [row for row in rows if _end(row) <= until]

    @property
    def is_right(self) -> bool:
        ours = self.finals(self.alarms)
        return (
            len(ours) > 0
            and ours == self.finals(self.undisturbed)
            and self.alarms.has(Kind.TENTATIVE)
            and not self.undisturbed.has(Kind.TENTATIVE)
        )

    def summary(self) -> str:
        ours, theirs = self.finals(self.alarms), self.finals(self.undisturbed)
        tentative = [row for _, row in self.alarms.rows(Kind.TENTATIVE)]
        right = {_end(row): row["alarm"] for row in theirs}
        wrong = sum(1 for row in tentative if right.get(_end(row), row["alarm"]) != row["alarm"])
        same = "the same" if ours == theirs else "NOT the same"
        return (
            f"{len(tentative)} tentative rows while the room was cut off, {_count(tentative)} of "
            f"them alarms; {wrong} said something else than was found in the end, all were "
            "corrected\n"
            f"{len(ours)} final rows, {_count(ours)} of them alarms; without the cut: "
            f"{len(theirs)}, {_count(theirs)} alarms; {same}, to the last bit"
        )


def _count(rows: list[dict[str, Any]]) -> int:
    return sum(1 for row in rows if row["alarm"] != "well")


def _end(row: Mapping[str, Any]) -> int:
    """Of its window, in microseconds."""
    return round(row["window"]["end"].timestamp() * 1e6)


# Running


def run(file: Path, say: Callable[[str], None]) -> Outcome:
    """Start all processes, replay the series, cut and mend the link, read both stages."""
    topology = Topology.read(file)
    target = parse_address(topology.streams["room"].address)
    with ExitStack() as stack:
        links = {
            party: stack.enter_context(Proxy(target)) for party in topology.publishers("alarms")
        }
        supervisor = stack.enter_context(
            Supervisor(
                topology,
                file,
                options=["--master", "local[1]"],
                routes={name: {"room": f"127.0.0.1:{link.port}"} for name, link in links.items()},
                environment={"JDK_JAVA_OPTIONS": SHORT_LIVED},
            )
        )
        say(
            f"starting {len(supervisor.keepers)} processes, three of them with a Spark of their own"
        )
        stack.enter_context(_kept_going(supervisor))
        _wait("all replicas to be ready", lambda: _are_ready(supervisor), supervisor)
        alarms = stack.enter_context(_reading(topology, "alarms"))
        undisturbed = stack.enter_context(_reading(topology, "undisturbed"))

        pace = Pace((_now() // DAY + 2) * DAY)
        say(f"replaying {FIRST:%d %B %Y} to {LAST:%d %B}, a day in two seconds")
        stack.enter_context(_replaying(topology, pace))
        _wait("the day of the cut", lambda: _now() >= pace.replayed(CUT), supervisor)
        for link in links.values():
            link.cut()
        cut = _now()
        say(f"{pace.original(cut):%d %B}: the link to the room's sensor is cut")
        _wait("tentative alarms", lambda: alarms.has(Kind.TENTATIVE, cut), supervisor)
        say(f"{pace.original(_now()):%d %B}: alarms go on without it, tentative")
        _wait("the day of the repair", lambda: _now() >= pace.replayed(HEAL), supervisor)
        for link in links.values():
            link.heal()
        healed = _now()
        say(f"{pace.original(healed):%d %B}: the link is mended")
        _wait("corrections", lambda: alarms.has(Kind.REC_DONE, healed), supervisor)
        say(f"{pace.original(_now()):%d %B}: all tentative alarms are withdrawn and corrected")
        until = pace.replayed(LAST)
        both = (alarms, undisturbed)
        _wait("the end", lambda: all(seen.boundary >= until for seen in both), supervisor)
        max_delay = int(topology.stages["alarms"].max_delay)
        return Outcome(pace, (cut, healed), alarms, undisturbed, max_delay)


def _now() -> int:
    return time.time_ns() // 1000


def _wait(what: str, condition: Callable[[], bool], supervisor: Supervisor) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        for name, keeper in supervisor.keepers.items():
            if keeper.ended_in_a_row > ENDS:
                raise SystemExit(f"error: {name} ends by itself; {keeper.log} says why")
        if time.monotonic() > deadline:
            raise SystemExit(
                f"error: waited {PATIENCE:.0f} s for {what}; see the logs in "
                f"{supervisor.topology.state_folder / 'logs'}"
            )
        time.sleep(0.05)


def _are_ready(supervisor: Supervisor) -> bool:
    said = [keeper.status for keeper in supervisor.keepers.values()]
    return all(status is not None and status.get("ready", True) for status in said)


@contextmanager
def _running(target: Callable[[Event], None]) -> Iterator[None]:
    """A thread that is told to end, and waited for."""
    ending = Event()
    thread = Thread(target=target, args=[ending], daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


@contextmanager
def _kept_going(supervisor: Supervisor) -> Iterator[None]:
    def keep(ending: Event) -> None:
        while not ending.wait(0.5):
            supervisor.look()

    with _running(keep):
        yield


@contextmanager
def _reading(topology: Topology, stage: str) -> Iterator[Seen]:
    seen = Seen()
    with holdfast.read_stream(topology, stage, position="oldest") as reader:

        def read(ending: Event, reader: Reader = reader) -> None:
            while not ending.is_set():
                told = reader.next(0.2)
                if told is not None:
                    seen.told.append((_now(), told))

        with _running(read):
            yield seen


@contextmanager
def _replaying(topology: Topology, pace: Pace) -> Iterator[None]:
    """Push what each sensor has measured by now, ten times a second."""
    left = {sensor: read_series(sensor) for sensor in FILES}

    def replay(ending: Event) -> None:
        with ExitStack() as stack:
            clients = {
                sensor: stack.enter_context(LogClient(topology.streams[sensor].address))
                for sensor in FILES
            }
            while not ending.wait(0.1):
                now = _now()
                for sensor, client in clients.items():
                    count = sum(1 for at, _ in left[sensor] if pace.replayed(at) <= now)
                    if count:
                        client.push(sensor, pace.table(sensor, left[sensor][:count]))
                        left[sensor] = left[sensor][count:]

    with _running(replay):
        yield


# The picture


GREEN, YELLOW, RED, BLUE, BROWN = "#2e7d32", "#f9a825", "#c62828", "#1565c0", "#5d4037"
LIMITS = {"runs hot": 26, "stands still": -5}
"""As alarms.toml has them."""


def draw(outcome: Outcome) -> Figure:
    figure = new_picture(11, 8)
    series, above, delays = axes = figure.subplots(
        3, 1, sharex=True, gridspec_kw={"height_ratios": [3, 4, 2]}
    )
    for axis in axes:
        axis.axvspan(*map(outcome.pace.original, outcome.cut), color=RED, alpha=0.08, lw=0)
        axis.grid(alpha=0.3)
    _draw_series(series, outcome)
    _draw_above(above, outcome)
    _draw_delays(delays, outcome)
    delays.set_xlim(FIRST, LAST)
    title = "Alarms of a machine, while the sensor of its room is cut off"
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def _draw_series(axis: Any, outcome: Outcome) -> None:
    for sensor, colour in (("machine", BROWN), ("room", BLUE)):
        at, values = zip(*read_series(sensor), strict=True)
        axis.plot(at, values, lw=0.8, color=colour, label=sensor)
    middle = outcome.pace.original(sum(outcome.cut) // 2)
    axis.text(middle, 112, "link to the room cut", ha="center", fontsize=9, color=RED)
    axis.set_ylabel("°F, measured")
    axis.set_ylim(20, 122)
    axis.legend(loc="lower left", ncols=2, fontsize=8)


def _draw_above(axis: Any, outcome: Outcome) -> None:
    def points(rows: list[dict[str, Any]]) -> tuple[list[datetime], list[float]]:
        return [outcome.pace.original(_end(row)) for row in rows], [row["above"] for row in rows]

    tentative = [row for _, row in outcome.alarms.rows(Kind.TENTATIVE)]
    label = "tentative: in time, without the room"
    axis.plot(*points(tentative), "s", ms=6, color=YELLOW, label=label)
    axis.plot(*points(outcome.finals(outcome.alarms)), "s", ms=3.5, color=GREEN, label="final")
    label = "final, of the stage that nobody disturbed"
    axis.plot(*points(outcome.finals(outcome.undisturbed)), lw=1, color="black", label=label)
    for name, limit in LIMITS.items():
        axis.axhline(limit, color=RED, ls="--", lw=1)
        across = axis.get_yaxis_transform()
        style = {"ha": "right", "va": "bottom", "fontsize": 8, "color": RED}
        axis.annotate(name, (0.995, limit), xycoords=across, **style)
    axis.set_ylabel("°F above the room,\nmean of a day")
    axis.legend(loc="lower left", fontsize=8)


def _draw_delays(axis: Any, outcome: Outcome) -> None:
    """How long after its end a window was first shown, as whatever."""
    shown: dict[int, tuple[int, str]] = {}
    for kind, colour in ((Kind.TENTATIVE, YELLOW), (Kind.INSERT, GREEN)):
        for at, row in outcome.alarms.rows(kind):
            if _end(row) not in shown or at < shown[_end(row)][0]:
                shown[_end(row)] = (at, colour)
    for colour in (GREEN, YELLOW):
        late = [(end, at - end) for end, (at, of) in shown.items() if of == colour]
        times = [outcome.pace.original(end) for end, _ in late]
        axis.plot(times, [delay / 1e6 for _, delay in late], "s", ms=3.5, color=colour)
    usual = median(at - end for end, (at, _) in shown.items() if at < outcome.cut[0])
    limit = (usual + outcome.max_delay) / 1e6
    axis.axhline(limit, color="#52606d", ls="--", lw=1)
    style = {"va": "bottom", "fontsize": 8, "color": "#52606d"}
    across = axis.get_yaxis_transform()
    axis.annotate("max_delay more than usual", (0.005, limit), xycoords=across, **style)
    axis.set_ylim(0, None)
    axis.set_ylabel("first shown after\nits end, s")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
