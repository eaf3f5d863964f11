"""Operate: a bundle in, all that comes of it out. Runs in the tasks of Spark and keeps nothing but
compiled expressions, so a task that is run again answers the same.

A window that has to let go of very much at once needs more of itself than was brought along: then
there is no outcome, and whoever has the store at hand does it (`storing.complete`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from holdfast.protocol.composition.settling import (
    Calculation,
    Lag,
    Limits,
    Part,
    Settled,
    World,
    settle,
)
from holdfast.protocol.composition.updates import Failure, Update
from holdfast.protocol.composition.windows import Fetch, SavedWindow, Window
from holdfast.tenants.engine.planning import Bundle
from holdfast.tenants.expressions import compiled_or_broken

__all__ = ["Outcome", "Row", "operate", "read_outcome", "write_outcome"]

FetchOf = Callable[[SavedWindow], Fetch]
"""Of a window: where its pairs come from that were not brought along."""


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
    windows: list[SavedWindow] = []
    runs: int = 0
    discarded: int = 0
    work: dict[str, int] = {}
    """For each stream that was published to, the most steps that an update set off."""


def operate(
    bundle: Bundle,
    limits: Limits = Limits(),  # noqa: B008
    fetch: FetchOf | None = None,
) -> Outcome:
    part = Part(bundle.nodes)
    world = _world(bundle, part, fetch)
    calculations: dict[str, Calculation] = {
        node.path: compiled_or_broken(node.stream, bundle.types[node.path]) for node in bundle.nodes
    }
    outcome = Outcome()
    lags: dict[tuple[str, str], Lag | None] = {}
    for update in bundle.entries:
        settled = settle(update, part, world, calculations, limits)
        _note(outcome, update, settled)
        lags |= settled.lags
    outcome.lags = [(path, source, lag) for (path, source), lag in sorted(lags.items())]
    outcome.windows = [
        window.saved(path, scope)
        for (path, scope), window in sorted(world.windows.items())
        if window.changed
    ]
    return outcome


def _note(outcome: Outcome, update: Update, settled: Settled) -> None:
    outcome.rows.append(Row(update, settled.late))
    outcome.rows += [Row(each, derived=True) for each in settled.updates]
    outcome.failures += settled.failures
    outcome.calls += [(call.action, call.update) for call in settled.calls]
    outcome.runs += settled.runs
    outcome.discarded += settled.discarded
    outcome.work[update.stream] = max(settled.work, outcome.work.get(update.stream, 0))


def _world(bundle: Bundle, part: Part, fetch: FetchOf | None) -> World:
    world = World(
        offsets=dict(bundle.numbers),
        lags={(path, source): lag for path, source, lag in bundle.lags},
    )
    for update in bundle.latest:
        world.know(update)
    for saved in bundle.windows:
        aggregate = part.nodes[saved.path].window
        assert aggregate is not None
        world.closed[saved.path, saved.scope] = partial(
            Window, aggregate, saved, None if fetch is None else fetch(saved)
        )
    return world


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_DECODER = msgspec.msgpack.Decoder(Outcome)


def write_outcome(outcome: Outcome) -> bytes:
    return _ENCODER.encode(outcome)


def read_outcome(data: bytes) -> Outcome:
    return _DECODER.decode(data)
