"""The eight steps, one after the other, and none before the answers to the one before."""

from __future__ import annotations

from typing import Any

from holdfast.pipeline.machine.sharing import Rules, Step, TupleId
from holdfast.pipeline.machine.sharing.batching import Post
from holdfast.pipeline.machine.sharing.messages import Confirm, Deliver, Packet, Purge, Record
from holdfast.pipeline.machine.sharing.ownership import Claim
from holdfast.pipeline.machine.sharing.tables import Holder, SharedTable, Standing
from holdfast.pipeline.machine.sharing.work import Output, Phase, Work

X = TupleId("s", 1)


class Bench:
    """Work of `a/0`, which makes two tuples of one for `b`."""

    def __init__(self, hops: int = 1, outputs: int = 2) -> None:
        self.table = SharedTable()
        self.post = Post(lambda name: 0)
        self.steps: list[int] = []
        self.colleagues = {"a/1", "a/2"}
        self.outputs = outputs
        self.work = Work(
            Rules(hops=hops, retry=100, nudge=1000),
            self.table,
            self.post,
            process=self._process,
            here=lambda: Holder("a/0", 0),
            colleagues=lambda now: set(self.colleagues),
            sitter=lambda operator, seat: f"{operator}/{seat}",
            watch=lambda step, tuple_id: self.steps.append(step.value),
        )

    def _process(self, tuple_id: TupleId, value: Any) -> list[Output]:
        ids = tuple_id.derived(self.outputs)
        return [Output(each, value, "b", at) for at, each in enumerate(ids)]

    def said(self) -> dict[str, list[Any]]:
        sends = self.post.flush(Claim(0, "a/0", 0), {})
        return {
            each.to: list(each.message.items) for each in sends if isinstance(each.message, Packet)
        }

    def answer(self, phase: Phase) -> None:
        for name in sorted(self.colleagues):
            self.work.answered(name, X, phase, 0)


def test_all_steps_in_their_order() -> None:
    bench = Bench()
    bench.work.accept(X, "v", ["s"], 0)
    assert bench.steps == [1, 2, 3, 4]
    assert bench.said() == {"a/1": [Record((X,))], "a/2": [Record((X,))]}
    bench.work.answered("a/1", X, Phase.RECORDING, 0)
    assert bench.said() == {}, "one colleague does not know yet"
    bench.work.answered("a/2", X, Phase.RECORDING, 0)
    first, second = X.derived(2)
    assert bench.said() == {
        "s": [Confirm(0, (X,))],
        "b/0": [Deliver(first, "v", "a/0")],
        "b/1": [Deliver(second, "v", "a/0")],
    }
    bench.work.confirmed(first, 0, 0)
    assert bench.said() == {}
    bench.work.confirmed(second, 0, 0)
    assert bench.said() == {"a/1": [Purge((X,))], "a/2": [Purge((X,))]}
    assert bench.table.standing(X) is Standing.DONE
    bench.answer(Phase.PURGING)
    assert bench.said() == {"s": [Confirm(1, (X,))]}
    assert bench.steps == [1, 2, 3, 4, 5, 6, 6, 7, 8]
    assert len(bench.work.kept) == 2, "kept for those below"
    for each in (first, second):
        bench.work.confirmed(each, 1, 0)
    assert bench.work.load == 0


def test_two_hops_wait_for_one_level_more() -> None:
    bench = Bench(hops=2, outputs=1)
    bench.work.accept(X, "v", ["s"], 0)
    bench.answer(Phase.RECORDING)
    bench.said()
    bench.work.confirmed(X, 0, 0)
    assert bench.said() == {"s": [Confirm(1, (X,))]}
    bench.work.confirmed(X, 1, 0)
    assert set(bench.said()) == {"a/1", "a/2"}
    bench.answer(Phase.PURGING)
    assert bench.said() == {"s": [Confirm(2, (X,))]}


def test_what_comes_to_nothing_is_done_at_once() -> None:
    bench = Bench(outputs=0)
    bench.work.accept(X, "v", ["s"], 0)
    bench.answer(Phase.RECORDING)
    assert bench.table.standing(X) is Standing.DONE
    bench.answer(Phase.PURGING)
    assert bench.work.load == 0


def test_alone_there_is_nobody_to_wait_for() -> None:
    bench = Bench(outputs=1)
    bench.colleagues = set()
    bench.work.accept(X, "v", ["s"], 0)
    assert bench.steps == [1, 2, 3, 4, 5]


def test_nobody_waits_for_the_dead() -> None:
    bench = Bench()
    bench.work.accept(X, "v", ["s"], 0)
    bench.work.answered("a/1", X, Phase.RECORDING, 0)
    bench.colleagues = {"a/1"}
    bench.work.look(0)
    assert Step.SENT_ON.value in bench.steps


def test_what_is_not_answered_is_said_again() -> None:
    bench = Bench(outputs=1)
    bench.work.accept(X, "v", ["s"], 0)
    bench.work.answered("a/1", X, Phase.RECORDING, 0)
    bench.said()
    bench.work.repeat(99)
    assert bench.said() == {}
    bench.work.repeat(100)
    assert bench.said() == {"a/2": [Record((X,))]}
    bench.work.answered("a/2", X, Phase.RECORDING, 100)
    bench.said()
    bench.work.repeat(200)
    assert bench.said() == {"b/0": [Deliver(X, "v", "a/0")]}


def test_who_sends_it_again_is_told_how_far_it_is() -> None:
    bench = Bench()
    bench.work.accept(X, "v", ["s"], 0)
    bench.said()
    bench.work.ask_again(X, "t")
    assert bench.said() == {}
    bench.answer(Phase.RECORDING)
    assert {"s", "t"} <= set(bench.said())
    bench.work.ask_again(X, "s")
    assert bench.said() == {"s": [Confirm(0, (X,))]}


def test_answers_to_another_phase_and_of_others_change_nothing() -> None:
    bench = Bench()
    bench.work.accept(X, "v", ["s"], 0)
    bench.answer(Phase.PURGING)
    assert bench.steps == [1, 2, 3, 4]
    assert not bench.work.answered("a/1", TupleId("s", 2), Phase.RECORDING, 0)
    bench.work.confirmed(TupleId("s", 9), 1, 0)


def test_in_a_new_life_what_is_mine_begins_again_and_what_is_done_is_said_again() -> None:
    bench = Bench(outputs=1)
    others = TupleId("s", 2), TupleId("s", 3)
    for each in (X, *others):
        bench.work.accept(each, "v", ["s"], 0)
    bench.answer(Phase.RECORDING)
    bench.work.confirmed(X, 0, 0)
    bench.said()
    bench.work.begin_again(lambda tuple_id: tuple_id == others[0], 0)
    assert bench.said() == {
        "a/1": [Purge((X,)), Record((others[0],))],
        "a/2": [Purge((X,)), Record((others[0],))],
    }
    assert others[1] not in bench.work.entries
