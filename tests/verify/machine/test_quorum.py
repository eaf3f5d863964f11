from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.verify.machine import Model, Quorum


@pytest.mark.parametrize(
    ("model", "faults", "replicas", "needed", "credible"),
    [
        (Model.CRASH, 1, 2, 1, 1),
        (Model.CRASH, 2, 3, 1, 1),
        (Model.BYZANTINE, 1, 4, 3, 2),
        (Model.BYZANTINE, 2, 7, 5, 3),
    ],
)
def test_sizes(model: Model, faults: int, replicas: int, needed: int, credible: int) -> None:
    quorum = Quorum(model, faults)
    assert (quorum.replicas, quorum.needed, quorum.credible) == (replicas, needed, credible)
    assert list(quorum.numbers) == list(range(1, replicas + 1))


def test_at_least_one_fault() -> None:
    with pytest.raises(InvalidArgumentError, match="faults"):
        Quorum(Model.CRASH, 0)
