"""The root in a process: what comes out is written down before the children may forget it.

The answers to what the root is told leave it only after its windows, and what it must remember, are
where they are to be: a root that is killed at any moment goes on without losing or repeating one.
The windows that its memory does not know of yet, for it was killed in between, are recognised by
their starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TextIO

import msgspec

from holdfast.edge.hub import Hub
from holdfast.edge.layout import ROOT, Child, Intermediate, Layout, Query
from holdfast.edge.runner import Clock, Runner, _plain, logger
from holdfast.edge.security import read_credentials
from holdfast.errors import InvalidArgumentError, StoreCorruptError
from holdfast.protocol.edge.formation import Group, name_of
from holdfast.protocol.edge.memory import RootMemory, recall, remember
from holdfast.protocol.edge.messages import Register, Roster, Send
from holdfast.protocol.edge.root import Root, RootOptions
from holdfast.protocol.edge.windows import Window
from holdfast.protocol.groups import Claim

__all__ = ["Keeper", "LineKeeper", "RootNode"]

KEPT: int = 2_000
"""The newest windows that a root can be asked for."""


class Keeper(Protocol):
    """Where windows go."""

    def last(self) -> Mapping[str, int]:
        """By query, the start of the last window that is kept."""

    def keep(self, windows: list[dict[str, Any]]) -> None:
        """Returns when they are safe."""


class LineKeeper:
    """Appends lines of JSON to a file, or prints them."""

    def __init__(self, path: Path | None, out: TextIO | None = None) -> None:
        self._path = path
        self._out = out
        self._file = None if path is None else path.open("ab")

    def last(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        if self._path is None or self._file is None:
            return found
        whole = 0
        with self._path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                whole += len(line)
                try:
                    window = json.loads(line)
                    found[window["query"]] = window["start"]
                except (ValueError, KeyError, TypeError) as error:
                    raise StoreCorruptError(
                        f"{self._path}: has a line that is no window; move the file away"
                    ) from error
        # A line that was cut off by the end of a process.
        self._file.truncate(whole)
        return found

    def keep(self, windows: list[dict[str, Any]]) -> None:
        lines = "".join(json.dumps(window, default=_plain) + "\n" for window in windows)
        if self._file is not None:
            self._file.write(lines.encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        if self._out is not None:
            self._out.write(lines)
            self._out.flush()


class _Planned:
    """Groups as the file plans them: formed when all of their nodes have registered."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._there: set[str] = set()
        self.groups: dict[str, Group] = {}
        self.addresses: dict[str, str] = {}

    def group_of(self, node: str) -> Group | None:
        return next((group for group in self.groups.values() if node in group.nodes), None)

    def register(self, message: Register) -> Group | None:
        layout, node = self._layout, message.node
        if message.address:
            self.addresses[node] = message.address
        group = self.group_of(node)
        if group is not None:
            return group
        tables: dict[str, Child | Intermediate] = {**layout.children, **layout.intermediates}
        if message.group in self.groups:
            logger.info("%s: joins %s", node, message.group)
            self.groups[message.group].admit(node)
            return self.groups[message.group]
        if node not in tables:
            # It asks again, and joins when the others of its group are there.
            logger.warning("%s: registers, and the file does not name it", node)
            return None
        self._there.add(node)
        name = tables[node].group
        members = tuple(sorted(layout.groups()[name]))
        layers = layout.layers(name)
        if not self._there >= {*members, *(each for layer in layers for each in layer)}:
            return None
        count = len(members) * layout.spread
        home = tuple(Claim(at, 1, members[at % len(members)]) for at in range(count))
        group = Group(name, members, layers, home, Roster(name, 0, 0, ()))
        self.groups[name] = group
        logger.info("%s: is formed of %s", name, ", ".join(members))
        return group


class RootNode:
    """`keeper`: where windows go; `memory`: a file for what must survive a restart, None if nothing
    has to."""

    def __init__(self, layout: Layout, keeper: Keeper, memory: Path | None) -> None:
        self.clock = Clock()
        self.machine = Root(
            ROOT,
            RootOptions(spread=layout.spread, guarantee=layout.promise),
            address=layout.root.address,
        )
        self.machine.formation = _Planned(layout)  # type: ignore[assignment]
        self.windows: list[dict[str, Any]] = []
        self.count = 0
        self._keeper = keeper
        self._path = memory
        self._last = dict(keeper.last())
        self._known: Any = None
        for query in layout.asked():
            self.machine.register_query(query, self.clock())
        self._recall()
        answers: dict[str, Callable[[Any], Any]] = {
            "status": lambda _: self.status(),
            "windows": self._show,
            "queries": lambda _: [asdict(query) for query in self.machine.queries.values()],
            "add": self._add,
            "dismiss": self._dismiss,
        }
        self.runner = _RootRunner(ROOT, self.machine, self.clock, answers)
        self.runner.settle = self.settle
        self.runner.hub = self.hub = Hub(
            ROOT,
            read_credentials(layout.security, layout.home),
            self.runner.received,
            address=layout.root.address,
        )

    def step(self, longest: float = 0.2) -> None:
        self.runner.turn(longest)

    # What must survive

    def _recall(self) -> None:
        if self._path is None or not self._path.exists():
            return
        try:
            memory = msgspec.msgpack.decode(self._path.read_bytes(), type=RootMemory)
        except msgspec.MsgspecError as error:
            raise StoreCorruptError(
                f"{self._path}: is no memory of a root ({error}); move it away to begin anew"
            ) from error
        recall(self.machine, memory, self.clock())

    def settle(self) -> None:
        """Write down what has come out, before anybody is told that it was taken."""
        now = self.clock()
        found = []
        for window in self.machine.drain():
            if window.start > self._last.get(window.query, -1):
                self._last[window.query] = window.start
                found.append(_row(window, now))
        if found:
            self._keeper.keep(found)
            self.count += len(found)
            self.windows = [*self.windows, *found][-KEPT:]
        if self._path is not None:
            self._write_memory()

    def _write_memory(self) -> None:
        root = self.machine
        known = (
            tuple((g.roster.version, g.members, *g.freed.items()) for g in root.groups.values()),
            tuple(root.queries),
            tuple(root._adoptions),
        )
        if known == self._known:
            return
        assert self._path is not None
        self._known = known
        temporary = self._path.with_suffix(".new")
        with temporary.open("wb") as file:
            file.write(msgspec.msgpack.encode(remember(root), enc_hook=_plain))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)

    # Questions

    def _add(self, body: Any) -> Any:
        name = body.pop("name")
        query = Query(**body).asked(name)
        known = self.machine.queries.get(name)
        if known is None:
            self.runner.carry(self.machine.register_query(query, self.clock()))
        elif (known.aggregate, known.size, known.slide) != (
            query.aggregate,
            query.size,
            query.slide,
        ):
            raise InvalidArgumentError(
                f"query {name!r} is registered already, and is another one; choose another name"
            )
        return {"query": name}

    def _dismiss(self, body: Any) -> Any:
        sends = self.machine.dismiss(body["sensor"])
        if not sends:
            raise InvalidArgumentError(
                f"sensor {body['sensor']!r}: takes no part, so that nobody waits for it; give one "
                "that holdfast edge run or the status of the root shows"
            )
        self.runner.carry(sends)
        return {}

    def _show(self, body: Any) -> Any:
        """The windows from a number on, and the number to ask for next."""
        first = 0 if body is None else int(body.get("first", 0))
        skipped = self.count - len(self.windows)
        return {"next": self.count, "windows": self.windows[max(0, first - skipped) :]}

    def status(self) -> dict[str, Any]:
        groups = {
            group.name: {
                "members": list(group.members),
                "layers": [list(layer) for layer in group.layers],
                "owners": {str(c.partition): c.node for c in group.ownership.claims},
                "homes": {str(partition): node for partition, node in group.homes.items()},
                "epochs": {str(c.partition): c.epoch for c in group.ownership.claims},
                "sensors": [name_of(each.sensor) for each in group.present],
                "failed": list(group.failed),
                "freed": dict(group.freed),
            }
            for group in self.machine.groups.values()
        }
        return {
            **self.runner.figures(),
            "role": ROOT,
            "windows": self.count,
            "queries": list(self.machine.queries),
            "groups": groups,
        }

    def close(self) -> None:
        self.hub.close()


class _RootRunner(Runner):
    settle: Callable[[], None]

    def carry(self, sends: Iterable[Send]) -> None:
        self.settle()
        super().carry(sends)


def _row(window: Window, now: int) -> dict[str, Any]:
    """A window as it is written down; `at`: when the last part of it was merged."""
    return {**asdict(window), "failed": list(window.failed), "at": now}
