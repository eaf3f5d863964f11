"""What tests of replicas share."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.wire.parties import no_threads_left


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replicas run with a thread in the place of Spark, and leave none behind."""
    from holdfast.parties import replica
    from holdfast.protocol import node
    from tests.parties.fake_query import PUBLISHED, FakeQuery

    # Replicas that begin together do not ask each other for long.
    monkeypatch.setattr(node, "ROUNDS", 1)
    monkeypatch.setattr(replica, "StageQuery", FakeQuery)
    monkeypatch.setattr(replica, "compile_stage", lambda *_: SimpleNamespace(published=PUBLISHED))
    with no_threads_left():
        yield
