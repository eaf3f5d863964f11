"""The commands `holdfast console FILE` and `holdfast run FILE --console PORT`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from rich.console import Console as Screen

from holdfast.console.chaos import Breaker
from holdfast.console.collector import Collector, Kept
from holdfast.console.contracts import participant_panels
from holdfast.console.edges import edge_panels
from holdfast.console.panels import Panel
from holdfast.console.server import ConsoleServer, console_security
from holdfast.console.tenants import Tenancy, tenant_panels
from holdfast.pipeline.process.display import run_topology
from holdfast.pipeline.process.supervisor import Supervisor
from holdfast.pipeline.topology import Topology


@dataclass(frozen=True, slots=True)
class Wish:
    """Where the page is to be, and what it shows from the start."""

    port: int
    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    token_file: Path | None = None
    watch: Sequence[str] | None = None
    participants: Sequence[Path] = ()
    """Files of participants of a federation that run on this host."""
    tenancy: Tenancy | None = None

    def panels(self, topology: Topology) -> list[Panel]:
        return [
            *edge_panels(topology),
            *participant_panels(self.participants),
            *tenant_panels(self.tenancy, _authority(topology)),
        ]


def _authority(topology: Topology) -> Path | None:
    given = topology.security
    return None if given is None or given.authority is None else topology.path(given.authority)


def show_console(
    file: Path,
    screen: Screen,
    wish: Wish,
    *,
    routes: Mapping[str, str] | None = None,
    ending: Event | None = None,
) -> None:
    """Until Ctrl-C, or until `ending` is set."""
    topology = Topology.read(file)
    ending = ending or Event()
    panels = wish.panels(topology)
    collector = Collector(topology, routes=routes, watch=wish.watch, panels=panels)
    with collector, _serve(collector, wish) as server:
        _say(screen, server)
        try:
            ending.wait()
        except KeyboardInterrupt:
            screen.print("ended", style="dim")


def run_with_console(
    file: Path,
    screen: Screen,
    wish: Wish,
    *,
    demo: bool,
    only: Sequence[str],
    options: Sequence[str],
    metrics: int | None,
    ending: Event,
) -> None:
    """What `holdfast run` does, with the page beside it. `demo`: links go through proxies, and
    whoever has the token may break things."""
    with ExitStack() as stack:
        breaker = stack.enter_context(Breaker(Topology.read(file))) if demo else None
        run_topology(
            file,
            screen,
            only=only,
            options=options,
            metrics=metrics,
            ending=ending,
            routes=None if breaker is None else breaker.routes,
            beside=lambda supervisor: serve_beside(supervisor, screen, wish, breaker),
        )


@contextmanager
def serve_beside(
    supervisor: Supervisor, screen: Screen, wish: Wish, breaker: Breaker | None = None
) -> Iterator[ConsoleServer]:
    """Serve the page of parties that are kept going here. `breaker`: through which their links go,
    if they may be broken from the page."""
    topology = supervisor.topology
    if breaker is not None:
        breaker.keepers = supervisor.keepers

    def kept() -> dict[str, Kept]:
        return {
            name: Kept(
                keeper.process is not None,
                keeper.starts,
                keeper.code,
                breaker is not None and breaker.is_frozen(name),
                () if breaker is None else breaker.cuts_of(name),
            )
            for name, keeper in supervisor.keepers.items()
        }

    panels = wish.panels(topology)
    collector = Collector(topology, watch=wish.watch, panels=panels, kept=kept)
    with collector, _serve(collector, wish, breaker) as server:
        _say(screen, server, may_break=breaker is not None)
        try:
            yield server
        finally:
            if breaker is not None:
                breaker.thaw_all()


def _serve(collector: Collector, wish: Wish, breaker: Breaker | None = None) -> ConsoleServer:
    return ConsoleServer(
        collector,
        console_security(collector.topology, wish.token_file),
        host=wish.host,
        port=wish.port,
        names=wish.names,
        breaker=breaker,
    )


def _say(screen: Screen, server: ConsoleServer, *, may_break: bool = False) -> None:
    """The token is for those who need it: to break things, or to read from elsewhere."""
    needs_token = may_break or server.url.startswith("https")
    url = server.url_with_token if needs_token else server.url
    screen.print(f"console: {url}", soft_wrap=True, highlight=False, markup=False)
