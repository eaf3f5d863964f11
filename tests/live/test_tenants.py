"""A server of tenants is killed while they publish; `make soak PART=tenants` has many more."""

from __future__ import annotations

from soak.campaigns import tenants


def test_nothing_is_lost_or_doubled_by_kills() -> None:
    assert "1 kills (server)" in tenants.run(1, kills=1, faults=[tenants.SERVER])


def test_nothing_is_lost_or_doubled_by_kills_of_the_jvm() -> None:
    """The server goes on by itself; publishers meet refusals and say the same again."""
    assert "1 kills (jvm)" in tenants.run(2, kills=1, faults=[tenants.JVM])
