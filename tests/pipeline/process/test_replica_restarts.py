"""A replica that is started again: on its folder, on an empty one, or too late for its inputs."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StoreUnavailableError
from holdfast.pipeline.process.reader import Told
from holdfast.pipeline.process.segment_log import MARK, DiskLog
from holdfast.pipeline.process.tail import open_reader
from holdfast.pipeline.stages.entries import Order
from holdfast.transport.codec import MAX_MESSAGE
from holdfast.transport.proxy import Proxy
from tests.pipeline.process.fake_query import SIZE
from tests.pipeline.process.replica_rig import Rig, end_of, final_answers, numbers
from tests.pipeline.sources.rig import wait_for

pytestmark = pytest.mark.usefixtures("no_spark")


# On its folder


def test_a_replica_goes_on_from_its_folder(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        for life in range(4):
            rig.open()
            rig.bring(life * 100, life * 100 + 100)
            wait_for(lambda life=life: rig.boundary() >= end_of(life * 100 + 100))
            assert rig.final(end_of(life * 100 + 100)) == numbers(life * 100 + 100)
            rig.close()


@pytest.mark.parametrize("engine", [{"works": 0}, {"delivers": False}, {"commits": False}])
def test_what_was_journaled_and_not_done_is_done_after_a_restart(
    tmp_path: Path, engine: dict[str, Any]
) -> None:
    """Not begun, not delivered, or delivered and not taken for done."""
    with Rig(tmp_path) as rig:
        rig.open()
        rig.bring(0, 100)
        wait_for(lambda: rig.boundary() >= end_of(100))
        rig.close()
        rig.open(**({} if "delivers" in engine else engine))
        wait_for(lambda: rig.replicas["sums/1"].status()["ready"])
        for name, value in engine.items():
            setattr(rig.engines["sums/1"], name, value)
        rig.bring(100, 200)
        if "commits" in engine:
            wait_for(lambda: rig.boundary() >= end_of(200))
        else:
            wait_for(lambda: rig.journaled(Order.WORK))
        rig.close()
        rig.open()
        rig.bring(200, 300)
        assert rig.final(end_of(300)) == numbers(300)
        assert rig.replicas["sums/1"].failure is None


def test_rows_are_published_once_over_many_restarts(tmp_path: Path) -> None:
    chance = random.Random(6)
    done = 0
    with Rig(tmp_path, streams=("a", "b")) as rig:
        for _ in range(12):
            rig.open(
                twice=chance.random() < 0.3,
                commits=chance.random() < 0.7,
                works=chance.choice([None, None, 0, 1, 2]),
            )
            for _ in range(chance.randrange(1, 4)):
                rig.bring(done, done + 30)
                done += 30
            if chance.random() < 0.7:
                wait_for(lambda: rig.journaled(Order.WORK) or rig.boundary())
            rig.close()
        rig.open()
        assert rig.final(end_of(done)) == numbers(done, streams=2)


def test_a_reader_stays_while_a_replica_is_started_again(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.open()
        rig.bring(0, 100)
        with open_reader(rig.topology, "sums", me="keeper", position=0, tentative=False) as reader:
            heard: list[Told] = []

            def hear(boundary: int) -> None:
                while not heard or heard[-1].boundary < boundary:
                    told = reader.next(60)
                    assert told is not None
                    heard.append(told)

            hear(end_of(100))
            rig.close()
            rig.bring(100, 200)
            rig.open()
            hear(end_of(200))
        assert final_answers(heard) == numbers(200)


# On a folder that has lost something


def cut_log(folder: Path, records: int) -> None:
    """Take so many records from the end of a replica's log, as a power failure may."""
    path = max(folder.glob("*.log"), key=lambda each: each.stat().st_size)
    data = path.read_bytes()
    begins = [at for at in range(len(data)) if data.startswith(MARK, at)]
    os.truncate(path, begins[-records])


def flip(folder: Path, record: int) -> str:
    """Flip a bit of a record of a replica's log; where the record begins."""
    path = max(folder.glob("*.log"), key=lambda each: each.stat().st_size)
    data = bytearray(path.read_bytes())
    begins = [at for at in range(len(data)) if data.startswith(MARK, at)]
    data[begins[record] + 40] ^= 1
    path.write_bytes(bytes(data))
    return f"{path}: a record, at byte {begins[record]}, is damaged"


@pytest.mark.parametrize("replicas", [1, 2])
def test_damage_amid_a_log_costs_neither_the_state_nor_what_follows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, replicas: int
) -> None:
    with Rig(tmp_path, replicas=replicas) as rig:
        names = [f"sums/{number}" for number in range(1, replicas + 1)]
        for name in names:
            rig.open(name)
        for first in range(0, 300, 30):
            rig.bring(first, first + 30)
            wait_for(
                lambda first=first: all(rig.boundary(name) >= end_of(first + 30) for name in names)
            )
        rig.close()
        said = flip(rig.topology.state_folder / "sums/1/log", 4)
        replica = rig.open()
        wait_for(lambda: replica.status()["ready"])
        assert said in caplog.text
        assert replica.status()["was_damaged"]
        rig.bring(300, 400)
        wait_for(lambda: rig.boundary() >= end_of(400))
        assert not {Order.RESTART, Order.INSTALL} & set(rig.engines["sums/1"].done)
        if replicas == 2:
            # Its peer has what was damaged and what was before.
            wait_for(lambda: int(replica.status()["start"]) == 0)
            rig.close("sums/2")
        start = int(replica.status()["start"])
        assert start < end_of(300)
        right = [each for each in numbers(400) if each[0] * SIZE >= start]
        assert rig.final(end_of(400), position=start) == right
        rig.close()
        replica = rig.open()
        wait_for(lambda: replica.status()["ready"])
        assert not replica.status()["was_damaged"]
        assert rig.final(end_of(400), position=start) == right


@pytest.mark.parametrize("records", [1, 2, 5])
def test_a_log_that_is_behind_the_state_never_gives_wrong_rows(
    tmp_path: Path, records: int
) -> None:
    """Buckets after the end of such a log are in the state already."""
    with Rig(tmp_path, kept="1h") as rig:
        rig.open()
        for first in range(0, 300, 30):
            rig.bring(first, first + 30)
            wait_for(lambda first=first: rig.boundary() >= end_of(first + 30))
        rig.close()
        cut_log(rig.topology.state_folder / "sums/1" / "log", records)
        rig.open()
        rig.bring(300, 400)
        right = numbers(400)
        found = rig.final(end_of(400), may_skip=True)
        assert found
        assert [each for each in found if each not in right] == []
        assert found[-1] == right[-1]
        assert rig.replicas["sums/1"].status()["was_damaged"]


def test_a_log_with_a_hole_before_what_comes_again_is_not_gone_on_with(tmp_path: Path) -> None:
    """Spark does its last batch once more, and the log has lost the record before that."""
    with Rig(tmp_path, kept="1h") as rig:
        rig.open()
        for first in range(0, 300, 30):
            rig.engines["sums/1"].commits = first < 270
            rig.bring(first, first + 30)
            wait_for(lambda first=first: rig.boundary() >= end_of(first + 30))
        rig.close()
        cut_log(rig.topology.state_folder / "sums/1" / "log", 8)
        rig.open()
        rig.bring(300, 400)
        assert rig.final(end_of(400)) == numbers(400)
        assert rig.replicas["sums/1"].status()["was_damaged"]


@pytest.mark.parametrize("which", ["log", "journal"])
def test_a_replica_whose_files_are_damaged_sets_them_aside(tmp_path: Path, which: str) -> None:
    with Rig(tmp_path, kept="1h") as rig:
        rig.open()
        rig.bring(0, 300)
        wait_for(lambda: rig.boundary() >= end_of(300))
        rig.close()
        folder = rig.topology.state_folder / "sums/1"
        if which == "log":
            # Without its last record nobody knows how far the log went.
            flip(folder / "log", -1)
        else:
            (folder / "damaged.txt").write_text("entry 7 of the journal cannot be read")
        replica = rig.open()
        wait_for(lambda: replica.status()["ready"])
        assert replica.status()["was_damaged"]
        assert (folder / "set-aside" / which).exists()
        assert not (folder / "damaged.txt").exists()
        rig.bring(300, 400)
        found = rig.final(end_of(400), may_skip=True)
        assert [each for each in found if each not in numbers(400)] == []
        assert found[-1] == numbers(400)[-1]
        rig.close()
        replica = rig.open()
        wait_for(lambda: replica.status()["ready"])
        assert not replica.status()["was_damaged"]


# With a peer


def lose_peer(rig: Rig) -> None:
    """Let both replicas come to the same place and end the second."""
    for name in ("sums/1", "sums/2"):
        rig.open(name)
    rig.bring(0, 300)
    wait_for(lambda: all(rig.boundary(name) >= end_of(300) for name in rig.replicas))
    rig.close("sums/2")


@pytest.mark.parametrize("commits", [True, False])
def test_who_has_lost_its_folder_gets_its_state_from_its_peer(
    tmp_path: Path, commits: bool
) -> None:
    with Rig(tmp_path, replicas=2) as rig:
        lose_peer(rig)
        rig.open("sums/2", empty=True, commits=commits)
        wait_for(lambda: Order.INSTALL in rig.engines["sums/2"].done)
        assert Order.COPY in rig.engines["sums/1"].done
        rig.bring(300, 400)
        wait_for(lambda: rig.boundary("sums/2") >= end_of(400))
        # It alone, with what it took over, also after a restart.
        rig.close("sums/1")
        start = int(rig.replicas["sums/2"].status()["start"])
        expected = [each for each in numbers(400) if each[0] * SIZE >= start]
        assert len(expected) > 60
        assert rig.final(end_of(400), position=start) == expected
        rig.close("sums/2")
        rig.open("sums/2")
        rig.bring(400, 500)
        expected = [each for each in numbers(500) if each[0] * SIZE >= start]
        assert rig.final(end_of(500), position=start) == expected


def test_who_has_lost_its_folder_waits_for_a_copy_that_takes_long(tmp_path: Path) -> None:
    """Longer than all peers are asked in vain; the state is larger than a message may be."""
    with Rig(tmp_path, replicas=2) as rig:
        lose_peer(rig)
        engine = rig.engines["sums/1"]
        engine.padding = 140
        engine.copying.clear()
        replica = rig.open("sums/2", empty=True)
        wait_for(lambda: rig.journaled(Order.COPY) or Order.COPY in engine.done)
        held = time.monotonic() + 3
        wait_for(lambda: time.monotonic() > held)
        assert replica.status()["state"] == "FAILURE"
        engine.copying.set()
        wait_for(lambda: Order.INSTALL in rig.engines["sums/2"].done)
        assert engine.done.count(Order.COPY) == 1
        status = replica.status()
        assert status["copy_bytes"] == status["copy_size"] > MAX_MESSAGE
        rig.bring(300, 400)
        wait_for(lambda: rig.boundary("sums/2") >= end_of(400))
        start = int(rig.replicas["sums/1"].status()["start"])
        wait_for(lambda: int(replica.status()["start"]) <= start)
        rig.close("sums/1")
        assert rig.final(end_of(400), position=start) == [
            each for each in numbers(400) if each[0] * SIZE >= start
        ]
        for first in (400, 500):
            rig.bring(first, first + 100)
            wait_for(lambda stop=first + 100: rig.boundary("sums/2") >= end_of(stop))
        folder = rig.topology.state_folder / "sums/2/taken"
        wait_for(lambda: not list(folder.glob("*")))


def test_who_has_lost_its_folder_waits_for_a_peer_that_is_started_too(tmp_path: Path) -> None:
    """As after a power failure of both; Spark takes long to start, and longer than all peers are
    asked in vain."""
    with Rig(tmp_path, replicas=2) as rig:
        lose_peer(rig)
        rig.close("sums/1")
        rig.open("sums/1", held=Order.DROP)
        replica = rig.open("sums/2", empty=True)
        wait_for(lambda: replica.status()["ready"])
        held = time.monotonic() + 3
        wait_for(lambda: time.monotonic() > held)
        assert replica.status()["state"] == "FAILURE"
        rig.engines["sums/1"].held = None
        wait_for(lambda: Order.INSTALL in rig.engines["sums/2"].done)


def test_a_damaged_copy_is_made_again_and_a_broken_link_costs_no_piece_twice(
    tmp_path: Path,
) -> None:
    with Rig(tmp_path, replicas=2) as rig:
        lose_peer(rig)
        engine = rig.engines["sums/1"]
        engine.padding = 80
        engine.copying.clear()
        address = rig.topology.parties()["sums/1"].address
        assert address is not None
        host, _, port = address.partition(":")
        with Proxy((host, int(port))) as proxy:
            rig.open("sums/2", empty=True, routes={"sums/1": f"127.0.0.1:{proxy.port}"})
            copies = rig.topology.state_folder / "sums/1/copies"
            wait_for(lambda: len(list(copies.glob("*/*[0-9]"))) == 2)
            file = min(copies.glob("*/*"))
            with file.open("r+b") as opened:
                opened.seek(5 << 20)
                opened.write(b"damage")
            engine.copying.set()
            wait_for(lambda: "copy_bytes" in rig.replicas["sums/2"].status())
            proxy.reset()
            proxy.heal()
            wait_for(lambda: Order.INSTALL in rig.engines["sums/2"].done)
        assert engine.done.count(Order.COPY) == 2
        rig.bring(300, 400)
        wait_for(lambda: rig.boundary("sums/2") >= end_of(400))


@pytest.mark.parametrize("records", [0, 1])
def test_who_is_killed_while_it_takes_over_a_state_takes_it_over_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    with Rig(tmp_path, replicas=2) as rig:
        lose_peer(rig)
        append, left = DiskLog.append, [records]

        def fail(log: DiskLog, *given: Any) -> Any:
            if log.folder.is_relative_to(rig.topology.state_folder / "sums/2"):
                left[0] -= 1
                if left[0] < 0:
                    raise StoreUnavailableError("the process was killed here")
            return append(log, *given)

        monkeypatch.setattr(DiskLog, "append", fail)
        replica = rig.open("sums/2", empty=True)
        wait_for(lambda: replica.failure)
        assert "killed here" in str(replica.failure)
        monkeypatch.setattr(DiskLog, "append", append)
        rig.close("sums/2")
        rig.open("sums/2")
        wait_for(lambda: rig.boundary("sums/2") >= end_of(300))
        rig.bring(300, 400)
        wait_for(lambda: rig.boundary("sums/2") >= end_of(400))
        start = int(rig.replicas["sums/1"].status()["start"])
        wait_for(lambda: int(rig.replicas["sums/2"].status()["start"]) <= start)
        rig.close("sums/1")
        assert rig.final(end_of(400), position=start) == [
            each for each in numbers(400) if each[0] * SIZE >= start
        ]


# Inputs that are kept no longer


def outrun(rig: Rig, first: int, stop: int) -> None:
    """Bring so much that what comes next for a replica is kept no longer."""
    for start in range(first, stop, 100):
        rig.bring(start, start + 100)


def check_after_gap(rig: Rig, before: int, stop: int) -> None:
    """All that is final is right; something is missing after `before`, and then nothing is but
    what the stage itself keeps no longer."""
    heard = rig.final(end_of(stop), position=before, may_skip=True)
    assert set(heard) <= set(numbers(stop))
    assert heard == sorted(set(heard))
    assert heard[0][0] * SIZE > before
    assert heard[-100:] == numbers(stop)[-100:]


@pytest.mark.parametrize("retain", [None, "6s"])
def test_a_replica_whose_inputs_have_gone_on_converges(tmp_path: Path, retain: str | None) -> None:
    """Without `retain` of its own it starts over; with it, it skips."""
    with Rig(tmp_path, kept="6s", retain=retain) as rig:
        rig.open()
        rig.bring(0, 100)
        wait_for(lambda: rig.boundary() >= end_of(100))
        rig.close()
        outrun(rig, 100, 2000)
        rig.open()
        wait_for(lambda: rig.boundary() >= end_of(2000))
        rig.bring(2000, 2100)
        check_after_gap(rig, end_of(100), 2100)
        rig.close()
        rig.open()
        rig.bring(2100, 2200)
        check_after_gap(rig, end_of(100), 2200)


@pytest.mark.parametrize("retain", [None, "6s"])
@pytest.mark.parametrize("held", [Order.RESTART, Order.WORK])
def test_who_is_killed_while_it_skips_forgets_nothing_of_it(
    tmp_path: Path, retain: str | None, held: Order
) -> None:
    """Before Spark has emptied the state, and after, when nothing has been made of it."""
    with Rig(tmp_path, kept="6s", retain=retain) as rig:
        rig.open()
        rig.bring(0, 100)
        wait_for(lambda: rig.boundary() >= end_of(100))
        rig.close()
        outrun(rig, 100, 2000)
        rig.open(held=held)
        wait_for(lambda: rig.journaled(held))
        rig.close()
        rig.open()
        wait_for(lambda: rig.boundary() >= end_of(2000))
        rig.bring(2000, 2100)
        check_after_gap(rig, end_of(100), 2100)


def test_work_that_is_under_way_when_it_starts_over_counts_no_more(tmp_path: Path) -> None:
    with Rig(tmp_path, kept="6s") as rig:
        address = rig.sources["a"].address
        with Proxy((address.host, address.port)) as proxy:
            routes = {"a": f"127.0.0.1:{proxy.port}"}
            rig.open(routes=routes)
            rig.bring(0, 100)
            wait_for(lambda: rig.boundary() >= end_of(100))
            engine = rig.engines["sums/1"]
            engine.works = 0
            rig.bring(100, 200)
            wait_for(lambda: rig.journaled(Order.WORK))
            proxy.reset()
            outrun(rig, 200, 2000)
            proxy.heal()
            query = engine.query
            assert query is not None
            wait_for(lambda: any(each.order is Order.RESTART for each in query.journal.since(0)))
            engine.works = 1
            wait_for(lambda: Order.RESTART in engine.done and engine.works == 0)
            rig.close()
        rig.open()
        wait_for(lambda: rig.boundary() >= end_of(2000))
        rig.bring(2000, 2100)
        check_after_gap(rig, end_of(200), 2100)
