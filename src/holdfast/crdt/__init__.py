"""Delta-CRDTs: replicas write at the same time, and what they know joins to one state.

States are values: a delta-mutator (`increment`, `add`, `retire`) returns the small state that holds
the change, and `join` takes it in, here and at every other replica:

>>> import numpy as np
>>> from holdfast.crdt import PerReplica
>>> from holdfast.edge.machine.aggregates import aggregate
>>> north = south = PerReplica(aggregate("mean"))
>>> delta = north.add("north", np.array([1.0, 2.0]))
>>> north = north.join(delta)
>>> south = south.join(south.add("south", np.array([6.0])))
>>> south.join(delta).join(delta).value()
3.0

`join` is idempotent, commutative and associative, so deltas may be lost, repeated and reordered, as
long as later ones arrive. A replica writes under its own name only, and a process that lost its
state comes back under a new name: two histories of one name join to one of them.

- `GCounter`: a number for each replica; of two the greater one. `PNCounter`: two of them.
- `PerReplica`: a versioned partial aggregate for each replica; of two the newer one. Any aggregate
  of `holdfast.edge.machine.aggregates`.
- `Shared`: one partial aggregate, joined by its `combine`, where that is a join (`JOINS`).

The edge does not use this package: a slot has one writer at a time and its offset is its version.
So plain partials do there, in fewer bytes, and an event that two children add counts once
(docs/protocols.md; `benchmarks/edge/carriers.py` measures both). Pure: no sockets, no clock, no
randomness.
"""

from holdfast.crdt.counters import GCounter, PNCounter
from holdfast.crdt.partials import JOINS, PerReplica, Shared

__all__ = ["JOINS", "GCounter", "PNCounter", "PerReplica", "Shared"]
