"""An edge of real processes that is broken on purpose, for tests, benchmarks and campaigns."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

from holdfast.edge.client import Client
from holdfast.edge.errors import SilentError
from holdfast.edge.fleet import Fleet
from holdfast.edge.layout import Layout
from holdfast.edge.plant import Expected, free_ports, write_plant

__all__ = ["EdgeTrial"]


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
