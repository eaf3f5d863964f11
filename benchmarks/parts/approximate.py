"""Approximate windows: footprint, error and time, beside the figures of the founding document.

A footprint is buckets made for each update, against an exact window, which makes one for each. The
document's are of a window of 2,592,000 updates and seem to leave the warm-up out; here both are
told. Its footprints fall as the window grows: a bound allows the same part of any window to be one
bucket. Numbers of leaves are scaled with the window, so those can be compared as they are.

On a mean Holdfast bounds the error of the mean itself, so sum and count get half of it each, and
twice as many buckets are made as by bounding these two.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

from benchmarks.approximate.scale import DOCUMENT_WINDOW, FULL, Scale, chosen_scale
from benchmarks.approximate.scenarios import HOPS, peak
from benchmarks.approximate.streams import sensor_series, server_memory
from benchmarks.approximate.trials import Outcome, Trial, run_trials
from benchmarks.report import Report
from benchmarks.timing import Alternative, measure
from holdfast.windows import Amta, Monoid, Policy, policies
from holdfast.windows import monoids as m
from holdfast.windows.approximation import (
    ApproximateWindow,
    Method,
    block_maxima,
    hops,
    max_error,
    max_leaves,
)

PUBLISHED_ERRORS: Final = {1e-5: 6.591, 1e-4: 0.8335, 1e-3: 0.099, 1e-2: 0.01022, 1e-1: 0.0009854}
PUBLISHED_BLOCKS: Final = {10: 91.33, 100: 91.1, 1_000: 95.49, 10_000: 60.97, 100_000: 4.394}
PUBLISHED_HOPS: Final = 0.5229
PUBLISHED_LEAVES: Final = {
    1_000_000: {"mean": 33.33, "max": 42.98, "hop": 38.56},
    100_000: {"mean": 3.846, "max": 11.75, "hop": 4.583},
    10_000: {"mean": 0.3845, "max": 2.189, "hop": 0.4679},
    1_000: {"mean": 0.03858, "max": 0.3368, "hop": 0.0469},
    100: {"mean": 0.003864, "max": 0.03676, "hop": 0.0047},
    10: {"mean": 0.0004018, "max": 0.003298, "hop": 0.00049},
}
"""Tables 5.1 and 5.2 of the founding document, in percent. At 10^-4 % and half its window, no
bucket of two is allowed; blocks of 10^6 fold nothing before 30 million updates: both are left
out."""

CONSTANT, BY_STREAM, BY_SIZE = HOPS
FEWEST = 3
COLUMNS: Final = [
    "setting",
    "published %",
    "steady %",
    "with warm-up %",
    "exact answers %",
    "median error %",
    "99.9 % of errors %",
    "largest error %",
    "bound exceeded",
    "not guaranteed",
    "most buckets",
]


def run(report: Report) -> None:
    scale = chosen_scale()
    sums, maxima, hopped = _sums(scale), _maxima(scale), _hops(scale)
    constrained = {
        "mean": _constrained(scale, "mean", scale.window, scale.updates),
        "max": _constrained(scale, "max", scale.peak_window, scale.peak_updates),
        "hop": _constrained(scale, CONSTANT, scale.hop_window, scale.hop_updates),
    }
    sensors = _sensors(report)
    # The longest first, so that the two processes end together.
    every = chain(sums, maxima, *constrained.values(), hopped, sensors)
    outcomes = _run_all(report, list(every))
    _report_sums(report, scale, sums, outcomes)
    _report_maxima(report, scale, maxima, outcomes)
    _report_hops(report, scale, hopped, outcomes)
    for name, trials in constrained.items():
        _report_constrained(report, name, trials, outcomes)
    _report_sensors(report, sensors, outcomes)
    _times(report, scale)


def _run_all(report: Report, trials: Sequence[Trial]) -> dict[Trial, Outcome]:
    report.progress(f"{len(trials)} settings, two at a time")
    outcomes = {}
    for trial, outcome in run_trials(trials):
        outcomes[trial] = outcome
        name = f"{trial.stream}, {trial.scenario}, {', '.join(map(str, trial.methods))}"
        report.progress(f"{len(outcomes)} of {len(trials)} done: {name}")
    return outcomes


def _row(setting: str, published: Any, outcome: Outcome) -> list[Any]:
    return [
        setting,
        published,
        "-" if outcome.steady is None else 100 * outcome.steady,
        100 * outcome.footprint,
        100 * outcome.exact,
        100 * outcome.median,
        100 * outcome.high,
        100 * outcome.largest,
        "-" if outcome.exceeded is None else outcome.exceeded,
        "-" if outcome.not_guaranteed is None else outcome.not_guaranteed,
        outcome.buckets,
    ]


# A mean with a bounded error


def _sums(scale: Scale) -> dict[Trial, float]:
    return {
        Trial("mean", (max_error(error),), scale.window, scale.updates): error
        for error in scale.errors
    }


def _report_sums(
    report: Report, scale: Scale, trials: dict[Trial, float], outcomes: dict[Trial, Outcome]
) -> None:
    report.table(
        f"mean of the last {scale.window:,} with max_error, {scale.updates:,} updates; "
        f"published for {DOCUMENT_WINDOW:,}, where sum and count each have the bound",
        COLUMNS,
        [
            _row(f"{100 * error:g} %", PUBLISHED_ERRORS.get(error, "-"), outcomes[trial])
            for trial, error in trials.items()
        ],
    )
    exceeded = sum(outcomes[trial].exceeded or 0 for trial in trials)
    report.claim("answers beyond max_error", exceeded, 0, "the bound", at_least=False)
    for trial, error in trials.items():
        steady = outcomes[trial].steady
        if error == 1e-3 and steady is not None:
            report.claim(
                f"steady footprint of a mean over {scale.window:,} within 0.1 %",
                100 * steady,
                0.2 * FULL.window / scale.window,
                "one leaf per update",
                at_least=False,
                unit=" %",
            )


# A maximum


def _maxima(scale: Scale) -> dict[Trial, int]:
    return {
        Trial("max", (block_maxima(block),), scale.peak_window, scale.updates): block
        for block in scale.blocks
    }


def _report_maxima(
    report: Report, scale: Scale, trials: dict[Trial, int], outcomes: dict[Trial, Outcome]
) -> None:
    report.table(
        f"maximum of the last {scale.peak_window:,}, evicted before it, with block_maxima, "
        f"{scale.updates:,} updates",
        [*COLUMNS, "exact where it changes %"],
        [
            _with_changes(f"blocks of {block:,}", PUBLISHED_BLOCKS[block], outcomes[trial])
            for trial, block in trials.items()
        ],
    )


def _with_changes(setting: str, published: Any, outcome: Outcome) -> list[Any]:
    return [*_row(setting, published, outcome), 100 * outcome.exact_changes]


# Hops


def _hops(scale: Scale) -> dict[Trial, str]:
    settings: dict[str, tuple[str, Method]] = {
        "constant": (CONSTANT, hops()),
        f"{BY_STREAM}, confidence 0.95": (BY_STREAM, hops(0.95)),
        BY_STREAM: (BY_STREAM, hops()),
        f"{BY_SIZE}, confidence 0.95": (BY_SIZE, hops(0.95)),
        BY_SIZE: (BY_SIZE, hops()),
    }
    return {
        Trial(scenario, (method,), scale.hop_window, scale.hop_updates): name
        for name, (scenario, method) in settings.items()
    }


def _report_hops(
    report: Report, scale: Scale, trials: dict[Trial, str], outcomes: dict[Trial, Outcome]
) -> None:
    report.table(
        f"mean of a window that grows to {scale.hop_window:,} and loses a third, with hops, "
        f"{scale.hop_updates:,} updates; nothing is folded before 30 hops",
        COLUMNS,
        [
            _row(name, "-" if name == "constant" else PUBLISHED_HOPS, outcomes[trial])
            for trial, name in trials.items()
        ],
    )
    constant = next(outcomes[trial] for trial, name in trials.items() if name == "constant")
    report.claim(
        "exact answers of a window with constant hops",
        100 * constant.exact,
        100,
        "NumPy",
        unit=" %",
    )


# A bounded number of leaves


def _constrained(scale: Scale, scenario: str, window: int, updates: int) -> dict[Trial, int]:
    return {
        Trial(scenario, (max_leaves(leaves),), window, updates): published
        for published in PUBLISHED_LEAVES
        if (leaves := scale.leaves(published, window)) >= FEWEST
    }


def _report_constrained(
    report: Report, name: str, trials: dict[Trial, int], outcomes: dict[Trial, Outcome]
) -> None:
    if not trials:
        return
    window, updates = next((trial.window, trial.updates) for trial in trials)
    rows = [
        _with_changes(
            f"{_limit(trial):,} leaves", PUBLISHED_LEAVES[published][name], outcomes[trial]
        )
        for trial, published in trials.items()
    ]
    report.table(
        f"{name} over {window:,} with max_leaves, {updates:,} updates; "
        f"published for as many times the leaves as {DOCUMENT_WINDOW:,} is times the window",
        [*COLUMNS, "exact where it changes %"],
        rows,
    )
    if name == "mean":
        report.claim(
            "steady footprint of a constrained mean, furthest from 1/ceil(window/leaves)",
            max(_off(trial, outcomes[trial]) for trial in trials),
            10,
            "one bucket for each ceil(window/leaves) updates",
            at_least=False,
            unit=" %",
        )


def _limit(trial: Trial) -> int:
    (method,) = trial.methods
    return int(method.limit)  # type: ignore[union-attr]


def _off(trial: Trial, outcome: Outcome) -> float:
    """By how much of it the steady footprint differs from the one in theory."""
    assert outcome.steady is not None
    theory = 1 / -(-trial.window // _limit(trial))
    return 100 * abs(outcome.steady / theory - 1)


# Sensors


def _sensors(report: Report) -> dict[Trial, str]:
    found = sensor_series()
    if not found:
        report.progress(
            "no sensor series: put them next to the repository in shared/data, or name their "
            "folder in HOLDFAST_DATA"
        )
    trials = {}
    for name, rows in found.items():
        window = rows // 4
        settings: list[tuple[str, Method]] = [
            ("mean", max_error("1%")),
            ("mean", max_error("10%")),
            ("mean", max_leaves(max(window // 20, FEWEST))),
            ("max", block_maxima(max(window // 60, 1))),
            ("max", max_leaves(max(window // 20, FEWEST))),
            (CONSTANT, hops()),
        ]
        for scenario, method in settings:
            # Hops are learned from thirty of them.
            size = window // 6 if scenario == CONSTANT else window
            trials[Trial(scenario, (method,), size, rows, name)] = f"{scenario}, {method}"
    return trials


def _report_sensors(
    report: Report, trials: dict[Trial, str], outcomes: dict[Trial, Outcome]
) -> None:
    for stream in dict.fromkeys(trial.stream for trial in trials):
        mine = [trial for trial in trials if trial.stream == stream]
        report.table(
            f"{stream}, {mine[0].updates:,} rows, windows of {mine[0].window:,} "
            f"({mine[-1].window:,} with hops)",
            [*COLUMNS[:1], *COLUMNS[2:]],
            [_without_published(trials[trial], outcomes[trial]) for trial in mine],
        )


def _without_published(setting: str, outcome: Outcome) -> list[Any]:
    row = _row(setting, None, outcome)
    return [row[0], *row[2:]]


# Time


def _times(report: Report, scale: Scale) -> None:
    """One setting each against the exact window, in steady state."""
    window, hop_window, block = scale.timed_window, scale.hop_window, scale.timed_block
    leaves = max(window // 100, FEWEST)
    last, peaks, hopping = policies.last(window), peak(window, 0).policy, _hopping(hop_window)
    settings: list[tuple[str, Monoid[Any, Any, Any], Policy, Method, int]] = [
        ("mean, max_error(0.1 %)", m.mean, last, max_error("0.1%"), 2 * window),
        (f"mean, max_leaves({leaves:,})", m.mean, last, max_leaves(leaves), 2 * window),
        (f"max, block_maxima({block:,})", m.max, peaks, block_maxima(block), 30 * block + window),
        ("mean, hops, constant", m.mean, hopping, hops(), 12 * hop_window),
    ]
    rows = []
    for name, monoid, policy, method, warm_up in settings:
        report.progress(f"time of {name}")
        rows.append([name, *_time(monoid, policy, method, warm_up, scale)])
    report.table(
        f"time of an update in steady state, pure Python: windows of {window:,}, of {hop_window:,} "
        "with hops",
        ["setting", "exact µs", "approximate µs", "times as fast", "lowest", "highest"],
        rows,
    )


def _hopping(window: int) -> Policy:
    return policies.hopping(window, window // 3)


def _time(
    monoid: Monoid[Any, Any, Any], policy: Policy, method: Method, warm_up: int, scale: Scale
) -> list[float]:
    values = server_memory(warm_up + scale.timed_updates).tolist()
    windows: dict[str, Any] = {
        "exact": Amta(monoid),
        "approximate": ApproximateWindow(monoid, method),
    }
    for window in windows.values():
        window.roll(values[:warm_up], policy)
    newest = values[warm_up:]
    timings = measure(
        [
            Alternative(name, partial(window.roll, newest, policy), operations=len(newest))
            for name, window in windows.items()
        ],
        repeats=scale.repeats,
    )
    ratio = timings.ratio("approximate", "exact")
    each = [1e6 / timings.rate(name).median for name in windows]
    return [*each, ratio.median, *ratio.range]
