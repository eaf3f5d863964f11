"""A server of tenants is killed while they publish; `make soak PART=tenants` has many more."""

from __future__ import annotations

from soak.campaigns import tenants


def test_nothing_is_lost_or_doubled_by_kills() -> None:
    assert "1 kills" in tenants.run(1, kills=1)
