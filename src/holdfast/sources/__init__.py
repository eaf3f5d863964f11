"""What brings rows into streams: files, Spark's rate source, simulated sensors, MQTT,
the root of an edge.

`open_source` makes the driver of one; it brings rows to a `holdfast.parties.source.SourceParty`.
"""

from holdfast.sources.columns import arrow_schema
from holdfast.sources.opening import open_source

__all__ = ["arrow_schema", "open_source"]
