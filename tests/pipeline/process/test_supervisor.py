"""The processes of a topology, kept going: small scripts stand in for the parties."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from harness.ports import free_port
from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.process import supervisor as supervisor_module
from holdfast.pipeline.process.supervisor import PAUSES, WELL, Keeper, Supervisor
from holdfast.pipeline.topology import (
    Console,
    Party,
    PartyKind,
    Push,
    Replica,
    Sink,
    Stage,
    Stream,
    Topology,
)
from tests.pipeline.sources.rig import SCHEMA, party_of, wait_for

GOES_ON = "import time; print('here', flush=True); time.sleep(300)"
ENDS = "import sys; print('gone', flush=True); sys.exit(3)"
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("here", flush=True)
while True:
    time.sleep(300)
"""


def fleet(folder: Path) -> Topology:
    """readings -> clean (here and on edge) -> archive."""
    return Topology(
        name="fleet",
        bucket="100ms",
        streams={"readings": Stream(source=Push(schema=SCHEMA), address=_address())},
        stages={
            "clean": Stage(
                inputs=["readings"],
                replicas=[_address(), Replica(address=_address(), host="edge")],
                max_delay="1s",
            )
        },
        sinks={"archive": Sink(stream="clean", sink=Console())},
        home=folder,
    )


def _address() -> str:
    return f"127.0.0.1:{free_port()}"


def supervise(topology: Topology, script: str = GOES_ON, *only: str) -> Supervisor:
    supervisor = Supervisor(topology, topology.home / "fleet.toml", only, ["--master", "local[1]"])
    for keeper in supervisor.keepers.values():
        keeper.command = [sys.executable, "-c", script]
    return supervisor


def keep(folder: Path, script: str) -> Keeper:
    party = Party("archive", PartyKind.SINK, "archive", None, "here")
    return Keeper(party, [sys.executable, "-c", script], folder / "archive.log")


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "ANSWER", 0.2)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_each_party_has_a_process_and_a_log(tmp_path: Path) -> None:
    topology = fleet(tmp_path)
    with supervise(topology) as supervisor:
        assert list(supervisor.keepers) == ["readings", "clean/1", "clean/2", "archive"]
        supervisor.look()
        processes = [keeper.process for keeper in supervisor.keepers.values()]
        pids = [process.pid for process in processes if process is not None]
        assert len(set(pids)) == 4
        for name in ("readings", "clean-1", "clean-2", "archive"):
            log = topology.state_folder / "logs" / f"{name}.log"
            wait_for(lambda log=log: log.read_text() == "here\n")
        supervisor.look()
        assert [keeper.starts for keeper in supervisor.keepers.values()] == [1] * 4
    assert not any(map(is_alive, pids))
    assert all(keeper.process is None for keeper in supervisor.keepers.values())


def test_the_commands_are_those_of_holdfast_node(tmp_path: Path) -> None:
    topology = fleet(tmp_path)
    file = tmp_path / "fleet.toml"
    supervisor = Supervisor(topology, file, (), ["--master", "local[1]"])
    node = [sys.executable, "-m", "holdfast", "node", str(file)]
    assert {name: keeper.command for name, keeper in supervisor.keepers.items()} == {
        "readings": [*node, "readings"],
        "clean/1": [*node, "clean/1", "--master", "local[1]"],
        "clean/2": [*node, "clean/2", "--master", "local[1]"],
        "archive": [*node, "archive"],
    }


def test_routes_and_environment_go_to_those_they_are_for(tmp_path: Path) -> None:
    supervisor = Supervisor(
        fleet(tmp_path),
        tmp_path / "fleet.toml",
        routes={"clean/1": {"readings": "127.0.0.1:9"}, "archive": {"clean/2": "127.0.0.1:10"}},
        environment={"MOOD": "good"},
    )
    keepers = supervisor.keepers
    assert list(keepers["clean/1"].command[-2:]) == ["--route", "readings=127.0.0.1:9"]
    assert list(keepers["archive"].command[-2:]) == ["--route", "clean/2=127.0.0.1:10"]
    assert "--route" not in keepers["clean/2"].command
    for keeper in keepers.values():
        keeper.command = [sys.executable, "-c", "import os; print(os.environ.get('MOOD'))"]
        keeper.look(0.0)
        keeper.end(60)
    said = {name: keeper.log.read_text() for name, keeper in keepers.items()}
    expected = {"readings": "None", "clean/1": "good", "clean/2": "good", "archive": "None"}
    assert said == {name: f"{word}\n" for name, word in expected.items()}


def test_each_party_has_a_port_for_its_figures_wherever_it_runs(tmp_path: Path) -> None:
    topology = fleet(tmp_path)
    file = tmp_path / "fleet.toml"
    supervisor = Supervisor(topology, file, (), ["--master", "local[1]"], metrics=9100)
    assert {name: keeper.command[6:] for name, keeper in supervisor.keepers.items()} == {
        "readings": ["--metrics", "9100"],
        "clean/1": ["--master", "local[1]", "--metrics", "9101"],
        "clean/2": ["--master", "local[1]", "--metrics", "9102"],
        "archive": ["--metrics", "9103"],
    }
    Supervisor(topology, file, ["edge"], metrics=9100)
    [found] = json.loads((topology.state_folder / "metrics.json").read_text())
    assert found == {"targets": ["127.0.0.1:9102"], "labels": {"topology": "fleet"}}


@pytest.mark.parametrize("first", [-1, 0, 65533, 10**6])
def test_ports_that_there_are_not_are_refused(tmp_path: Path, first: int) -> None:
    with pytest.raises(InvalidArgumentError, match=r"--metrics: 4 parties .* from 1 to 65532"):
        Supervisor(fleet(tmp_path), tmp_path / "fleet.toml", metrics=first)


def test_only_what_is_on_a_host_is_run(tmp_path: Path) -> None:
    topology = fleet(tmp_path)
    hosts = {party.host for party in topology.parties().values()}
    [here] = hosts - {"edge"}
    assert list(supervise(topology, GOES_ON, "edge").keepers) == ["clean/2"]
    assert list(supervise(topology, GOES_ON, here).keepers) == ["readings", "clean/1", "archive"]
    assert len(supervise(topology, GOES_ON, here, "edge").keepers) == 4


def test_a_host_that_nothing_runs_on_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"nothing runs on moon.*the topology has.*edge"):
        supervise(fleet(tmp_path), GOES_ON, "edge", "moon")
    assert not (tmp_path / "logs").exists()


def test_what_ends_is_started_again_after_pauses_that_grow(tmp_path: Path) -> None:
    keeper = keep(tmp_path, ENDS)
    now = 1000.0
    for number, pause in enumerate([*PAUSES, PAUSES[-1]], start=1):
        keeper.look(now)
        assert keeper.process is not None
        keeper.process.wait(60)
        keeper.look(now)
        assert (keeper.process, keeper.code) == (None, 3)
        assert keeper.due == now + pause
        keeper.look(now + pause - 0.01)
        assert (keeper.process, keeper.starts) == (None, number)
        now += pause
    assert keeper.log.read_text() == "gone\n" * (len(PAUSES) + 1)


def test_what_has_run_well_is_started_again_at_once(tmp_path: Path) -> None:
    keeper = keep(tmp_path, ENDS)
    keeper.ended_in_a_row = 4
    keeper.look(1000.0)
    assert keeper.process is not None
    keeper.process.wait(60)
    keeper.look(1001.0 + WELL)
    assert (keeper.due, keeper.ended_in_a_row) == (1001.0 + WELL, 0)
    keeper.look(1001.0 + WELL)
    assert keeper.starts == 2
    keeper.end(60)


def test_a_killed_party_comes_back_and_the_others_stay(tmp_path: Path) -> None:
    with supervise(fleet(tmp_path)) as supervisor:
        supervisor.look()
        before = {name: keeper.process for name, keeper in supervisor.keepers.items()}
        killed = before["clean/1"]
        assert killed is not None
        killed.kill()
        killed.wait()
        supervisor.look()
        assert supervisor.keepers["clean/1"].code == -9
        supervisor.keepers["clean/1"].due = 0
        supervisor.look()
        assert [keeper.starts for keeper in supervisor.keepers.values()] == [1, 2, 1, 1]
        for name in ("readings", "clean/2", "archive"):
            assert supervisor.keepers[name].process is before[name]


def test_parties_are_ended_from_the_sinks_to_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    ask = Keeper.ask_to_end

    def note(keeper: Keeper) -> None:
        asked.append(keeper.party.name)
        ask(keeper)

    monkeypatch.setattr(Keeper, "ask_to_end", note)
    with supervise(fleet(tmp_path)) as supervisor:
        supervisor.look()
    assert asked == ["archive", "clean/2", "clean/1", "readings"]


def test_who_does_not_end_is_killed(tmp_path: Path) -> None:
    keeper = keep(tmp_path, STUBBORN)
    keeper.look(0.0)
    process = keeper.process
    assert process is not None
    wait_for(lambda: keeper.log.read_text() == "here\n")
    keeper.ask_to_end()
    keeper.end(0)
    assert process.returncode == -9
    keeper.ask_to_end()
    keeper.end(0)


def test_parties_are_asked_how_they_are(tmp_path: Path) -> None:
    topology = fleet(tmp_path)
    with supervise(topology, GOES_ON) as supervisor:
        with party_of(topology):
            supervisor.look()
            keepers = supervisor.keepers
            wait_for(lambda: supervisor.look() or keepers["readings"].status)
            status = keepers["readings"].status
            assert status is not None
            assert (status["party"], status["state"]) == ("readings", "STABLE")
            assert keepers["clean/1"].status is None
            assert keepers["archive"].status is None
        supervisor.look()
        assert keepers["readings"].status is None


def test_who_is_still_starting_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "PATIENCE", 200.0)
    monkeypatch.setattr(supervisor_module, "STARTING", 0.1)
    topology = fleet(tmp_path)
    supervisor = supervise(topology, STUBBORN, "edge")
    [keeper] = supervisor.keepers.values()
    supervisor.look()
    wait_for(lambda: keeper.log.read_text() == "here\n")
    assert keeper.is_starting
    supervisor.close()
    assert keeper.process is None
