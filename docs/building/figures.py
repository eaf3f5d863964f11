"""Tables of measured figures, from benchmarks/results/NAME.json as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from sphinx.errors import ExtensionError

__all__ = ["write_claims", "write_machine", "write_table"]

RESULTS: Final = Path(__file__).parents[2] / "benchmarks" / "results"


def write_claims(part: str, *words: str) -> str:
    """The claims of a part whose names have any of the words; all without words."""
    claims = [
        claim
        for claim in _read(part)["claims"]
        if not words or any(word in claim["name"] for word in words)
    ]
    if not claims:
        raise ExtensionError(f"{part}.json: no claim has any of {', '.join(words)} in its name")
    rows = [
        [
            claim["name"],
            _with_unit(claim["figure"], claim["unit"]),
            "" if claim["spread"] is None else " to ".join(map(_show, claim["spread"])),
            claim["peer"],
            f"{'≥' if claim['at_least'] else '≤'} {_with_unit(claim['bound'], claim['unit'])}",
            "yes" if claim["holds"] else "**no**",
        ]
        for claim in claims
    ]
    return _write_rows(["what", "measured", "range", "against", "required", "holds"], rows)


def write_table(part: str, title: str, *columns: str) -> str:
    """The table of a part whose title begins so, with these columns; all without columns."""
    found = [table for table in _read(part)["tables"] if table["title"].startswith(title)]
    if len(found) != 1:
        raise ExtensionError(f"{part}.json: {len(found)} tables begin with {title!r}, not one")
    table = found[0]
    unknown = set(columns) - set(table["columns"])
    if unknown:
        raise ExtensionError(f"{part}.json: {table['title']}: no column {', '.join(unknown)}")
    places = [table["columns"].index(name) for name in columns or table["columns"]]
    rows = [[_show(row[place]) for place in places] for row in table["rows"]]
    return _write_rows([table["columns"][place] for place in places], rows)


def write_machine(part: str) -> str:
    """When and where a part was measured."""
    result = _read(part)
    machine = result["machine"]
    return (
        f"`benchmarks/results/{part}.json`: measured {result['date'][:10]} at revision "
        f"`{result['revision']}` on {machine['cores']} cores ({machine['cpu']}), "
        f"{machine['memory_gib']:g} GiB, {machine['system']}, {machine['python']}; load "
        f"at the start {machine['load_at_start']:g}. Again: `make bench PART={part}`."
    )


def _read(part: str) -> dict[str, Any]:
    path = RESULTS / f"{part}.json"
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        known = ", ".join(sorted(each.stem for each in RESULTS.glob("*.json")))
        raise ExtensionError(f"there is no {path}; there are {known}") from None


def _write_rows(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def _with_unit(value: Any, unit: str) -> str:
    return _show(value) + (" times" if unit == "x" else unit)


def _show(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
