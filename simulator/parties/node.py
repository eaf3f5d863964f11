"""A replica of a stage in the simulator: the node of the protocol with a stage that takes time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.pipeline.gates.order import Stretch
from holdfast.pipeline.machine.commands import (
    Command,
    CopyState,
    Drop,
    DropCopy,
    Fork,
    Install,
    Rerun,
    Restart,
    SendPiece,
    StartOver,
    TakeCopy,
    TakePiece,
    Work,
)
from holdfast.pipeline.machine.messages import Message, Send, StateOffer, StatePiece, StateRequest
from holdfast.pipeline.machine.node import Node
from holdfast.pipeline.machine.tuples import Row
from simulator.diagram import StagePlan
from simulator.network import Network
from simulator.operators import Stage
from simulator.parties.process import Process

Miscalculate = Callable[[int, int, tuple[Row, ...]], tuple[Row, ...]]
"""From when to when a bucket is, and its rows: the rows that come out."""


@dataclass(frozen=True, slots=True)
class Cost:
    """How long a stage takes, in microseconds."""

    bucket: int = 1_000
    row: int = 20
    copy: int = 0
    """To make a copy of the state."""
    pieces: int = 1
    """That a copy has."""


class NodeParty:
    """One replica: `make(lost)` gives the node of the protocol, at the start and after a crash."""

    def __init__(
        self,
        name: str,
        plan: StagePlan,
        make: Callable[[int, bool], Node],
        process: Process,
        network: Network,
        *,
        cost: Cost,
        save_every: int = 1,
        remember: int = 0,
        tamper: Callable[[str, Message], Sequence[Message]] | None = None,
        miscalculate: Miscalculate | None = None,
    ) -> None:
        """`save_every`: after how many buckets the base is saved; a stage that is restarted goes on
        from there. `remember`: so many buckets can be calculated again. `tamper`: what a liar does
        to its messages. `miscalculate`: what a machine with a glitch does to its rows, the first
        time it calculates them."""
        self.name = name
        self.plan = plan
        self.process = process
        self.network = network
        self.cost = cost
        self.save_every = save_every
        self.remember = remember
        self.tamper = tamper
        self.miscalculate = miscalculate
        self.observe: Callable[[], None] = lambda: None
        self.observers: list[Callable[[Command], None]] = []
        """Told of every command before it is carried out."""
        self._make = make
        self._begin(lost=False)

    def _begin(self, *, lost: bool) -> None:
        self.node = self._make(self.process.now, lost)
        self.base = Stage(self.plan)
        self.fork: Stage | None = None
        self._history: deque[tuple[Stretch, Stage]] = deque()
        self._saved: Stage | None = None
        self._copies: dict[int, Stage] = {}
        """Copies of the base that peers are given, by number."""
        self._taken: dict[int, Stage] = {}
        """Pieces of the copy that is being taken: each is the whole, so that all are looked at."""
        self._copy_began = 0
        self._lenders: set[str] = set()
        """Peers that have said that they copy their state for it."""
        self._save(0)
        self.process.wake_at(self.process.now, self._wake)

    def _save(self, bucket: int) -> None:
        if self._saved is not None:
            self._saved.drop()
        self._saved, self.saved_at = self.base.fork(), bucket

    def deliver(self, sender: str, message: Message) -> None:
        self.process.do(lambda: self._receive(sender, message))

    def _receive(self, sender: str, message: Message) -> None:
        now = self.process.now
        if isinstance(message, StateRequest):
            self.node.lending.made = now - self._copy_began
        if isinstance(message, StateOffer) and self.node.recovery.asks:
            (self._lenders.add if message.copy else self._lenders.discard)(sender)
        self._do(self.node.receive(sender, message, now))

    @property
    def gives_up_a_copy(self) -> bool:
        """Whether it does without a state though a peer has said that it copies its own for it."""
        waits = self.node.recovery.asks and not self.node.is_stranded
        return bool(self._lenders) and self.node.is_lost and not waits

    def crash(self) -> None:
        """Lose everything."""
        self.process.kill()

    def restart(self) -> None:
        self.process.start()
        self._begin(lost=True)

    def reboot(self) -> None:
        """Come back with the disk: the state as it was saved, and all that is kept of what was
        published. One that had no state has none now."""
        before, saved = self.node, self._saved
        if before.is_lost:
            self.restart()
            return
        assert saved is not None
        self.process.start()
        lines = {name: tuple(line.segments.since(0)) for name, line in before.lines.items()}
        self.node = self._make(self.process.now, False)
        self.node.resume(self.saved_at, before.consistent_from, lines, self.process.now)
        if before.lending.offer is not None:
            self.node.lending.resume(before.lending.offer, self.process.now)
        if before.backfill is not None and not before.backfill.is_done:
            self.node.fetch_older()
        self._drop_fork()
        self.base = saved.fork()
        self._history.clear()
        self.process.wake_at(self.process.now, self._wake)

    def restart_stage(self) -> None:
        """Lose the stage, but not the node: it goes on from what was saved."""
        if not self.process.is_up:
            return
        self._drop_fork()
        assert self._saved is not None
        self.base.drop()
        self.base = self._saved.fork()
        self._do(self.node.restarted(self.saved_at, self.process.now))

    def _wake(self) -> None:
        self._do(self.node.wake(self.process.now))

    def _do(self, commands: Sequence[Command]) -> None:
        for command in commands:
            for observe in self.observers:
                observe(command)
            if isinstance(command, StartOver):
                self.process.kill()
                self.restart()
                return
            self._carry_out(command)
        if commands:
            self.observe()
        self.process.wake_at(self.node.next_wake, self._wake)

    def _carry_out(self, command: Command) -> None:
        match command:
            case Send():
                self._send(command.to, command.message)
            case Work():
                rows = sum(map(len, command.stretch.rows.values()))
                took = self.cost.bucket + self.cost.row * rows
                self.process.after(took, lambda: self._finish(command))
            case Fork():
                self._drop_fork()
                self.fork = self.base.fork()
            case Drop():
                self._drop_fork()
            case Restart(bucket):
                self.base.restart()
                self._save(bucket)
            case Install(bucket):
                assert set(self._taken) == set(range(self.cost.pieces))
                assert len({id(piece) for piece in self._taken.values()}) == 1
                self.base = self._taken[0].copy()
                self._save(bucket)
                self._do(self.node.saved(bucket, self.process.now))
            case CopyState(copy):
                self._copy(copy)
            case SendPiece(to, copy, number):
                self._send(to, StatePiece(copy, number, self._copies[copy]))
            case DropCopy(copy):
                self._copies.pop(copy, None)
            case TakeCopy():
                self._taken = {}
            case TakePiece(piece):
                self._taken[piece.number] = piece.data
            case Rerun():
                self._rerun(command)

    def _copy(self, copy: int) -> None:
        """The state is that of now, however long the copy takes."""
        node, state = self.node, self.base.copy()
        pieces, bucket = self.cost.pieces, node.gate.base
        offer = StateOffer(copy, pieces, pieces, bucket, node.consistent_from)
        self._copy_began = self.process.now

        def finish() -> None:
            self._copies[copy] = state
            self._do(node.copied(copy, offer, self.process.now))

        self.process.after(self.cost.copy, finish)

    def _send(self, to: str, message: Message) -> None:
        for each in (message,) if self.tamper is None else self.tamper(to, message):
            self.network.send(self.name, to, each)

    def _drop_fork(self) -> None:
        if self.fork is not None:
            self.fork.drop()
            self.fork = None

    def _finish(self, work: Work) -> None:
        if work is not self.node.working:
            return
        stage = self.fork if work.tentative else self.base
        assert stage is not None
        stretch = work.stretch
        if self.remember and not work.tentative:
            self._note(stretch)
        outputs = stage.run(stretch.start, stretch.end, stretch.rows)
        if self.miscalculate is not None:
            outputs = {
                name: self.miscalculate(stretch.start, stretch.end, rows)
                for name, rows in outputs.items()
            }
        self._do(self.node.finished(work, outputs, self.process.now))
        if not work.tentative and self.node.gate.base >= self.saved_at + self.save_every:
            self._save(self.node.gate.base)
            self._do(self.node.saved(self.saved_at, self.process.now))

    def _note(self, stretch: Stretch) -> None:
        """Keep the state from before it: a fork, that costs little."""
        self._history.append((stretch, self.base.fork()))
        if len(self._history) > self.remember:
            _, oldest = self._history.popleft()
            oldest.drop()

    def _rerun(self, rerun: Rerun) -> None:
        asked = rerun.asked
        for stretch, before in self._history:
            if stretch.start <= asked.start < stretch.end:
                stage = before.fork()
                outputs = stage.run(stretch.start, stretch.end, stretch.rows)
                stage.drop()
                self._do(self.node.rerun(rerun, outputs[asked.stream]))
                return
