"""What must hold of tentative rows: they are few, but they are no fiction."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

from holdfast.pipeline.gates.order import Variant
from holdfast.pipeline.machine.tuples import Kind, Row
from simulator.diagram import (
    CountWindow,
    Filter,
    Map,
    Merge,
    OrderedJoin,
    StagePlan,
    WindowAggregate,
)
from simulator.parties import ClientParty, Tap
from simulator.paths import Paths
from simulator.recalculation import recalculate
from simulator.scenario import HEARTBEAT, MISSED
from simulator.simulation import Simulation

STATELESS: Final = (Filter, Map, Merge)
MONOTONE: Final = (*STATELESS, OrderedJoin)
"""Of fewer rows they make fewer, and no others."""
NOTICED: Final = HEARTBEAT * (MISSED + 2) + 50_000
"""After so long without a word a replica knows that an input has failed."""


def check_previews(run: Simulation, right: dict[str, list[Row]]) -> Iterator[str]:
    """All that is wrong with the tentative rows of a run."""
    chains = _made_by(STATELESS, run.scenario.plans)
    monotone = _made_by(MONOTONE, run.scenario.plans)
    counted = _counted(run.scenario.plans, monotone)
    for (name, stream), tap in run.taps.items():
        if name not in run.scenario.liars:
            who = f"replica {name}, stream {stream}"
            yield from _check_once(who, tap)
            yield from _check_content(who, tap, right[stream] if stream in monotone else None)
            yield from _check_groups(who, tap, right[stream] if stream in counted else None)
    for stream, client in run.clients.items():
        who = f"client of {stream}"
        yield from _check_once(who, client)
        yield from _check_content(who, client, right[stream] if stream in monotone else None)
        yield from _check_groups(who, client, right[stream] if stream in counted else None)
    yield from _check_whole(run, chains)
    yield from _check_blocked(run)
    yield from _check_needless(run)


def _made_by(kinds: tuple[type, ...], plans: Sequence[StagePlan]) -> set[str]:
    """Streams with nothing but such operators between them and the sources."""
    steps = [step for plan in plans for step in plan.steps]
    made = {stream for step in steps for stream in step.outputs}
    found = {stream for step in steps for stream in step.inputs} - made
    for step in steps:
        if isinstance(step.operator, kinds) and found.issuperset(step.inputs):
            found.update(step.outputs)
    return found & made


def _counted(plans: Sequence[StagePlan], monotone: set[str]) -> set[str]:
    """Streams of windows over such streams, or over sources."""
    steps = [step for plan in plans for step in plan.steps]
    made = {stream for step in steps for stream in step.outputs}
    return {
        stream
        for step in steps
        if isinstance(step.operator, WindowAggregate | CountWindow)
        and not getattr(step.operator, "anchored", False)
        and all(each in monotone or each not in made for each in step.inputs)
        for stream in step.outputs
    }


def _uneven(plans: Sequence[StagePlan]) -> set[str]:
    """Streams behind a gate that reads several, not all of them from sources."""
    made = {output.stream for plan in plans for output in plan.outputs}
    uneven: set[str] = set()
    for plan in plans:
        inputs = set(plan.inputs)
        if inputs & uneven or (len(inputs) > 1 and inputs & made):
            uneven.update(output.stream for output in plan.outputs)
    return uneven


def _check_once(who: str, party: ClientParty | Tap) -> Iterator[str]:
    """What stands is not shown again before it has been withdrawn."""
    standing = 0
    for time, each in party.shown:
        if each.kind is Kind.UNDO:
            standing = 0
        elif each.kind is Kind.TENTATIVE:
            if any(row.stime < standing for row in each.rows):
                yield f"{who}, at {time / 1e6:.3f} s: tentative rows that stand are shown again"
                return
            standing = max(standing, each.boundary)


def _check_content(
    who: str, party: ClientParty | Tap, right: Sequence[Row] | None
) -> Iterator[str]:
    """Where fewer rows make fewer and no others, a tentative one is a final one, only earlier."""
    if right is None:
        return
    final = Counter(right)
    for time, each in party.shown:
        if each.kind is not Kind.TENTATIVE:
            continue
        for row, count in Counter(each.rows).items():
            if count > final[row]:
                at = f"{who}, at {time / 1e6:.3f} s"
                yield f"{at}: tentative row {tuple(row)} is none of the final rows"
                return


def _check_groups(who: str, party: ClientParty | Tap, right: Sequence[Row] | None) -> Iterator[str]:
    """A window over fewer rows has other values, but not more answers nor of other keys."""
    if right is None:
        return
    final = Counter((row.stime, row.key) for row in right)
    for time, each in party.shown:
        if each.kind is not Kind.TENTATIVE:
            continue
        more = Counter((row.stime, row.key) for row in each.rows) - final
        if more:
            at = f"{who}, at {time / 1e6:.3f} s"
            yield f"{at}: a tentative answer for {next(iter(more))} too many"
            return


def _check_whole(run: Simulation, chains: set[str]) -> Iterator[str]:
    """Where each row passes by itself, previews have all rows of a source that no fault came
    near. A gate that reads stages beside others does not wait for those that are slower."""
    scenario = run.scenario
    delays = next(iter(scenario.settings.values())).delays
    if run.drops_previews or scenario.event_clocks or scenario.has_wild_clocks:
        return
    if Variant.SUSPEND in (delays.failing, delays.correcting):
        return
    paths = Paths(scenario)
    taken = {name: source.rows for name, source in run.sources.items()}
    for stream in chains & set(run.clients) - _uneven(scenario.plans):
        for source in scenario.diagram.sources:
            alone = {name: rows if name == source else [] for name, rows in taken.items()}
            rows = recalculate(scenario.plans, alone, scenario.size, scenario.until)[stream]
            reached = 0
            for time, each in run.shown_to(stream):
                if each.kind not in (Kind.INSERT, Kind.TENTATIVE):
                    continue
                first = bisect_left(rows, reached, key=attrgetter("stime"))
                stop = bisect_left(rows, each.boundary, key=attrgetter("stime"))
                if (
                    each.kind is Kind.TENTATIVE
                    and (missing := Counter(rows[first:stop]) - Counter(each.rows))
                    and paths.all_open(source, stream, reached, time)
                ):
                    row = tuple(next(iter(missing)))
                    yield (
                        f"client of {stream}, at {time / 1e6:.3f} s: previews up to "
                        f"{each.boundary / 1e6:.3f} s lack {row} of {source}"
                    )
                    return
                reached = max(reached, each.boundary)


def _check_blocked(run: Simulation) -> Iterator[str]:
    """Nothing is shown of a stream without any input that it cannot do without."""
    paths = Paths(run.scenario)
    for plan in run.scenario.plans:
        for output in plan.outputs:
            for name in run.scenario.replicas[plan.name]:
                for time, each in run.taps[name, output.stream].shown:
                    # The newest previews are kept for whoever comes later.
                    since = min(time - NOTICED, each.boundary - run.scenario.size)
                    if each.kind is Kind.TENTATIVE and any(
                        all(paths.is_cut_off(stream, name, since, time) for stream in need)
                        for need in output.needs
                    ):
                        yield (
                            f"replica {name}, stream {output.stream}, at {time / 1e6:.3f} s: "
                            "previews without an input that it needs"
                        )
                        break


def _check_needless(run: Simulation) -> Iterator[str]:
    """A replica shows no previews whose inputs were never away, though it stood still itself."""
    if run.scenario.has_wild_clocks or run.scenario.event_clocks:
        return
    paths = Paths(run.scenario)
    for plan in run.scenario.plans:
        for name in run.scenario.replicas[plan.name]:
            if not paths.always_fed(name):
                continue
            for output in plan.outputs:
                for time, each in run.taps[name, output.stream].shown:
                    if each.kind is Kind.TENTATIVE:
                        yield (
                            f"replica {name}, stream {output.stream}, at {time / 1e6:.3f} s: "
                            "previews, though nothing was missing"
                        )
                        break
