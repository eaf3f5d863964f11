"""Streams for people and programs: `holdfast tail` and `holdfast.read_stream`."""

from holdfast.pipeline.process.tail import newest_boundary, read_stream, tail

__all__ = ["newest_boundary", "read_stream", "tail"]
