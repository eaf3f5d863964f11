"""Streams for people and programs: `holdfast tail` and `holdfast.read_stream`."""

from holdfast.tail.reading import newest_boundary, read_stream
from holdfast.tail.show import tail

__all__ = ["newest_boundary", "read_stream", "tail"]
