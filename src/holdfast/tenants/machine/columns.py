"""Settlement of many updates at once, stream by stream.

Where streams have no state but their last result and nothing unusual happens, that comes to the
same: each stream sees, for each update, the last values of its inputs up to then. Whatever is
unusual (a late update, a clock that lags, an input without a value, an expression that fails, a
limit that might be met) is left to `settle`: then there is no answer here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from holdfast.tenants.machine.pages import LONGEST_PAGE, Page, packed, unpacked_numbers
from holdfast.tenants.machine.settling import (
    Calculation,
    Limits,
    Node,
    Part,
    World,
    owners_of,
)
from holdfast.tenants.machine.updates import LARGEST_INTEGER, Update

FEWEST: Final = 8
"""Updates for which it is worth it."""
_FIXED: Final = {"number": float, "integer": int, "boolean": bool}
"""Types of channels whose values all weigh the same."""
WEIGHT: Final = 8


@dataclass
class Column:
    """Updates of one stream."""

    stream: str
    offsets: list[int]
    positions: list[int]
    """Of the log entries that they came of: the order of all updates."""
    timestamps: list[int]
    values: dict[str, list[Any]]
    inputs: dict[str, tuple[str, list[int]]]
    owners: tuple[str, ...]
    is_composite: bool

    def pages(self) -> Iterator[Page]:
        for start in range(0, len(self.offsets), LONGEST_PAGE):
            some = slice(start, start + LONGEST_PAGE)
            yield Page(
                self.stream,
                len(self.offsets[some]),
                packed(self.offsets[some]),
                packed(self.positions[some]),
                packed(self.timestamps[some]),
                {name: column[some] for name, column in self.values.items()},
                {
                    alias: (source, packed(offsets[some]))
                    for alias, (source, offsets) in self.inputs.items()
                },
                self.owners,
            )

    @property
    def last(self) -> Update:
        return Update(
            self.stream,
            self.offsets[-1],
            self.timestamps[-1],
            self.positions[-1],
            {name: column[-1] for name, column in self.values.items()},
            "",
            {alias: (source, offsets[-1]) for alias, (source, offsets) in self.inputs.items()},
            self.owners,
        )


@dataclass
class SettledColumns:
    columns: list[Column] = field(default_factory=list)
    runs: int = 0
    work: dict[str, int] = field(default_factory=dict)
    """For each stream that was published to, the steps of its owner's that an update set off."""


class _UnusualError(Exception):
    """To be settled update by update."""


def columns_of(pages: Sequence[Page]) -> list[Column]:
    """Published updates, a column for each stream, of pages by offset."""
    found: dict[str, Column] = {}
    for page in pages:
        column = found.get(page.stream)
        if column is None:
            column = found[page.stream] = Column(
                *(page.stream, [], [], []),
                {name: [] for name in page.values},
                *({}, page.owners),
                is_composite=False,
            )
        column.offsets += unpacked_numbers(page.offsets, page.count)
        column.positions += unpacked_numbers(page.positions, page.count)
        column.timestamps += unpacked_numbers(page.timestamps, page.count)
        for name, values in page.values.items():
            column.values[name] += values
    return list(found.values())


def settle_columns(
    pages: Sequence[Page],
    part: Part,
    world: World,
    calculations: Mapping[str, Calculation],
    limits: Limits,
) -> SettledColumns | None:
    """All that comes of published updates, as `settle` gives it for one after the other; None if
    that has to be asked. Changes nothing in `world`."""
    count = sum(page.count for page in pages)
    if count < FEWEST or not part.is_plain or world.lags:
        return None
    try:
        return _Settlement(pages, part, world, calculations, limits).run()
    except _UnusualError:
        return None
    except Exception:
        # An expression that fails on some values is told by whoever looks at them one by one.
        return None


class _Settlement:
    def __init__(
        self,
        pages: Sequence[Page],
        part: Part,
        world: World,
        calculations: Mapping[str, Calculation],
        limits: Limits,
    ) -> None:
        self._part = part
        self._world = world
        self._calculations = calculations
        self._limits = limits
        self._columns = {column.stream: column for column in columns_of(pages)}
        self._rising: set[int] = set()
        """Lists of timestamps that are known to rise."""

    def run(self) -> SettledColumns:
        self._check_world()
        self._check_sources()
        self._check_work()
        part = self._part
        settled = SettledColumns()
        for path in sorted(part.nodes, key=lambda each: part.rank[each]):
            column = self._calculated(part.nodes[path])
            if column is not None:
                self._columns[path] = column
                settled.runs += len(column.offsets)
        settled.columns = list(self._columns.values())
        settled.work = {
            path: self._work_behind(path)
            for path, column in self._columns.items()
            if not column.is_composite
        }
        return settled

    def _check_world(self) -> None:
        """No stream has partitions: a calculation may see the newest of all of them."""
        if any(key for known in self._world.latest.values() for key in known):
            raise _UnusualError

    def _check_sources(self) -> None:
        for path, column in self._columns.items():
            if path in self._part.nodes or column.values.keys() >= {"latitude", "longitude"}:
                raise _UnusualError
            if any(isinstance(some[0], str) for some in column.values.values()):
                raise _UnusualError
            self._check_rising(path, column.timestamps)

    def _check_rising(self, path: str, timestamps: list[int]) -> None:
        """Each is newer than the one before, and the first than what is stored."""
        before = self._world.last(path, "")
        if before is not None and timestamps[0] <= before.timestamp:
            raise _UnusualError
        if id(timestamps) in self._rising:
            return
        if any(a >= b for a, b in pairwise(timestamps)):
            raise _UnusualError
        self._rising.add(id(timestamps))

    def _check_work(self) -> None:
        publishers = {path.partition("/")[0] for path in self._columns}
        spent: dict[str, int] = {}
        for path in self._part.nodes:
            owner = self._part.shapes[path].owner
            spent[owner] = spent.get(owner, 0) + self._work(path)
        for owner, work in spent.items():
            is_own = publishers == {owner}
            if work > (self._limits.work if is_own else self._limits.work_of_others):
                raise _UnusualError

    def _work(self, path: str) -> int:
        """Steps of one result."""
        size = WEIGHT * len(self._part.shapes[path].types)
        return self._calculations[path].work + size // 8

    def _work_behind(self, path: str) -> int:
        owner = path.partition("/")[0]
        found: set[str] = set()
        front = [path]
        while front:
            for edge in self._part.edges.get(front.pop(), ()):
                if edge.target not in found:
                    found.add(edge.target)
                    front.append(edge.target)
        mine = (each for each in found if self._part.shapes[each].owner == owner)
        return sum(map(self._work, mine))

    def _calculated(self, node: Node) -> Column | None:
        shape = self._part.shapes[node.path]
        assert shape.plain is not None
        moving = [
            self._columns[source]
            for source in dict.fromkeys(shape.plain.values())
            if source in self._columns
        ]
        if not moving:
            return None
        at = moving[0].positions
        if any(each.positions != at for each in moving):
            at = sorted({position for each in moving for position in each.positions})
        seen = {alias: self._seen(source, at) for alias, source in shape.plain.items()}
        timestamps = self._timestamps(node.path, at, moving, list(seen.values()))
        variables = {
            alias: {name: column.values[name] for name in column.values}
            for alias, column in seen.items()
        }
        values = self._calculations[node.path].columns(variables, len(at))
        for name, kind in shape.types.items():
            _check_fits(values[name], kind)
        offset = self._world.offsets.get(node.path, 0)
        return Column(
            node.path,
            list(range(offset, offset + len(at))),
            at,
            timestamps,
            values,
            {alias: (column.stream, column.offsets) for alias, column in seen.items()},
            owners_of(shape.owner, [(each.stream, each.owners) for each in seen.values()]),
            is_composite=True,
        )

    def _timestamps(
        self, path: str, at: list[int], moving: Sequence[Column], seen: Sequence[Column]
    ) -> list[int]:
        """The newest among the inputs, each of which must be newer than the last result."""
        if len(seen) == 1:
            timestamps = seen[0].timestamps
            self._check_rising(path, timestamps)
            return timestamps
        timestamps = [max(some) for some in zip(*(each.timestamps for each in seen), strict=True)]
        asked = dict.fromkeys(at, -(2**63))
        for each in moving:
            for k, timestamp in zip(each.positions, each.timestamps, strict=True):
                asked[k] = max(asked[k], timestamp)
        before = self._world.last(path, "")
        last = -(2**63) if before is None else before.timestamp
        for k, timestamp in zip(at, timestamps, strict=True):
            if asked[k] <= last:
                raise _UnusualError
            last = timestamp
        return timestamps

    def _seen(self, source: str, at: list[int]) -> Column:
        """The last update of a stream up to each of these."""
        column = self._columns.get(source)
        if column is not None and column.positions == at:
            return column
        before = self._world.newest.get(source)
        if column is None:
            if before is None:
                raise _UnusualError
            count = len(at)
            return Column(
                *(source, [before.offset] * count, at, [before.timestamp] * count),
                {name: [value] * count for name, value in before.values.items()},
                *({}, before.owners),
                is_composite=False,
            )
        if column.positions[0] > at[0] and (before is None or before.owners != column.owners):
            raise _UnusualError
        return self._filled(column, before, at)

    def _filled(self, column: Column, before: Update | None, at: list[int]) -> Column:
        chosen: list[int] = []
        """For each its number in the column; -1: what is stored."""
        number, positions = -1, column.positions
        for k in at:
            while number + 1 < len(positions) and positions[number + 1] <= k:
                number += 1
            chosen.append(number)

        def fill(values: list[Any], first: Any) -> list[Any]:
            return [first if each < 0 else values[each] for each in chosen]

        stored = {} if before is None else before.values
        if before is not None and chosen[0] < 0 and stored.keys() != column.values.keys():
            raise _UnusualError
        return Column(
            column.stream,
            fill(column.offsets, 0 if before is None else before.offset),
            at,
            fill(column.timestamps, 0 if before is None else before.timestamp),
            {name: fill(values, stored.get(name)) for name, values in column.values.items()},
            {},
            column.owners,
            column.is_composite,
        )


def _check_fits(values: list[Any], kind: str) -> None:
    """As `fits` has it, for all of them."""
    if set(map(type, values)) != {_FIXED[kind]}:
        raise _UnusualError
    if kind == "number" and not all(map(math.isfinite, values)):
        raise _UnusualError
    if kind == "integer" and not all(abs(each) <= LARGEST_INTEGER for each in values):
        raise _UnusualError
