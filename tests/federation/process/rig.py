"""Participants of a test: files, keys, and tasks that only say that they run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.ports import free_port
from holdfast.federation.machine import Epoch, Load
from holdfast.federation.process.participant import LoadManager
from holdfast.federation.process.settings import Participant
from holdfast.federation.process.stages import Tell
from holdfast.runtime.clock import Clock
from holdfast.storage.signing import Signer

__all__ = ["Federation", "SimpleTasks"]


class SimpleTasks:
    """Everything happens at once."""

    def __init__(self) -> None:
        self.running: dict[str, Epoch] = {}
        self.measured: dict[str, Load] = {}
        self.refuses: set[str] = set()
        self.fails: set[str] = set()

    def prepare(self, task: str, epoch: Epoch, source: str, tell: Tell) -> None:
        if task in self.refuses:
            tell(lambda manager, now: manager.unable(task, epoch, now))
        else:
            tell(lambda manager, now: manager.prepared(task, epoch, now))

    def start(self, task: str, epoch: Epoch, bucket: int, tell: Tell) -> None:
        self.running[task] = epoch

    def halt(self, task: str, epoch: Epoch, tell: Tell) -> None:
        tell(lambda manager, now: manager.halted(task, epoch, 7, now))

    def resume(self, task: str, epoch: Epoch) -> None: ...

    def stop(self, task: str, epoch: Epoch) -> None:
        if self.running.get(task) == epoch:
            del self.running[task]

    def fence(self, task: str, epoch: Epoch, tell: Tell) -> None:
        tell(lambda manager, now: manager.fenced(task, epoch, 9))

    def loads(self) -> Mapping[str, Load]:
        return {name: self.measured[name] for name in self.running if name in self.measured}

    def broken(self) -> frozenset[str]:
        return frozenset(self.fails.intersection(self.running))

    def close(self) -> None:
        self.running.clear()


class Federation:
    """Each of `tasks` has so many tasks of a tenth of its cpu; `prices` are by buyer and seller."""

    def __init__(
        self, folder: Path, tasks: Mapping[str, int], prices: Mapping[tuple[str, str], str]
    ) -> None:
        self.folder = folder
        self.counts = dict(tasks)
        self.ports = {name: free_port() for name in tasks}
        self.signers = {name: Signer.make() for name in tasks}
        self.tasks: dict[str, SimpleTasks] = {}
        for name in tasks:
            key = folder / f"{name}.key"
            key.write_text(self.signers[name].secret.hex())
            key.chmod(0o600)
        self.write(prices)

    def write(self, prices: Mapping[tuple[str, str], str]) -> None:
        """Everybody's file, with these contracts; partners are those with whom there is one."""
        for name in self.counts:
            self.file(name).write_text(self._write(name, prices))

    def read(self, name: str) -> Participant:
        return Participant.read(self.file(name))

    def _write(self, name: str, prices: Mapping[tuple[str, str], str]) -> str:
        lines = [
            f'address = "127.0.0.1:{self.ports[name]}"',
            f'key = "{name}.key"',
            f'folder = "{name}"',
            'topology = "none.toml"',
            'period = "200ms"',
            'patience = "2s"',
            'window = "1s"',
            "margin = 0.0",
            '[cpu]\ncurve = "power"\nscale = 10.0',
        ]
        for other in self.ports:
            if other != name and any({name, other} == {*pair} for pair in prices):
                public = self.signers[other].public.hex()
                lines += [
                    f"[partners.{other}]",
                    f'address = "127.0.0.1:{self.ports[other]}"',
                    f'public = "{public}"',
                ]
        for (buyer, seller), price in prices.items():
            if buyer == name:
                lines += [f"[buys.{seller}]", price]
            if seller == name:
                lines += [f"[sells.{buyer}]", price]
        for at in range(self.counts[name]):
            lines += [
                f"[tasks.{name}{at}]",
                f'replica = "{name}{at}/1"',
                "own = true",
                "load = 0.1",
            ]
        return "\n".join(lines) + "\n"

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.toml"

    def start(self, name: str, clock: Clock | None = None) -> LoadManager:
        tasks = self.tasks[name] = SimpleTasks()
        return LoadManager(self.read(name), tasks, clock=clock)
