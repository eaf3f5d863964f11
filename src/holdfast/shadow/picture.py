"""The picture of a shadow: how wrong the answers were, and how many leaves that saved.

Called by `holdfast shadow --picture` and by users. Writes one file and keeps no state.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from holdfast.pictures import check_picture, new_picture, save_picture
from holdfast.windows.approximation import Shadow, ShadowReport

__all__ = ["draw_shadow"]

EXACT, APPROXIMATE, BOUND, GREY = "#9aa5b1", "#1565c0", "#c62828", "#52606d"


def draw_shadow(shadow: ShadowReport | Shadow, path: str | Path) -> Path:
    """Draw the distribution of errors and the number of leaves over time, as PNG or SVG."""
    path = check_picture(Path(path))
    report = shadow.report() if isinstance(shadow, Shadow) else shadow
    figure = new_picture(11, 4.2)
    errors, leaves = figure.subplots(1, 2)
    _draw_errors(errors, report)
    _draw_leaves(leaves, report)
    figure.suptitle(f"{report.monoid} with {report.methods}", fontsize=11)
    return save_picture(figure, path)


def _draw_errors(axis: Any, report: ShadowReport) -> None:
    axis.set_title("how wrong the answers were", fontsize=10)
    wrong = [(error, share) for error, share in report.curve if error < math.inf]
    if not wrong or report.exact == report.updates:
        axis.text(0.5, 0.5, _in_place_of_a_curve(report), ha="center", va="center", color=GREY)
        axis.set_axis_off()
        return
    shares = [100 * share for _, share in wrong]
    axis.step([error for error, _ in wrong], shares, where="post", color=APPROXIMATE, lw=2)
    axis.set_xscale("log")
    share = 100 * report.exact_share
    # Where nearly all is exact, the axis begins near there.
    bottom = 0 if share < 90 else share - 0.4 * (100 - share)
    axis.set_ylim(bottom, 100 + 0.05 * (100 - bottom))
    axis.axhline(share, color=GREY, lw=1, ls=":")
    axis.annotate(
        f"exact: {share:.4g} %",
        (0.02, share),
        (0, -4 if share > 10 else 4),
        xycoords=axis.get_yaxis_transform(),
        textcoords="offset points",
        color=GREY,
        va="top" if share > 10 else "bottom",
    )
    if report.bound is not None:
        axis.axvline(report.bound, color=BOUND, lw=1.5, ls="--")
        axis.annotate(
            f"bound {100 * report.bound:g} % ",
            (report.bound, 0.02),
            xycoords=axis.get_xaxis_transform(),
            color=BOUND,
            ha="right",
        )
    axis.set_xlabel("relative error of an answer, at most")
    axis.set_ylabel("share of the answers")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g} %"))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda error, _: _plain_percent(error)))
    low, high = axis.get_xlim()
    axis.xaxis.set_major_locator(
        LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,), numticks=6)
    )
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.grid(alpha=0.3)


def _plain_percent(part: float) -> str:
    """Without an exponent: 0.000001 %."""
    return f"{100 * part:.12f}".rstrip("0").rstrip(".") + " %"


def _in_place_of_a_curve(report: ShadowReport) -> str:
    if report.exact == report.updates:
        return f"all {report.updates:,} answers are exact"
    return f"{100 * report.exact_share:.4g} % of the answers are exact;\nthe others have no size"


def _draw_leaves(axis: Any, report: ShadowReport) -> None:
    updates = [point[0] for point in report.course]
    axis.set_title("what the window holds", fontsize=10)
    axis.plot(updates, [leaves for _, leaves, _ in report.course], color=EXACT, label="exact")
    buckets = [buckets for _, _, buckets in report.course]
    axis.plot(updates, buckets, color=APPROXIMATE, lw=2, label="approximate")
    if report.settled_at is not None:
        axis.axvline(report.settled_at, color=GREY, lw=1, ls=":", label="steady state begins")
    axis.set_yscale("log")
    axis.set_xlabel("updates")
    axis.set_ylabel("leaves")
    count = FuncFormatter(lambda number, _: f"{number:,.0f}")
    axis.xaxis.set_major_formatter(count)
    axis.yaxis.set_major_formatter(count)
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.grid(alpha=0.3)
    axis.legend(loc="lower right", fontsize=9)
