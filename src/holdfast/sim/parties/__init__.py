"""Those who take part in a simulation: thin shells that carry commands out in virtual time."""

from holdfast.sim.parties.client import ClientParty
from holdfast.sim.parties.node import NodeParty
from holdfast.sim.parties.process import Process
from holdfast.sim.parties.source import SourceParty
from holdfast.sim.parties.tap import Tap
from holdfast.sim.parties.twins import Device, TwinParty

__all__ = ["ClientParty", "Device", "NodeParty", "Process", "SourceParty", "Tap", "TwinParty"]
