"""Files, a source and a sink, killed where it hurts: each row is in the store once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from holdfast.pipeline.sinks import open_sink
from holdfast.pipeline.topology import Files, Sink
from tests.pipeline.sinks.contents import OUTPUTS, values_in
from tests.pipeline.sources.processes import python, save
from tests.pipeline.sources.rig import alone, party_of, running, wait_for

COUNT = 1200

RUN = """
import os, signal, sys
from threading import Event
import holdfast.pipeline.sinks.outlets as outlets
from holdfast.pipeline.process.reader import Reader
from holdfast.pipeline.sinks import open_sink
from holdfast.pipeline.sources import open_source
from holdfast.pipeline.topology import Topology
from tests.pipeline.sources.rig import party_of

outlets.AT_ONCE, outlets.WAITING = 100, 0.1
point, calls = sys.argv[2], int(sys.argv[3])

def deadly(function):
    def call(*arguments, **named):
        global calls
        calls -= 1
        if calls <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **named)
    return call

match point:
    case "parquet before":
        import holdfast.pipeline.sinks.parquet as parquet
        parquet.publish = deadly(parquet.publish)
    case "delta before":
        import deltalake
        deltalake.write_deltalake = deadly(deltalake.write_deltalake)
    case "sql before" | "sql with keys before":
        from holdfast.pipeline.sinks.sql import SqlStore
        SqlStore._note = deadly(SqlStore._note)
    case "source":
        from holdfast.pipeline.process.source import SourceParty
        SourceParty.take = deadly(SourceParty.take)
    case _:
        Reader.acknowledge = deadly(Reader.acknowledge)

topology = Topology.read(sys.argv[1])
with party_of(topology) as party:
    open_source(topology, "readings", party).start()
    open_sink(topology, "sink").start()
    Event().wait()
"""


@pytest.mark.parametrize("kind", OUTPUTS)
def test_each_row_is_stored_once_over_kills(tmp_path: Path, kind: str) -> None:
    (tmp_path / "in").mkdir()
    for number in range(4):
        first = COUNT // 4 * number
        rows = pa.table({"n": range(first, first + COUNT // 4)})
        pa.csv.write_csv(rows, tmp_path / "in" / f"{number}.csv")
    source = Files(path="in", format="csv", schema={"n": "bigint"}, pace=2000, follow=False)
    topology = alone(tmp_path, source, sinks={"sink": Sink(stream="readings", sink=OUTPUTS[kind])})
    path = save(topology)
    seen = 0
    # In the source; in the sink before rows are safe; and after that, before the source hears it.
    for point, calls in (("source", 3), (f"{kind} before", 1), (f"{kind} after", 1)):
        with python(RUN, path, point, calls) as process:
            assert process.wait(60) == -9
        found = values_in(kind, tmp_path)
        assert found == list(range(len(found)))
        assert seen <= len(found) <= COUNT
        seen = len(found)
    assert seen > 0
    with party_of(topology) as party, running(topology, party) as driver:
        sink = open_sink(topology, "sink")
        sink.start()
        wait_for(driver.ended.is_set)
        wait_for(lambda: len(values_in(kind, tmp_path)) >= COUNT or sink.failure, 30)
        sink.stop()
        assert (driver.failure, sink.failure) == (None, None)
    assert values_in(kind, tmp_path) == list(range(COUNT))
