"""Many updates of one stream in columns.

A page holds plain updates only, those that nobody looks for by anything but offset and time: of no
partition, not late, without text and place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from holdfast.tenants.machine.updates import Update

LONGEST_PAGE: Final = 1_000
SHORTEST_PAGE: Final = 8
"""Fewer updates are rows."""

Numbers = int | list[int]
"""The first one if each is one more than the one before."""


class Page(msgspec.Struct, frozen=True):
    stream: str
    count: int
    offsets: Numbers
    positions: Numbers
    timestamps: Numbers
    values: dict[str, list[Any]]
    inputs: dict[str, tuple[str, Numbers]]
    owners: tuple[str, ...]


def is_plain(update: Update) -> bool:
    """As far as the update itself tells; it must not be late either."""
    if update.key:
        return False
    values = update.values
    for value in values.values():
        if isinstance(value, str):
            return False
    return not (
        isinstance(values.get("latitude"), float) and isinstance(values.get("longitude"), float)
    )


def packed(numbers: list[int]) -> Numbers:
    first = numbers[0]
    is_range = numbers[-1] - first == len(numbers) - 1 and numbers == list(
        range(first, first + len(numbers))
    )
    return first if is_range else numbers


def unpacked_numbers(numbers: Numbers, count: int) -> Sequence[int]:
    return range(numbers, numbers + count) if isinstance(numbers, int) else numbers


def pages_of(updates: Sequence[Update]) -> Iterator[Page]:
    """Of plain updates of one stream, by offset."""
    at = 0
    while at < len(updates):
        first = updates[at]
        end = at + 1
        shape = _shape(first)
        while end < len(updates) and end - at < LONGEST_PAGE and _shape(updates[end]) == shape:
            end += 1
        some = updates[at:end]
        yield Page(
            first.stream,
            len(some),
            packed([each.offset for each in some]),
            packed([each.position for each in some]),
            packed([each.timestamp for each in some]),
            {name: [each.values[name] for each in some] for name in first.values},
            {
                alias: (source, packed([each.inputs[alias][1] for each in some]))
                for alias, (source, _) in first.inputs.items()
            },
            first.owners,
        )
        at = end


def _shape(update: Update) -> tuple[Any, ...]:
    """What all updates of a page have in common."""
    sources = [(alias, source) for alias, (source, _) in update.inputs.items()]
    return (list(update.values), sources, update.owners)


def unpacked(page: Page) -> list[Update]:
    count = page.count
    names = list(page.values)
    rows: Iterable[tuple[Any, ...]] = (
        zip(*page.values.values(), strict=True) if names else [()] * count
    )
    lineage = [
        [(source, offset) for offset in unpacked_numbers(offsets, count)]
        for source, offsets in page.inputs.values()
    ]
    aliases = list(page.inputs)
    inputs: Iterable[tuple[Any, ...]] = zip(*lineage, strict=True) if aliases else [()] * count
    return [
        Update(
            page.stream,
            offset,
            timestamp,
            position,
            dict(zip(names, row, strict=True)),
            "",
            dict(zip(aliases, each, strict=True)),
            page.owners,
        )
        for offset, position, timestamp, row, each in zip(
            unpacked_numbers(page.offsets, count),
            unpacked_numbers(page.positions, count),
            unpacked_numbers(page.timestamps, count),
            rows,
            inputs,
            strict=True,
        )
    ]


def cut(page: Page, before: int) -> Page | None:
    """The page without offsets below this one; None if nothing is left."""
    offsets = unpacked_numbers(page.offsets, page.count)
    gone = sum(1 for offset in offsets if offset < before)
    if gone == page.count:
        return None

    def rest(numbers: Numbers) -> Numbers:
        return numbers + gone if isinstance(numbers, int) else numbers[gone:]

    return Page(
        page.stream,
        page.count - gone,
        rest(page.offsets),
        rest(page.positions),
        rest(page.timestamps),
        {name: column[gone:] for name, column in page.values.items()},
        {alias: (source, rest(numbers)) for alias, (source, numbers) in page.inputs.items()},
        page.owners,
    )
