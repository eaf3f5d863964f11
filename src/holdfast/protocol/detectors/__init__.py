"""Failure detectors: phi-accrual for one peer and for a mesh of them, and the ring ping.

They hear of beats and the time and say whom they suspect; who acts on it is `protocol.groups`.
"""

from holdfast.protocol.detectors.mesh import PhiMesh
from holdfast.protocol.detectors.phi import Phi
from holdfast.protocol.detectors.ring import RingPing, successor

__all__ = ["Phi", "PhiMesh", "RingPing", "successor"]
