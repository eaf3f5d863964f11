"""What a benchmark part hands in: tables and progress, printed at once, and claims, printed last.

A claim is a figure measured in this run against a named peer, with the bound it must keep.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.machine import describe_machine, git_revision, package_versions

__all__ = ["Claim", "Report"]


@dataclass(frozen=True)
class Claim:
    """One promise: `figure` is at least (or at most) `bound`, measured against `peer`."""

    name: str
    figure: float
    bound: float
    peer: str
    at_least: bool
    spread: tuple[float, float] | None
    unit: str

    @property
    def holds(self) -> bool:
        return self.figure >= self.bound if self.at_least else self.figure <= self.bound

    def __str__(self) -> str:
        relation = ">=" if self.at_least else "<="
        spread = "" if self.spread is None else " ({} to {})".format(*map(_show, self.spread))
        verdict = "HOLDS" if self.holds else "FAILS"
        figure = f"{_show(self.figure)}{self.unit}"
        return (
            f"{verdict}  {self.name}: {figure}{spread}, bound {relation} {_show(self.bound)}"
            f"{self.unit}, against {self.peer}"
        )


class Report:
    """Collects what one part measures; `write` puts all of it into RESULTS/NAME.json."""

    def __init__(self, name: str, console: Console | None = None) -> None:
        self.name = name
        self.claims: list[Claim] = []
        self._tables: list[dict[str, Any]] = []
        self._console = console or Console()
        self._date = datetime.now(UTC).isoformat(timespec="seconds")
        self._machine = describe_machine()

    @property
    def holds(self) -> bool:
        return all(claim.holds for claim in self.claims)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table now and keep it. Numbers are rounded on screen, not in the file."""
        rows = [list(row) for row in rows]
        for row in rows:
            if len(row) != len(columns):
                raise ValueError(f"table {title!r}: {len(columns)} columns, but the row {row}")
        printed = Table(title=title, title_justify="left")
        for position, column in enumerate(columns):
            is_number = all(isinstance(row[position], int | float) for row in rows)
            printed.add_column(column, justify="right" if is_number else "left")
        for row in rows:
            printed.add_row(*map(_show, row))
        self._console.print(printed)
        self._tables.append({"title": title, "columns": list(columns), "rows": rows})

    def progress(self, text: str) -> None:
        """Say what is being measured now; not kept."""
        self._console.print(f"{self.name}: {text}", style="dim", markup=False, highlight=False)

    def claim(
        self,
        name: str,
        figure: float,
        bound: float,
        peer: str,
        *,
        at_least: bool = True,
        spread: tuple[float, float] | None = None,
        unit: str = "",
    ) -> None:
        """Keep a claim; `spread` is the lowest and highest figure over the repeats."""
        self.claims.append(Claim(name, figure, bound, peer, at_least, spread, unit))

    def print_claims(self) -> None:
        for claim in self.claims:
            style = "green" if claim.holds else "bold red"
            self._console.print(
                str(claim), style=style, markup=False, highlight=False, soft_wrap=True
            )

    def as_dict(self) -> dict[str, Any]:
        return {
            "part": self.name,
            "date": self._date,
            "revision": git_revision(),
            "machine": self._machine,
            "packages": package_versions(),
            "holds": self.holds,
            "claims": [vars(claim) | {"holds": claim.holds} for claim in self.claims],
            "tables": self._tables,
        }

    def write(self, directory: Path) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.name}.json"
        path.write_text(json.dumps(_to_json(self.as_dict()), indent=2) + "\n")
        return path


def _show(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _to_json(value: Any) -> Any:
    """The same value in JSON's types: NumPy scalars unpacked, NaN and infinities as null."""
    if isinstance(value, dict):
        return {key: _to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
