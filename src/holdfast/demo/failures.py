"""Breaks the pipeline in front of the user: a killed replica, a source that is cut off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich.console import Console

from holdfast.demo.answers import count_differences
from holdfast.demo.calculation import LAST, SOURCES
from holdfast.demo.pipeline import CUT_OFF, Pipeline, now
from holdfast.demo.screen import Screen
from holdfast.pipeline.machine.tuples import Kind
from holdfast.time_line import Piece, Span, TimeLine, Trouble

__all__ = ["Outcome", "break_pipeline"]

STARTED: Final = 300.0
"""Seconds for the processes to start on a slow machine."""
PATIENCE: Final = 120.0
"""Seconds for anything else to happen."""
BACK: Final = 20.0
"""Seconds that a killed replica is waited for; the answers hold without it."""
CALM: Final = 3
"""So many pieces the client gets before anything is broken."""
PREVIEWS: Final = 3
"""So many tentative pieces the client gets before the link is mended."""


@dataclass(frozen=True)
class Outcome:
    """What the client was told."""

    answers: int
    """Final ones."""
    different: int
    """How many are not those of a run without failures."""
    tentative: int
    withdrawn: int
    usual: float
    """Seconds after its end until a piece was shown, at worst, before anything was broken."""
    worst: float
    """The same after that; tentative counts."""
    line: TimeLine

    @property
    def is_right(self) -> bool:
        return self.answers > 0 and self.different == 0 and self.withdrawn == self.tentative > 0


def break_pipeline(console: Console, pipeline: Pipeline) -> Outcome:
    """Wait until it runs, kill a replica, cut a source off, mend all, compare the answers."""
    with Screen(console, pipeline) as screen:
        start = _start(screen, pipeline)
        killed, death = _kill(screen, pipeline)
        cut = _cut_off(screen, pipeline, killed)
        death = _wait_until_back(screen, pipeline, killed, death)
        line = _time_line(pipeline, start, [death, cut])
        until = pipeline.answers.boundary
        right = pipeline.right_answers(until)
    given = [answer for answer in pipeline.answers.final_answers() if answer.end <= until]
    delays = [(piece.at < death.start - start, delay / 1e6) for piece, delay in line.delays()]
    return Outcome(
        answers=len(given),
        different=count_differences(given, right),
        tentative=pipeline.answers.tentative,
        withdrawn=pipeline.answers.withdrawn,
        usual=max(delay for before, delay in delays if before),
        worst=max(delay for before, delay in delays if not before),
        line=line,
    )


def _start(screen: Screen, pipeline: Pipeline) -> int:
    answers = pipeline.answers
    screen.say(f"{' and '.join(pipeline.topology.stages)} start, two replicas each", "dim")
    screen.must("all replicas to be ready", pipeline.is_ready, STARTED)
    pipeline.open_sources()
    screen.say(f"{', '.join(SOURCES)}: rows begin to flow", "dim")
    screen.must(
        "all replicas to be stable", lambda: pipeline.is_stable() and answers.final, STARTED
    )
    start = now()
    screen.say("all replicas are stable, and the client gets final answers", "green")
    screen.must("final answers", lambda: len(answers.kinds(start)) >= CALM, PATIENCE)
    return start


def _kill(screen: Screen, pipeline: Pipeline) -> tuple[str, Trouble]:
    killed, start = pipeline.read_from, now()
    pipeline.kill(killed)
    screen.say(f"kill -9 {killed}, the replica that the client reads", "red")
    screen.must(
        "answers of the other replica",
        lambda: pipeline.read_from != killed and pipeline.answers.boundary > start,
        PATIENCE,
    )
    screen.say(f"the client goes on with {pipeline.read_from}; its answers are final", "green")
    return killed, Trouble(f"kill -9: {killed}", start, start)


def _cut_off(screen: Screen, pipeline: Pipeline, killed: str) -> Trouble:
    answers, start = pipeline.answers, now()
    pipeline.cut()
    screen.say(f"the links to {CUT_OFF} are cut", "red")
    screen.must(
        "tentative answers",
        lambda: answers.kinds(start).count(Kind.TENTATIVE) >= PREVIEWS,
        PATIENCE,
    )
    screen.say(f"answers go on without {CUT_OFF}; they are tentative", "yellow")
    end = now()
    pipeline.heal()
    screen.say(f"the links to {CUT_OFF} are mended", "green")
    screen.must(
        "corrections",
        lambda: Kind.REC_DONE in answers.kinds(end) and answers.boundary > end,
        PATIENCE,
    )
    screen.say("all that was tentative is withdrawn and corrected", "green")
    return Trouble(f"cut: {CUT_OFF} from all others", start, end)


def _wait_until_back(screen: Screen, pipeline: Pipeline, killed: str, death: Trouble) -> Trouble:
    if screen.wait(pipeline.is_stable, BACK):
        screen.say(f"{killed} was started again and is back; all replicas are stable", "green")
    else:
        screen.say(f"{killed} was started again and is not back yet", "yellow")
    # Where the machine is busy, that alone may have delayed something.
    screen.must("corrections", lambda: pipeline.answers.is_corrected, PATIENCE)
    return replace(death, end=now())


def _time_line(pipeline: Pipeline, start: int, troubles: Sequence[Trouble]) -> TimeLine:
    end = now()
    return TimeLine(
        title="a replica is killed, a source is cut off",
        until=end - start,
        troubles=[Trouble(each.name, each.start - start, each.end - start) for each in troubles],
        stream=LAST,
        shown=[
            Piece(at - start, told.kind, told.boundary - start)
            for at, told in list(pipeline.answers.told)
            if at >= start
        ],
        gaps=[],
        max_delay=float(pipeline.topology.stages[LAST].max_delay),
        states={name: _spans(pipeline, name, start, end) for name in pipeline.replicas},
    )


def _spans(pipeline: Pipeline, name: str, start: int, end: int) -> list[Span]:
    """From looks at a replica to how long it was in each state."""
    spans: list[Span] = []
    for at, states in list(pipeline.states):
        since, state = max(at - start, 0), states[name]
        if spans and spans[-1].state is state:
            continue
        if spans:
            spans[-1] = replace(spans[-1], end=since)
        spans.append(Span(since, end - start, state))
    return [span for span in spans if span.end > 0]
