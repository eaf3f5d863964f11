"""Sinks: Parquet files, Delta tables, databases, the console, functions.

`open_sink` makes the driver of one; it reads with a `holdfast.pipeline.process.reader.Reader`.
"""

from holdfast.pipeline.sinks.opening import open_sink, reader_of

__all__ = ["open_sink", "reader_of"]
