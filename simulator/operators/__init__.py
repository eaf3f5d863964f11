"""Operators that run: what a diagram describes, bucket by bucket, with forks that cost little.

A fork goes on from where its base stands and neither disturbs the other. Drop a stage that is no
longer needed: what only it holds is then freed, whichever of base and forks goes first.
"""

from simulator.operators.stage import Stage

__all__ = ["Stage"]
