"""A replica between real sources, links and readers: what it publishes, and when inputs fail."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from threading import Event, Thread
from typing import Final

import pyarrow as pa
import pytest

from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Told
from holdfast.pipeline.process.replica_config import MEMORY
from holdfast.pipeline.process.service import LogTicket
from holdfast.pipeline.process.tail import open_reader
from holdfast.transport.client import LogClient
from holdfast.transport.proxy import Proxy
from tests.pipeline.process.fake_query import SIZE, Answer, right_answers
from tests.pipeline.process.replica_rig import Rig, answers_in, end_of, final_answers, numbers
from tests.pipeline.sources.rig import wait_for

pytestmark = pytest.mark.usefixtures("no_spark")


def test_rows_come_out_right(tmp_path: Path) -> None:
    with Rig(tmp_path, streams=("a", "b")) as rig:
        replica = rig.open()
        for first in range(0, 1000, 100):
            rig.bring(first, first + 100)
        assert rig.final(end_of(1000)) == numbers(1000, streams=2)
        status = replica.status()
        assert status["stable_rows"] == len(numbers(1000))
        assert (status["ready"], status["batch_seconds"]) == (True, 0.25)
        assert status["links"] == {"a": True, "b": True}
        # On a busy machine heartbeats of a few milliseconds are missed now and then.
        wait_for(lambda: replica.status()["state"] == "STABLE")
        assert replica.failure is None


def test_what_the_query_delivers_twice_is_published_once(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.open(twice=True)
        for first in range(0, 500, 50):
            rig.bring(first, first + 50)
        assert rig.final(end_of(500)) == numbers(500)
        assert rig.replicas["sums/1"].status()["stable_rows"] == len(numbers(500))


def test_results_that_come_late_come_in_order(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.open(delivers=False)
        for first in range(0, 500, 50):
            rig.bring(first, first + 50)
        rig.engines["sums/1"].delivers = True
        assert rig.final(end_of(500)) == numbers(500)


def test_two_replicas_publish_the_same(tmp_path: Path) -> None:
    with Rig(tmp_path, streams=("a", "b"), replicas=2) as rig:
        # Both begin without anything: they converge, for nobody has a state to give.
        for name in ("sums/1", "sums/2"):
            rig.open(name)
        for first in range(0, 1000, 40):
            rig.bring(first, first + 40)
        end = end_of(1000)
        wait_for(lambda: all(rig.boundary(name) >= end for name in rig.replicas))
        digests = {}
        for name, replica in rig.replicas.items():
            start = max(replica.status()["start"], 0)
            with LogClient(replica.address) as client:
                table = client.fetch(LogTicket("sums", start, end).write())
            assert answers_in(table) == [
                answer for answer in numbers(1000, streams=2) if answer[0] * SIZE >= start
            ]
            [line] = replica._node.lines.values()
            digests[name] = {
                (segment.start, row.value.digest)
                for segment in line.segments.since(0)
                for row in segment.rows
            }
        assert digests["sums/1"] & digests["sums/2"]
        later = max(min(each)[0] for each in digests.values())
        first, second = ({each for each in found if each[0] >= later} for found in digests.values())
        assert first == second


SHORT: Final = {"max_delay": "500ms", "heartbeat": "100ms"}


class Feeder:
    """Brings a row to each source every few milliseconds, while it runs."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._ending = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self.number = 0

    def _run(self) -> None:
        while not self._ending.wait(0.005):
            for source in self._rig.sources.values():
                source.take(pa.table({"value": pa.array([self.number], pa.int64())}))
            self.number += 1

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()


def logged(rig: Rig, boundary: int) -> list[tuple[int, int]]:
    """All that the sources have published before a boundary."""
    rows: list[tuple[int, int]] = []
    for name, source in rig.sources.items():
        with LogClient(source.address) as client:
            table = client.fetch(LogTicket(name, 0, boundary).write())
        times = table["stime"].cast(pa.int64()).to_pylist()
        rows += zip(times, table["value"].to_pylist(), strict=True)
    return rows


def apply(heard: Iterable[Told]) -> list[Answer]:
    """What stands after all that was told, tentative or not."""
    stands: list[Answer] = []
    for told in heard:
        if told.kind is Kind.UNDO:
            stands = [each for each in stands if each[0] * SIZE < told.boundary]
        else:
            stands += answers_in(told.rows)
    return stands


def test_a_source_that_is_cut_off_makes_previews_and_later_corrections(tmp_path: Path) -> None:
    with Rig(tmp_path, streams=("a", "b"), timed=False, **SHORT) as rig:
        address = rig.sources["b"].address
        with Proxy((address.host, address.port)) as proxy, Feeder(rig):
            rig.open(routes={"b": f"127.0.0.1:{proxy.port}"})
            replica = rig.replicas["sums/1"]
            with open_reader(
                rig.topology, "sums", me="keeper", position=0, tentative=True
            ) as reader:
                heard: list[Told] = []

                def hear_until(kind: Kind, rows: int = 0) -> None:
                    while True:
                        told = reader.next(60)
                        assert told is not None
                        heard.append(told)
                        if told.kind is kind and len(answers_in(told.rows)) >= rows:
                            return

                for _ in range(3):
                    hear_until(Kind.INSERT, 1)
                assert not any(told.kind is Kind.TENTATIVE for told in heard)
                proxy.cut()
                for _ in range(5):
                    hear_until(Kind.TENTATIVE, 1)
                assert replica.status()["state"] == "UP_FAILURE"
                assert replica.status()["tentative_rows"] > 0
                stood = max(t.boundary for t in heard if t.kind is Kind.INSERT)
                proxy.heal()
                hear_until(Kind.REC_DONE)
                hear_until(Kind.INSERT, 1)
            undone = [told.boundary for told in heard if told.kind is Kind.UNDO]
            assert undone
            assert min(undone) >= stood
            end = max(told.boundary for told in heard if told.kind is Kind.INSERT)
            expected = right_answers(logged(rig, end))
            assert final_answers(heard) == expected
            assert apply(heard)[: len(expected)] == expected
            previewed = [
                each
                for told in heard
                if told.kind is Kind.TENTATIVE
                for each in answers_in(told.rows)
            ]
            assert not set(previewed) <= set(expected)
            wait_for(lambda: replica.status()["state"] == "STABLE")


def test_a_replica_that_is_started_again_amid_previews_corrects_them(tmp_path: Path) -> None:
    with Rig(tmp_path, streams=("a", "b"), timed=False, **SHORT) as rig:
        address = rig.sources["b"].address
        with Proxy((address.host, address.port)) as proxy, Feeder(rig):
            routes = {"b": f"127.0.0.1:{proxy.port}"}
            rig.open(routes=routes)
            wait_for(lambda: rig.replicas["sums/1"].status()["stable_rows"] > 3)
            proxy.cut()
            wait_for(lambda: rig.replicas["sums/1"].status()["tentative_rows"] > 3)
            rig.close()
            rig.open(routes=routes)
            wait_for(lambda: rig.replicas["sums/1"].status()["tentative_rows"] > 3)
            proxy.heal()
            wait_for(lambda: rig.replicas["sums/1"].status()["state"] == "STABLE")
            wait_for(lambda: rig.boundary() > 0)
            end = rig.boundary()
            heard = rig.hear(end)
            end = heard[-1].boundary
            assert final_answers(heard) == right_answers(logged(rig, end))


BUCKETS: Final = 30
ROWS: Final = 400_000
"""Of 16 bytes in each bucket: three times as much as may wait."""


def large_bucket(number: int) -> pa.Table:
    """One even value that counts, and many that do not."""
    return pa.table(
        {
            "at": pa.array([number * SIZE] * ROWS, pa.timestamp("us", "UTC")),
            "value": pa.array([2 * number, *[1] * (ROWS - 1)], pa.int64()),
        }
    )


@pytest.mark.parametrize("max_delay", ["forever", "10m"])
def test_what_waits_for_an_input_stays_upstream_or_on_disk(tmp_path: Path, max_delay: str) -> None:
    with Rig(tmp_path, streams=("a", "b"), max_delay=max_delay) as rig:
        replica = rig.open()
        for number in range(BUCKETS):
            rig.sources["a"].take(large_bucket(number))
            assert replica.status()["waiting_bytes"] < MEMORY
        if max_delay == "10m":
            wait_for(lambda: replica.status()["buckets_buffered"] >= BUCKETS - 2)
            assert replica.status()["waiting_disk_bytes"] > MEMORY
        else:
            wait_for(lambda: replica.status()["waiting_bytes"] >= MEMORY // 2)
            assert replica.status()["waiting_disk_bytes"] == 0
        assert replica.status()["waiting_bytes"] < MEMORY
        end = pa.array([(BUCKETS - 1) * SIZE], pa.timestamp("us", "UTC"))
        rig.sources["b"].take(pa.table({"at": end, "value": pa.array([1], pa.int64())}))
        right = right_answers((number * SIZE, 2 * number) for number in range(BUCKETS - 1))
        assert rig.final((BUCKETS - 1) * SIZE) == right
        wait_for(lambda: replica.status()["waiting_disk_bytes"] == 0)
        assert replica.failure is None


def test_a_replica_10_000_buckets_behind_catches_up_at_full_speed(tmp_path: Path) -> None:
    """Its heartbeat is 100 buckets long; by heartbeats it would take half an hour."""
    count = 10_000
    with Rig(tmp_path, heartbeat="5s", max_delay="forever") as rig:
        times = pa.array([number * SIZE for number in range(count + 1)], pa.timestamp("us", "UTC"))
        table = pa.table({"at": times, "value": pa.array(range(count + 1), pa.int64())})
        rig.sources["a"].take(table)
        rig.open()
        wait_for(lambda: rig.boundary() == count * SIZE, 120)
        right = right_answers((number * SIZE, number) for number in range(count))
        assert rig.final(count * SIZE) == right
