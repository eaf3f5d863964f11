"""Whether a run kept what its guarantee promises."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.pipeline.machine.sharing import Guarantee
from simulator.sharing.scenario import Scenario
from simulator.sharing.world import SharingWorld
from simulator.world import EndlessRunError


@dataclass(frozen=True, slots=True)
class SharingTrial:
    """What came of it; no `problems` if all is right."""

    world: SharingWorld
    problems: tuple[str, ...]


def try_sharing(scenario: Scenario) -> SharingTrial:
    world = SharingWorld(scenario)
    try:
        world.run()
    except EndlessRunError as error:
        return SharingTrial(world, (f"endless: {error}",))
    return SharingTrial(world, tuple(_problems(world)))


def _problems(world: SharingWorld) -> Iterator[str]:
    scenario = world.scenario
    guarantee = scenario.rules.guarantee
    yield from world.wrong[:3]
    if invented := [each for each in world.got if each not in world.truth]:
        yield f"invented: {invented[:3]}"
    again = [each for each, times in world.got.items() if times > 1]
    if again and guarantee is not Guarantee.AT_LEAST_ONCE:
        yield f"more than once: {again[:3]}, {len(again)} in all"
    if world.largest > _bound(scenario):
        yield f"a shared table held {world.largest} records, more than {_bound(scenario)}"
    if scenario.is_once:
        return
    missing = [each for each in world.truth if each not in world.got]
    if scenario.is_within and missing:
        yield f"lost: {missing[:3]}, {len(missing)} in all"
    if scenario.is_within and world.lost:
        yield f"{world.lost} tuples said to be lost that are not"
    if len(missing) > world.lost + world.doubtful:
        yield f"lost without a word: {missing[:3]}, {len(missing)} in all"
    yield from _leftovers(world)


def _bound(scenario: Scenario) -> int:
    """Every tuple of a source becomes 6 at most in these plans."""
    return 2 * 6 * scenario.rules.capacity * len(scenario.plan.replicas("source"))


def _leftovers(world: SharingWorld) -> Iterator[str]:
    """In the end nothing is under way, everybody is back in his seat, and all is forgotten."""
    if world.emitted < world.scenario.tuples * len(world.sources):
        yield f"stuck: only {world.emitted} tuples could be handed over"
    for replica in world.replicas:
        if not replica.members.is_active:
            yield f"{replica.me} is not back"
        elif replica.desk.is_busy:
            yield f"{replica.me} has {replica.desk.work.load} tuples in hand"
        elif len(replica.desk.table):
            yield f"{replica.me} still has {len(replica.desk.table)} records"
