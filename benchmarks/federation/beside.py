"""Figures beside the document's: each a claim with the document's own bound, and a table of all."""

from __future__ import annotations

from benchmarks.report import Report

__all__ = ["Beside"]


class Beside:
    def __init__(self, report: Report) -> None:
        self._report = report
        self._rows: list[list[object]] = []

    def add(
        self,
        source: str,
        name: str,
        figure: float,
        bound: float,
        published: str,
        *,
        at_least: bool = False,
        spread: tuple[float, float] | None = None,
        unit: str = " %",
    ) -> None:
        """A figure of ours, and what the document says in `source`: at most (or at least) `bound`,
        which is never ours."""
        peer = f"the document, {source}: {published}"
        self._report.claim(name, figure, bound, peer, at_least=at_least, spread=spread, unit=unit)
        holds = figure >= bound if at_least else figure <= bound
        here = f"{figure:.3g}{unit}"
        if spread is not None:
            here += f" ({spread[0]:.3g} to {spread[1]:.3g})"
        self._rows.append([source, name, here, published, "yes" if holds else "NO"])

    def report(self) -> None:
        self._report.table(
            "Beside the published figures", ["source", "what", "here", "published", "holds"],
            self._rows,
        )  # fmt: skip
