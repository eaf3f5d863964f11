"""Problem reports: table, field and remedy of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from reprlib import repr as shorten
from typing import Any, Final

from holdfast.errors import InvalidArgumentError

MOST_SHOWN: Final = 50
"""A message has so many lines; `problems` has them all."""

LONGEST_COMPARED: Final = 100
MOST_COMPARED: Final = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    table: str
    """As it stands in the file, `stages.clean`; empty for the fields at the top."""
    field: str
    """Within the table, such as `steps #2 window.size`; empty for the table itself."""
    message: str
    """What is wrong, and the remedy."""

    def __str__(self) -> str:
        table = f"[{_cut(self.table)}]" if self.table else ""
        place = " ".join(part for part in (table, _cut(self.field)) if part)
        return f"{place}: {self.message}" if place else self.message


class TopologyError(InvalidArgumentError):
    """A topology that cannot be run, with all that is wrong with it."""

    def __init__(self, place: str, problems: Iterable[Problem]) -> None:
        """`place`: the file, or "topology" for one made in Python."""
        self.place = place
        found = list(problems)
        tables = list(dict.fromkeys(problem.table for problem in found))
        rank = {table: at for at, table in enumerate(tables)}
        # What is wrong with a table stands together.
        self.problems = tuple(sorted(found, key=lambda problem: rank[problem.table]))
        lines = [f"{place}: {problem}" for problem in self.problems[:MOST_SHOWN]]
        if len(self.problems) > MOST_SHOWN:
            lines.append(f"{place}: and {len(self.problems) - MOST_SHOWN} more; mend these first")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[Any, ...]:
        return TopologyError, (self.place, self.problems)


def show(value: Any) -> str:
    """A value in a message: short, on one line, whatever it is."""
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return shorten(value)
    except Exception:  # An integer of too many digits, or an object that cannot show itself.
        return f"this {type(value).__name__}"


def did_you_mean(wrong: Any, known: Iterable[str]) -> str:
    """` (did you mean 'this'?)` where a known word is near, else nothing."""
    if not isinstance(wrong, str) or len(wrong) > LONGEST_COMPARED:
        return ""
    near = get_close_matches(wrong.lower(), list(islice(known, MOST_COMPARED)), n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""


def _cut(text: str) -> str:
    """Keys of a file may hold anything, line breaks too."""
    plain = "".join(sign if sign.isprintable() else "?" for sign in text)
    return plain if len(plain) <= LONGEST_COMPARED else plain[: LONGEST_COMPARED - 3] + "..."
