"""What tests of replicas share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.wire.parties import no_threads_left


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replicas run with a thread in the place of Spark, and leave none behind."""
    from holdfast.parties import workplace
    from holdfast.protocol import recovery
    from tests.parties.fake_query import FakeQuery, compile_fake

    # Replicas that begin together do not ask each other for long.
    monkeypatch.setattr(recovery, "ROUNDS", 1)
    monkeypatch.setattr(workplace, "StageQuery", FakeQuery)
    monkeypatch.setattr(workplace, "compile_stage", compile_fake)
    with no_threads_left():
        yield
