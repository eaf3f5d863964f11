"""Placement of replicas: each in a pool of hosts of its own, planned before the start.

That it was so is seen later, from the hosts that tasks report: see the verifier's findings.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.errors import InvalidArgumentError
from holdfast.verify.process.config import Pool

HOST: Final = "HOLDFAST_HOST"
"""Environment variable: what this machine is to be called, if not what it calls itself."""


def this_host() -> str:
    """As Spark calls it if it was told how to."""
    return os.environ.get(HOST) or os.environ.get("SPARK_LOCAL_HOSTNAME") or socket.gethostname()


HERE: Final = Pool(name="this machine", hosts=("this machine",))
"""Where replicas run when no pools are given."""


class Placement:
    """Where replicas are now, and where else they could be."""

    def __init__(
        self,
        pools: Mapping[int, Pool],
        spares: Sequence[Pool],
        warning: str,
        masters: Mapping[str, str] | None = None,
    ) -> None:
        """`masters`: see `plan_placement`."""
        self._masters = masters or {}
        self.warning = warning
        """Empty if no two replicas share a host."""
        self._pools = dict(pools)
        self._spares = list(spares)
        self.known: Mapping[str, Pool] = {pool.name: pool for pool in (*pools.values(), *spares)}
        """All pools, by name."""
        self._audited = {} if warning else self._hosts()

    def __getitem__(self, replica: int) -> Pool:
        return self._pools[replica]

    @property
    def audited(self) -> Mapping[int, frozenset[str]]:
        """The hosts that each replica may report from at first; empty if hosts may be shared. Who
        is moved may report from where it is moved to, and nobody else: verifiers are told."""
        return self._audited

    def next_pool(self, replica: int) -> Pool:
        """Where it would be started again: in a spare pool if there is one."""
        return self._spares[0] if self._spares else self._pools[replica]

    def move(self, replica: int, pool: Pool) -> None:
        """To a spare pool. Nobody runs any more where it was: that host may be to blame."""
        if pool in self._spares:
            self._spares.remove(pool)
        self._pools[replica] = pool

    @property
    def everywhere(self) -> Sequence[Pool]:
        """All pools, the spare ones too."""
        return [*self._pools.values(), *self._spares]

    def pools(self) -> Mapping[int, Pool]:
        return dict(self._pools)

    def hosts_of(self, pool: Pool) -> tuple[str, ...]:
        """Where a replica may run that is in a pool: on one master on the hosts of all its pools,
        for the master chooses among them. That no two replicas share one is seen to anyway."""
        master = self._masters.get(pool.name)
        pools = [each for each in self.everywhere if self._masters.get(each.name) == master]
        found = (pool, *pools) if master and pool.storage is None else (pool,)
        return tuple({host: None for each in found for host in each.hosts})

    def _hosts(self) -> dict[int, frozenset[str]]:
        return {replica: frozenset(self.hosts_of(pool)) for replica, pool in self._pools.items()}


def plan_placement(
    replicas: Sequence[int],
    pools: Sequence[Pool],
    *,
    shared: bool,
    masters: Mapping[str, str] | None = None,
) -> Placement:
    """Raises InvalidArgumentError if there are too few pools and hosts may not be `shared`.

    `masters`: of pools, by name, whose hosts may be exchanged with those of other pools of that
    master. Only where replicas do not lie: else one could say that it runs on another's host."""
    if len(pools) >= len(replicas):
        chosen = dict(zip(replicas, pools, strict=False))
        return Placement(chosen, pools[len(replicas) :], "", masters)
    if not pools:
        told = f"no pools of hosts are given: all {len(replicas)} replicas run on this machine"
        pools = [HERE]
    else:
        told = f"there are {len(pools)} pools of hosts for {len(replicas)} replicas: some share one"
    if not shared:
        raise InvalidArgumentError(
            f"placement: {told}, and one machine could spoil several; give as many [[pools]] in a "
            "--config, or --allow-shared-hosts for development"
        )
    warning = f"{told}. A machine that is wrong is wrong several times: this is for development"
    return Placement(
        {replica: pools[at % len(pools)] for at, replica in enumerate(replicas)}, [], warning
    )
