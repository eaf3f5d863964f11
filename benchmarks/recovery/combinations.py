"""The six combinations of what becomes of new rows in failure and in correction, on one stage (Fig
5-8 of the founding document): corrected beside the previews, and by turns as the document has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from benchmarks.recovery.outages import Outage, Outcome, Outcomes, claim_masked
from benchmarks.recovery.scale import Scale
from benchmarks.report import Report
from holdfast.pipeline.gates.order import Variant

__all__ = ["combination_outages", "report_combinations"]

PROCESS, DELAY, SUSPEND = Variant.PROCESS, Variant.DELAY, Variant.SUSPEND
D: Final = 2.7
LIMIT: Final = 3.0
"""What the document allows, with calculation."""
BUSY: Final = 0.3
"""So that, nearly as in the document, redoing 9 s takes as long as D."""
REPLICAS: Final = {"beside": 1, "by turns": 2}
TO_NOTICE: Final = {"beside": 0.0, "by turns": 0.1}
"""After a heartbeat a client knows whose turn it is."""
PEER: Final = {
    "beside": "Fig 5-8: meets the bound",
    "by turns": "Fig 5-8: meets the bound; here and a heartbeat",
}
WAYS: Final = {
    "beside": "one replica, corrections beside previews",
    "by turns": "two replicas that correct by turns",
}
"""Ours, and the document's."""
COMBINATIONS: Final = {
    (PROCESS, PROCESS): "meets the bound, most tentative",
    (DELAY, DELAY): "meets the bound, fewest tentative: saves D's worth",
    (PROCESS, DELAY): "in between",
    (DELAY, PROCESS): "in between",
    (PROCESS, SUSPEND): "breaks the bound once reconciliation takes longer than D, at about 8 s",
    (DELAY, SUSPEND): "never viable",
}

Of = Callable[[Variant, Variant, float], Outcome]
"""The outcome by variants and length of the failure."""


def combination_outages(scale: Scale) -> list[Outage]:
    return [
        _outage(way, failing, correcting, failure)
        for way in WAYS
        for failing, correcting in COMBINATIONS
        for failure in scale.failures
    ]


def _outage(way: str, failing: Variant, correcting: Variant, failure: float) -> Outage:
    return Outage(
        failure,
        D,
        failing,
        correcting,
        replicas=REPLICAS[way],
        beside=way == "beside",
        busy=BUSY,
    )


def report_combinations(report: Report, scale: Scale, outcomes: Outcomes) -> None:
    for way in WAYS:

        def of(failing: Variant, correcting: Variant, failure: float, way: str = way) -> Outcome:
            return outcomes[_outage(way, failing, correcting, failure)]

        _tables(report, scale, way, of)
        _claims(report, scale, way, of)


def _tables(report: Report, scale: Scale, way: str, of: Of) -> None:
    title = (
        f"six combinations, {WAYS[way]}, D {D} s, busy for {BUSY:.0%} of the time (Fig 5-8; the "
        f"limit is {LIMIT:g} s), by length of the failure: "
    )
    columns = ["variants", *(f"{failure:g} s" for failure in scale.failures)]
    figures: dict[str, Callable[[Outcome], float]] = {
        "tentative rows": lambda outcome: outcome.tentative,
        "worst delay of new rows, s": lambda outcome: outcome.worst,
    }
    for what, figure in figures.items():
        report.table(
            title + what,
            [*columns, "published"],
            [
                [_name(*each), *(figure(of(*each, failure)) for failure in scale.failures), stated]
                for each, stated in COMBINATIONS.items()
            ],
        )
    report.table(
        title + "of those within the limit, who has the fewest and the most tentative rows. "
        "(Published: delay & delay the fewest. Here process, too, lets a complete bucket wait for "
        "the base as long as it may, and delay & process is delay & delay.)",
        columns,
        [
            ["fewest", *(_extreme(of, failure, min) for failure in scale.failures)],
            ["most", *(_extreme(of, failure, max) for failure in scale.failures)],
        ],
    )


def _extreme(of: Of, failure: float, choose: Callable[..., tuple[int, str]]) -> str:
    found = [(of(*each, failure), _name(*each)) for each in COMBINATIONS]
    within = [(outcome.tentative, name) for outcome, name in found if outcome.worst <= LIMIT]
    if not within or not max(within)[0]:
        return "-"
    return choose(within)[1]


def _claims(report: Report, scale: Scale, way: str, of: Of) -> None:
    longer = [failure for failure in scale.failures if failure > D]
    shorter = [failure for failure in scale.failures if failure < D]
    claim_masked(
        report,
        f"tentative rows of failures shorter than D, all variants, {way}",
        [of(*each, failure).tentative for each in COMBINATIONS for failure in shorter],
    )
    for each in ((PROCESS, PROCESS), (DELAY, DELAY)):
        report.claim(
            f"worst delay of new rows, {_name(*each)}, {way}",
            max(of(*each, failure).worst for failure in scale.failures),
            LIMIT + TO_NOTICE[way],
            PEER[way],
            at_least=False,
            unit=" s",
        )
    report.claim(
        f"worst delay of new rows in the longest failure, process & suspend, {way}",
        of(PROCESS, SUSPEND, max(longer)).worst,
        LIMIT,
        "Fig 5-8: breaks the bound once reconciliation takes longer than D",
        unit=" s",
    )
    report.claim(
        f"worst delay of new rows, delay & suspend, least of failures longer than D, {way}",
        min(of(DELAY, SUSPEND, failure).worst for failure in longer),
        LIMIT,
        "Fig 5-8: never viable",
        unit=" s",
    )


def _name(failing: Variant, correcting: Variant) -> str:
    return f"{failing.value} & {correcting.value}"
