"""The commands `holdfast edge child|intermediate|root FILE NAME`: one node in this process."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Literal, cast

from holdfast.edge.machine.child import Child, ChildOptions
from holdfast.edge.machine.formation import name_of
from holdfast.edge.machine.heartbeats import BeatOptions
from holdfast.edge.machine.intermediate import Intermediate, IntermediateOptions
from holdfast.edge.process.config import ROOT, Layout
from holdfast.edge.process.hub import Hub
from holdfast.edge.process.root_process import LineKeeper, RootNode
from holdfast.edge.process.runner import Clock, Runner, asked_to_end, logger
from holdfast.edge.process.security import read_credentials
from holdfast.errors import InvalidArgumentError
from holdfast.storage.atomic_file import make_folder

TOLD_LATE: Final = "at the sensor: too old, or ahead of the root's clock"
TOLD_REJECTED: Final = "at the sensor: no number, key or line"


def _beats(layout: Layout) -> BeatOptions:
    period = int(layout.heartbeat)
    return BeatOptions(
        period if layout.detection else None,
        layout.threshold,
        int(layout.pause),
        max(1, period // 4),
    )


def child_options(layout: Layout) -> ChildOptions:
    """What a child is told of its file."""
    return ChildOptions(
        beat=_beats(layout),
        sync=int(layout.sync) if layout.detection else None,
        succession=cast(Literal["bully", "ring", "spread"], layout.succession),
    )


def intermediate_options(layout: Layout) -> IntermediateOptions:
    """What an intermediate is told of its file."""
    return IntermediateOptions(beat=_beats(layout))


def _addresses(
    layout: Layout, name: str, peers: tuple[str, ...], routes: Mapping[str, str] | None
) -> dict[str, str]:
    """Whom a node calls: the root, those above it, and of its peers those of larger names. The
    others call it."""
    known = {**layout.addresses(), **(routes or {})}
    called = [ROOT, *layout.intermediates, *(peer for peer in peers if peer > name)]
    return {other: known[other] for other in called if other != name}


def run_child(
    layout: Layout,
    name: str,
    *,
    routes: Mapping[str, str] | None = None,
    metrics: int | None = None,
) -> None:
    """Returns when it is asked to end."""
    settings = layout.children[name]
    clock = Clock()
    now = clock()
    machine = Child(
        name,
        ROOT,
        child_options(layout),
        life=now,
        address=settings.address,
        group=settings.group,
        now=now,
    )

    def status() -> dict[str, Any]:
        return {**runner.figures(), "role": "child", **_child_figures(machine, clock())}

    runner = Runner(name, machine, clock, {"status": lambda _: status()})
    peers = layout.groups()[settings.group]

    def ended(peer: str) -> None:
        runner.carry(machine.ended(peer, clock()))

    warned: set[tuple[str, str]] = set()

    def warn() -> None:
        if machine.place is None or len(machine.intake.refused) == len(warned):
            return
        for sensor, reason in machine.intake.refused.keys() - warned:
            warned.add((sensor, reason))
            logger.warning("%s: refuses events of %s and counts them: %s", name, sensor, reason)

    _run(layout, name, settings.address, runner, peers, routes, metrics, status, ended, warn)


def _child_figures(machine: Child, now: int) -> dict[str, Any]:
    if machine.place is None:
        return {"ready": False}
    presence = machine.tenure.presence
    slots = list(machine.slots)
    own = set(machine.owned)
    return {
        "ready": True,
        "group": machine.place.group,
        "owned": list(machine.owned),
        "takeovers": machine.tenure.takeovers,
        "reinstatements": machine.tenure.reinstatements,
        "down": list(machine.tenure.down),
        "phi": {peer: round(phi, 2) for peer, phi in presence.phi(now).items()},
        "events": sum(slot.offset for slot in slots if slot.partition in own),
        "replayed": sum(slot.replayed for slot in slots if slot.partition in own),
        "lost": sum(slot.lost for slot in slots if slot.partition in own),
        "refused": _by_sensor(machine),
        "slowest": min(
            ((slot.boundary, slot.sensor) for slot in slots if slot.partition in own),
            default=(0, ""),
        )[1],
        "panes": machine.slots.panes,
        "waiting": len(machine.outbox),
    }


def _by_sensor(machine: Child) -> dict[str, dict[str, int]]:
    """Events that could not be added here, and those that sensors left out: by sensor, how many for
    which reason. Sensors say it to the owner of one of the partitions."""
    counts = Counter(machine.intake.refused)
    own = set(machine.owned)
    for slot in machine.slots:
        if slot.partition in own:
            sensor = name_of(slot.sensor)
            counts[sensor, TOLD_LATE] += slot.late
            counts[sensor, TOLD_REJECTED] += slot.rejected
    found: dict[str, dict[str, int]] = {}
    for (sensor, reason), count in sorted((+counts).items()):
        found.setdefault(sensor, {})[reason] = count
    return found


def run_intermediate(
    layout: Layout,
    name: str,
    *,
    routes: Mapping[str, str] | None = None,
    metrics: int | None = None,
) -> None:
    """Returns when it is asked to end."""
    settings = layout.intermediates[name]
    clock = Clock()
    now = clock()
    machine = Intermediate(
        name,
        ROOT,
        intermediate_options(layout),
        life=now,
        address=settings.address,
        now=now,
    )

    def status() -> dict[str, Any]:
        found = {**runner.figures(), "role": "intermediate", "ready": machine.place is not None}
        if machine.place is not None:
            found["down"] = list(machine.presence.members.down)
            found["waiting"] = len(machine.outbox)
        return found

    runner = Runner(name, machine, clock, {"status": lambda _: status()})
    peers = tuple(
        other
        for other, each in layout.intermediates.items()
        if (each.group, each.layer) == (settings.group, settings.layer)
    )
    _run(layout, name, settings.address, runner, peers, routes, metrics, status)


def _run(
    layout: Layout,
    name: str,
    address: str,
    runner: Runner,
    peers: tuple[str, ...],
    routes: Mapping[str, str] | None,
    metrics: int | None,
    status: Any,
    ended: Callable[[str], None] | None = None,
    after: Callable[[], None] | None = None,
) -> None:
    """`after`: called after each turn."""
    addresses = _addresses(layout, name, peers, routes)
    known = {**layout.addresses(), **(routes or {})}
    with ExitStack() as stack:
        runner.hub = hub = Hub(
            name,
            read_credentials(layout.security, layout.home),
            runner.received,
            address=address,
            addresses=addresses,
            watched={peer: known[peer] for peer in peers if peer != name},
            ended=ended,
        )
        stack.callback(hub.close)
        hub.keep(*addresses)
        ending = stack.enter_context(asked_to_end())
        if metrics is not None:
            from holdfast.edge.process.client import serve_node_metrics

            stack.enter_context(serve_node_metrics(status, metrics))
        logger.info("%s: listens at %s", name, address)
        while not ending():
            runner.turn()
            if after is not None:
                after()
        logger.info("%s: ends", name)


def run_root(layout: Layout, *, metrics: int | None = None) -> None:
    """Returns when it is asked to end. With `output` windows go there, and a root that is started
    again goes on from there; otherwise they are printed."""
    with ExitStack() as stack:
        memory = None
        path = None
        if layout.root.output is not None:
            path = layout.path(layout.root.output)
            make_folder(path.parent)
            memory = Path(f"{path}.memory")
        elif sys.stdout is None:
            raise InvalidArgumentError(
                "root: has no standard output for its windows; give `output` a path"
            )
        node = RootNode(layout, LineKeeper(path, None if path else sys.stdout.fileno()), memory)
        stack.callback(node.close)
        ending = stack.enter_context(asked_to_end())
        if metrics is not None:
            from holdfast.edge.process.client import serve_node_metrics

            stack.enter_context(serve_node_metrics(node.status, metrics))
        logger.info("root: listens at %s", layout.root.address)
        while not ending():
            node.step()
        logger.info("root: ends")
