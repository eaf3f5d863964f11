"""The root as a process: windows are durable before the children may forget them.

The answers to what the root is told leave it only after its windows, and what it must remember, are
where they are to be: a root that is killed at any moment goes on without losing or repeating one.
The windows that its memory does not know of yet, for it was killed in between, are recognised by
their starts.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import msgspec

from holdfast.config.settings import Named
from holdfast.edge.machine.formation import GroupPlan, name_of
from holdfast.edge.machine.messages import Query as Asked
from holdfast.edge.machine.messages import Send
from holdfast.edge.machine.queries import Window
from holdfast.edge.machine.root import Root, RootMemory, RootOptions, recall, remember
from holdfast.edge.process.config import ROOT, Layout, Query
from holdfast.edge.process.frames import Ask, Carried
from holdfast.edge.process.hub import Hub
from holdfast.edge.process.runner import LONGEST, Clock, Runner, _plain, logger, to_json
from holdfast.edge.process.security import read_credentials
from holdfast.errors import InvalidArgumentError, StoreCorruptError
from holdfast.storage.atomic_file import sync

KEPT: Final = 2_000
KEPT_BYTES: Final = 16 << 20
"""The newest windows that a root can be asked for: at most so many, and bytes of them."""
PAGE: Final = 1 << 20
"""Bytes of windows in one answer."""
RETRY: Final = 500_000
"""Microseconds until what could not be written is tried again."""
LOOK: Final = 1_000_000
"""Microseconds between two looks at whether windows come."""


class Keeper(Protocol):
    """Where windows go."""

    @property
    def position(self) -> int:
        """How far it is; `last` need not look at anything before."""

    def last(self, position: int) -> Mapping[str, int]:
        """By query, the start of the last window that was kept after `position`."""

    def keep(self, windows: list[dict[str, Any]]) -> None:
        """Returns when they are safe. Raises OSError, and keeps none of them, if they cannot be."""


class LineKeeper:
    """Appends lines of JSON to a file, which it locks, or prints them. A file that is moved away,
    as by logrotate, is begun anew."""

    def __init__(self, path: Path | None, out: int | None = None) -> None:
        """`out`: the descriptor to print to."""
        self._path = path
        self._out = out
        self._printed = 0
        """Bytes of the windows to keep that are printed, and cannot be taken back."""
        self._file = None
        if path is not None:
            self._file = path.open("ab", buffering=0)
            # Lines are safe only if the name of the file is.
            sync(path.parent)
        self._torn: int | None = None
        """Where the file ends, less what could not be written whole."""
        if self._file is not None:
            try:
                _lock(self._file)
            except OSError as error:
                self._file.close()
                raise InvalidArgumentError(
                    f"{path}: another root appends to it; end that one, or give `output` another "
                    "path"
                ) from error

    @property
    def position(self) -> int:
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size

    def last(self, position: int) -> Mapping[str, int]:
        found: dict[str, int] = {}
        if self._path is None or self._file is None:
            return found
        with self._path.open("rb") as file:
            whole = _after_a_line(file, position)
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
        lines = "".join(to_json(window) + "\n" for window in windows).encode()
        if self._path is not None and self._file is not None:
            self._file = self._follow(self._path, self._file)
            self._append(self._file, lines)
        if self._out is not None:
            while self._printed < len(lines):
                self._printed += os.write(self._out, memoryview(lines)[self._printed :])
            self._printed = 0

    def _follow(self, path: Path, file: FileIO) -> FileIO:
        """The file of that name: another one than before if that was moved away."""
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                return file
        found = path.open("ab", buffering=0)
        try:
            _lock(found)
            sync(path.parent)
            if self._torn is not None:
                file.truncate(self._torn)
        except OSError:
            found.close()
            raise
        file.close()
        self._torn = None
        return found

    def _append(self, file: FileIO, data: bytes) -> None:
        if self._torn is not None:
            file.truncate(self._torn)
        self._torn = self.position
        left = memoryview(data)
        try:
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            # Readers should not see half a line; should this fail too, it is done before the next.
            with suppress(OSError):
                file.truncate(self._torn)
            raise
        self._torn = None


def _lock(file: FileIO) -> None:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _after_a_line(file: BinaryIO, position: int) -> int:
    """Go to a position if a line ends there, otherwise to the beginning: it is another file."""
    if 0 < position <= os.fstat(file.fileno()).st_size:
        file.seek(position - 1)
        if file.read(1) == b"\n":
            return position
    return file.seek(0)


def root_options(layout: Layout) -> RootOptions:
    """What a root is told of its file."""
    return RootOptions(
        plan=tuple(
            GroupPlan(name, members, tuple(layout.layers(name)))
            for name, members in layout.groups().items()
        ),
        expected=tuple(layout.sensors),
        replication=layout.replication,
        gather=int(layout.gather),
        spread=layout.spread,
        guarantee=layout.promise,
        history=int(layout.history),
        ahead=int(layout.ahead),
    )


class RootNode:
    """`keeper`: where windows go; `memory`: a file for what must survive a restart, None if nothing
    has to."""

    def __init__(self, layout: Layout, keeper: Keeper, memory: Path | None) -> None:
        self.clock = Clock()
        self.machine = Root(ROOT, root_options(layout), address=layout.root.address)
        self._awaited: dict[str, tuple[str, ...]] = {}
        self._formed: set[str] = set()
        self._reasons: list[str] = []
        """Why windows stand still."""
        self._lacking: dict[str, int] = {}
        """Children whose states alone are missing, and since when."""
        self._look_at = 0
        self._through: tuple[int, ...] = ()
        self._moved_at = 0
        """Up to where panes are in, and since when no other one came."""
        self.count = 0
        self.paused = ""
        """Why nothing can be written, and so nothing is acknowledged."""
        self._recent: deque[bytes] = deque()
        """The newest windows, as JSON."""
        self._keeper = keeper
        self._path = memory
        self._layout = layout
        self._pending: list[dict[str, Any]] = []
        """Windows that are not written yet."""
        self._known: Any = None
        answers: dict[str, Callable[[Any], Any]] = {
            "status": lambda _: self.status(),
            "windows": self._show,
            "queries": lambda _: [_named(query) for query in self.machine.queries.values()],
            "add": self._add,
            "remove": self._remove,
            "dismiss": self._dismiss,
        }
        self.runner = _RootRunner(ROOT, self.machine, self.clock, answers)
        self.runner.settle = self.settle
        # Whoever listens is the root: only then what is on disk is looked at, and put in order.
        self.runner.hub = self.hub = Hub(
            ROOT,
            read_credentials(layout.security, layout.home),
            self.runner.received,
            address=layout.root.address,
        )
        try:
            self._last = self._recall()
            for query in layout.asked():
                self._ask(query)
        except BaseException:
            self.hub.close()
            raise

    def step(self, longest: float = 0.2) -> None:
        self.runner.turn(longest)
        self._tell_awaited()

    def _tell_awaited(self) -> None:
        """Log who is there and who is not, when that changes."""
        for name in self.machine.groups.keys() - self._formed:
            self._formed.add(name)
            logger.info("%s: is formed of %s", name, ", ".join(self.machine.groups[name].members))
        awaited = self.machine.awaited
        for name, nodes in awaited.items():
            if nodes and nodes != self._awaited.get(name):
                logger.info("%s: no window yet, awaits %s", name, ", ".join(nodes))
        self._awaited = awaited
        now = self.clock()
        if now < self._look_at:
            return
        self._look_at = now + LOOK
        reasons = self._find_reasons(now)
        for reason in reasons:
            if reason not in self._reasons:
                logger.warning("root: %s", reason)
        if self._reasons and not reasons:
            logger.info("root: windows stand still no longer")
        self._reasons = reasons

    def _find_reasons(self, now: int) -> list[str]:
        """The reasons why windows stand still. While they come, a sensor that is not heard is only
        slow to be, as of a root that is behind."""
        absence = self.machine.options.absence
        through = tuple(each for g in self.machine.groups.values() for each in g.freed.values())
        if through != self._through:
            self._through, self._moved_at = through, now
        self._lacking = {each: self._lacking.get(each, now) for each in self.machine.lacking}
        if now - self._moved_at < absence:
            return []
        sensors = (
            f"sensor {each} is not heard, and windows wait for it; start it again, or do without "
            f"it: holdfast edge dismiss FILE {each}"
            for each in self.machine.unheard(now)
        )
        children = (
            f"child {each} does not send what it has, and windows wait for it; see whether it "
            "reaches the root, or end it: another one takes its place"
            for each, since in self._lacking.items()
            if now - since >= absence
        )
        return [*sensors, *children]

    # What must survive

    def _recall(self) -> dict[str, int]:
        """What the root was; by query, the start of the last window that is kept."""
        if self._path is None or not self._path.exists():
            return dict(self._keeper.last(0))
        try:
            memory = msgspec.msgpack.decode(self._path.read_bytes(), type=RootMemory)
        except msgspec.MsgspecError as error:
            raise StoreCorruptError(
                f"{self._path}: is no memory of a root ({error}); move it away to begin anew"
            ) from error
        recall(self.machine, memory, self.clock())
        return {**memory.kept, **self._keeper.last(memory.position)}

    def settle(self) -> bool:
        """Write down what has come out, before anybody is told that it was taken; False if that
        cannot be done now."""
        now = self.clock()
        for window in self.machine.drain():
            row = _row(window, now)
            if window.start > self._last.get(row["query"], -1):
                self._last[row["query"]] = window.start
                self._pending.append(row)
        try:
            if self._pending:
                self._keeper.keep(self._pending)
                self._publish()
            if self._path is not None:
                self._write_memory(self._path)
        except OSError as error:
            self._pause(str(error.strerror or error))
            return False
        if self.paused:
            logger.warning("root: can write again, and goes on")
            self.paused = ""
        return True

    def _pause(self, why: str) -> None:
        if why != self.paused:
            logger.error(
                "root: cannot write windows down (%s): takes nothing more and acknowledges nothing "
                "until it can, children keep what it lacks; make room for %s",
                why,
                self._layout.root.output or "them",
            )
        self.paused = why

    def _publish(self) -> None:
        """What is safe can be asked for."""
        self.count += len(self._pending)
        self._recent.extend(to_json(row).encode() for row in self._pending)
        self._pending = []
        size = sum(map(len, self._recent))
        while len(self._recent) > KEPT or (size > KEPT_BYTES and len(self._recent) > 1):
            size -= len(self._recent.popleft())

    def _write_memory(self, path: Path) -> None:
        root = self.machine
        known = (
            tuple((g.roster.version, g.members, *g.freed.items()) for g in root.groups.values()),
            tuple(root.queries),
            tuple(root._adoptions),
            self.count,
            tuple(root.formation.lives.items()),
        )
        if known == self._known:
            return
        memory = remember(root)
        memory = replace(memory, kept=dict(self._last), position=self._keeper.position)
        temporary = path.with_suffix(".new")
        try:
            with temporary.open("wb") as file:
                file.write(msgspec.msgpack.encode(memory, enc_hook=_plain))
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            # It takes room that the windows need.
            with suppress(OSError):
                temporary.unlink()
            raise
        temporary.replace(path)
        sync(path.parent)
        self._known = known

    # Questions

    def _carry(self, sends: Iterable[Send]) -> None:
        """What follows from a request, which is granted when it is written down."""
        self.runner.carry(sends)
        self.runner.commit()
        if self.paused:
            raise InvalidArgumentError(
                f"root: cannot write down what you ask for ({self.paused}); make room and ask again"
            )

    def _check_room(self) -> None:
        """A request is judged by what is written down."""
        if not self.paused:
            self.runner.commit()
        if self.paused:
            raise InvalidArgumentError(
                f"root: waits until it can write ({self.paused}); make room and ask again"
            )

    def _add(self, body: Any) -> Any:
        self._check_room()
        name = body.pop("name")
        query = Query(**body)
        # The checks of a file go for it too.
        replace(self._layout, queries=Named({**self._layout.queries, name: query}))
        known = self._known_as(name)
        if known is None:
            # Another id than any query of this name had, or will have after it is removed.
            asked = query.asked(f"{name}~{self.clock()}")
            self._carry(self.machine.register_query(asked, self.clock()))
        elif _named(known) != _named(query.asked(name)):
            raise InvalidArgumentError(
                f"query {name!r} is registered already, and is another one; choose another name, "
                f"or first holdfast edge query remove FILE {name}"
            )
        return {"query": name}

    def _remove(self, body: Any) -> Any:
        self._check_room()
        name = body["name"]
        known = self._known_as(name)
        if known is None:
            there = ", ".join(name_of(each) for each in self.machine.queries) or "none"
            raise InvalidArgumentError(f"query {name!r}: is not registered; there are: {there}")
        self._last.pop(name, None)
        self._carry(self.machine.remove_query(known.id))
        return {"query": name, "in_file": name in self._layout.queries}

    def _known_as(self, name: str) -> Asked | None:
        queries = self.machine.queries.values()
        return next((each for each in queries if name_of(each.id) == name), None)

    def _ask(self, query: Asked) -> None:
        """A query of the file, unless the root remembers it."""
        known = self._known_as(query.id)
        if known is None:
            self.machine.register_query(query, self.clock())
        elif _named(known) != _named(query):
            logger.warning(
                "query %s: the file has another one of this name than runs; the one that runs "
                "stays until it is removed (holdfast edge query remove)",
                query.id,
            )

    def _dismiss(self, body: Any) -> Any:
        self._check_room()
        sends = self.machine.dismiss(body["sensor"], self.clock())
        if not sends:
            raise InvalidArgumentError(
                f"sensor {body['sensor']!r}: takes no part, so that nobody waits for it; give one "
                "that holdfast edge run or the status of the root shows"
            )
        self._carry(sends)
        return {}

    def _show(self, body: Any) -> Any:
        """The windows from a number on, as many as one answer holds, and the number to ask for
        next. `keys`: no more than so many keys of each."""
        asked = body or {}
        skipped = self.count - len(self._recent)
        at = max(0, int(asked.get("first", 0)) - skipped)
        most = asked.get("keys")
        found, size = [], 0
        while at < len(self._recent) and size < PAGE:
            window = json.loads(self._recent[at])
            if most is not None and isinstance(window["answer"], dict):
                window["keys"] = len(window["answer"])
                window["answer"] = dict(islice(window["answer"].items(), int(most)))
                size += 1_000
            else:
                size += len(self._recent[at])
            found.append(window)
            at += 1
        return {"next": skipped + at, "windows": found}

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
            "paused": self.paused,
            "pending": len(self._pending),
            "queries": [name_of(each) for each in self.machine.queries],
            "groups": groups,
            "awaits": {name: list(nodes) for name, nodes in self.machine.awaited.items()},
            "stands": self._reasons,
        }

    def close(self) -> None:
        self.hub.close()


class _RootRunner(Runner):
    """What follows from all that comes in one turn leaves together, when it is written down: after
    a silence, or of files of old events, there may be thousands of panes. While it cannot be
    written, nothing is taken in and nothing leaves but answers."""

    settle: Callable[[], bool]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._held: list[Send] = []
        self._retry_at: int | None = None
        self._is_polling = False
        self._is_uncommitted = False

    def received(self, sender: str, message: Carried) -> None:
        # What is dropped comes again: nobody was told that it was taken.
        if self._retry_at is None or isinstance(message, Ask):
            super().received(sender, message)

    def carry(self, sends: Iterable[Send]) -> None:
        self._held += sends
        self._is_uncommitted = True
        if not self._is_polling:
            self.commit()

    def commit(self) -> None:
        """Write down what came out, and let go what waits for that."""
        if not self.settle():
            self._retry_at = self.clock() + RETRY
            return
        self._retry_at = None
        self._is_uncommitted = False
        held, self._held = self._held, []
        super().carry(held)

    def turn(self, longest: float = LONGEST) -> None:
        if self._retry_at is None:
            self._is_polling = True
            try:
                super().turn(longest)
            finally:
                self._is_polling = False
            if self._is_uncommitted and self._retry_at is None:
                self.commit()
            return
        self.hub.poll(min(longest, max(0.0, (self._retry_at - self.clock()) / 1e6)))
        if self.clock() >= self._retry_at:
            self.commit()


def _row(window: Window, now: int) -> dict[str, Any]:
    """A window as it is written down; `at`: when the last part of it was merged."""
    name = name_of(window.query)
    return {**asdict(window), "query": name, "failed": list(window.failed), "at": now}


def _named(query: Asked) -> dict[str, Any]:
    """A query as plain data, under the name that people gave it."""
    options = {
        option: list(value) if isinstance(value, list | tuple) else value
        for option, value in query.options.items()
    }
    return {**asdict(query), "id": name_of(query.id), "options": options}
