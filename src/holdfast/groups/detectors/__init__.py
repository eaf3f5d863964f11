"""Failure detectors: phi-accrual for one peer and for a mesh of them.

They hear of beats and the time and say whom they suspect; who acts on it is `holdfast.groups`, and
`pipeline.machine.sharing`, whose members ping each other round a ring.
"""

from holdfast.groups.detectors.phi import Phi, PhiMesh

__all__ = ["Phi", "PhiMesh"]
