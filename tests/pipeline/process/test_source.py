"""The source of a stream: what was taken in is published once, over kills and restarts."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.errors import InvalidArgumentError, RefusedError, StoreUnavailableError
from holdfast.pipeline.process import replica_config as places
from holdfast.pipeline.process.segment_log import MARK
from holdfast.pipeline.process.service import LogTicket
from holdfast.pipeline.process.source import SourceParty
from holdfast.pipeline.process.tail import open_reader
from holdfast.pipeline.sources import arrow_schema
from holdfast.pipeline.topology import Push, Security, Topology
from holdfast.runtime.clock import Clock
from holdfast.transport.client import LogClient
from tests.flushing import Flushes
from tests.pipeline.sources.processes import kill_after, save
from tests.pipeline.sources.rig import alone, final_rows, party_of, wait_for
from tests.transport.certificates import Authority

TIMED = Push(schema={"at": "timestamp", "n": "bigint"})
PLAIN = Push(schema={"n": "bigint"})
SECURITY = Security(
    token_file="token", certificate="node.pem", key="node.key", authority="ca.pem", mutual=True
)


def numbers(start: int, stop: int, *, timed: bool = False) -> pa.Table:
    """Rows with a number, and a time of as many milliseconds, in pairs that are out of order."""
    found = range(start, stop)
    table = pa.table({"n": pa.array(found, pa.int64())})
    if timed:
        times = pa.array([1000 * (n ^ 1) for n in found], pa.int64())
        table = table.add_column(0, "at", times.cast(pa.timestamp("us", "UTC")))
    return table


def clock_of(hands: list[int]) -> Clock:
    """A clock that goes only when somebody moves its hands."""
    return Clock(lambda: hands[0], lambda: hands[0])


def read_numbers(topology: Topology, count: int) -> list[int]:
    return final_rows(topology, count)["n"].to_pylist()


def test_rows_are_published_in_the_order_in_which_they_were_taken_in(tmp_path: Path) -> None:
    topology = alone(tmp_path, PLAIN)
    with party_of(topology) as party:
        for start in range(0, 100, 10):
            party.take(numbers(start, start + 10), start + 10)
        assert party.place == 100
        rows = final_rows(topology, 100)
    assert rows["n"].to_pylist() == list(range(100))
    times = rows["stime"].cast(pa.int64()).to_pylist()
    assert times == sorted(times)


def test_rows_with_a_time_of_their_own_are_published_in_its_order(tmp_path: Path) -> None:
    topology = alone(tmp_path, TIMED, time="at", lateness="10ms")
    with party_of(topology) as party:
        party.take(numbers(0, 1000, timed=True))
        party.finish()
        rows = final_rows(topology, 1000)
        assert party.status()["late_rows"] == 0
    assert rows["n"].to_pylist() == [n ^ 1 for n in range(1000)]
    assert rows["stime"].equals(rows["at"])


@pytest.mark.parametrize("timed", [False, True])
def test_a_source_goes_on_at_its_place(tmp_path: Path, timed: bool) -> None:
    topology = alone(
        tmp_path, TIMED if timed else PLAIN, **({"time": "at", "lateness": "1s"} if timed else {})
    )
    for life in range(4):
        with party_of(topology) as party:
            done = party.place or 0
            assert done == 50 * life
            party.take(numbers(done, done + 50, timed=timed), done + 50)
    with party_of(topology) as party:
        party.finish()
        assert sorted(read_numbers(topology, 200)) == list(range(200))


def test_the_place_never_goes_back(tmp_path: Path) -> None:
    """Rows that were taken in but not logged are logged piece by piece after a restart."""
    topology = alone(tmp_path, PLAIN, bucket="1s")
    hands = [5_000_000]
    schema = arrow_schema(topology.streams["readings"])
    party = SourceParty(topology, "readings", schema, clock=clock_of(hands))
    for place in range(1, 4):
        hands[0] += 1
        party.take(numbers(place, place + 1), place)
    party.close()
    hands[0] = 6_000_002
    party = SourceParty(topology, "readings", schema, clock=clock_of(hands))
    wait_for(lambda: party.status()["boundary"] >= 6_000_000)
    assert party.place == 3
    party.take(numbers(4, 5), 4)
    # Somebody pushes something too, which is of no place.
    party.take(numbers(5, 6))
    assert party.place == 4
    party.close()
    with party_of(topology) as party:
        assert party.place == 4


def test_a_clock_that_was_set_back_loses_nothing(tmp_path: Path) -> None:
    topology = alone(tmp_path, PLAIN, bucket="1s")
    schema = arrow_schema(topology.streams["readings"])

    def live(number: int, now: int) -> None:
        party = SourceParty(topology, "readings", schema, clock=clock_of([now]))
        wait_for(lambda: party.status()["boundary"] >= 9_000_000)
        party.take(numbers(number, number + 1), number)
        party.close()

    live(0, 9_500_000)
    live(1, 5_000_000)
    live(2, 5_500_000)
    with party_of(topology):
        assert read_numbers(topology, 3) == [0, 1, 2]


def cut_last_record(folder: Path) -> None:
    """A disk forgets a whole record that it had promised."""
    path = max(path for path in folder.glob("*.log") if path.stat().st_size)
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(MARK)])


@pytest.mark.parametrize("which", ["log", "arrived"])
def test_a_log_that_went_back_is_told_of(
    tmp_path: Path, which: str, caplog: pytest.LogCaptureFixture
) -> None:
    topology = alone(tmp_path, PLAIN, bucket="1s")
    schema = arrow_schema(topology.streams["readings"])
    hands = [5_000_000]

    def start() -> SourceParty:
        return SourceParty(topology, "readings", schema, clock=clock_of(hands))

    party = start()
    for number in range(3):
        party.take(numbers(number, number + 1), number)
        hands[0] += 1_000_000
        wait_for(lambda: party.status()["boundary"] == hands[0])
    party.take(numbers(3, 4), 3)
    if which == "arrived":
        hands[0] += 1_000_000
        wait_for(lambda: party.status()["boundary"] == hands[0])
    party.close()
    party = start()
    assert not party.status()["went_back"]
    party.close()
    cut_last_record(party.folder / which)
    party = start()
    assert party.status()["went_back"]
    assert str(party.folder / which) in caplog.text
    hands[0] += 2_000_000
    assert read_numbers(topology, 4) == [0, 1, 2, 3]
    party.close()


def test_rows_are_safe_when_they_are_acknowledged_and_when_they_are_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = alone(tmp_path, PLAIN, bucket="1s")
    schema = arrow_schema(topology.streams["readings"])
    hands = [5_000_000]
    flushes = Flushes(monkeypatch)
    party = SourceParty(topology, "readings", schema, clock=clock_of(hands))
    party.take(numbers(0, 1), 0)
    assert flushes.are_safe(party.folder / "arrived", "*.log")
    hands[0] += 1_000_000
    wait_for(lambda: party.status()["boundary"] == hands[0])
    assert flushes.are_safe(party.folder / "log", "*.log")
    party.close()


HOUR = 3_600_000_000


@pytest.mark.parametrize("when", ["between two lives", "within a life"])
def test_rows_are_published_in_time_though_the_clock_was_an_hour_ahead(
    tmp_path: Path, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The audit's clockstep: the clock is set right, and rows that are acknowledged come out within
    a bucket by any honest watch, each with a time of its own."""
    topology = alone(tmp_path, PLAIN, bucket="1s")
    schema = arrow_schema(topology.streams["readings"])
    begin = 1_700_000_000_000_000
    wall, watch = [begin + HOUR], [0]

    def start() -> SourceParty:
        clock = Clock(lambda: wall[0], lambda: watch[0])
        return SourceParty(topology, "readings", schema, clock=clock)

    def pass_time(micros: int) -> None:
        wall[0] += micros
        watch[0] += micros

    party = start()
    party.take(numbers(0, 1), 0)
    pass_time(1_100_000)
    wait_for(lambda: party.status()["boundary"] >= begin + HOUR + 1_000_000)
    wall[0] -= HOUR
    if when == "between two lives":
        party.close()
        party = start()
    before = party.status()["boundary"]
    for number in range(1, 6):
        party.take(numbers(number, number + 1), number)
        pass_time(10_000)
    pass_time(1_150_000)
    wait_for(lambda: party.status()["boundary"] > before)
    rows = final_rows(topology, 6)
    times = rows["stime"].cast(pa.int64()).to_pylist()
    assert rows["n"].to_pylist() == list(range(6))
    assert times == sorted(set(times))
    status = party.status()
    assert status["lag_seconds"] < -3590
    assert 3590 < status["clock_ahead_seconds"] < 3600
    assert "new rows are published at once" in caplog.text
    # It comes back to the clock at a tenth of the pace at which time passes.
    pass_time(10 * HOUR)
    wait_for(lambda: party.status()["lag_seconds"] >= 0)
    assert party.status()["clock_ahead_seconds"] == 0
    party.close()


def at(moments: list[int]) -> pa.Table:
    """Rows with these times, which are their numbers too."""
    times = pa.array(moments, pa.int64())
    return pa.table({"at": times.cast(pa.timestamp("us", "UTC")), "n": times})


def pass_time(party: SourceParty, hands: list[int], seconds: int) -> None:
    """Second by second; the party looks at its clock after each."""
    for _ in range(seconds):
        hands[0] += 1_000_000
        for _ in range(2):
            party._loop.call(lambda now: None)


def test_a_silent_stream_with_times_goes_on_by_the_clock(tmp_path: Path) -> None:
    topology = alone(tmp_path, TIMED, bucket="1s", time="at", lateness="1s", idle="10s")
    schema = arrow_schema(topology.streams["readings"])
    second, begin = 1_000_000, 1_700_000_000_000_000
    hands = [begin]
    party = SourceParty(topology, "readings", schema, clock=clock_of(hands))
    party.take(at([begin]))
    assert party.status()["boundary"] == begin - second
    pass_time(party, hands, 9)
    party.take(at([begin + 9 * second]))
    pass_time(party, hands, 9)
    assert not party.status()["idle"]
    assert party.status()["boundary"] == begin + 8 * second
    # Who brings the rows was away: that was no silence.
    party.in_touch = False
    pass_time(party, hands, 20)
    party.in_touch = True
    pass_time(party, hands, 9)
    assert party.status()["boundary"] == begin + 8 * second
    pass_time(party, hands, 5)
    now = hands[0]
    assert party.status()["boundary"] == now - 11 * second
    assert party.status()["idle"]
    party.close()
    # The boundary is in the log, and what is before it is late.
    party = SourceParty(topology, "readings", schema, clock=clock_of(hands))
    assert party.status()["boundary"] == now - 11 * second
    assert not party.status()["idle"]
    party.take(at([now - 12 * second, now]))
    assert party.status()["late_rows"] == 1
    pass_time(party, hands, 20)
    found = final_rows(topology, 3)["n"].to_pylist()
    assert found == [begin, begin + 9 * second, now]
    party.close()


def test_a_clock_that_is_ahead_makes_no_row_late_after_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topology = alone(tmp_path, TIMED, bucket="1s", time="at", idle="10s")
    schema = arrow_schema(topology.streams["readings"])
    second, begin = 1_000_000, 1_700_000_000_000_000
    hands = [begin + HOUR]
    party = SourceParty(topology, "readings", schema, clock=clock_of(hands))
    party.take(at([begin]))
    pass_time(party, hands, 30)
    assert party.status()["boundary"] == begin + 20 * second
    party.take(at([begin + 29 * second]))
    assert party.status()["late_rows"] == 0
    assert "ahead of this machine" not in caplog.text
    # One that makes rows is ahead: all know it.
    party.take(at([begin + 2 * HOUR]))
    assert "times that are 3570.0 s ahead of this machine's clock" in caplog.text
    assert party.status()["lag_seconds"] == -3570
    party.close()


def test_a_step_of_the_clock_is_no_silence(tmp_path: Path) -> None:
    topology = alone(tmp_path, TIMED, bucket="1s", time="at", idle="10s")
    schema = arrow_schema(topology.streams["readings"])
    wall, watch = [1_700_000_000_000_000], [0]
    clock = Clock(lambda: wall[0], lambda: watch[0])
    party = SourceParty(topology, "readings", schema, clock=clock)
    begin = wall[0]
    party.take(at([begin]))
    wall[0] += HOUR
    watch[0] += 9_000_000
    party.take(at([begin + 1_000_000]))
    assert party.status()["boundary"] == begin + 1_000_000
    assert party.status()["late_rows"] == 0
    party.close()


def test_a_log_that_cannot_be_written_ends_the_party_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = alone(tmp_path, TIMED, time="at")
    with party_of(topology) as party:

        def fail(*_: object) -> None:
            raise StoreUnavailableError("the disk is full")

        monkeypatch.setattr(party._log, "append", fail)
        with pytest.raises(StoreUnavailableError):
            party.take(numbers(0, 500, timed=True), 500)
        wait_for(lambda: party.failure)
        assert party.failure is not None
        assert "the disk is full" in party.failure
    with party_of(topology) as party:
        assert party.place == 500
        party.finish()
        assert sorted(read_numbers(topology, 500)) == list(range(500))


def test_what_was_acknowledged_and_dropped_is_not_promised_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "FOR_GUESTS", 0)
    topology = alone(tmp_path, TIMED, time="at")
    with party_of(topology) as party:
        party.take(numbers(0, 1000, timed=True))
        first = list((party.folder / "log").iterdir())
    with party_of(topology) as party:
        party.take(numbers(1000, 2000, timed=True))
        with open_reader(topology, "readings", me="keeper", position=1_500_000, tentative=False):
            wait_for(lambda: not any(path.exists() for path in first))
    with party_of(topology) as party:
        assert party.status()["start"] == 900_000
        with LogClient(party.address) as client, pytest.raises(RefusedError, match="is kept from"):
            client.fetch(LogTicket("readings", 800_000, 1_000_000).write())


def test_clients_push_rows_and_ask(tmp_path: Path) -> None:
    topology = alone(tmp_path, PLAIN)
    with party_of(topology) as party, LogClient(party.address) as client:
        assert client.push("readings", numbers(0, 10)) == [b"logged"]
        with pytest.raises(RefusedError, match="no column n"):
            client.push("readings", pa.table({"m": [1]}))
        with pytest.raises(RefusedError, match="do not fit"):
            client.push("readings", pa.table({"n": ["one"]}))
        with pytest.raises(RefusedError, match="is not others"):
            client.push("others", numbers(0, 1))
        assert client.streams() == {"readings": party.brought}
        assert read_numbers(topology, 10) == list(range(10))
        status = json.loads(client.act("status"))
        assert (status["stable_rows"], status["kind"]) == (10, "source")
        with pytest.raises(RefusedError, match="ask for 'status'"):
            client.act("dance")


def test_only_who_runs_on_the_host_of_a_sink_may_call_as_it(tmp_path: Path) -> None:
    authority = Authority("ours")

    def secured(folder: str, host: str) -> Topology:
        """The same stream, with the files of a host."""
        home, identity = tmp_path / folder, authority.sign(host)
        home.mkdir()
        (home / "node.pem").write_bytes(identity.certificate)
        (home / "node.key").write_bytes(identity.key)
        (home / "ca.pem").write_bytes(authority.certificate)
        (home / "token").write_text("token")
        return replace(given, home=home, security=SECURITY)

    given = alone(tmp_path, PLAIN)
    here, there = secured("here", "127.0.0.1"), secured("there", "10.0.0.9")
    with party_of(here) as party:
        party.take(numbers(0, 10))
        for topology, me in ((here, "keeper"), (there, "guest-1")):
            with open_reader(topology, "readings", me=me, position=0, tentative=False) as reader:
                wait_for(lambda reader=reader: reader.is_connected)
        refused = party.status()["refused"]["link"]
        with open_reader(there, "readings", me="keeper", position=0, tentative=False) as reader:
            wait_for(lambda: party.status()["refused"]["link"] > refused)
            assert not reader.is_connected


def test_rows_are_read_by_ticket(tmp_path: Path) -> None:
    topology = alone(tmp_path, TIMED, time="at")
    with party_of(topology) as party, LogClient(party.address) as client:
        party.take(numbers(0, 1000, timed=True))
        end = party.status()["boundary"]
        assert end == 900_000
        whole = client.fetch(LogTicket("readings", 0, end).write())
        assert sorted(whole["n"].to_pylist()) == list(range(900))
        part = client.fetch(LogTicket("readings", 200_000, 300_000).write())
        assert sorted(part["n"].to_pylist()) == list(range(200, 300))
        assert part.schema == party.schema
        for wrong in (
            LogTicket("readings", 0, end + 1),
            LogTicket("readings", -1, end),
            LogTicket("others", 0, end),
        ):
            with pytest.raises(RefusedError, match="ticket"):
                client.fetch(wrong.write())
        for wrong in (b"", b"{}", b'{"stream":1,"start":0,"end":1}', b"[" * 100_000):
            with pytest.raises(RefusedError, match="ticket"):
                client.fetch(wrong)


def test_a_bad_ticket_says_what_to_give() -> None:
    with pytest.raises(InvalidArgumentError, match="give a stream, start and end"):
        LogTicket.read(b'{"stream": "a", "start": true, "end": 1}')


FEED = """
import sys
from holdfast.pipeline.process.source import SourceParty
from holdfast.pipeline.sources import arrow_schema
from holdfast.pipeline.process.tail import open_reader
from holdfast.pipeline.topology import Topology
from tests.pipeline.process.test_source import numbers
topology, count, timed = Topology.read(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "True"
party = SourceParty(topology, "readings", arrow_schema(topology.streams["readings"]))
done = party.place or 0
while done < count:
    end = min(done + 7, count)
    party.take(numbers(done, end, timed=timed), end)
    done = end
    print(done, flush=True)
print("done", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("timed", [False, True])
def test_every_row_is_published_once_over_kills(tmp_path: Path, timed: bool) -> None:
    count = 3000
    topology = alone(
        tmp_path, TIMED if timed else PLAIN, **({"time": "at", "lateness": "20ms"} if timed else {})
    )
    arguments = (save(topology), count, timed)
    chance = random.Random(timed)
    for _ in range(3):
        assert not kill_after(FEED, arguments, chance.randrange(5, 120))
    assert kill_after(FEED, arguments, count)
    with party_of(topology) as party:
        assert party.place == count
        party.finish()
        assert sorted(read_numbers(topology, count)) == list(range(count))
        assert party.status()["late_rows"] == 0
