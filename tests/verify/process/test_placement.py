from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.verify.machine import JobState, Model, Plan, Quorum, Rules, Verifier
from holdfast.verify.process.config import Pool
from holdfast.verify.process.placement import HERE, plan_placement
from tests.verify.machine.reports import report

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


ON_ONE_MASTER = {"p1": "spark://m:7077", "p2": "spark://m:7077", "p3": "spark://other:7077"}


def test_one_master_may_exchange_the_hosts_of_its_pools() -> None:
    placement = plan_placement([1, 2, 3], POOLS[:3], shared=False, masters=ON_ONE_MASTER)
    assert placement.audited[1] == placement.audited[2] == {"a1", "b1", "a2", "b2"}
    assert placement.audited[3] == {"a3", "b3"}
    assert set(placement.hosts_of(POOLS[4])) == {"a5", "b5"}


def test_a_pool_with_files_of_its_own_keeps_its_hosts() -> None:
    own = Pool(name="p1", hosts=("a1",), storage="/mnt/a1")
    placement = plan_placement([1, 2], [own, POOLS[1]], shared=False, masters=ON_ONE_MASTER)
    assert placement.audited[1] == {"a1"}


def judged(hosts: dict[int, str]) -> Verifier:
    """Two replicas on one master, by the hosts that they report."""
    pools = [Pool(name=f"p{n}", hosts=(f"w{n}",)) for n in (1, 2)]
    placement = plan_placement([1, 2], pools, shared=False, masters=ON_ONE_MASTER)
    plan, quorum = Plan({"a": ()}, slices=2), Quorum(Model.CRASH, 1)
    judge = Verifier("job", plan, quorum, Rules(pools=placement.audited))
    for number in (0, 1):
        for replica, host in hosts.items():
            judge.report(report("a", replica, "x", slice=number, host=host), 0.0)
    return judge


def test_hosts_that_a_master_exchanged_are_right() -> None:
    judge = judged({1: "w2", 2: "w1"})
    assert judge.state is JobState.DONE
    assert judge.findings == ()


def test_hosts_that_replicas_share_end_the_job() -> None:
    judge = judged({1: "w2", 2: "w2"})
    assert judge.state is JobState.FAILED
    assert "one machine could spoil both" in judge.failure
