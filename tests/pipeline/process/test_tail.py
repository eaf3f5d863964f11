"""`holdfast tail`, and streams for programs."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from holdfast.errors import InvalidArgumentError, UnreachableError
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Reader, Told
from holdfast.pipeline.process.tail import Lines, newest_boundary, read_stream, tail
from holdfast.pipeline.topology import Topology
from tests.pipeline.sources.processes import save
from tests.pipeline.sources.publisher import Publisher
from tests.pipeline.sources.rig import alone, wait_for


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    return alone(tmp_path)


@pytest.fixture
def publisher(topology: Topology) -> Iterator[Publisher]:
    with Publisher(topology.streams["readings"].address, ["keeper"]) as publisher:
        yield publisher


@contextmanager
def tailing(run: Callable[[Console], None]) -> Iterator[Callable[[], list[str]]]:
    """Runs until it ends by itself; answers the lines printed so far."""
    out = io.StringIO()
    thread = threading.Thread(target=run, args=[Console(file=out, width=200)])
    thread.start()
    yield lambda: out.getvalue().splitlines()
    thread.join(20)
    assert not thread.is_alive()


def test_rows_are_shown_as_they_come(topology: Topology, publisher: Publisher) -> None:
    publisher.publish(0, 10, [0.0])

    def run(console: Console) -> None:
        tail(topology, "readings", console, rows=4)

    with tailing(run) as lines:
        wait_for(lambda: publisher.server.parties)
        publisher.publish(10, 20, [1.0])
        wait_for(lambda: len(lines()) == 1)
        publisher.preview(20, 30, [2.0, 3.0])
        wait_for(lambda: len(lines()) == 3)
        publisher.publish(20, 30, [4.0, 5.0])
    assert [line.split()[0] for line in lines()] == [
        "final",
        "tentative",
        "tentative",
        "UNDO",
        "final",
    ]
    assert lines()[0] == "final      1970-01-01T00:00:00.000010Z  sensor=a  value=1.0"
    assert "2 rows are withdrawn, back to 1970-01-01T00:00:00.000020Z" in lines()[3]


def test_final_rows_only(topology: Topology, publisher: Publisher) -> None:
    publisher.publish(0, 10, [0.0])
    publisher.preview(10, 20, [1.0])

    def run(console: Console) -> None:
        tail(topology, "readings", console, stable=True, start=True, rows=2)

    with tailing(run) as lines:
        wait_for(lambda: len(lines()) == 1)
        publisher.publish(10, 20, [2.0, 3.0])
    assert [line.split()[0] for line in lines()] == ["final", "final"]
    assert "value=2.0" in lines()[1]


def test_control_c_ends_it(
    topology: Topology, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Reader, "next", interrupted)
    out = io.StringIO()
    tail(topology, "readings", Console(file=out))
    assert out.getvalue() == "ended\n"


def test_a_program_reads_a_stream(topology: Topology, publisher: Publisher) -> None:
    for start in range(0, 30, 10):
        publisher.publish(start, start + 10, [start])
    path = save(topology)
    for position, wanted in (("oldest", [10, 20, 30]), (10, [20, 30]), (20, [30])):
        with read_stream(path, "readings", position=position) as reader:
            heard = [reader.next(20) for _ in wanted]
            assert [told and told.boundary for told in heard] == wanted
    with read_stream(topology, "readings", tentative=False) as reader:
        publisher.publish(30, 40, [30])
        told = reader.next(20)
        assert told is not None
        assert told.boundary == 40


def test_the_newest_boundary_is_asked_for(topology: Topology, publisher: Publisher) -> None:
    publisher.publish(0, 10, [])
    assert newest_boundary(topology, "readings") == 10


def test_nobody_answers(topology: Topology) -> None:
    with pytest.raises(UnreachableError, match="nobody who publishes readings answers"):
        read_stream(topology, "readings")


def test_mistakes_are_named(topology: Topology) -> None:
    with pytest.raises(InvalidArgumentError, match=r"there is no 'reading'.*did you mean"):
        read_stream(topology, "reading")
    with pytest.raises(InvalidArgumentError, match="give 'newest', 'oldest' or a boundary"):
        read_stream(topology, "readings", position="now")


def test_values_are_printed_on_one_line() -> None:
    out = io.StringIO()
    table = pa.table(
        {
            "stime": pa.array([1], pa.timestamp("us", "UTC")),
            "text": ["[bold]two\nlines\x1b[31m"],
            "none": pa.nulls(1),
            "window": [{"start": 1, "parts": [1, None]}],
        }
    )
    lines = Lines(Console(file=out, width=20))
    lines.show(Told(Kind.INSERT, 10, table))
    lines.show(Told(Kind.INSERT, 20, None))
    lines.show(Told(Kind.INSERT, 30, table.slice(0, 0)))
    lines.skip(0, 10)
    first, gap = out.getvalue().splitlines()
    assert first == (
        "final      1970-01-01T00:00:00.000001Z  text='[bold]two\\nlines\\x1b[31m'  none=null  "
        "window={start=1, parts=[1, null]}"
    )
    assert gap.startswith("gap ")
    assert lines.rows == 1
