"""An edge of real processes that is broken on purpose, for tests, benchmarks and campaigns."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

from holdfast.edge.process.client import Client
from holdfast.edge.process.config import Layout
from holdfast.edge.process.demo import Expected, free_ports, write_plant
from holdfast.edge.process.fleet import Fleet
from holdfast.errors import SilentError
from holdfast.transport.proxy import Proxy

__all__ = ["EdgeTrial", "StagedTrial", "linked", "open_input", "write"]

_WITH_CLOCK = """
import sys, time
ahead, real = int(sys.argv.pop(1)), time.time_ns
time.time_ns = lambda: real() + ahead * 1_000_000_000
from holdfast.__main__ import main
main()
"""


class EdgeTrial:
    """All nodes of a plant. A context manager: started and ready inside, all ended after it."""

    def __init__(
        self,
        folder: Path,
        *,
        options: Mapping[str, Sequence[str]] | None = None,
        fed: Sequence[str] = (),
        **plant: Any,
    ) -> None:
        """`fed`: sensors that read lines of JSON, and run when `feed` starts them."""
        self.file = write_plant(folder, **plant)
        for name in fed:
            table = f"[sensors.{name}]\n"
            text = self.file.read_text()
            self.file.write_text(text.replace(table, f'{table}input = "jsonl"\n'))
        self._fed = tuple(fed)
        self.layout = Layout.read(self.file)
        self.fleet = Fleet(self.layout, self.file, folder / "logs", options or {})
        self.client = Client(self.layout)
        self._output = self.layout.path(self.layout.root.output or "")
        self._left: list[dict[str, Any]] = []
        """What sensors reported at the end of earlier lives."""

    def __enter__(self) -> Self:
        try:
            layout = self.layout
            sensors = [name for name in layout.sensors if name not in self._fed]
            self.fleet.start("root", *layout.intermediates, *layout.children, *sensors)
            self.wait(lambda: len(self.windows()) > 0, 40.0)
        except BaseException:
            self.close()
            raise
        return self

    def feed(self, name: str) -> IO[bytes]:
        """Start a sensor that reads lines: where to write them."""
        pipe = self.fleet.start(name, fed=True)
        assert pipe is not None
        self.wait(self.fleet.report(name).exists)
        return pipe

    def report(self, name: str) -> dict[str, Any]:
        """What a sensor says of itself."""
        found: dict[str, Any] = json.loads(self.fleet.report(name).read_text())
        return found

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.fleet.close()
        self.client.close()

    def wait(self, until: Callable[[], Any], seconds: float = 30.0) -> Any:
        """Until something is so; fails early if a process has ended that should not."""
        deadline = time.monotonic() + seconds
        while not (found := until()):
            self.fleet.check()
            assert time.monotonic() < deadline, f"not within {seconds} s; {self.tell()}"
            time.sleep(0.01)
        return found

    def tell(self) -> str:
        """How the nodes are, for a failure's message."""
        said = {}
        for name in self.fleet.processes:
            if name not in self.layout.sensors:
                try:
                    said[name] = self.status(name, patience=1.0)
                except SilentError:
                    said[name] = {"silent": True}
        return json.dumps(said)[:4_000]

    def status(self, node: str, *, patience: float = 15.0) -> dict[str, Any]:
        found: dict[str, Any] = self.client.ask(node, "status", patience=patience)
        return found

    def windows(self) -> list[dict[str, Any]]:
        """All that the root has put out so far."""
        if not self._output.exists():
            return []
        whole = self._output.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def through(self, query: str | None = None) -> int:
        """The end of the last window."""
        ends = [each["end"] for each in self.windows() if query in (None, each["query"])]
        return max(ends, default=0)

    def wait_for_window(self, end: int, seconds: float = 30.0) -> None:
        """Until all queries have a window that ends then, or later."""
        queries = list(self.layout.queries)
        self.wait(lambda: all(self.through(query) >= end for query in queries), seconds)

    def sleep_to(self, moment: int) -> None:
        """To a time in microseconds since 1970."""
        while (left := moment / 1e6 - time.time()) > 0:
            time.sleep(min(left, 0.05))

    def add_child(self, name: str, *, group: str = "edge") -> None:
        """One that the file of the others does not name joins them."""
        address = f"127.0.0.1:{free_ports(1)[0]}"
        self.layout = self.fleet.layout = self.layout.with_child(name, address, group)
        self.fleet.options = {**self.fleet.options, name: ["--join", address, "--group", group]}
        self.client.close()
        self.client = Client(self.layout)
        self.fleet.start(name)

    def restart_sensor(self, name: str) -> None:
        """End it and start it again under its name; it has told what it sent before."""
        self.fleet.end(name)
        self._left.append(json.loads(self.fleet.report(name).read_text()))
        self.fleet.report(name).unlink()
        self.fleet.start(name)
        self.wait(self.fleet.report(name).exists)

    def reports(self) -> list[dict[str, Any]]:
        """Of all sensors, in all their lives."""
        names = self.layout.sensors
        now = [json.loads(self.fleet.report(name).read_text()) for name in names]
        return [*self._left, *now]

    def expected(self) -> Expected:
        return Expected(self.layout, self.reports())

    def check(self) -> list[dict[str, Any]]:
        """That all windows are right; they are returned."""
        windows = self.windows()
        wrong = self.expected().differences(windows)
        assert not wrong, "; ".join(wrong[:5])
        return windows


class StagedTrial(EdgeTrial):
    """One whose nodes are started one by one, on machines with clocks of their own."""

    def __init__(self, folder: Path, sensors: dict[str, str], **plant: Any) -> None:
        plant.setdefault("queries", {"count": {"aggregate": "count", "size": "1s"}})
        super().__init__(folder, sensors=0, **plant)
        tables = "".join(f"[sensors.{name}]\n{lines}\n" for name, lines in sensors.items())
        self.file.write_text(self.file.read_text() + tables)
        self.layout = self.fleet.layout = type(self.layout).read(self.file)

    def __enter__(self) -> Self:
        return self

    def start(self, name: str, *, ahead: int = 0) -> subprocess.Popen[bytes]:
        """A node on a machine whose clock is so many seconds ahead; what it says is in its log."""
        role = self.layout.role(name)
        command = [sys.executable, "-c", _WITH_CLOCK, str(ahead), "edge", role, str(self.file)]
        command += [name, *self.fleet.options.get(name, ())]
        if role == "sensor":
            command += ["--report", str(self.fleet.report(name))]
        with self.fleet.log(name).open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        self.fleet.processes[name] = process
        return process

    def said(self, name: str) -> str:
        return self.fleet.log(name).read_text()

    def report(self, name: str) -> dict[str, Any]:
        self.wait(self.fleet.report(name).exists)
        found: dict[str, Any] = json.loads(self.fleet.report(name).read_text())
        return found

    def sensors(self) -> list[str]:
        """Those that windows wait for."""
        groups = self.status("root")["groups"]
        return [sensor for group in groups.values() for sensor in group["sensors"]]


@contextmanager
def open_input(process: subprocess.Popen[bytes]) -> Iterator[IO[bytes]]:
    assert process.stdin is not None
    with process.stdin as pipe:
        yield pipe


def write(pipe: IO[bytes], *rows: dict[str, Any]) -> None:
    pipe.write("".join(json.dumps(row) + "\n" for row in rows).encode())
    pipe.flush()


@contextmanager
def linked(folder: Path, **plant: Any) -> Iterator[tuple[EdgeTrial, Proxy]]:
    """A plant, with the link between c1 and c2."""
    trial = EdgeTrial(folder, **plant)
    host, _, port = trial.layout.children["c2"].address.rpartition(":")
    with Proxy((host, int(port))) as proxy:
        # Of two children the first by name calls the other.
        trial.fleet.options = {"c1": ["--route", f"c2=127.0.0.1:{proxy.port}"]}
        with trial:
            trial.wait(lambda: proxy.accepted > 0)
            yield trial, proxy
