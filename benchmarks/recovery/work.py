"""Reconciliation work against the size of the state: with forks, with a copied checkpoint, and by
undo and redo as the founding document calculates it (its Table 5.1)."""

from __future__ import annotations

from functools import partial
from typing import Final

from benchmarks.recovery.scale import Scale
from benchmarks.recovery.states import (
    Held,
    Work,
    by_copy,
    by_fork,
    count_windows,
    slope,
    time_window,
)
from benchmarks.report import Report
from benchmarks.timing import Alternative, Timings, measure

__all__ = ["report_work"]

BUCKETS: Final = 50
"""How long a failure is."""
FAILURES: Final = 10
"""Forks are counted over so many failures: how much is combined depends on where a tree stands."""
PANES: Final = 100
"""Of each key, where there are many."""
TOUCHED: Final = 10
"""Keys with rows in a failure, where most have none."""
FROM: Final = 1_000
"""Where claims about growth begin."""
WORK: Final = ["combines, previews", "combines, redo", "copied", "work"]


def report_work(report: Report, scale: Scale) -> None:
    _one_key(report, scale)
    _many_keys(report, scale)
    _silent_keys(report, scale)


def _one_key(report: Report, scale: Scale) -> None:
    forks, copies, times = {}, {}, {}
    for size in scale.sizes:
        report.progress(f"a window of {size:,} panes")
        held = time_window(size)
        forks[size], copies[size] = _count(held)
        times[size] = _time(held, scale)
    _counted(report, f"one key, a window of so many panes; a failure of {BUCKETS}", forks, copies)
    _calculated(report, forks, copies)
    report.table(
        "the same in time, with previews and redo: how many times as long a copied checkpoint takes"
        " as a fork (information)",
        ["states", "fork ms", "copy ms", "times", "lowest", "highest"],
        [[size, *_shown(timings)] for size, timings in times.items()],
    )
    _claim_growth(report, forks, copies)


def _claim_growth(report: Report, forks: dict[int, Work], copies: dict[int, Work]) -> None:
    largest = max(forks)
    span = f"{largest:,} states over {FROM:,}"
    report.claim(
        f"work with forks, {span}",
        forks[largest].total / forks[FROM].total,
        2,
        "the same failure with fewer states",
        at_least=False,
        unit=" times",
    )
    report.claim(
        f"work with a copied checkpoint, {span}",
        copies[largest].total / copies[FROM].total,
        0.3 * largest / FROM,
        "the same failure with fewer states",
        unit=" times",
    )
    grown = {size: work.copied for size, work in copies.items()}
    report.claim(
        "states copied for a checkpoint, how far the slope (log-log) is from 1",
        abs(slope(grown) - 1),
        0.05,
        "linear growth",
        at_least=False,
    )
    report.claim(
        f"work with a copied checkpoint over work with forks, {largest:,} states",
        copies[largest].total / forks[largest].total,
        0.001 * largest,
        "a copied checkpoint",
        unit=" times",
    )


def _calculated(report: Report, forks: dict[int, Work], copies: dict[int, Work]) -> None:
    """Undo rebuilds the state from the rows that contribute to it, then redoes the failure. Its
    comparing of rows (p_comp) is taken for free, and a row costs what it costs here."""
    rows = []
    for size, work in forks.items():
        each = work.redone / BUCKETS
        rows.append(
            [
                size,
                work.copied + work.redone,
                copies[size].copied + copies[size].redone,
                size + BUCKETS * each,
                (size + BUCKETS) * each,
            ]
        )
    report.table(
        "Table 5.1: cost of a reconciliation in states combined and copied, previews left out. "
        "S states, F buckets of one row, p_copy = 1, p_proc as measured, p_comp = 0, l = 0; "
        "measured, a window's tree holds two states for each pane. "
        "CALCULATED: checkpoint S p_copy + F p_proc; undo (S + F) (p_comp + p_proc)",
        [
            "states",
            "fork, measured",
            "checkpoint, measured",
            "checkpoint, calculated",
            "undo and redo, calculated",
        ],
        rows,
    )


def _many_keys(report: Report, scale: Scale) -> None:
    """Every pane slides the window of every key: what is redone grows with the keys, and so do the
    roots that the fork copies, O(log panes) for each key."""
    forks, copies, times = {}, {}, {}
    for size in scale.keyed_sizes:
        report.progress(f"{size // PANES:,} keys of {PANES} panes each")
        held = time_window(PANES, size // PANES)
        forks[size], copies[size] = by_fork(held, BUCKETS), by_copy(held, BUCKETS)
        times[size] = _time_bare(held, scale)
    _counted(
        report,
        f"many keys with {PANES} panes each, all with rows in every pane; a failure of {BUCKETS}: "
        "O(keys) with a fork too, for each key's window slides and its root is copied once",
        forks,
        copies,
    )
    _report_bare(report, f"many keys with {PANES} panes each", times)
    each = [work.copied / (size / PANES) for size, work in forks.items()]
    report.claim(
        "states that a fork copies for each key that changes, most",
        max(each),
        4 * PANES.bit_length() + 2,
        f"{PANES} panes, of which a checkpoint copies all",
        at_least=False,
    )


def _silent_keys(report: Report, scale: Scale) -> None:
    """A fork copies the roots of the keys that have rows; of the others only a pointer."""
    forks, copies, times = {}, {}, {}
    for size in scale.untouched_sizes:
        report.progress(f"{size // PANES:,} keys with their last {PANES} rows each")
        held = count_windows(PANES, size // PANES, TOUCHED)
        forks[size], copies[size] = _count(held)
        times[size] = _time_bare(held, scale)
    title = f"last {PANES} rows of each of many keys, {TOUCHED} of which have rows"
    _counted(report, f"{title}; a failure of {BUCKETS} buckets", forks, copies)
    _report_bare(report, title, times)
    largest, least = max(forks), min(forks)
    report.claim(
        f"work with forks where {TOUCHED} keys have rows, {largest:,} states over {least:,}",
        forks[largest].total / forks[least].total,
        2,
        "the same failure with fewer keys",
        at_least=False,
        unit=" times",
    )


def _count(held: Held) -> tuple[Work, Work]:
    return Work.mean([by_fork(held, BUCKETS) for _ in range(FAILURES)]), by_copy(held, BUCKETS)


def _counted(report: Report, title: str, forks: dict[int, Work], copies: dict[int, Work]) -> None:
    rows = [
        [size, name, work.previews, work.redone, work.copied, work.total]
        for name, works in (("fork", forks), ("copied checkpoint", copies))
        for size, work in works.items()
    ]
    report.table(f"work of a reconciliation: {title}", ["states", "by", *WORK], rows)


def _time(held: Held, scale: Scale) -> Timings:
    return measure(
        [
            Alternative("fork", partial(by_fork, held, BUCKETS)),
            Alternative("copy", partial(by_copy, held, BUCKETS)),
        ],
        repeats=scale.repeats,
    )


def _time_bare(held: Held, scale: Scale) -> Timings:
    """Only what comes with the fork or the copy itself."""
    return measure(
        [
            Alternative("fork", lambda: held.stage.fork().drop()),
            Alternative("copy", lambda: held.stage.copy().drop()),
        ],
        repeats=scale.repeats,
    )


def _report_bare(report: Report, title: str, times: dict[int, Timings]) -> None:
    report.table(
        f"{title}: time to make and drop a fork, which holds a pointer for each key, O(keys), and "
        "a copy (information)",
        ["states", "keys", "fork ms", "copy ms", "times", "lowest", "highest"],
        [[size, size // PANES, *_shown(timings)] for size, timings in times.items()],
    )


def _shown(timings: Timings) -> list[float]:
    ratio = timings.ratio("fork", "copy")
    each = [1e3 * timings.seconds(name).median for name in ("fork", "copy")]
    return [*each, ratio.median, *ratio.range]
