"""Replicas that check each other, with real links: every policy, and replicas that lie."""

from __future__ import annotations

import json
import logging
import re
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.lies import CLEVER, EVERY, LIES, NAMED, shifted
from holdfast.pipeline.machine.messages import Feed, Stable
from holdfast.pipeline.machine.tuples import Kind, Row, Segment
from holdfast.pipeline.process.fault_tracker import readmit
from holdfast.pipeline.process.replica_config import WAITING
from holdfast.pipeline.process.tail import read_stream
from holdfast.pipeline.sinks import reader_of
from holdfast.pipeline.stages.entries import Order
from holdfast.storage.chunks import Chunk
from tests.pipeline.process.fake_query import BUCKETS, SIZE, STEP
from tests.pipeline.process.replica_rig import answers_in, end_of, final_answers, link_of, numbers
from tests.pipeline.process.vote_rig import VoteRig, cleaned, hear, right
from tests.pipeline.sources.rig import wait_for

pytestmark = pytest.mark.usefixtures("no_spark")
EXACTLY_ONCE = ("vote", "first")
AHEAD = 64
"""Buckets that are voted on at once."""
TODAY = 1_700_000_000_000_000
FORGED = Chunk.of(pa.table({"value": [10**9]}))


def bring_all(rig: VoteRig, stop: int = 600) -> None:
    for first in range(0, stop, 100):
        rig.bring(first, first + 100)


@pytest.mark.parametrize("policy", ["vote", "vote-latest", "sample", "first", "latest"])
def test_without_faults_every_policy_lets_the_right_rows_through(
    policy: str, tmp_path: Path
) -> None:
    with VoteRig(tmp_path, policy=policy) as rig:
        rig.open_all()
        bring_all(rig)
        heard = rig.hear(end_of(600))
        ends = [told.boundary for told in heard]
        assert all(one < other for one, other in pairwise(ends))
        answers = [each for told in heard for each in answers_in(told.rows)]
        if policy in EXACTLY_ONCE or policy == "sample":
            assert answers == right(600)
        buckets = [bucket for bucket, *_ in answers]
        assert buckets == sorted(set(buckets))
        found = rig.found
        assert (found["accused"], found["quarantined"], found["gave_up"]) == ({}, [], {})


@pytest.mark.parametrize("policy", ["vote", "vote-latest", "sample", "first", "latest"])
def test_all_that_was_before_the_first_row_is_passed_at_once(policy: str, tmp_path: Path) -> None:
    """Streams begin in 1970, and rows come from today."""
    with VoteRig(tmp_path, policy=policy) as rig:
        rig.open_all()
        for first in range(0, 600, 100):
            rig.bring(first, first + 100, since=TODAY)
        heard = rig.hear(TODAY + end_of(600))
        answers = [each for told in heard for each in answers_in(told.rows)]
        last = [(bucket + TODAY // SIZE, n, total) for bucket, n, total in right(600)]
        if policy in EXACTLY_ONCE or policy == "sample":
            assert answers == last
        assert answers[-1][0] == last[-1][0]


@pytest.mark.parametrize("lie", LIES)
def test_a_liar_gets_nothing_through(lie: str, tmp_path: Path) -> None:
    with VoteRig(tmp_path) as rig:
        rig.open_all(("clean/3",), lie)
        bring_all(rig)
        assert rig.answers(600) == right(600)
        is_named = lie in (*NAMED, *CLEVER)
        named = ["clean/3"] if is_named else []
        assert rig.hear_as_sink(end_of(600), named) == cleaned(600)
        if is_named:
            wait_for(lambda: rig.found["quarantined"] == ["clean/3"])
            assert set(rig.found["accused"]) == {"clean/3"}
            told = rig.found["votes"]["clean"]
            row = told["replicas"].index("clean/3")
            assert "d" in {letters[row] for _, letters, _ in told["buckets"]}
            assert "d" not in "".join(
                letters[:row] + letters[row + 1 :] for _, letters, _ in told["buckets"]
            )
        else:
            assert rig.found["accused"] == {}
        if lie == "right-hash":
            assert rig.found["refused"]["message"] > 0


def test_nobody_votes_as_another(tmp_path: Path) -> None:
    """Whoever has the token may call under any name, and may guess what was subscribed to; but
    votes are taken from those who were called."""
    with VoteRig(tmp_path) as rig, ExitStack() as calls:
        rig.open_all()
        rig.bring_through(0, 300)
        sums = rig.replicas["sums/1"]
        assert sums._node is not None
        intake: Any = sums._node.inputs.intakes["clean"]
        sources = intake._sources
        wait_for(lambda: {each.bucket * SIZE for each in sources.values()} == {intake.position})
        posed = rig.names[:3]
        for name in posed:
            rig.close(name)
        start = intake.position
        forged = Stable(Segment(start, start + SIZE, (Row(start, None, FORGED),)))
        for name in posed:
            asked = sources[name].subscription
            link = calls.enter_context(link_of(name, sums, []))
            assert link.send(Feed("clean", asked.number, asked.expected, (forged,)))
        wait_for(lambda: sums._workplace.server.counts["messages"] >= len(posed))
        sums._workplace.loop.call(lambda now: None)
        assert intake.position == start
        assert rig.found["refused"]["message"] == len(posed)
        rig.open(*posed)
        rig.bring(300, 600)
        assert rig.answers(600) == right(600)
        assert rig.found["accused"] == {}


def test_two_liars_of_four_stop_the_stream_and_are_named(tmp_path: Path) -> None:
    with VoteRig(tmp_path) as rig:
        rig.open_all(("clean/1", "clean/2"), "wrong-value")
        bring_all(rig)
        wait_for(lambda: bool(rig.found["gave_up"]))
        said = rig.found["gave_up"]["clean"]
        assert sorted(said.split(" against ")) == ["clean/1, clean/2", "clean/3, clean/4"]
        assert rig.found["stable_rows"] == 0
        assert rig.found["quarantined"] == []


@pytest.mark.parametrize("lie", ["wrong-value", *CLEVER])
def test_a_liar_that_samples_find_out_is_not_trusted_any_more(lie: str, tmp_path: Path) -> None:
    with VoteRig(tmp_path, policy="sample", every=EVERY) as rig:
        rig.open_all(("clean/1",), lie)
        stop = 0
        while "clean/1" not in rig.found["accused"]:
            assert stop < 5000, "it was not found out"
            rig.bring_through(stop, stop + 200)
            stop += 200
        rig.bring(stop, stop + 200)
        stop += 200
        answers = rig.answers(stop)
        wrong = [each for each in answers if each not in right(stop)]
        assert answers[-20:] == right(stop)[-20:]
        if lie not in CLEVER:
            assert rig.found["tainted"] > 0
            # What was let through before is told of, though not which of it is wrong.
            assert len(wrong) <= rig.found["tainted"] + BUCKETS


def test_a_trusted_liar_does_not_stop_a_reader_with_rows_that_it_cannot_read(
    tmp_path: Path,
) -> None:
    with VoteRig(tmp_path, policy="sample", every=5) as rig:
        rig.open_all(("clean/1",), "other-columns")
        bring_all(rig)
        assert rig.answers(600) == right(600)
        assert rig.found["refused"]["message"] > 0
        assert rig.found["tainted"] == 0


@pytest.mark.parametrize("policy", ["vote", "vote-latest", "sample", "first", "latest"])
def test_a_crash_is_masked(policy: str, tmp_path: Path) -> None:
    with VoteRig(tmp_path, policy=policy) as rig:
        rig.open_all()
        rig.bring(0, 300)
        wait_for(lambda: rig.found["boundary"] >= end_of(300))
        rig.close("clean/1")
        rig.bring(300, 600)
        heard = rig.hear(end_of(600))
        answers = [each for told in heard for each in answers_in(told.rows)]
        if policy in EXACTLY_ONCE or policy == "sample":
            assert answers == right(600)
        assert all(told.kind is Kind.INSERT for told in heard)
        assert rig.found["accused"] == {}


def test_nothing_begins_before_all_replicas_are_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with VoteRig(tmp_path) as rig, caplog.at_level(logging.WARNING):
        rig.open("clean/1", "clean/2", "clean/3", "sums/1")
        rig.bring(0, 300)
        wait_for(lambda: rig.found["waits_for"] == ["clean/4"])
        assert rig.found["boundary"] == 0
        assert "sums/1: does not begin with clean before clean/4 answers" in caplog.text
        rig.open("clean/4")
        assert rig.answers(300) == right(300)
        assert rig.found["waits_for"] == []


def test_after_a_while_enough_replicas_will_do(tmp_path: Path) -> None:
    with VoteRig(tmp_path, barrier="300ms") as rig:
        rig.open("clean/1", "clean/2", "sums/1")
        rig.bring(0, 300)
        wait_for(lambda: set(rig.found["waits_for"]) == {"clean/3", "clean/4"})
        rig.open("clean/3")
        assert rig.answers(300) == right(300)


def test_quarantine_outlives_a_restart_and_ends_with_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with VoteRig(tmp_path) as rig, caplog.at_level(logging.WARNING):
        rig.open_all(("clean/3",))
        rig.bring(0, 300)
        wait_for(lambda: rig.found["quarantined"] == ["clean/3"])
        assert "sums/1: clean/3 lies" in caplog.text
        told = re.search(r"clean/3 is in quarantine after (\d+) accusations", caplog.text)
        assert told is not None
        assert int(told[1]) >= 3
        rig.close("sums/1")
        rig.close("clean/3")
        rig.open("clean/3", "sums/1")
        wait_for(lambda: rig.found["ready"])
        assert rig.found["quarantined"] == ["clean/3"]
        said = list(readmit(rig.topology, "clean/3"))
        assert said == ["sums/1: clean/3 counts again"]
        assert rig.found["quarantined"] == []
        assert list(readmit(rig.topology, "clean/3")) == ["sums/1: clean/3 was not in quarantine"]
        note = rig.topology.state_folder / "sums/1" / "quarantine.json"
        assert json.loads(note.read_text()) == {}
        # Now that it counts, another may be gone.
        rig.close("clean/1")
        rig.bring(300, 600)
        wait_for(lambda: rig.found["boundary"] >= end_of(600))
        assert rig.found["accused"] == {}


def test_what_waits_for_a_slow_query_stays_with_those_who_published_it(tmp_path: Path) -> None:
    with VoteRig(tmp_path) as rig:
        rig.open(*rig.names)
        rig.open("sums/1", works=1)
        stop = 2 * WAITING * SIZE // STEP
        rig.bring(0, stop)
        wait_for(lambda: rig.found["ready"])
        node = rig.replicas["sums/1"]._node
        assert node is not None
        intake = node.inputs.intakes["clean"]
        wait_for(lambda: intake.is_paused)
        rig.replicas["sums/1"]._workplace.loop.call(lambda now: None)
        assert node.gate.buffered <= WAITING + AHEAD
        rig.close("sums/1")
        rig.open("sums/1")
        assert rig.answers(stop) == right(stop)


def test_votes_are_switched_on_and_off_by_a_restart(tmp_path: Path) -> None:
    """Folders stay, and all goes on from them."""

    def go_on(policy: str, stop: int, liars: tuple[str, ...] = ()) -> None:
        with VoteRig(tmp_path, policy=policy) as rig:
            rig.open_all(liars)
            rig.bring_through(stop - 300, stop)
            assert rig.answers(stop) == right(stop)
            wait_for(lambda: rig.found.get("quarantined", []) == list(liars))

    go_on("switch", 300)
    go_on("vote", 600, ("clean/2",))
    go_on("switch", 900)


def test_a_guest_may_vote_too(tmp_path: Path) -> None:
    with VoteRig(tmp_path) as rig:
        rig.open_all(("clean/2",))
        bring_all(rig)
        with read_stream(rig.topology, "clean", position="oldest", policy="vote") as reader:
            values: list[int] = []
            while (told := reader.next(60)) is not None and told.boundary < end_of(600):
                values += [] if told.rows is None else told.rows["value"].to_pylist()
            assert told is not None
            values += [] if told.rows is None else told.rows["value"].to_pylist()
            assert values == cleaned(600)
            # Three of four release the last bucket before the fourth copy of it is compared.
            wait_for(lambda: reader.found["quarantined"] == ["clean/2"])


class Glitch:
    """A machine that miscalculates a bucket the first time, as others do."""

    def __init__(self, bucket: int) -> None:
        self.bucket = bucket
        self.again = 0

    def __call__(self, order: Order, bucket: int, chunk: Chunk) -> Chunk:
        if bucket != self.bucket:
            return chunk
        if order is Order.RERUN:
            self.again += 1
            return chunk
        return shifted(chunk, 1)


def test_a_split_is_calculated_again(tmp_path: Path) -> None:
    glitches = [Glitch(end_of(300) // SIZE - 20) for _ in range(2)]
    with VoteRig(tmp_path) as rig:
        rig.open("clean/3", "clean/4")
        for name, glitch in zip(("clean/1", "clean/2"), glitches, strict=True):
            rig.open(name, falsify=glitch)
        rig.open("sums/1")
        rig.bring(0, 300)
        assert rig.answers(300) == right(300)
        assert rig.found["recalculated"] >= 1
        assert all(glitch.again for glitch in glitches)
        assert rig.found["gave_up"] == {}


def test_a_stage_with_state_is_calculated_again_from_what_its_windows_reach(
    tmp_path: Path,
) -> None:
    glitches = [Glitch(4), Glitch(4)]
    with VoteRig(tmp_path, window="250ms") as rig:
        rig.open("clean/3", "clean/4")
        for name, glitch in zip(("clean/1", "clean/2"), glitches, strict=True):
            rig.open(name, falsify=glitch)
        rig.bring(0, 300)
        with reader_of(rig.topology, "voter", 0, False) as reader:
            answers = final_answers(hear(reader, end_of(300)))
            assert answers == numbers(300)
            assert reader.found["recalculated"] == 1
            assert all(glitch.again for glitch in glitches)


def test_a_stage_whose_windows_reach_too_far_says_again_what_it_has_published(
    tmp_path: Path,
) -> None:
    """A split stays one, and is named."""
    with VoteRig(tmp_path, window="1m") as rig:
        rig.open("clean/3", "clean/4")
        for name in ("clean/1", "clean/2"):
            rig.open(name, falsify=Glitch(4))
        rig.bring(0, 300)
        with reader_of(rig.topology, "voter", 0, False) as reader:
            wait_for(lambda: bool(reader.found["gave_up"]))
            said = reader.found["gave_up"]["clean"]
            assert sorted(said.split(" against ")) == ["clean/1, clean/2", "clean/3, clean/4"]
            assert reader.found["recalculated"] == 3
