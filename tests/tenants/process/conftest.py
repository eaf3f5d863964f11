"""One Spark session for all tests of a process."""

from __future__ import annotations

from tests.spark.conftest import spark  # noqa: F401
