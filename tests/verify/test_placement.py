from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.verify.config import Pool
from holdfast.verify.placement import HERE, plan_placement

POOLS = [Pool(name=f"p{n}", hosts=(f"a{n}", f"b{n}")) for n in range(1, 6)]


def test_each_replica_has_a_pool_of_its_own() -> None:
    placement = plan_placement([1, 2, 3, 4], POOLS[:4], shared=False)
    assert [placement[replica].name for replica in (1, 2, 3, 4)] == ["p1", "p2", "p3", "p4"]
    assert placement.audited[2] == {"a2", "b2"}
    assert not placement.warning


def test_one_that_is_started_again_goes_to_a_spare_pool() -> None:
    placement = plan_placement([1, 2, 3, 4], POOLS, shared=False)
    assert placement.audited[3] == {"a3", "b3"}, "a spare is nobody's yet"
    placement.move(3, placement.next_pool(3))
    assert placement[3].name == "p5"
    assert placement.next_pool(1).name == "p1"


@pytest.mark.parametrize("pools", [[], POOLS[:3]])
def test_too_few_pools_are_an_error(pools: list[Pool]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"placement: .*--allow-shared-hosts"):
        plan_placement([1, 2, 3, 4], pools, shared=False)


def test_shared_hosts_are_warned_of() -> None:
    placement = plan_placement([1, 2], [], shared=True)
    assert placement[1] is placement[2] is HERE
    assert "this machine" in placement.warning
    assert not placement.audited
    placement = plan_placement([1, 2, 3, 4], POOLS[:3], shared=True)
    assert placement[4] == placement[1]
    assert "3 pools of hosts for 4 replicas" in placement.warning
