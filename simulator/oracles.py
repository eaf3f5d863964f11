"""What must hold after every run, whatever the faults were; each check names what does not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from holdfast.pipeline.gates.order import Variant
from holdfast.pipeline.machine.output_log import AT_ONCE
from holdfast.pipeline.machine.tuples import Kind, Row, bucket_of, identify, weight_of
from holdfast.runtime.adjusted_clock import SLOWER
from simulator.clock_oracles import apart, are_apart, check_sources
from simulator.faults import FaultKind
from simulator.parties import ClientParty, SourceParty, Tap
from simulator.paths import Paths
from simulator.preview_oracles import check_previews
from simulator.recalculation import recalculate
from simulator.scenario import COMPARING, HEARTBEAT, MISSED
from simulator.simulation import Simulation
from simulator.vote_oracles import check_votes, is_beyond_repair, may_skip_buckets

SHARDS: Final = 4
PER_STAGE: Final = 20_000
"""How long a stage and the way to it take."""
MOST_AHEAD: Final = 50_000
"""How far clocks may be apart, and writing a log may take."""
SOME_BUCKETS: Final = 5
"""What may be held beyond a bound that is kept bucket by bucket."""
AT_THE_END: Final = 2_000_000
"""What a line may hold when all is over, for readers that have not acknowledged it yet."""
TO_SWITCH: Final = HEARTBEAT * (MISSED + 2) + 50_000
"""How long it takes to notice that a replica is gone, and to read another one."""
LONG_BEFORE: Final = 1_500_000
"""Replicas that could talk for so long have agreed on turns."""
UNSETTLED: Final = 600_000
"""By the end everybody has come at least so near to it."""


def check(run: Simulation) -> list[str]:
    """All that is wrong with a run; nothing if it is right."""
    right = recalculate(
        run.scenario.plans,
        {name: source.rows for name, source in run.sources.items()},
        run.scenario.size,
        run.scenario.until + run.scenario.clocks,
    )
    problems: list[str] = []
    settled = _settled(run)
    problems += check_sources(run)
    if run.scenario.options.policy in COMPARING:
        problems += check_votes(run, right, settled)
    if may_skip_buckets(run) or is_beyond_repair(run):
        return problems
    problems += _check_lost(run)
    if any(party.node.is_stranded for party in run.nodes.values()):
        # People have to help. What has come until then is right.
        settled = 0
    for (name, stream), tap in run.taps.items():
        if name in run.scenario.liars:
            continue
        who = f"replica {name}, stream {stream}"
        problems += _check_reader(who, tap, right[stream], settled)
        problems += _check_words(who, tap)
    for stream, client in run.clients.items():
        who = f"client of {stream}"
        problems += _check_reader(who, client, right[stream], settled)
        problems += _check_ids(who, client, run.scenario.size)
        problems += _check_words(who, client)
        if settled and not are_apart(run):
            problems += _check_folded(who, client, right[stream])
        problems += _check_latency(run, stream, right)
    problems += _check_tentative(run)
    problems += check_previews(run, right)
    problems += run.broken_promises
    problems += _check_gaps(run)
    problems += _check_memory(run)
    problems += _check_room(run, right)
    problems += _check_turns(run)
    problems += _check_traffic(run)
    return problems


def _settled(run: Simulation) -> int:
    """Where everybody has come by the end, at least: near to it, or to the slowest source."""
    ends = [run.scenario.until]
    if run.scenario.options.faults == "clocks":
        ends += [
            party.source.line.end
            for party in run.proxies.values()
            if isinstance(party, SourceParty)
        ]
    return max(0, min(ends) - UNSETTLED)


def _check_lost(run: Simulation) -> Iterator[str]:
    """A replica without a state finds one, or says that it cannot: that takes that all replicas of
    a stage were gone which does not converge, and that its inputs are not kept."""
    for plan in run.scenario.plans:
        for name in run.scenario.replicas[plan.name]:
            node = run.nodes[name].node
            may_strand = run.scenario.options.faults == "wipes" and not plan.convergent
            if node.is_lost and not node.is_stranded:
                yield f"{name}: has lost its state, and says nothing"
            elif node.is_stranded and (run.scenario.keeps_all or not may_strand):
                yield f"{name}: is stranded, though there is a way out"


def _check_reader(
    who: str, party: ClientParty | Tap, right: Sequence[Row], settled: int
) -> Iterator[str]:
    """Oracles 1 and 7: the stable rows are those of a run without faults, ids and order included,
    and they have come far enough."""
    position = party.position
    if position < settled:
        yield f"{who}: stuck at {position / 1e6:.3f} s"
    stable = [row for _, each in party.shown if each.kind is Kind.INSERT for row in each.rows]
    expected = _without(right, party.gaps, position)
    if stable != expected:
        yield f"{who}: {_difference(stable, expected)}"


def _without(rows: Sequence[Row], gaps: Sequence[tuple[int, int]], until: int) -> list[Row]:
    return [
        row
        for row in rows
        if row.stime < until and not any(start <= row.stime < end for start, end in gaps)
    ]


def _difference(found: Sequence[Row], expected: Sequence[Row]) -> str:
    for place, (one, other) in enumerate(zip(found, expected, strict=False)):
        if one != other:
            return f"stable row {place} is {tuple(one)} instead of {tuple(other)}"
    return f"{len(found)} stable rows instead of {len(expected)}"


def _check_ids(who: str, party: ClientParty, size: int) -> Iterator[str]:
    """Oracle 1: a client that numbers each piece as it comes has the ids of the whole stream."""
    pieces = [each.rows for _, each in party.shown if each.kind is Kind.INSERT]
    ids = [number for rows in pieces for number in identify(rows, size, SHARDS)]
    if ids != identify([row for rows in pieces for row in rows], size, SHARDS):
        yield f"{who}: pieces of buckets, so that ids differ"


def _check_words(who: str, party: ClientParty | Tap) -> Iterator[str]:
    """Oracle 3: nothing stable is undone, repeated or overtaken, and no stable row follows a
    tentative one without an UNDO between them."""
    stable, tentative, gaps = 0, False, party.gaps
    for time, each in party.shown:
        at = f"{who}, at {time / 1e6:.3f} s"
        match each.kind:
            case Kind.INSERT:
                if tentative:
                    yield f"{at}: stable rows after tentative ones without an UNDO"
                if each.boundary <= stable or any(row.stime < stable for row in each.rows):
                    yield f"{at}: stable rows again, or out of order"
                stable = each.boundary
            case Kind.TENTATIVE:
                tentative = True
                if any(row.stime < stable for row in each.rows):
                    yield f"{at}: tentative rows where stable ones are"
            case Kind.UNDO:
                tentative = False
                if each.boundary < stable or (each.boundary > stable and not gaps):
                    yield f"{at}: UNDO to {each.boundary}, but {stable} is stable"
            case Kind.REC_DONE:
                if tentative:
                    yield f"{at}: REC_DONE with tentative rows that stand"


def _check_folded(who: str, party: ClientParty, right: Sequence[Row]) -> Iterator[str]:
    """Oracle 3: a client that appends all rows and obeys every UNDO has the right rows in the end,
    and was told that all is corrected."""
    folded: list[tuple[Kind, Row]] = []
    stable, corrected, position = 0, True, 0
    for _, each in party.shown:
        match each.kind:
            case Kind.UNDO:
                del folded[stable:]
            case Kind.REC_DONE:
                corrected = True
            case _:
                folded += [(each.kind, row) for row in each.rows]
        if each.kind is Kind.INSERT:
            stable, position = len(folded), each.boundary
        elif each.kind is Kind.TENTATIVE:
            corrected = False
    if any(kind is Kind.TENTATIVE for kind, _ in folded):
        yield f"{who}: tentative rows were never corrected"
    elif len(folded) != len(_without(right, party.gaps, position)):
        yield f"{who}: {len(folded)} rows remain after all UNDOs"
    if not corrected:
        yield f"{who}: never told that all is corrected"


def _check_latency(
    run: Simulation, stream: str, right: Mapping[str, Sequence[Row]]
) -> Iterator[str]:
    """Oracle 2: as long as a way is open, everything new is shown within `max_delay` and the time
    that calculation takes."""
    scenario = run.scenario
    delays = next(iter(scenario.settings.values())).delays
    if delays.max_delay == math.inf or Variant.SUSPEND in (delays.failing, delays.correcting):
        return
    if scenario.has_wild_clocks or scenario.event_clocks or scenario.options.faults == "wipes":
        return
    paths = Paths(scenario)
    depth = paths.depth(stream)
    waits = depth if Variant.DELAY in (delays.failing, delays.correcting) else 1
    if any(not kept.convergent for kept in scenario.retentions.values()):
        return
    per_stage = delays.patience + PER_STAGE + 2 * scenario.cost.bucket
    allowed = int(waits * delays.max_delay) + depth * per_stage + MOST_AHEAD
    if scenario.options.faults == "clocks":
        # Who waits for the machine's clock takes a ninth longer for everything.
        allowed += allowed // (SLOWER - 1)
    rows = Counter(bucket_of(row.stime, scenario.size) for each in right.values() for row in each)
    work = 0
    shown = iter(run.shown_to(stream))
    time, boundary = 0, 0
    for number, end in enumerate(range(scenario.size, scenario.until - allowed, scenario.size)):
        # A source that was away for long brings all in one bucket, and a join makes the square of
        # it: base and fork process that in turn, and what comes then waits.
        work = max(0, work - scenario.size) + 2 * scenario.cost.row * rows[number]
        while boundary < end:
            following = next(shown, None)
            if following is None:
                time, boundary = scenario.until, scenario.until
            elif following[1].kind in (Kind.INSERT, Kind.TENTATIVE):
                time, boundary = following[0], max(boundary, following[1].boundary)
        limit = end + allowed + work
        if any(end < fault.start < limit for fault in scenario.faults):
            # Rows that wait already wait longer if something else fails before they are shown.
            limit += TO_SWITCH
        if time > limit and paths.is_open(stream, end, limit):
            late = (time - end) / 1e6
            yield f"client of {stream}: what ends at {end / 1e6:.1f} s came {late:.3f} s later"
            return


def _check_gaps(run: Simulation) -> Iterator[str]:
    """Nothing is given up but by a replica that converges after a crash, or for want of memory."""
    scenario = run.scenario
    if not scenario.keeps_all and (scenario.retentions or scenario.options.faults == "wipes"):
        return
    for client in run.clients.values():
        if client.gaps:
            yield f"{client.name}: gave up {client.gaps}"
    crashed = {f.targets[0] for f in run.scenario.faults if f.kind is FaultKind.CRASH}
    for (name, _), tap in run.taps.items():
        if tap.gaps and name not in crashed | set(run.scenario.liars):
            yield f"replica {name}: gave up {tap.gaps}"


def _check_memory(run: Simulation) -> Iterator[str]:
    """Oracle 6: where memory is bounded, what is held at any time; else what is held at the end."""
    scenario = run.scenario
    for plan in scenario.plans:
        retain = scenario.settings[plan.name].retain
        for name in scenario.replicas[plan.name]:
            if retain < math.inf:
                each = retain / scenario.size + scenario.save_every + SOME_BUCKETS
                most = len(plan.inputs) * each
                if run.most_held.get(name, 0) > most:
                    yield f"gate of {name}: held {run.most_held[name]} buckets, allowed {most:.0f}"
            for stream, line in run.nodes[name].node.lines.items():
                kept, most = run.most_held.get(f"{name}:{stream}", 0), math.inf
                if stream in scenario.retentions:
                    most = scenario.retentions[stream].span / scenario.size + SOME_BUCKETS
                if kept > most:
                    yield f"line {stream} of {name}: kept {kept} buckets, allowed {most:.0f}"
                # Readers acknowledge with their heartbeats.
                beat = max(each.heartbeat for each in scenario.settings.values())
                allowed = AT_THE_END + apart(run) + beat
                if len(line.segments) * scenario.size > allowed and not scenario.keeps_all:
                    yield f"line {stream} of {name}: keeps {len(line.segments)} buckets in the end"


def _check_room(run: Simulation, right: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """Oracle 6: a gate holds at any time no more bytes than it has room for: of stable rows and of
    previews, a page of its shelf, and of each input what is sent at once and what the base has
    processed since it was saved."""
    scenario = run.scenario
    for plan in scenario.plans:
        settings = scenario.settings[plan.name]
        buckets = AT_ONCE + scenario.save_every + settings.most + SOME_BUCKETS
        most = sum(
            2 * settings.room + settings.room / 8 + buckets * _largest(right[stream], settings.size)
            for stream in plan.inputs
        )
        for name in scenario.replicas[plan.name]:
            held = run.most_held.get(f"{name} bytes", 0)
            if held > most:
                yield f"gate of {name}: held {held} bytes, allowed {most:.0f}"


def _largest(rows: Sequence[Row], size: int) -> int:
    """Bytes of the largest bucket of a stream."""
    by_bucket = groupby(rows, lambda row: bucket_of(row.stime, size))
    return max((weight_of(each) for _, each in by_bucket), default=0)


def _check_turns(run: Simulation) -> Iterator[str]:
    """Replicas that do not correct beside their fork do so one at a time, if they can agree."""
    paths = Paths(run.scenario)
    for time, reconciling in run.turns:
        for stage, names in run.scenario.replicas.items():
            both = sorted(reconciling & set(names))
            if len(both) > 1 and paths.is_whole(names, time - LONG_BEFORE, time):
                yield f"stage {stage}, at {time / 1e6:.3f} s: {both} reconcile at once"
                return


def _check_tentative(run: Simulation) -> Iterator[str]:
    """Oracles 4 and 5: failures shorter than `max_delay`, and an infinite one, give no previews."""
    delays = next(iter(run.scenario.settings.values())).delays
    if delays.max_delay < math.inf and run.scenario.options.faults not in ("short", "none"):
        return
    for stream, client in run.clients.items():
        for time, each in client.shown:
            if each.kind is Kind.TENTATIVE:
                yield f"client of {stream}, at {time / 1e6:.3f} s: a tentative row, for no reason"
                break


def _check_traffic(run: Simulation) -> Iterator[str]:
    """In the end nobody is sent a stream that is not read from there, and where nothing fails
    nobody asks for anything twice."""
    for maker, stream, reader in run.unread:
        yield f"{maker}: sends {stream} to {reader}, who does not read it"
    if not run.scenario.faults:
        settings = run.scenario.settings
        for (reader, maker, stream), count in run.subscribed.items():
            # Where room is bounded, readers pause.
            if count > 1 and settings[reader.partition("/")[0]].room == math.inf:
                yield f"{reader}: asks {maker} {count} times for {stream}, though nothing fails"
