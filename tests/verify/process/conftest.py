"""The Spark session of the other tests."""

from tests.spark.conftest import spark

__all__ = ["spark"]
