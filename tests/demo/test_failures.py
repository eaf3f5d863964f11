"""What is done to the pipeline, in which order, and what is made of its answers."""

from __future__ import annotations

import io
from typing import Any, cast

import pytest
from rich.console import Console

from holdfast.demo import failures
from holdfast.demo.failures import Outcome, break_pipeline
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Kind
from tests.demo.rig import Actor, answer


def broken(actor: Actor) -> tuple[Outcome, str]:
    console = Console(file=io.StringIO(), width=100)
    actor.start()
    outcome = break_pipeline(console, cast(Any, actor))
    return outcome, cast(io.StringIO, console.file).getvalue()


def test_a_replica_is_killed_then_a_source_cut_off_and_mended(actor: Actor) -> None:
    outcome, said = broken(actor)
    assert actor.done == ["start", "open sources", "kill sums/1", "cut", "heal"]
    told = [line.partition("s  ")[2] for line in said.splitlines()]
    assert told == [
        "clean and sums start, two replicas each",
        "north, south, west: rows begin to flow",
        "all replicas are stable, and the client gets final answers",
        "kill -9 sums/1, the replica that the client reads",
        "the client goes on with sums/2; its answers are final",
        "the links to south are cut",
        "answers go on without south; they are tentative",
        "the links to south are mended",
        "all that was tentative is withdrawn and corrected",
        "sums/1 was started again and is back; all replicas are stable",
    ]
    assert outcome.is_right
    assert (outcome.tentative, outcome.withdrawn, outcome.different) == (6, 6, 0)
    assert outcome.answers == actor.answers.final
    assert outcome.usual == 0.5


def test_the_time_line_begins_when_all_is_well(actor: Actor) -> None:
    outcome, _ = broken(actor)
    line = outcome.line
    assert [trouble.name for trouble in line.troubles] == [
        "kill -9: sums/1",
        "cut: south from all others",
    ]
    assert all(0 <= each.start <= each.end <= line.until for each in line.troubles)
    assert Kind.UNDO in {piece.kind for piece in line.shown}
    assert all(piece.at >= 0 for piece in line.shown)
    assert line.max_delay == 5_000_000
    assert [span.state for span in line.states["clean/1"]] == [
        State.STABLE,
        State.UP_FAILURE,
        State.STABLE,
    ]
    spans = line.states["sums/1"]
    assert [span.state for span in spans] == [State.STABLE, State.FAILURE, State.STABLE]
    assert spans[0].start == 0
    assert [span.start for span in spans[1:]] == [span.end for span in spans[:-1]]
    assert spans[-1].end == line.until


def test_a_wrong_answer_is_seen(actor: Actor) -> None:
    actor.wrong = [answer(0)]
    outcome, _ = broken(actor)
    assert outcome.different == 1
    assert not outcome.is_right


def test_a_replica_that_is_not_back_in_time_is_said_to_be_so(
    actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "BACK", 0)
    actor.comes_back = False
    outcome, said = broken(actor)
    assert "sums/1 was started again and is not back yet" in said
    assert outcome.is_right
