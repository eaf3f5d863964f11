"""Streams of a topology as a source of Spark: `spark.readStream.format("holdfast")`.

    spark.dataSource.register(HoldfastSource)
    rows = spark.readStream.format("holdfast").options(topology="fleet.toml", stream="clean").load()

Offsets are boundaries: the rows between two of them are final, so a batch that is run again reads
the same. Executors get them from any of those who publish the stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField, StructType, TimestampType

from holdfast.errors import InvalidArgumentError, RefusedError, UnreachableError, WireError
from holdfast.pipeline.machine.tuples import STIME
from holdfast.pipeline.process.replica_config import addresses_of, security_of
from holdfast.pipeline.process.service import LogTicket
from holdfast.pipeline.process.tail import newest_of, parts_of, statuses
from holdfast.pipeline.sources import arrow_schema
from holdfast.pipeline.topology import Topology
from holdfast.transport.client import LogClient
from holdfast.transport.security import Security

NAME: Final = "holdfast"
TIME: Final = StructField(STIME, TimestampType(), nullable=False)
BUCKETS: Final = 256
"""So many of them go into one partition at most."""
PARTITIONS: Final = 256
"""So many partitions go into one batch at most."""
PATIENCE: Final = 60.0
"""Seconds for a partition to be fetched."""


class HoldfastSource(DataSource):
    """Options: `topology`, the path of its file; `stream`; `start`, `newest` (the default) or
    `oldest`: where a new query begins."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """A source's columns are in the topology; those who publish a stage know what it makes."""
        topology, stream = self._asked()
        if stream in topology.streams:
            own = arrow_schema(topology.streams[stream])
            return StructType([TIME, *from_arrow_schema(own).fields])
        return from_arrow_schema(_schema_of_stage(topology, stream))

    def streamReader(self, schema: StructType) -> HoldfastReader:  # noqa: N802
        topology, stream = self._asked()
        start = self.options.get("start", "newest")
        if start not in ("newest", "oldest"):
            raise InvalidArgumentError(f"start: is {start!r}; give 'newest' or 'oldest'")
        return HoldfastReader(topology, stream, schema, start)

    def _asked(self) -> tuple[Topology, str]:
        missing = [name for name in ("topology", "stream") if name not in self.options]
        if missing:
            raise InvalidArgumentError(
                f"{' and '.join(missing)}: missing; add .option({missing[0]!r}, ...)"
            )
        topology, stream = Topology.read(self.options["topology"]), self.options["stream"]
        topology.publishers(stream)
        return topology, stream


class HoldfastReader(DataSourceStreamReader):
    """Knows all that it needs, so that executors need no file of the topology."""

    def __init__(self, topology: Topology, stream: str, schema: StructType, start: str) -> None:
        self.stream = stream
        self.start = start
        self.size = int(topology.bucket)
        self.addresses = addresses_of(topology, topology.publishers(stream))
        self.seats = tuple(topology.seats(stream))
        self.security = security_of(topology)
        self.arrow = to_arrow_schema(schema, timezone="UTC")

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        told = statuses(self.stream, self.addresses, self.security)
        if self.start == "newest":
            return {"boundary": self._newest(told)}
        if not self.seats:
            return {"boundary": min(int(status["start"]) for status in told.values())}
        # Nothing can be read of which a part is missing.
        starts = [[part["start"] for part in parts_of(told, seat)] for seat in self.seats]
        return {"boundary": max(min(each, default=0) for each in starts)}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        try:
            told = statuses(self.stream, self.addresses, self.security)
        except UnreachableError:
            # They will be back.
            return start
        return {"boundary": max(start["boundary"], self._newest(told))}

    def _newest(self, told: Mapping[str, Mapping[str, Any]]) -> int:
        if self.seats:
            return newest_of(told, self.seats)
        return max(int(status["boundary"]) for status in told.values())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        # A stream begins in 1970, its rows much later: all that is old goes into the first.
        first, last, span = start["boundary"], end["boundary"], BUCKETS * self.size
        begun = max(first + span, last - (PARTITIONS - 1) * span)
        edges = [first, *range(begun, last, span), last]
        return [InputPartition(stretch) for stretch in pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        first, last = partition.value
        parts = [
            _fetch(LogTicket(part, first, last), self.addresses, self.security)
            for part in self.seats or (self.stream,)
        ]
        table = pa.concat_tables(parts)
        columns = [table[field.name].cast(field.type) for field in self.arrow]
        yield from pa.table(columns, schema=self.arrow).to_batches()


def _fetch(ticket: LogTicket, addresses: Mapping[str, str], security: Security | None) -> pa.Table:
    """From the first one who has all of it."""
    said = []
    for name, address in addresses.items():
        try:
            with LogClient(address, security, timeout=PATIENCE) as client:
                return client.fetch(ticket.write())
        except WireError as error:
            said.append(f"{name}: {error}")
    raise RefusedError(
        f"nobody has {ticket.stream} from {ticket.start} to {ticket.end} ({'; '.join(said)}); "
        "let retain be longer, or begin with a new checkpoint"
    )


def _schema_of_stage(topology: Topology, stream: str) -> pa.Schema:
    said = []
    security = security_of(topology)
    for name, address in addresses_of(topology, topology.publishers(stream)).items():
        try:
            with LogClient(address, security, timeout=PATIENCE) as client:
                return client.streams()[stream]
        except WireError as error:
            said.append(f"{name}: {error}")
    raise UnreachableError(
        f"nobody who publishes {stream} says what columns it has ({'; '.join(said)}); start its "
        "replicas, or give the columns with .schema(...)"
    )
