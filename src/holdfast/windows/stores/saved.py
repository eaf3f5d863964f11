"""The record from which a window is resumed: its root, and where its pairs lie.

Written by `writer` with every batch of pairs, read by `stored` when a window is opened. The root
is saved as it is, so that a resumed window answers what an uninterrupted one would, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from holdfast.errors import StoreCorruptError, StoreError
from holdfast.windows.pairs import Root
from holdfast.windows.stores.codec import unseal
from holdfast.windows.stores.epochs import LEVELS, Epoch, interior
from holdfast.windows.stores.link import Link

__all__ = ["from_record", "to_plain"]

S = TypeVar("S")

FORMAT = 1
ACCOMPANIED = 2
"""The format of records of windows that dropped levels or have something saved with the root."""


def to_plain(monoid: str, epoch: Epoch, root: Root[S]) -> Any:
    """The plain values to save of a window."""
    lineage = [(each.number, each.since, each.swept) for each in epoch.lineage()]
    numbers = (root.oldest, root.next, root.end)
    states = (root.tails, root.stack, root.front, root.back)
    if epoch.companion is None and not epoch.dropped:
        return FORMAT, monoid, lineage, numbers, states
    companion = None if epoch.companion is None else epoch.companion()
    return ACCOMPANIED, monoid, lineage, numbers, states, (epoch.dropped, epoch.head), companion


def from_record(link: Link, monoid: str, record: bytes) -> tuple[Epoch, Root[Any], Any]:
    """The window's epoch, linked to its ancestors, its root, and what accompanies that."""
    window = link.window
    try:
        version, name, *rest = link.codec.decode(unseal(record))
    except (StoreCorruptError, TypeError, ValueError) as error:
        raise StoreCorruptError(
            f"window {window!r}: its root cannot be read: {error}. Open it with the codec that "
            "wrote it; if the store is damaged, feed a window of another name from the start"
        ) from error
    if version not in (FORMAT, ACCOMPANIED):
        raise StoreError(
            f"window {window!r} was stored in format {version}, this version of Holdfast reads "
            f"{FORMAT} and {ACCOMPANIED}; open it with the version that stored it, or feed one of "
            "another name"
        )
    if name != monoid:
        raise StoreError(
            f"window {window!r} was stored with the monoid {name!r}, not {monoid!r}; "
            "open it with that monoid, or give this window another name"
        )
    lineage, (oldest, following, end), (tails, stack, front, back), *more = rest
    (dropped, head), companion = more or ((0, None), None)
    epoch = _link(lineage)
    epoch.dropped, epoch.head, epoch.living = dropped, head, True
    root = Root(oldest, following, list(tails), end, list(stack), front, back)
    epoch.oldest, following = epoch.in_store(root)
    epoch.written, epoch.stored = _ends(following), _ends(following)
    return epoch, root, companion


def _link(lineage: Iterable[tuple[int, int, int]]) -> Epoch:
    """The epochs of a lineage, given youngest first, all but the youngest of dropped windows."""
    parent: Epoch | None = None
    for number, since, swept in reversed(list(lineage)):
        if parent is not None:
            parent.written, parent.stored = _ends(since), _ends(since)
        parent = Epoch(number, parent, since, swept=swept, living=False)
    assert parent is not None
    return parent


def _ends(following: int) -> list[int]:
    """For each level the position of its tail when leaf `following` comes next."""
    return [max(0, interior(following, level)) for level in range(LEVELS)]
