"""Chaos controls: breaks a topology that this process supervises.

Every link between two parties goes through a proxy that can be cut. Only `--demo` makes one.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock
from typing import Final, Self

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.process.supervisor import Keeper
from holdfast.pipeline.topology import PartyKind, Topology, parse_address
from holdfast.transport.proxy import Proxy

MOST_LINKS: Final = 256
"""Each has a thread."""


class Breaker:
    """A context manager. `routes` are for the supervisor, whose keepers are then given here."""

    def __init__(self, topology: Topology) -> None:
        parties = topology.parties()
        wanted = [(reader, each) for reader in parties for each in _called(topology, reader)]
        if len(wanted) > MOST_LINKS:
            raise InvalidArgumentError(
                f"--demo: the topology has {len(wanted)} links and at most {MOST_LINKS} can be "
                "cut; take one with fewer replicas, or leave out --demo"
            )
        self._links: dict[tuple[str, str], Proxy] = {}
        for reader, called in wanted:
            address = parties[called].address
            assert address is not None
            self._links[reader, called] = Proxy(parse_address(address))
        self.keepers: Mapping[str, Keeper] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._frozen: dict[str, int] = {}
        self._lock = Lock()

    @property
    def routes(self) -> dict[str, dict[str, str]]:
        """By party: where it reaches others."""
        found: dict[str, dict[str, str]] = {}
        for (reader, called), proxy in self._links.items():
            found.setdefault(reader, {})[called] = f"127.0.0.1:{proxy.port}"
        return found

    def is_frozen(self, party: str) -> bool:
        """Whether the process that it has now is stopped."""
        pid = self._frozen.get(party)
        return pid is not None and pid == self._pid(party)

    def cuts_of(self, party: str) -> tuple[str, ...]:
        """Whom it cannot reach."""
        return tuple(sorted(called for reader, called in self._cuts if reader == party))

    def freeze(self, party: str) -> None:
        self._signal(party, signal.SIGSTOP)
        pid = self._pid(party)
        with self._lock:
            if pid is not None:
                self._frozen[party] = pid

    def thaw(self, party: str) -> None:
        self._signal(party, signal.SIGCONT)
        with self._lock:
            self._frozen.pop(party, None)

    def kill(self, party: str) -> None:
        """kill -9; the supervisor starts it again."""
        self._signal(party, signal.SIGKILL)
        with self._lock:
            self._frozen.pop(party, None)

    def cut(self, reader: str, called: str) -> None:
        """Nothing passes between the two, either way."""
        self._link(reader, called).cut()
        with self._lock:
            self._cuts = self._cuts | {(reader, called)}

    def heal(self, reader: str, called: str) -> None:
        self._link(reader, called).heal()
        with self._lock:
            self._cuts = self._cuts - {(reader, called)}

    def _link(self, reader: str, called: str) -> Proxy:
        link = self._links.get((reader, called))
        if link is None:
            raise InvalidArgumentError(
                f"link: {reader[:80]!r} has none to {called[:80]!r}; choose one of those it has"
            )
        return link

    def _pid(self, party: str) -> int | None:
        keeper = self.keepers.get(party)
        process = None if keeper is None else keeper.process
        return None if process is None else process.pid

    def _signal(self, party: str, number: signal.Signals) -> None:
        keeper = self.keepers.get(party)
        if keeper is None:
            raise InvalidArgumentError(
                f"party: {party[:80]!r} does not run here; choose one that does"
            )
        process = keeper.process
        if process is None:
            raise InvalidArgumentError(
                f"party: {party} has ended and is being started again; wait until it runs"
            )
        process.send_signal(number)

    def thaw_all(self) -> None:
        """Whoever is stopped could not end."""
        for party in list(self._frozen):
            if self.is_frozen(party):
                with suppress(InvalidArgumentError):
                    self.thaw(party)

    def close(self) -> None:
        self.thaw_all()
        for link in self._links.values():
            link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _called(topology: Topology, party: str) -> list[str]:
    """Everybody to whom a party opens a link: those it reads, and its peers."""
    found = topology.parties()[party]
    match found.kind:
        case PartyKind.REPLICA:
            inputs = topology.stages[found.table].inputs
            read = [each for stream in inputs for each in topology.publishers(stream)]
            return [*read, *topology.peers(party)]
        case PartyKind.SINK:
            return list(topology.publishers(topology.sinks[found.table].stream))
        case PartyKind.SOURCE:
            return []
