"""Where streams go: Parquet files, Delta tables, databases, the console, functions.

`open_sink` makes the driver of one; it reads with a `holdfast.parties.reader.Reader`.
"""

from holdfast.sinks.opening import open_sink, reader_of

__all__ = ["open_sink", "reader_of"]
