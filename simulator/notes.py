"""What a person would like to know of a run while it goes on: when, about whom, what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from holdfast.pipeline.machine.client import Shown
from holdfast.pipeline.machine.commands import Command, Work
from holdfast.pipeline.machine.messages import Send, Subscribe
from holdfast.pipeline.machine.tuples import Kind
from simulator.faults import Fault
from simulator.parties import ClientParty, NodeParty, SourceParty, TwinParty
from simulator.world import World

Note = Callable[[int, str, str], None]


class Notes:
    """Has `note` told of what the parties of a run do."""

    def __init__(self, world: World, note: Note) -> None:
        self._world = world
        self._note = note

    def of_fault(self, fault: Fault) -> None:
        who = ", ".join(fault.targets)
        for time, what in ((fault.start, "begins"), (fault.end, "ends")):
            self._world.at(time, partial(self._note, time, who, f"{fault.kind.value} {what}"))

    def of_client(self, client: ClientParty) -> None:
        client.observe = partial(self._tell_shown, client.name)

    def of_node(self, node: NodeParty) -> None:
        node.observers.append(partial(self._tell_command, node.name))

    def of_proxies(self, proxies: Mapping[str, SourceParty | TwinParty]) -> None:
        for proxy in proxies.values():
            if isinstance(proxy, TwinParty):
                proxy.observe = self._watch(proxy)

    def _watch(self, twin: TwinParty) -> Callable[[], None]:
        was_primary = [twin.twin.is_primary]

        def observe() -> None:
            if twin.twin.is_primary != was_primary[0]:
                was_primary[0] = twin.twin.is_primary
                what = "is the primary" if was_primary[0] else "is the standby"
                self._note(self._world.now, twin.name, f"{what} of epoch {twin.twin.epoch}")

        return observe

    def _tell_shown(self, name: str, shown: Shown) -> None:
        rows = f" {len(shown.rows)} rows" if shown.kind in (Kind.INSERT, Kind.TENTATIVE) else ""
        what = f"{shown.kind.name}{rows} to {shown.boundary / 1e6:.1f} s"
        self._note(self._world.now, name, what)

    def _tell_command(self, name: str, command: Command) -> None:
        match command:
            case Work(stretch, tentative):
                buckets = f"buckets {stretch.first} to {stretch.stop - 1}"
                what = f"{'fork' if tentative else 'base'} processes {buckets}"
            case Send(to, Subscribe() as asked):
                what = f"reads {asked.stream} of {to} from {asked.after / 1e6:.1f} s on"
                what += "" if asked.previews else ", for corrections"
            case Send():
                return
            case _:
                what = type(command).__name__.lower()
        self._note(self._world.now, name, what)
