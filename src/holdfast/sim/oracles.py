"""What must hold after every run, whatever the faults were; each check names what does not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from holdfast.protocol.client import Shown
from holdfast.sim.parties import ClientParty
from holdfast.sim.recalculation import recalculate
from holdfast.sim.scenario import END, SIZE
from holdfast.sim.simulation import Simulation
from holdfast.tuples import Kind, Row, identify

__all__ = ["check"]

SHARDS = 4
SETTLED = END - 600_000
"""By the end everybody has come at least this far."""


def check(run: Simulation) -> list[str]:
    """All that is wrong with a run; nothing if it is right."""
    right = recalculate(
        run.scenario.plans,
        {name: source.rows for name, source in run.sources.items()},
        SIZE,
        END,
    )
    problems: list[str] = []
    for (name, stream), auditor in run.auditors.items():
        problems += _check_reader(f"replica {name}, stream {stream}", auditor, right[stream])
    for stream, client in run.clients.items():
        who = f"client of {stream}"
        problems += _check_reader(who, client, right[stream])
        problems += _check_words(who, client.shown)
        problems += _check_folded(who, client.shown, right[stream])
    problems += _check_tentative(run)
    return problems


def _check_reader(who: str, party: ClientParty, right: Sequence[Row]) -> Iterator[str]:
    """Oracles 1 and 7: the stable rows are those of a run without faults, ids and order included,
    and they have come far enough."""
    position = party.client.intake.position
    if position < SETTLED:
        yield f"{who}: stuck at {position / 1e6:.3f} s"
    gaps = party.client.gaps
    stable = [row for _, each in party.shown if each.kind is Kind.INSERT for row in each.rows]
    expected = [
        row
        for row in right
        if row.stime < position and not any(start <= row.stime < end for start, end in gaps)
    ]
    if stable != expected:
        yield f"{who}: {_difference(stable, expected)}"
    elif identify(stable, SIZE, SHARDS) != identify(expected, SIZE, SHARDS):
        yield f"{who}: ids differ"


def _difference(found: Sequence[Row], expected: Sequence[Row]) -> str:
    for place, (one, other) in enumerate(zip(found, expected, strict=False)):
        if one != other:
            return f"stable row {place} is {tuple(one)} instead of {tuple(other)}"
    return f"{len(found)} stable rows instead of {len(expected)}"


def _check_words(who: str, shown: Sequence[tuple[int, Shown]]) -> Iterator[str]:
    """Oracle 3: nothing stable is undone, repeated or overtaken, and no stable row follows a
    tentative one without an UNDO between them."""
    stable, tentative = 0, False
    for time, each in shown:
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
                if each.boundary != stable:
                    yield f"{at}: UNDO to {each.boundary}, but {stable} is stable"
            case Kind.REC_DONE:
                if tentative:
                    yield f"{at}: REC_DONE with tentative rows that stand"


def _check_folded(
    who: str, shown: Sequence[tuple[int, Shown]], right: Sequence[Row]
) -> Iterator[str]:
    """Oracle 3: a client that appends all rows and obeys every UNDO has the right rows in the end,
    and was told that all is corrected."""
    folded: list[tuple[Kind, Row]] = []
    stable, corrected, position = 0, True, 0
    for _, each in shown:
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
    elif len(folded) != sum(row.stime < position for row in right):
        yield f"{who}: {len(folded)} rows remain after all UNDOs"
    if not corrected:
        yield f"{who}: never told that all is corrected"


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
