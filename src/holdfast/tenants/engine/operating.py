"""Operate: a bundle in, all that comes of it out. Runs in the tasks of Spark and keeps nothing but
compiled expressions, so a task that is run again answers the same."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from holdfast.protocol.composition.documents import DocumentError
from holdfast.protocol.composition.settling import (
    Calculation,
    Lag,
    Limits,
    Node,
    Part,
    Settled,
    World,
    settle,
)
from holdfast.protocol.composition.updates import Failure, Update
from holdfast.tenants.engine.planning import Bundle
from holdfast.tenants.expressions import Broken, Compiled, compile_stream

__all__ = ["Outcome", "Row", "operate", "read_outcome", "write_outcome"]

MOST_COMPILED: Final = 10_000
"""Streams whose expressions a process keeps."""


class Row(msgspec.Struct, frozen=True):
    update: Update
    late: bool = False
    derived: bool = False


class Outcome(msgspec.Struct):
    """Of one bundle."""

    rows: list[Row] = []
    failures: list[Failure] = []
    calls: list[tuple[str, Update]] = []
    """Actions, and the updates that set them off."""
    lags: list[tuple[str, str, Lag | None]] = []
    runs: int = 0
    discarded: int = 0


_compiled: OrderedDict[bytes, Compiled | Broken] = OrderedDict()


def operate(bundle: Bundle, limits: Limits = Limits()) -> Outcome:  # noqa: B008
    part = Part(bundle.nodes)
    world = _world(bundle)
    calculations: dict[str, Calculation] = {
        node.path: _calculation(node, bundle.types[node.path]) for node in bundle.nodes
    }
    outcome = Outcome()
    lags: dict[tuple[str, str], Lag | None] = {}
    for update in bundle.entries:
        settled = settle(update, part, world, calculations, limits)
        _note(outcome, update, settled)
        lags |= settled.lags
    outcome.lags = [(path, source, lag) for (path, source), lag in sorted(lags.items())]
    return outcome


def _note(outcome: Outcome, update: Update, settled: Settled) -> None:
    outcome.rows.append(Row(update, settled.late))
    outcome.rows += [Row(each, derived=True) for each in settled.updates]
    outcome.failures += settled.failures
    outcome.calls += [(call.action, call.update) for call in settled.calls]
    outcome.runs += settled.runs
    outcome.discarded += settled.discarded


def _world(bundle: Bundle) -> World:
    world = World(
        histories={source: list(updates) for source, updates in bundle.histories.items()},
        offsets=dict(bundle.numbers),
        lags={(path, source): lag for path, source, lag in bundle.lags},
    )
    for update in bundle.latest:
        world.know(update)
    return world


def _calculation(node: Node, types: dict[str, dict[str, str]]) -> Compiled | Broken:
    """Compiled once for all streams that say the same of inputs with the same channels."""
    key = _ENCODER.encode((node.stream, types))
    found = _compiled.get(key)
    if found is None:
        try:
            found = compile_stream(node.stream, types)
        except DocumentError as error:
            found = Broken(f"an input has changed: {error}")
        _compiled[key] = found
        if len(_compiled) > MOST_COMPILED:
            _compiled.popitem(last=False)
    else:
        _compiled.move_to_end(key)
    return found


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_DECODER = msgspec.msgpack.Decoder(Outcome)


def write_outcome(outcome: Outcome) -> bytes:
    return _ENCODER.encode(outcome)


def read_outcome(data: bytes) -> Outcome:
    return _DECODER.decode(data)
