"""Those who take part in a simulation: thin shells that carry commands out in virtual time."""

from simulator.parties.client import ClientParty
from simulator.parties.node import NodeParty
from simulator.parties.process import Process
from simulator.parties.source import SourceParty
from simulator.parties.tap import Tap
from simulator.parties.twins import Device, TwinParty

__all__ = ["ClientParty", "Device", "NodeParty", "Process", "SourceParty", "Tap", "TwinParty"]
