"""Sources: files, Spark's rate source, simulated sensors, MQTT, the edge.

`open_source` makes the driver of one; it brings rows to a `SourceParty` (`pipeline.process`).
"""

from holdfast.pipeline.sources.inlets import arrow_schema
from holdfast.pipeline.sources.opening import open_source

__all__ = ["arrow_schema", "open_source"]
