"""What tests of replicas share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.transport.parties import no_threads_left


@contextmanager
def without_spark(patches: pytest.MonkeyPatch) -> Iterator[None]:
    """Replicas run with a thread in the place of Spark, and leave none behind."""
    from holdfast.pipeline.process import replica_host as workplace
    from tests.pipeline.process.fake_query import FakeQuery, compile_fake

    patches.setattr(workplace, "StageQuery", FakeQuery)
    patches.setattr(workplace, "compile_stage", compile_fake)
    with no_threads_left():
        yield


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with without_spark(monkeypatch):
        yield
