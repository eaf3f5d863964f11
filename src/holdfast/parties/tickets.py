"""Reading a piece of a log at once, by ticket: what batch readers of a stream use."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import pyarrow as pa

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.line import Line

__all__ = ["LogTicket", "read_log"]


@dataclass(frozen=True, slots=True)
class LogTicket:
    """The final rows of a stream from one boundary to another."""

    stream: str
    start: int
    end: int

    def write(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def read(ticket: bytes) -> LogTicket:
        try:
            asked = LogTicket(**json.loads(ticket))
            if not isinstance(asked.stream, str) or not all(
                type(each) is int for each in (asked.start, asked.end)
            ):
                raise TypeError("of other types")
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidArgumentError(
                f"ticket: cannot be read ({type(error).__name__}); give a stream, start and end"
            ) from None
        return asked


def read_log(line: Line, asked: LogTicket, schema: pa.Schema) -> pa.RecordBatchReader:
    """The rows of whole segments in that stretch, one batch after the other."""
    if asked.start < line.dropped_before or asked.end > line.end:
        raise InvalidArgumentError(
            f"ticket: asks for {asked.start} to {asked.end}; {line.stream} is kept from "
            f"{line.dropped_before} to {line.end}"
        )
    chunks = [
        row.value
        for segment in list(line.segments.since(asked.start))
        for row in segment.rows
        if asked.start <= row.stime < asked.end
    ]
    batches = (batch for chunk in chunks for batch in chunk.table().to_batches())
    return pa.RecordBatchReader.from_batches(schema, batches)
