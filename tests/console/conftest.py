"""Fixtures that the tests of the console share with those of the parties."""

from tests.pipeline.process.conftest import no_spark

__all__ = ["no_spark"]
